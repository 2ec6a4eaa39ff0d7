"""An answer for messages, given to machines and programs: its settings, and what is no throughput."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from mptune.apply import exec as programs
from mptune.apply import plan, policy
from mptune.apply._answered import read_answered
from mptune.apply.advice import advise, document
from mptune.apply.machine import Seen
from mptune.campaign.definition import read_definition
from mptune.campaign.execution import start
from mptune.cli import app
from mptune.daemon.remeasure import definition_of
from mptune.errors import InputError
from mptune.topology import load
from tests.apply.worlds import HOME, NETWORK, SERVER, looked, reads

CAMPAIGN = """
topology = "home.toml"
buffer_mode = "fixed"
[factors]
pm = ["fullmesh", "pcdc"]
cc = ["cubic"]
buffers = "0.02,0.1"
[trials]
workload = "messages:200B/100ms"
duration = "3s"
runs = 2
[decision]
confirm_runs = 2
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of an answer for messages."""
    place = tmp_path_factory.mktemp("messages")
    (place / "home.toml").write_text(NETWORK)
    (place / "calls.toml").write_text(CAMPAIGN)
    start(read_definition(place / "calls.toml"), place / "calls", wait=lambda time: None)
    return place / "calls"


def altered(measured: Path, place: Path, **recommended: Any) -> Path:
    """A copy that recommends something else."""
    shutil.copytree(measured, place)
    result = json.loads((place / "result.json").read_text())
    result["recommended"] |= recommended
    (place / "result.json").write_text(json.dumps(result))
    return place


def test_timeouts_of_an_answer_become_settings_of_both_hosts(measured: Path, tmp_path: Path) -> None:
    told = {"net.mptcp.stale_loss_cnt": "1", "net.ipv4.tcp_rto_min_us": "50000"}
    for host in plan.plan(altered(measured, tmp_path / "run", sysctls=told)):
        made = {row["name"]: row["value"] for row in host.settings if row["kind"] == "sysctl"}
        assert {name: made.get(name) for name in told} == told
    for host in plan.plan(measured):
        assert not told.keys() & {row.get("name") for row in host.settings}


def settings(host: plan.HostPlan) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for setting in host.settings:
        grouped.setdefault(str(setting["kind"]), []).append(dict(setting))
    return grouped


def test_machines_get_the_subflows_the_congestion_control_and_the_buffer(
    measured: Path, tmp_path: Path
) -> None:
    run = altered(
        measured,
        tmp_path / "run",
        pm="pcdc",
        subflows=["F-T", "M-T"],
        standby=["F-V", "M-V"],
        buffer_bytes=65536,
    )
    outlined = plan.outline(run)
    assert outlined.wanted == ("F-T", "M-T") and outlined.initial == "F-T"
    ours, theirs = (
        plan.resolve(host, present) for host, present in zip(outlined.hosts, (HOME, SERVER), strict=True)
    )
    here = settings(ours)
    assert [one["address"] for one in here["endpoint"]] == ["10.0.2.2"]
    assert {one["congctl"] for one in here["route"]} == {"cubic"}
    limits = [
        one
        for one in (*settings(ours)["sysctl"], *settings(theirs).get("sysctl", ()))
        if "mem" in one["name"]
    ]
    assert all(int(str(one["value"]).split()[-1]) >= 65536 for one in limits)


def test_the_advice_has_the_figures_of_the_objective_and_no_estimate_of_throughput(measured: Path) -> None:
    seen = Seen(how="this machine", present=HOME, read=reads())
    advised = advise(measured, look=looked(seen))
    result = json.loads((measured / "result.json").read_text())
    assert advised.answer == result["answer"][0]
    text = advised.expected.text
    assert list(text[: len(result["answer"]) - 1]) == result["answer"][1:]
    assert text[-3:] == (
        "All of it in the simulator.",
        "How far delays on a kernel are from the simulator's is not known.",
        "Nothing was measured between the machines: `mptune optimise --testbed hosts` does that.",
    )
    assert not any("gain" in sentence for sentence in text)
    # What stands under the names of throughputs is that of a saturated sender.
    assert document(advised)["expected"]["confirmed"]["mean"] == result["throughput"]["recommended"]["mean"]


def test_other_subflows_than_those_of_the_answer_cost_an_unknown_delay(
    measured: Path, tmp_path: Path
) -> None:
    """A kernel cannot have the diagonal alone; a throughput would be no answer to that."""
    run = altered(measured, tmp_path / "run", pm="pcdc", subflows=["F-T", "M-V"], standby=[])
    advised = advise(run, look=looked(Seen(how="this machine", present=HOME, read=reads())))
    (differing,) = (one for one in advised.differs if one.difference.what == "subflows")
    assert differing.loss is None and differing.text == "What that costs in delay p99 was not measured."


def test_plain_tcp_is_an_answer_too(measured: Path, tmp_path: Path) -> None:
    run = altered(
        measured,
        tmp_path / "run",
        protocol="tcp",
        pm="default",
        initial_path="F-T",
        subflows=["F-T"],
        standby=[],
    )
    outlined = plan.outline(run)
    assert outlined.wanted == ("F-T",) and not any(
        setting["kind"] == "endpoint" and not setting.get("absent")
        for host in outlined.hosts
        for setting in host.settings
    )
    assert programs.from_run(run).protocol == "tcp"


def test_a_program_gets_congestion_control_and_buffer(measured: Path, tmp_path: Path) -> None:
    wanted = programs.from_run(altered(measured, tmp_path / "run", cc="reno", buffer_bytes=65536))
    assert (wanted.protocol, wanted.cc, wanted.buffer_bytes) == ("mptcp", "reno", 65536)


def test_the_daemon_is_promised_no_throughput(measured: Path, tmp_path: Path) -> None:
    run = altered(measured, tmp_path / "run", pm="pcdc", subflows=["F-T"], standby=["M-T"])
    answered = read_answered(run)
    assert policy.expected_of(answered) == (None, None, None) and policy.curve_of(answered) is None
    assert policy.options_of(answered)["active"] == ["F-T"]
    plan.outline(run, daemon=True)
    # And it measures nothing again.
    with pytest.raises(InputError, match="expected an answer for throughput, which the daemon can judge"):
        definition_of(measured)


def test_verify_measures_the_objective_and_refuses_what_programs_cannot_show(
    measured: Path, tmp_path: Path
) -> None:
    def refused(run: Path, *words: str) -> str:
        result = CliRunner().invoke(app, ["apply", str(run), "--verify", *words])
        assert result.exit_code == 2 and result.stderr.count("\n") == 1
        return result.stderr.removeprefix("mptune: error: ")

    # Between no machines nothing is measured; all else is as it should be.
    assert 'sites.H.ssh: expected "user@host"' in refused(measured)
    expected = (
        "--max-data: expected with a run for throughput, found one for messages of 200 B every 100 ms\n"
    )
    assert refused(measured, "--max-data", "1MB") == expected
    limited = altered(measured, tmp_path / "limited")
    config = json.loads((limited / "config.json").read_text())
    network = tmp_path / "limited.toml"
    network.write_text(NETWORK.replace("metered = true", 'metered = true\nmax_data = "1 kB"'))
    config["topology"] = msgspec.to_builtins(load(network))
    (limited / "config.json").write_text(json.dumps(config))
    assert "max_data: 0.001 MB do not suffice: 0 MB sent, and 10 trials send up to" in refused(limited)
    mix = {"kind": "mix", "parts": [{"workload": {"kind": "bulk", "duration_ns": 1}, "connections": 2}]}
    for key, value, complaint in (
        ("objective", "cost", "expected a run for something that programs show, found one for cost"),
        (
            "objective",
            "later than tea",
            "expected a run for something that programs show, found one for late",
        ),
        ("workload", mix, "expected a run for one connection, found one for messages"),
    ):
        run = altered(measured, tmp_path / f"{value}"[:12])
        result = json.loads((run / "result.json").read_text()) | {key: value}
        (run / "result.json").write_text(json.dumps(result))
        assert refused(run).startswith(f"--verify: {complaint}")
    damaged = altered(measured, tmp_path / "damaged")
    result = json.loads((damaged / "result.json").read_text()) | {"workload": {"kind": "tea"}}
    (damaged / "result.json").write_text(json.dumps(result))
    assert "result.json: workload: Invalid value 'tea'" in refused(damaged)


def test_a_damaged_answer_is_refused_in_one_line(measured: Path, tmp_path: Path) -> None:
    run = altered(measured, tmp_path / "run")
    (run / "result.json").write_text('{"objective": 3}')
    for command in (
        ["advise", str(run)],
        ["apply", str(run)],
        ["exec", "--run", str(run), "--", "/bin/true"],
    ):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 2 and "result.json: expected what this version writes" in result.stderr


def test_a_run_of_another_workload_knows_no_objective(measured: Path) -> None:
    answered = read_answered(measured)
    assert answered.objective == "delay p99"
    other = msgspec.structs.replace(answered.run, by_objective=None)
    assert msgspec.structs.replace(answered, run=other).objective == ""
