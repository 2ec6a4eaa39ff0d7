"""`mptune doctor` and `mptune clean`: exit codes and output; what they find is tests/linux' matter."""

import json
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from mptune.cli import app
from tests.plugins import two_hosts

pytestmark = pytest.mark.needs("linux")


@pytest.fixture
def findings(monkeypatch):
    from mptune.linux import doctor

    findings = [
        doctor.Finding(name="namespaces", state="ok", found="as root", required=True),
        doctor.Finding(name="iperf3", state="limited", found="not installed", remedy="install iperf3"),
    ]
    monkeypatch.setattr(doctor, "examine", lambda: findings)
    kernels = doctor.Finding(name="kernels for virtual time", state="ok", found="Linux 7.3.4")
    monkeypatch.setattr("mptune.guest.doctor.examine", lambda: kernels)
    return findings


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_a_machine_that_can_ends_with_0(findings):
    result = run("doctor")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].startswith("Trials can run on this machine's own MPTCP")
    assert "    install iperf3" in result.stdout.splitlines()


def test_a_machine_that_cannot_ends_with_1(findings):
    from mptune.linux.doctor import Finding

    findings.append(
        Finding(name="TUN devices", state="missing", found="no", remedy="modprobe tun", required=True)
    )
    result = run("doctor")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0].startswith("Trials cannot run")
    assert json.loads(run("doctor", "--json").stdout)["ready"] is False


def test_json_has_every_check(findings):
    result = json.loads(run("doctor", "--json").stdout)
    assert result == {
        "ready": True,
        "checks": [
            {"name": "namespaces", "state": "ok", "found": "as root", "remedy": None, "required": True},
            {
                "name": "iperf3",
                "state": "limited",
                "found": "not installed",
                "remedy": "install iperf3",
                "required": False,
            },
            {
                "name": "kernels for virtual time",
                "state": "ok",
                "found": "Linux 7.3.4",
                "remedy": None,
                "required": False,
            },
        ],
    }


def test_clean_lists_what_it_ended(monkeypatch):
    from mptune.linux.sandbox import leftovers

    stray = leftovers.Stray(pid=77, run="1-2-3", command="/opt/mptune-agent sender")
    monkeypatch.setattr(leftovers, "end_strays", lambda: [stray])
    assert run("clean").stdout == "ended process 77: /opt/mptune-agent sender\n"
    ended = json.loads(run("clean", "--json").stdout)["ended"]
    assert ended == [{"pid": 77, "run": "1-2-3", "command": "/opt/mptune-agent sender"}]
    monkeypatch.setattr(leftovers, "end_strays", list)
    assert run("clean").stdout == "nothing was left behind\n"


@pytest.fixture
def examined(monkeypatch):
    """Findings of `--integrity`, as a test sets them."""
    from mptune.linux import integrity

    arguments: dict[str, Any] = {}

    def examine(transfers, limit_s, advance):
        arguments["asked"] = transfers, limit_s
        return integrity.Integrity(
            kernel="6.18",
            transfers=transfers,
            transferred_bytes=2**20,
            seconds=1.0,
            provoked=5,
            not_provoked=None,
            wrong=arguments.get("wrong", []),
        )

    monkeypatch.setattr(integrity, "examine", examine)
    return arguments


def wrong(*, provoked):
    from mptune.linux.integrity import Wrong

    return Wrong(size=300_000, provoked=provoked, at=31_328, wrong_bytes=26, missing=0)


def test_intact_payload_ends_with_0_and_bounds_wrong_payload(examined):
    result = run("doctor", "--integrity", "--transfers", "3000", "--within", "2min", "--quiet")
    assert (result.exit_code, examined["asked"]) == (0, (3000, 120.0))
    assert "fewer than 1 in 1000 such transfers" in result.stdout
    document = json.loads(run("doctor", "--integrity", "--transfers", "3000", "--quiet", "--json").stdout)
    assert (document["intact"], document["fewer_than_one_in"], document["wrong"]) == (True, 1000, [])


@pytest.mark.parametrize(("provoked", "fewer"), [(False, None), (True, 1000)])
def test_wrong_payload_ends_with_1_and_points_at_the_page(examined, provoked, fewer):
    examined["wrong"] = [wrong(provoked=provoked)]
    refused = run("doctor", "--integrity", "--transfers", "3000", "--quiet")
    assert refused.exit_code == 1
    assert "WRONG PAYLOAD in 1" in refused.stdout and "26 bytes wrong from byte 31328" in refused.stdout
    assert "docs/explanation/kernel-findings.md" in refused.stdout
    result = run("doctor", "--integrity", "--transfers", "3000", "--quiet", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["intact"], document["fewer_than_one_in"]) == (1, False, fewer)


@pytest.mark.parametrize(
    "arguments",
    [("--transfers", "9"), ("--integrity", "--hosts", "x.toml"), ("--integrity", "--transfers", "0")],
)
def test_options_that_do_not_belong_together_are_refused(examined, arguments):
    assert run("doctor", *arguments).exit_code == 2
    assert "asked" not in examined


def test_advice_that_concerns_several_things_is_given_once(monkeypatch, tmp_path):
    """Congestion controls of two hosts are one paragraph, which names them; other advice is apart."""
    from mptune.linux.doctor import Finding
    from mptune.testbeds import host_doctor

    def lacking(cc):
        remedy = f"its kernel lacks it, and its program was not built; or modprobe tcp_{cc} there"
        return Finding(name=f"congestion control {cc}", state="missing", found="not available", remedy=remedy)

    down = Finding(name="interface A", state="missing", found="down", remedy="ip link set eth1 up")
    hosts = tuple(
        host_doctor.HostFindings(site=site, name=name, ssh=name, findings=(*map(lacking, ccs), *more))
        for site, name, ccs, more in (
            ("S", "alice", ("olia", "hybla"), (down,)),
            ("R", "bob", ("olia", "hybla"), ()),
        )
    )
    examined = host_doctor.Examined(hosts=hosts, subflows=None)
    monkeypatch.setattr(host_doctor, "examine", lambda topology: examined)
    file = two_hosts.write(tmp_path)
    output = run("doctor", "--hosts", str(file)).stdout
    advice = " ".join(output.partition("What to do")[2].partition("Subflows without trials")[0].split())
    assert advice == (
        "congestion control olia, hybla of alice and bob its kernel lacks it, and its program was not built; "
        "or modprobe tcp_NAME there interface A of alice ip link set eth1 up"
    )
    hosts = tuple(
        msgspec.structs.replace(host, findings=host.findings[: 2 - number])
        for number, host in enumerate(hosts)
    )
    examined = host_doctor.Examined(hosts=hosts, subflows=None)
    monkeypatch.setattr(host_doctor, "examine", lambda topology: examined)
    advice = run("doctor", "--hosts", str(file)).stdout.partition("What to do")[2]
    assert "congestion control olia, hybla of alice; congestion control olia of bob" in " ".join(
        advice.split()
    )


def test_every_part_of_the_package_is_tried():
    result = run("doctor", "--installed")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0 and len(lines) == 7, result.output
    assert lines[0].startswith("ok       core") and lines[0].endswith("arrived, twice the same")
    document = json.loads(run("doctor", "--installed", "--json").stdout)
    assert document["ready"] and [check["name"] for check in document["checks"]][:2] == ["core", "agent"]


def not_ok(output):
    return [line for line in output.splitlines() if not line.startswith("ok ")]


@pytest.mark.parametrize("content", [None, "#!/bin/sh\necho mptune-agent 0.0.1\n", "no program"])
def test_a_part_that_is_missing_or_another_is_named_and_ends_with_1(monkeypatch, tmp_path, content):
    # A checkout that was set up without clang lacks the BPF programs too.
    lacking = not_ok(run("doctor", "--installed").stdout)
    program = tmp_path / "mptune-agent"
    if content is not None:
        program.write_text(content)
    monkeypatch.setattr("mptune.linux.agent.PROGRAM", program)
    result = run("doctor", "--installed")
    wrong = [line for line in not_ok(result.stdout) if line not in lacking]
    assert result.exit_code == 1 and len(wrong) == 1
    assert wrong[0].startswith("missing  agent") and "install mptune again" in wrong[0]
