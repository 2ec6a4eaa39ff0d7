"""One guest: its work goes in, its answer comes out, and nothing is left of it, however it ends.

A guest is a group of processes that `mptune.guest.boot` confines. It is on one processor: its kernel and what
it runs hand over to each other all the time, which between processors takes three times as long.
"""

import base64
import contextlib
import os
import selectors
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec

import mptune
from mptune.errors import MptuneError
from mptune.guest import boot, inside
from mptune.linux.sandbox import leftovers
from mptune.linux.talker import last_words, manner
from mptune.trial.phase import phase_ns

__all__ = ["MEMORY", "READY_NS", "Died", "Facts", "Processors", "begin_ns", "facts", "run"]

#: Memory of a guest, always the same: the limits of its network's memory follow from it, and they count.
MEMORY = "2G"
#: Virtual time at which every guest begins, nanoseconds since 1970: a moment in 2023.
_BEGIN_NS = 1_700_000_000_000_000_000
#: Virtual time that a guest has for its preparations, nanoseconds: they take a hundredth of it.
READY_NS = 10_000_000_000
#: Most bytes of a console.
_CONSOLE_BYTES = 64 * 2**20
#: Seconds of a first boot.
_BOOT_S = 60.0


class Died(MptuneError):
    """A guest ended without an answer, or was ended."""


class Facts(msgspec.Struct, frozen=True):
    """Properties of a kernel."""

    version: str
    congestion_controls: tuple[str, ...]
    schedulers: tuple[str, ...]


def facts(program: Path) -> Facts:
    """Boot a kernel and ask it.

    Raises
    ------
    Died : it does not boot; the message has the last line of its console.
    """
    return msgspec.json.decode(run(program, inside.__name__, {}, seed=0, limit_s=_BOOT_S), type=Facts)


def begin_ns(seed: int) -> int:
    """When what is measured begins, nanoseconds after the guest's start (`mptune.guest.inside.start_at`)."""
    return READY_NS + phase_ns(seed)


class Processors:
    """The machine's processors, of which each guest has one of its own."""

    def __init__(self) -> None:
        self._free: SimpleQueue[int] = SimpleQueue()
        processors = sorted(os.sched_getaffinity(0))
        # Programs side by side begin with different ones.
        first = os.getpid() % len(processors)
        for processor in processors[first:] + processors[:first]:
            self._free.put(processor)

    @contextlib.contextmanager
    def taken(self) -> Iterator[int]:
        """One of them; with more guests than processors, the one that is free first."""
        processor = self._free.get()
        try:
            yield processor
        finally:
            self._free.put(processor)


def run(
    program: Path,
    module: str,
    work: Mapping[str, Any],
    *,
    seed: int,
    limit_s: float,
    cpu: int | None = None,
    beside: Sequence[Path] = (),
    interrupted: Callable[[], bool] = lambda: False,
) -> bytes:
    """Run a guest to its end; its answer.

    Parameters
    ----------
    program : the kernel.
    module : what its first process runs; it calls `mptune.guest.inside.serve`.
    work : for that.
    seed : of the kernel's random numbers.
    limit_s : real time after which it is killed.
    cpu : processor for all of it; None leaves that to the system.
    beside : directories that it imports from before those of this interpreter.
    interrupted : asked several times a second; then it is killed, and the answer is empty.

    Raises
    ------
    Died : it ended without an answer.
    """
    order = {
        "command": _command(program),
        "environment": {"MPTUNE_GUEST_SEED": str(seed)},
        "cpu": cpu,
        "needs": [str(path) for path in _needs(program, beside)],
        "first": f"#!{sys.executable} -I\n{_first(module, beside)}",
        "work": dict(work),
    }
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", boot.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, leftovers.VARIABLE: leftovers.new_run()},
            start_new_session=True,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                stdin.write(msgspec.json.encode(order) + b"\n")
            console = _console(process.stdout.fileno(), time.monotonic() + limit_s, interrupted)
            if console is None:
                return b""
            status = process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
        errors.seek(0)
        stderr = errors.read(1 << 16).decode(errors="replace")
    return _answer(console, status, stderr)


def _command(program: Path) -> list[str]:
    """Command line of a kernel, which its random numbers depend on too: it is the same on every machine."""
    return [
        str(program),
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"mem={MEMORY}",
        "time-travel=inf-cpu",
        f"time-travel-start={_BEGIN_NS}",
        # Faster than ptrace, where the kernel has it (Linux 6.16).
        "seccomp=auto",
        f"uml_dir={boot.PLACE}/",
        "umid=guest",
        "con=null",
        "con0=null,fd:1",
        "quiet",
        "panic=1",
        f"init={boot.PLACE}/{boot.FIRST}",
    ]


def _first(module: str, beside: Sequence[Path]) -> str:
    paths = [str(path) for path in beside]
    return f"import runpy, sys\nsys.path[:0] = {paths!r}\nrunpy.run_module({module!r}, run_name='__main__')\n"


def _needs(program: Path, beside: Sequence[Path]) -> list[Path]:
    """Directories that a guest reads, by the paths at which it looks for them."""
    package = Path(mptune.__file__).parent
    prefixes = {Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parent.parent}
    libraries = {Path(path) for path in sysconfig.get_paths().values() if Path(path).is_dir()}
    wanted = {package, program.parent, *prefixes, *libraries, *beside}
    # What lies in another of them needs no place of its own.
    return sorted(path for path in wanted if not any(other in path.parents for other in wanted))


def _console(output: int, end: float, interrupted: Callable[[], bool]) -> bytes | None:
    """Everything a guest printed; None if it was interrupted.

    Raises
    ------
    Died : it printed for too long, or too much.
    """
    console = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while True:
            if interrupted():
                return None
            if time.monotonic() > end:
                raise Died(f"the guest did not end in time{last_words(console.decode(errors='replace'))}")
            if not selector.select(0.2):
                continue
            chunk = os.read(output, 1 << 16)
            if not chunk:
                return bytes(console)
            console += chunk
            if len(console) > _CONSOLE_BYTES:
                raise Died("the guest printed without end")


def _answer(console: bytes, status: int, stderr: str) -> bytes:
    lines = console.replace(b"\r", b"").split(b"\n")
    if inside.END in lines:
        pieces = (line.removeprefix(inside.PIECE) for line in lines if line.startswith(inside.PIECE))
        return base64.b64decode(b"".join(pieces))
    text = [line.decode(errors="replace") for line in lines]
    fault = inside.FAULT.decode()
    for begin in (fault, "Kernel panic"):
        for line in text:
            if line.startswith(begin):
                raise Died(f"the guest failed{last_words(line.removeprefix(fault))}")
    raise Died(
        f"the guest {manner(status)}{last_words(stderr) or last_words(console.decode(errors='replace'))}"
    )
