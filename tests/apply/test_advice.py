"""Advice on a run: settings beside what is there, the gain to expect, what could go wrong."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from mptune import _terminal
from mptune.apply import advice, machine
from mptune.apply.advice import Advice, advise, document
from mptune.apply.machine import Reading, Seen
from mptune.cli import app
from mptune.errors import InputError, TrialError
from mptune.linux.path_manager import End, Endpoint, Limits
from mptune.linux.sandbox import sysctls
from mptune.topology import load
from tests.apply.worlds import HOME, NETWORK, looked, reads

Make = Callable[..., Path]
MESH: dict[str, Any] = {"protocol": "mptcp", "opm": "fullmesh", "subflows": ["F-T", "F-V", "M-T", "M-V"]}
DIAGONAL: dict[str, Any] = {
    "protocol": "mptcp",
    "opm": "pcdc",
    "subflows": ["F-T", "M-V"],
    "standby": [],
}


def advice_of(run: Path, *seen: Seen, **more: Any) -> Advice:
    return advise(run, look=looked(*seen), **more)


def at_home(*present: dict[str, Any], **more: Any) -> Seen:
    return Seen(how="this machine", present=HOME, read=reads(*present), **more)


def line(advised: Advice, title: str) -> advice.Line:
    return next(line for line in advised.hosts[0].lines if line.title == title)


# Beside what is there.


def test_present_values_stand_beside_the_wanted_ones(run: Make):
    limits = {"kind": "limits", "subflows": 2, "add_addr_accepted": 0}
    endpoint = {"kind": "endpoint", "address": "10.0.1.2", "absent": True}
    route = {"kind": "route", "to": "default", "table": 254, "device": "eth1", "congctl": None}
    advised = advice_of(run(**MESH, occ="cubic"), at_home(limits, endpoint, route))
    assert advised.hosts[0].read == "this machine"
    assert line(advised, "net.mptcp.enabled").present == "0"
    assert line(advised, "MPTCP limits").present == "subflows 2, add_addr_accepted 0"
    assert line(advised, "MPTCP limits").wanted == "subflows 3, add_addr_accepted 1"
    assert line(advised, "MPTCP endpoint 10.0.1.2 dev eth1").present == "none"
    assert line(advised, "MPTCP endpoint 10.0.2.2 dev wwan0").present is None
    assert line(advised, "route default via 10.0.1.1 dev eth1").present == "no congctl"
    assert {line.title for line in advised.hosts[0].lines if not line.changes} <= {
        "net.mptcp.path_manager",
        "net.core.wmem_max",
    }


def test_what_is_as_wanted_does_not_change(run: Make):
    limits = {"kind": "limits", "subflows": 3, "add_addr_accepted": 1}
    assert not line(advice_of(run(**MESH), at_home(limits)), "MPTCP limits").changes


def test_a_machine_that_nobody_can_reach_is_unknown_with_the_reason(run: Make):
    advised = advice_of(run(**MESH), Seen(reason="home: no route to host"))
    assert {line.present for line in advised.hosts[0].lines} == {None}
    assert advised.hosts[0].unread == "home: no route to host"


def test_one_host_can_be_chosen_by_key_or_name_and_no_other(run: Make):
    place = run(**MESH)
    assert [host.site for host in advice_of(place, host="server").hosts] == ["S"]
    assert [host.site for host in advice_of(place, host="H").hosts] == ["H"]
    with pytest.raises(InputError, match="--host: expected one of H, S, found 'X'"):
        advice_of(place, host="X")


def test_every_setting_has_its_reason_and_who_else_is_concerned(run: Make):
    for seen in (
        host_line for host in advice_of(run(**MESH, buffer_mode="auto")).hosts for host_line in host.lines
    ):
        assert seen.why.endswith(".") and seen.cost.endswith(".")


def test_placeholders_are_not_asked_for(run: Make):
    asked: list[dict[str, Any]] = []

    def read(settings):
        asked.extend(settings)
        return Reading()

    topology = NETWORK.replace('ipv4 = "10.0.2.2"\n', "").replace('device = "wwan0"\n', "")
    seen = Seen(how="ssh", present=msgspec.structs.replace(HOME, interfaces=HOME.interfaces[:1]), read=read)
    advice_of(run(network=topology, **MESH), seen)
    assert asked and not any("<" in json.dumps(setting) for setting in asked)


# What it brings.


def test_the_gain_has_its_interval_its_rival_and_its_testbed(run: Make):
    advised = advice_of(
        run(
            confirmed={"mean": 20.0, "low": 19.0, "high": 21.0, "runs": 5},
            default={"pm": "fullmesh", "cc": "cubic", "buffer_mib": 4, "mean": 15, "runs": 5},
            gain={"mean": 5.0, "low": 4.0, "high": 6.0, "runs": 5, "share": 1 / 3},
            options={"testbed": "namespaces"},
        )
    ).expected
    assert (advised.testbed, advised.baseline) == ("namespaces", "fullmesh, cubic and 4 MiB")
    assert advised.gain is not None and (advised.gain.low, advised.gain.high) == (4.0, 6.0)
    assert "on one machine's kernel" in advised.text[0]
    assert advised.text[1] == (
        "That is +5.00 Mbit/s (95 %: +4.00 to +6.00), +33.3 %, over fullmesh, cubic and 4 MiB."
    )
    assert not advised.is_kernel_default
    assert advised.text[2].startswith("Over what the hosts do today (F-T alone) it is +")


def test_without_a_trial_of_today_the_gain_over_it_is_unknown(run: Make):
    default = {"pm": "fullmesh", "cc": "cubic", "buffer_mib": 4, "mean": 15, "runs": 5}
    advised = advice_of(run(default=default, gain={"mean": 5.0, "runs": 5}, baselines=None)).expected
    assert "was not measured" in advised.text[2]


def test_the_kernels_own_default_is_recognised(run: Make):
    advised = advice_of(run(default={"pm": "default", "cc": "cubic", "buffer_mib": 4, "mean": 15, "runs": 5}))
    assert advised.expected.is_kernel_default


def test_without_a_comparison_nothing_is_promised(run: Make):
    expected = advice_of(run(default=None, gain=None)).expected
    assert expected.gain is None and expected.baseline is None
    assert "the gain is unknown" in expected.text[1]


def test_a_simulated_answer_is_marked_as_simulated(run: Make):
    assert "Nothing was measured between the machines" in advice_of(run()).expected.text[-1]


def test_a_simulated_gain_has_the_interval_that_a_kernel_leaves_it(run: Make):
    expected = {"mean_mbps": 20.0, "low_mbps": 15.0, "high_mbps": 26.0, "runs": 5, "unknown": None}
    gain = {"low_mbps": -1.5, "high_mbps": 12.0, "unknown": None}
    expectation = advice_of(run(on_kernel=expected, gain_on_kernel=gain)).expected
    text = " ".join(expectation.text)
    assert "On a Linux kernel expect 15.00 to 26.00 Mbit/s (95 % interval for the mean of 5 runs)" in text
    assert "The gain there is -1.50 to +12.0 Mbit/s (95 %). It may be a loss." in text
    assert expectation.gain_on_kernel is not None and expectation.gain_on_kernel.high_mbps == 12.0


def test_an_error_that_is_not_known_is_not_made_up(run: Make):
    unknown = {
        "mean_mbps": 20.0,
        "low_mbps": None,
        "high_mbps": None,
        "unknown": "plain TCP is not validated",
    }
    text = " ".join(advice_of(run(on_kernel=unknown, gain_on_kernel=unknown)).expected.text)
    assert "No kernel error estimate: plain TCP is not validated." in text


def test_a_run_of_an_earlier_version_has_no_such_interval(run: Make):
    text = " ".join(advice_of(run(on_kernel=None, gain_on_kernel=None)).expected.text)
    assert "a version without one" in text


def test_what_was_measured_on_a_kernel_is_as_it_was_measured(run: Make):
    text = " ".join(advice_of(run(on_kernel=None, options={"testbed": "namespaces"})).expected.text)
    assert "a version without one" not in text and "Linux kernel expect" not in text


# What the kernel cannot do.


def test_fewer_subflows_are_simulated_with_the_same_seeds(run: Make):
    (subflows,) = (
        difference
        for difference in advice_of(run(**DIAGONAL)).differs
        if difference.difference.what == "subflows"
    )
    assert subflows.loss is not None and subflows.loss.source == "simulated"
    assert (
        subflows.loss.asked is not None and subflows.loss.got is not None and subflows.loss.change is not None
    )
    difference = subflows.loss.got.mean - subflows.loss.asked.mean
    assert subflows.loss.change.mean == pytest.approx(difference)
    assert subflows.text.startswith("Simulated: ") and "5 runs each" in subflows.text


def test_the_same_run_gives_the_same_loss(run: Make):
    first, second = (advice_of(run(name, **DIAGONAL)).differs for name in ("a", "b"))
    assert [path.loss for path in first] == [path.loss for path in second]


def test_trials_of_the_run_are_preferred_to_the_simulator(run: Make, monkeypatch: pytest.MonkeyPatch):
    """The full mesh and one path were measured: the sets are what they are, whoever asks."""
    from mptune.apply import _loss
    from mptune.apply.plan import outline

    outlined = outline(run(**MESH))
    trials = [
        trial for trial in outlined.answered.run.trials if trial.pm == "fullmesh" and trial.purpose == "sweep"
    ]
    size = trials[0].buffer_bytes
    alone = [
        msgspec.structs.replace(trial, pm="default", throughput_mbps=(trial.throughput_mbps or 0) / 2)
        for trial in trials
    ]
    data = msgspec.structs.replace(outlined.answered.run, trials=(*trials, *alone))
    answer = msgspec.structs.replace(outlined.answered.answer, obs_bytes=size)
    answered = msgspec.structs.replace(outlined.answered, run=data, answer=answer)
    lost = _loss.loss(msgspec.structs.replace(outlined, answered=answered, used=("F-T",)))
    assert isinstance(lost, _loss.Loss)
    assert lost.source == "measured" and lost.share == pytest.approx(-0.5)


def test_an_unknown_network_is_not_guessed_at(run: Make):
    unknown = NETWORK.replace('up = "4 Mbit/s"\n', "", 1)
    for name in ("home", "server"):
        unknown = unknown.replace(f'name = "{name}"\n[[', f'name = "{name}"\nssh = "{name}.invalid"\n[[')
    (difference,) = (
        difference
        for difference in advice_of(run(network=unknown, **DIAGONAL)).differs
        if difference.difference.what == "subflows"
    )
    assert difference.loss is None and "sites.H.interfaces.M.up: expected a rate" in difference.text


# What could go wrong.


def risks(advised: Advice) -> str:
    return " ".join((*advised.risks, *(risk for host in advised.hosts for risk in host.risks)))


def test_memory_is_connections_times_both_buffers(run: Make):
    place = run(obs_bytes=1 << 20)
    text = risks(advice_of(place, at_home(), connections=1000, host="H"))
    assert "1,000 connections with full buffers: 1.95 GiB of 1 GiB available, enough for 512" in text
    assert "That exceeds the available memory." in text
    text = risks(advice_of(place, at_home(), connections=100, host="H"))
    assert "200 MiB of 1 GiB" in text and "exceeds the available memory" not in text


def test_a_metered_interface_is_named_where_it_would_be_used(run: Make):
    assert "M is metered, and would carry data" in risks(advice_of(run("all", **MESH)))
    standby = {**DIAGONAL, "subflows": ["F-T"], "standby": ["M-T"]}
    assert "M is metered: a standby subflow costs handshakes" in risks(advice_of(run("standby", **standby)))
    single = {**DIAGONAL, "opm": "default", "subflows": ["F-T"]}
    assert "metered" not in risks(advice_of(run("none", **single)))


def test_a_smaller_limit_is_smaller_for_everybody(run: Make):
    text = risks(advice_of(run(buffer_mode="auto", obs_bytes=1 << 20), at_home()))
    assert "net.ipv4.tcp_wmem falls from 4 MiB to 1 MiB" in text
    assert "disables autotuning" in text


def test_a_strict_reverse_path_filter_breaks_joins(run: Make):
    assert "filter of wwan0 is strict" in risks(advice_of(run(**MESH), at_home(strict=("wwan0", "lo"))))


def test_others_who_manage_the_same_are_named(run: Make):
    seen = Seen(how="ssh", present=HOME, read=reads(foreign=("NetworkManager",)))
    assert "Running here: NetworkManager." in risks(advice_of(run(**MESH), seen))


def test_endpoints_that_are_not_planned_take_the_place_of_others(run: Make):
    endpoints = {"10.0.3.2": ("subflow",), "10.0.4.2": ("signal",), "10.0.2.2": ("subflow",)}
    seen = Seen(how="here", present=msgspec.structs.replace(HOME, endpoints=endpoints))
    advised = advice_of(run(**MESH), seen, seen)
    home, server = (" ".join(host.risks) for host in advised.hosts)
    assert "Endpoint 10.0.3.2 (subflow) is not part of the plan" in home and "10.0.4.2" not in home
    assert "10.0.2.2 (subflow)" not in home
    assert "Endpoint 10.0.4.2 (signal) is not part of the plan" in server and "10.0.3.2" not in server


# How machines are read.


class Agent:
    """A role that answers once, or has no such role."""

    def __init__(self, answer: dict[str, Any] | None) -> None:
        self.answer = answer
        self.told: list[dict[str, Any]] = []

    def tell(self, message):
        self.told.append(message)

    def expect(self, event, within_s):
        if self.answer is None:
            raise TrialError("settings on this machine ended with status 2")
        return self.answer


def test_the_agents_role_is_asked_and_does_without_where_it_is_missing(monkeypatch: pytest.MonkeyPatch):
    settings = [{"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "1 2 3"}]
    answer = {"event": "read", "present": [{**settings[0], "value": "4 5 6"}], "foreign": ["mptcpd"]}
    has = Agent(answer)
    lacks = Agent(None)

    @contextmanager
    def child(role: str) -> Iterator[Agent]:
        assert role == "settings"
        yield agent

    monkeypatch.setattr(machine, "_child", child)
    monkeypatch.setattr(sysctls, "read", lambda name: "7 8 9")
    agent = has
    assert machine._read_here(settings) == Reading(
        present=({**settings[0], "value": "4 5 6"},), foreign=("mptcpd",)
    )
    assert has.told == [{"action": "read", "settings": settings}]
    agent = lacks
    assert machine._read_here(settings) == Reading(present=({**settings[0], "value": "7 8 9"},))


def test_without_the_role_iproute2_is_asked(monkeypatch: pytest.MonkeyPatch):
    """As iproute2 6.1 prints it."""
    outputs = {
        "endpoint": '[{"address":"10.0.2.2","id":1,"subflow":true,"backup":true,"dev":"wwan0"}]',
        "limits": "add_addr_accepted 1 subflows 3 \n",
        "route": '[{"dst":"default","dev":"eth1","metrics":[{"congestion":"reno"}]}]',
    }
    monkeypatch.setattr(machine, "_read_by", lambda *_: None)
    monkeypatch.setattr(
        machine, "_ip", lambda *words: next(outputs[word] for word in outputs if word in words)
    )
    endpoint = {"kind": "endpoint", "address": "10.0.2.2", "device": "wwan0", "flags": ["subflow"]}
    limits = {"kind": "limits", "subflows": 1, "add_addr_accepted": 0}
    route = {"kind": "route", "to": "default", "table": 254, "via": None, "device": "eth1", "congctl": "olia"}
    other = {**endpoint, "address": "10.0.1.2"}
    present = machine._read_here([endpoint, limits, route, other]).present
    assert present == (
        {"kind": "endpoint", "address": "10.0.2.2", "flags": ["subflow", "backup"]},
        {"kind": "limits", "subflows": 3, "add_addr_accepted": 1},
        {**route, "congctl": "reno"},
        {"kind": "endpoint", "address": "10.0.1.2", "absent": True},
    )
    assert [advice._identity(setting) for setting in present] == [
        advice._identity(setting) for setting in (endpoint, limits, route, other)
    ]


def test_this_machine_is_the_one_that_has_an_address_of_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "home.toml").write_text(NETWORK)
    topology = load(tmp_path / "home.toml")
    here = [{"device": "x", "addresses": [{"ip": "10.0.2.2", "prefix": 24}], "default_routes": []}]
    monkeypatch.setattr(machine, "_own_interfaces", lambda: here)
    assert machine.is_here(topology.sender) and not machine.is_here(topology.receiver)
    seen = machine.look(topology.receiver, "home.toml", lambda seen: seen)
    assert seen.present is None and "sites.S.ssh" in seen.reason
    assert not machine.is_here(load("UiT-HAW").sender)


# The command.


def mptune(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["advise", *map(str, arguments)])


@pytest.mark.parametrize("width", [80, 120])
def test_everything_is_readable_at_usual_widths(run: Make, width: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_terminal, "_UNLIMITED", width)
    result = mptune(run(**MESH, buffer_mode="auto"), "--no-look")
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= width
    words = " ".join(result.stdout.split())
    for part in ("Expected effect", "Risks", "MPTCP endpoint 10.0.2.2 dev wwan0", "* * "):
        assert part in words
    assert "…" not in result.stdout


def test_json_has_the_settings_as_machines_receive_them(run: Make):
    place = run(**MESH)
    result = mptune(place, "--no-look", "--json")
    printed = json.loads(result.stdout)
    assert printed == json.loads(json.dumps(document(advise(place, look=machine.unlooked))))
    home = printed["hosts"][0]
    assert {"kind": "limits", "subflows": 3, "add_addr_accepted": 1} in home["settings"]
    assert len(home["settings"]) == len(home["lines"])


def test_placeholders_are_shown_and_then_refused_in_one_line(run: Make, tmp_path: Path):
    unnamed = NETWORK.replace('ipv4 = "10.0.2.2"\n', "").replace('device = "wwan0"\n', "")
    place = run(network=unnamed, **MESH)
    result = mptune(place, "--no-look")
    assert result.exit_code == 2
    assert "MPTCP endpoint <ipv4 of M>" in result.stdout
    (error,) = result.stderr.splitlines()
    assert error.startswith("mptune: error: home.toml: sites.H.interfaces.M.ipv4: expected an IPv4 address")
    refused = mptune(place, "--no-look", "--files", tmp_path / "files")
    assert refused.exit_code == 2 and not (tmp_path / "files").exists()


def test_advice_for_a_network_without_machines_is_no_error(run: Make, tmp_path: Path):
    """A published scenario: what to do next is to probe one's own."""
    unnamed = re.sub(r"^(ipv4|ipv6|device|ssh) = .*\n", "", NETWORK, flags=re.MULTILINE)
    place = run(network=unnamed, **MESH)
    result = mptune(place, "--no-look")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "MPTCP endpoint <ipv4 of M>" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("Next: mptune probe HOST HOST")
    assert json.loads(mptune(place, "--no-look", "--json").stdout)["hosts"]
    refused = mptune(place, "--no-look", "--files", tmp_path / "files")
    assert refused.exit_code == 2 and not (tmp_path / "files").exists()


BUSY = "server (bob): another session is running in this network namespace: process 4711"


def test_files_of_a_machine_that_was_not_read_are_refused(
    run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    reached = NETWORK.replace('name = "server"\n[[', 'name = "server"\nssh = "bob"\n[[')
    place, written = run(network=reached, **MESH), tmp_path / "files"
    monkeypatch.setattr(machine, "look", looked(at_home(), Seen(reason=BUSY)))
    refused = mptune(place, "--files", written)
    assert (refused.exit_code, refused.stdout) == (1, "") and not written.exists()
    assert refused.stderr == (
        f"mptune: error: server was not read: {BUSY}; no files are written without what is set there\n"
    )
    monkeypatch.setattr(machine, "look", looked(at_home()))
    assert mptune(place, "--files", written, "--host", "H").exit_code == 0
    assert [folder.name for folder in written.iterdir()] == ["H"]


@pytest.mark.needs("namespaces")
def test_a_machine_that_nobody_can_reach_gets_no_files(run: Make, tmp_path: Path):
    refused = mptune(run(**MESH), "--files", tmp_path / "files", "--host", "S")
    assert refused.exit_code == 1 and not (tmp_path / "files").exists()
    assert refused.stderr == (
        "mptune: error: server was not read: not this machine, and home.toml lacks the SSH name to reach it "
        "(sites.S.ssh); no files are written without what is set there\n"
    )


def test_files_are_not_written_without_looking(run: Make, tmp_path: Path):
    refused = mptune(run(**MESH), "--no-look", "--files", tmp_path / "files")
    assert refused.exit_code == 2 and not (tmp_path / "files").exists()
    expected = "expected without --no-look: files hold what is set on the machines"
    assert refused.stderr == f"mptune: error: --files: {expected}\n"


def test_this_machine_is_not_half_read_while_it_is_busy(run: Make, monkeypatch: pytest.MonkeyPatch):
    """Its routes are known to the agent alone: without them a congestion control is for the whole host."""

    class Busy(Agent):
        def expect(self, event, within_s):
            raise TrialError("host on this machine: another session is running", "refused")

    @contextmanager
    def child(role: str) -> Iterator[Agent]:
        yield Busy(None)

    monkeypatch.setattr(machine, "_child", child)
    monkeypatch.setattr(machine, "is_here", lambda site: site.abbr == "H")
    home, _ = advise(run(**MESH, occ="cubic")).hosts
    assert (home.read, home.unread) == (None, "host on this machine: another session is running")
    assert "net.ipv4.tcp_congestion_control" not in {line.title for line in home.lines}
    (why,) = {line.why for line in home.lines if line.title == "route default dev eth1"}
    assert why == "cubic to server by F; which route that is, only the machine knows."


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--host", "X"], "--host: expected one of H, S, found 'X'"),
        (["--opened-by", "nobody"], "--opened-by: expected one of sender, receiver, found 'nobody'"),
        (["--connections", "0"], "--connections: expected"),
    ],
)
def test_wrong_options_are_one_line(run: Make, arguments: list[str], error: str):
    result = mptune(run(**MESH), "--no-look", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"mptune: error: {error}")


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path):
    result = mptune(tmp_path, "--no-look")
    assert result.exit_code == 2 and "expected a run directory" in result.stderr


# Subflows, now and then.


#: As after a start.
USUAL = Limits()


def seen(interfaces: dict[str, str], *endpoints: Endpoint, limits: Limits = USUAL) -> Seen:
    """A machine with these addresses by device, and these settings of its path manager."""
    rows = tuple(
        {"device": device, "addresses": [{"ip": ip, "prefix": 24}], "default_routes": []}
        for device, ip in interfaces.items()
    )
    end = End(addresses=tuple(interfaces.values()), endpoints=endpoints, limits=limits)
    sysctls = {"net.mptcp.enabled": "1", "net.mptcp.path_manager": "kernel"}
    present = msgspec.structs.replace(HOME, interfaces=rows, sysctls={**HOME.sysctls, **sysctls}, end=end)
    return Seen(how="ssh", present=present, read=reads())


BOTH = ({"eth1": "10.0.1.2", "wwan0": "10.0.2.2"}, {"ens3": "203.0.113.7", "ens4": "198.51.100.7"})


def test_subflows_are_counted_as_the_machines_are_set_and_with_the_settings(run: Make):
    advised = advice_of(run(**MESH, occ="cubic"), *map(seen, BOTH))
    assert advised.subflows is not None
    assert (advised.subflows.now, advised.subflows.missing) == (("F-T",), {})
    assert set(advised.subflows.then) == {*MESH["subflows"]}
    assert advised.subflows.text[0].startswith(
        "As the machines are set now, a connection surely has 1 subflow (F-T); with these settings 4 ("
    )
    home, server = advised.hosts
    assert home.commands == (
        "ip mptcp limits set subflows 3 add_addr_accepted 1",
        "ip mptcp endpoint add 10.0.1.2 dev eth1 subflow fullmesh",
        "ip mptcp endpoint add 10.0.2.2 dev wwan0 subflow fullmesh",
    )
    assert server.commands[1:] == ("ip mptcp endpoint add 198.51.100.7 dev ens4 signal",)
    assert document(advised)["subflows"]["now"] == ("F-T",)


def test_what_is_set_already_has_no_line_and_endpoints_of_others_are_counted(run: Make):
    mesh = [
        Endpoint(address=ip, flags=("subflow", "fullmesh"), id=number)
        for number, ip in enumerate(BOTH[0].values(), 1)
    ]
    told = Endpoint(address="198.51.100.7", flags=("signal",), id=1)
    ample = Limits(subflows=3, add_addr_accepted=1)
    advised = advice_of(
        run(**MESH, occ="cubic"), seen(BOTH[0], *mesh, limits=ample), seen(BOTH[1], told, limits=ample)
    )
    assert advised.subflows is not None and advised.subflows.now == advised.subflows.then
    assert all(not any("add" in line.split()[3:4] for line in host.commands) for host in advised.hosts)


def test_a_machine_that_was_not_read_leaves_subflows_open(run: Make):
    assert advice_of(run(**MESH, occ="cubic"), seen(BOTH[0]), Seen(reason="away")).subflows is None


def by_site(**sites: Seen) -> Callable[..., Any]:
    """Looks at a machine as often as it is asked for."""
    return lambda site, file, use: use(sites[site.abbr])


def test_one_to_one_sets_come_from_endpoints_laminar_where_the_kernel_has_them(run: Make):
    """PCDC's sets, which take routes otherwise: the kernel of who opens connections counts."""
    place = run(**DIAGONAL, occ="cubic")
    old = msgspec.structs.replace(seen(BOTH[0]).present, end=End(addresses=(), release=(6, 12)))  # type: ignore[type-var]
    for home, expected in (
        (seen(BOTH[0]), ("F-T", "M-V")),
        (msgspec.structs.replace(seen(BOTH[0]), present=old), ("F-T",)),
    ):
        advised = advise(place, look=by_site(H=home, S=seen(BOTH[1])))
        others = [one for one in advised.differs if one.difference.what == "subflows"]
        assert (advised.used, bool(others)) == (expected, len(expected) == 1)
    advised = advise(place, look=by_site(H=seen(BOTH[0]), S=seen(BOTH[1])))
    assert "ip mptcp endpoint add 10.0.2.2 dev wwan0 laminar" in advised.hosts[0].commands
    assert "ip mptcp endpoint add 198.51.100.7 dev ens4 signal" in advised.hosts[1].commands
    assert advised.subflows is not None and advised.subflows.then == ("F-T", "M-V")
