"""The agent as a file of the package: found, started, and missed in one line."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mptune
from mptune.errors import MptuneError
from mptune.linux import agent
from tests.plugins.waiting import until


@pytest.fixture
def program(tmp_path, monkeypatch):
    path = tmp_path / "mptune-agent"
    monkeypatch.setattr(agent, "PROGRAM", path)
    return path


def test_it_is_of_the_same_version_as_the_package():
    assert agent.version() == mptune.__version__


def test_namespaces_are_named_only_where_there_are_any(program):
    program.touch(0o755)
    assert agent.command("sender") == [str(program), "sender"]
    expected = [str(program), "--userns", "/user", "--netns", "/net", "receiver"]
    assert agent.command("receiver", "/net", "/user") == expected


def test_one_that_lost_its_mark_in_an_archive_is_executable_again(program):
    program.write_text("#!/bin/sh\necho mptune-agent 1.2.3\n")
    program.chmod(0o644)
    assert agent.version() == "1.2.3"


def test_a_missing_program_is_refused_with_what_to_run(program):
    with pytest.raises(MptuneError, match=r"mptune-agent: the agent is missing; run `make setup`"):
        agent.command("sender")


def test_a_program_that_does_not_run_is_refused(program):
    program.write_text("not a program")
    with pytest.raises(MptuneError, match=r"does not run: .*; run `make setup`"):
        agent.version()


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_wrong_order_is_one_line_and_status_1(role):
    done = subprocess.run(agent.command(role), input='{"nonsense": 1}\n', capture_output=True, text=True)
    (line,) = done.stdout.splitlines()
    assert "nonsense" in json.loads(line)["reason"] and done.returncode == 1
    without = subprocess.run(agent.command(role), input="", capture_output=True, text=True)
    assert "expected a line of JSON" in without.stdout and without.returncode == 1


def test_an_unknown_role_is_refused_with_status_2():
    done = subprocess.run(agent.command("juggler"), capture_output=True, text=True)
    assert done.returncode == 2 and not done.stdout
    assert "sender, receiver" in done.stderr and "juggler" in done.stderr and done.stderr.count("\n") == 1


CONTROLLER = """
import os, signal, subprocess, sys
from mptune.linux import agent
# Somebody else holds the other end of their standard input, whose end is thus not what ends them.
ends = os.pipe()
os.set_inheritable(ends[1], True)
started = [
    subprocess.Popen(agent.command(role), stdin=ends[0], stdout=subprocess.DEVNULL, close_fds=False)
    for role in sys.argv[1:]
]
print(*(one.pid for one in started), flush=True)
signal.pause()
"""


def waits(process: Path) -> bool:
    """An agent has begun, which handles its signals, and waits for its orders."""
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    handles = int(status["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1
    return bool(handles) and status["State"].startswith("S")


def test_every_role_ends_with_a_controller_that_is_killed():
    command = [sys.executable, "-c", CONTROLLER, "sender", "receiver", "paths", "awake", "congestion"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as controller:
        try:
            assert controller.stdout is not None
            agents = [Path("/proc", pid) for pid in controller.stdout.readline().split()]
            assert len(agents) == 5
            until(lambda: all(waits(agent) for agent in agents), "the agents")
        finally:
            controller.send_signal(signal.SIGKILL)
    until(lambda: not any(agent.exists() for agent in agents), "the end of the agents")
