"""`mptune clean` ends what belongs to nobody, and nothing else."""

import os
import subprocess
import sys

import pytest

from mptune.linux.sandbox import leftovers
from tests.plugins.program import command_line


def sleeper(run: str, *, stubborn: bool = False) -> "subprocess.Popen[bytes]":
    """A process with a mark; a stubborn one ignores SIGTERM."""
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " if stubborn else ""
    code = f"{ignore}import signal; print(flush=True); signal.pause()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, leftovers.VARIABLE: run}, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.fixture
def orphans():
    """Marked processes of a program that has ended: one that obeys and one that does not."""
    code = "from mptune.linux.sandbox import leftovers; print(leftovers.new_run())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    processes = [sleeper(run.strip()), sleeper(run.strip(), stubborn=True)]
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def test_orphans_are_ended_and_living_campaigns_are_not(orphans, until):
    ours = sleeper(leftovers.new_run())
    try:
        subprocess.run(command_line("clean"), capture_output=True, check=True)
        # What it prints is in tests/cli/test_doctor.py: a testbed that another test starts ends orphans too.
        until(lambda: all(process.poll() is not None for process in orphans), "the end of the orphans")
        assert ours.poll() is None
    finally:
        ours.kill()
        ours.communicate()


def test_a_testbed_that_starts_cleans_up(orphans, until, testbed):
    type(testbed)()
    until(lambda: all(process.poll() is not None for process in orphans), "the end of the orphans")
