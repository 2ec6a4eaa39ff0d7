"""`mptune doctor` and `mptune clean`: exit codes and output; what they find is tests/linux' matter."""

import json

import pytest
from typer.testing import CliRunner

from mptune.cli import app

pytestmark = pytest.mark.needs("linux")


@pytest.fixture
def findings(monkeypatch):
    from mptune.linux import doctor

    found = [
        doctor.Finding(name="namespaces", state="ok", found="as root", required=True),
        doctor.Finding(name="iperf3", state="limited", found="not installed", remedy="install iperf3"),
    ]
    monkeypatch.setattr(doctor, "examine", lambda: found)
    return found


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_a_machine_that_can_ends_with_0(findings):
    shown = run("doctor")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0].startswith("Trials can run on this machine's own MPTCP")
    assert "    install iperf3" in shown.stdout.splitlines()


def test_a_machine_that_cannot_ends_with_1(findings):
    from mptune.linux.doctor import Finding

    findings.append(
        Finding(name="TUN devices", state="missing", found="no", remedy="modprobe tun", required=True)
    )
    shown = run("doctor")
    assert shown.exit_code == 1
    assert shown.stdout.splitlines()[0].startswith("Trials cannot run")
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
        ],
    }


def test_clean_tells_what_it_ended(monkeypatch):
    from mptune.linux.sandbox import leftovers

    stray = leftovers.Stray(pid=77, run="1-2-3", command="/opt/mptune-agent sender")
    monkeypatch.setattr(leftovers, "end_strays", lambda: [stray])
    assert run("clean").stdout == "ended process 77: /opt/mptune-agent sender\n"
    ended = json.loads(run("clean", "--json").stdout)["ended"]
    assert ended == [{"pid": 77, "run": "1-2-3", "command": "/opt/mptune-agent sender"}]
    monkeypatch.setattr(leftovers, "end_strays", list)
    assert run("clean").stdout == "nothing was left behind\n"
