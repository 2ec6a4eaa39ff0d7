"""Commands of many trials between two machines: their patience with a host that is away, and their output."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.linux import bpf
from mptune.machines.ssh import VARIABLE, SshMachine
from mptune.testbeds import hosts as hosts_testbed
from mptune.testbeds.hosts import HostsTestbed
from mptune.topology import load
from mptune.trial import ScriptedAction
from tests.hosts.trials import carrying, command, hosts, mute
from tests.plugins.trials import SECOND, trial
from tests.plugins.waiting import PATIENCE_S

CAMPAIGN = """
topology = "world.toml"
testbed = "hosts"
kind = "sweep"
[factors]
pm = ["fullmesh"]
cc = ["cubic"]
buffers = "1MiB"
[trials]
runs = 1
duration = "1s"
"""
#: One round.
FOR_ONE_ROUND = ("--every", "5s", "--for", "5s")


@pytest.fixture(autouse=True)
def _folder(world, tmp_path, monkeypatch):
    """The current directory has the topology and the campaign, and ssh knows the machines."""
    monkeypatch.setenv(VARIABLE, str(world.bin / "ssh"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "world.toml").write_text(world.topology())
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)


@pytest.fixture
def beds(monkeypatch) -> Iterator[ExitStack]:
    """Ends the sessions of every testbed that is made; none of them minds busy processors."""
    begin = HostsTestbed.__init__
    with ExitStack() as stack:

        def init(bed: HostsTestbed) -> None:
            begin(bed)
            stack.callback(bed.close)

        monkeypatch.setattr(HostsTestbed, "__init__", init)
        monkeypatch.setattr(hosts_testbed, "_BUSY", 2.0)
        yield stack


@contextmanager
def mptune(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs, killed at the end of the block at the latest."""
    pipe = subprocess.PIPE
    line = [sys.executable, "-m", "mptune.cli", *arguments]
    with subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as program:
        try:
            yield program
        finally:
            program.kill()


def said(program: subprocess.Popen[str], words: str) -> str:
    """The next line on standard error that has these words."""
    assert program.stderr is not None
    return next(line for line in program.stderr if words in line)


def test_a_campaign_of_days_waits_for_a_host_that_is_away_when_it_begins_and_when_it_is_resumed(world):
    world.bob.kill_sshd()
    try:
        with mptune("campaign", "run", "campaign.toml", "--out", "run") as once:
            _, complaint = once.communicate(timeout=30)
            assert once.returncode == 1 and "mptune: error: bob: unreachable: " in complaint
        with mptune("campaign", "run", "campaign.toml", "--out", "days", *FOR_ONE_ROUND) as first:
            assert said(first, "Waiting").startswith("Waiting for bob: unreachable: ")
            first.send_signal(signal.SIGINT)
            _, complaint = first.communicate(timeout=30)
            assert first.returncode == 130
            assert "mptune: interrupted: 0 finished trials are kept" in complaint
        with mptune("campaign", "resume", "days") as second:
            said(second, "Waiting for bob")
            world.bob.start_sshd()
            said(second, "bob is back after")
            assert second.wait(30) == 0
    finally:
        if world.bob.sshd_pid() is None:
            world.bob.start_sshd()


def test_the_main_job_ends_with_an_answer_that_it_confirmed_and_within_its_budget(world, beds, tmp_path):
    """Not which answer: trials of 1 s are too short for that. Both paths together have 28.6 Mbit/s."""
    asked = ("--pm", "fullmesh,default", "--cc", "cubic", "--buffers", "256KiB,512KiB,1MiB")
    limits = ("--duration", "1s", "--budget", "30s")
    line = ("optimise", "world.toml", "--testbed", "hosts", *asked, *limits, "--out", "run", "--json")
    with world.alice.unchanged(), world.bob.unchanged():
        finished = CliRunner().invoke(app, line)
        beds.close()
    assert finished.exit_code == 0, finished.stderr
    assert ", 112 MB in all." in finished.stderr
    result = json.loads(finished.stdout)
    assert 0 < result["confirmed"]["mean"] < 28.6 and set(result["subflows"]) <= {"A-X", "B-X"}
    assert result["reached"]["spent_s"] <= result["reached"]["budget_s"] == 30
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.measures("how late the action is")
def test_times_are_those_of_the_trial_whatever_the_clock_of_the_host(world, tmp_path, monkeypatch):
    """Alice has been up for a day longer than this machine."""
    monkeypatch.setattr(hosts_testbed, "_BUSY", 2.0)
    script = (ScriptedAction(at_ns=SECOND // 2, path="B-X", action="standby"),)
    with hosts(world) as bed:
        observation = bed.run(trial(load(tmp_path / "world.toml"), script=script))
    at_ms, what = str(observation.metadata["path_manager_changes"]).split(" ms: ")
    assert what == "B-X standby" and 500 <= int(at_ms) < 2000


def test_ctrl_c_does_not_wait_for_a_host_that_is_silent(world, tmp_path):
    """It is back before the host itself has noticed the silence, which takes 8 s."""
    with (
        world.alice.unchanged(),
        world.bob.unchanged(),
        command(tmp_path / "world.toml") as program,
    ):
        carrying(world)
        with mute(world, "alice"):
            muted = time.monotonic()
            program.send_signal(signal.SIGINT)
            _, complaint = program.communicate(timeout=PATIENCE_S)
            roles = [words[1:2] for _, _, words in world.alice.processes()]
            assert ["host"] in roles or time.monotonic() - muted > 7
            assert complaint.decode().splitlines()[-2:] == [
                "mptune: interrupted",
                "mptune: alice could not be reached; it restores its settings within 10 s",
            ]


def test_a_default_that_the_hosts_lack_is_left_out_and_by_name_it_is_refused(beds, tmp_path, monkeypatch):
    """No BPF program is built, and the hosts' kernel has Reno and Cubic alone.

    What it really has is the whole machine's, and another test may be registering its programs now.
    """
    monkeypatch.setattr(bpf, "OBJECTS", tmp_path)
    collect = SshMachine.collect

    def bare(*asked):
        collected = collect(*asked)
        controls = {"congestion_controls": {"available": ["reno", "cubic"], "allowed": ["reno", "cubic"]}}
        return collected | controls if "congestion_controls" in collected else collected

    monkeypatch.setattr(SshMachine, "collect", bare)
    brief = ("--testbed", "hosts", "--out", "run", "--budget", "45s", "--duration", "1s", "--no-tcp")
    few = ("--pm", "fullmesh", "--buffers", "256KiB,1MiB")
    result = CliRunner().invoke(app, ["optimise", "world.toml", *brief, *few])
    assert result.exit_code == 0, result.stderr
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("Left out"))
    assert "olia, hybla, scalable, vegas (asking for one by name shows why)" in line
    asked = json.loads((tmp_path / "run/config.json").read_text())["options"]["ccs"]
    assert set(asked) == {"reno", "cubic"}
    beds.close()
    compared = json.loads((tmp_path / "run/result.json").read_text())["against_tcp"]
    assert compared["tcp"]["cc"] in asked  # also where the machine's own is another, which trials lack
    refused = CliRunner().invoke(app, ["optimise", "world.toml", *brief, *few, "--force", "--cc", "olia"])
    assert refused.exit_code == 2
    assert "--cc: expected one that alice can run" in refused.stderr and "found olia" in refused.stderr
