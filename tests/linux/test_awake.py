"""Processors that are kept awake: as long as somebody wants it, at nobody's expense."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mptune.linux import awake
from mptune.linux.awake import Awake
from mptune.linux.processor_load import Load
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("linux")

#: A program that keeps them awake, prints which process does, and does not end by itself.
PROGRAM = """
import signal
from mptune.linux import awake
awake.LATE_S = -1.0
with awake.Awake() as kept:
    print(kept.pid, flush=True)
    signal.pause()
"""


@pytest.fixture
def late(monkeypatch):
    """A machine that wakes up late."""
    monkeypatch.setattr(awake, "LATE_S", -1.0)


def threads(pid):
    """Policy and processors of every thread but the first, which waits for the end."""
    others = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if int(task.name) != pid]
    return sorted((os.sched_getscheduler(other), sorted(os.sched_getaffinity(other))) for other in others)


def test_every_processor_has_one_thread_that_gives_way_to_all_others(late):
    with Awake() as kept:
        expected = [(os.SCHED_IDLE, [number]) for number in sorted(os.sched_getaffinity(0))]
        assert threads(kept.pid) == expected


def test_nothing_is_left_and_it_can_be_entered_again(late):
    kept = Awake()
    for _ in range(2):
        with kept:
            process = Path(f"/proc/{kept.pid}")
            assert process.exists()
        assert not process.exists() and kept.pid is None


def test_where_wake_ups_are_punctual_nothing_is_started(monkeypatch):
    monkeypatch.setattr(awake, "LATE_S", 10.0)
    with Awake() as kept:
        assert kept.late is False and kept.pid is None


def test_the_kernel_has_the_request_only_meanwhile(tmp_path, monkeypatch):
    file = tmp_path / "cpu_dma_latency"
    file.touch()
    monkeypatch.setattr(awake, "_REQUESTS", str(file))

    def held():
        links = Path("/proc/self/fd").iterdir()
        return [link for link in links if link.is_symlink() and os.path.realpath(link) == str(file)]

    with Awake():
        assert file.read_bytes() == bytes(4) and len(held()) == 1
    assert not held()


def test_without_permission_for_the_request_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(awake, "_REQUESTS", str(tmp_path / "absent" / "file"))
    with Awake() as kept:
        assert kept.late is not None


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_a_program_that_is_ended(ending):
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=-3) as program:
        assert program.stdout is not None
        process = Path("/proc", program.stdout.readline().decode().strip())
        assert process.exists()
        program.send_signal(ending)
    until(lambda: not process.exists(), "the end of what keeps the processors awake")


def test_its_time_is_nobodys_load(late):
    def ticks(pid):
        """Ticks beside those left out; the machine's own load only grows in between."""
        without = Load.now(pid).busy
        return Load.now().busy - without

    with Awake() as kept:
        others = ticks(None)
        until(lambda: ticks(kept.pid) > others + 1, "time that nobody else wanted")
