"""A cluster of dask on this machine: a scheduler and workers, each a process that a test may kill.

Also for benchmarks. Everything listens on loopback and is killed at the end.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.plugins.waiting import until


@contextmanager
def process(*command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A module run by Python, with its children, killed at the end."""
    started = subprocess.Popen(
        [sys.executable, "-m", *command],
        env=os.environ | {"PYTHONWARNINGS": "ignore"} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@contextmanager
def scheduler(place: Path, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler of its own, with its address; `place` is a directory for its file."""
    file = place / "scheduler.json"
    file.unlink(missing_ok=True)
    words = ("--no-dashboard", "--host", "127.0.0.1", "--port", str(port), "--scheduler-file", str(file))
    with process("distributed.cli.dask_scheduler", *words) as scheduler:
        until(file.exists)
        until(lambda: file.read_text().endswith("}"))
        yield json.loads(file.read_text())["address"], scheduler


def worker(address: str, *words: str, **environment: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A worker with one thread, unless `words` have other options."""
    fixed = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--death-timeout", "20")
    return process("distributed.cli.dask_worker", address, *fixed, *words, **environment)
