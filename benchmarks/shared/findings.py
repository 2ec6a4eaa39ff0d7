"""Programs of benchmarks/findings: what their outputs show, and running one in a guest.

Not a benchmark. `python -m benchmarks.shared.findings` is a guest's first process.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mptune.guest import inside, machine
from mptune.guest.kernels import Kernel

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "benchmarks" / "findings"
#: Real seconds for a program, each connection of which has a minute of its own time.
_LIMIT_S = 300
#: The window of half_window.py with a silent subflow, of the one without: less is the finding.
_NARROW = 0.9


class Shown(NamedTuple):
    """Outcome of a program: the finding or not, and in words."""

    seen: bool
    what: str


class Finding(NamedTuple):
    """A finding: its line in tables, its program with arguments, and how its output is read."""

    title: str
    program: tuple[str, ...]
    read: Callable[[str], Shown]


def wrong(output: str) -> Shown:
    """Bytes that are wrong in the first case of wrong_payload.py, where its controls are right."""
    first, *controls = re.split(r"(?m)^  while .*\n", output)[1:] or [output]
    if any("intact" not in text for text in controls):
        return Shown(False, "a control is not right")
    if match := re.search(r"received, (\d+) wrong", first):
        return Shown(True, f"{match[1]} bytes")
    if "intact" not in first:
        return Shown(False, "no result")
    if "'MPJoinAckRx': 1" not in first:
        return Shown(False, "intact, but nothing joined")
    unmatched = re.search(r"'DSSNotMatching': ([1-9]\d*)", first)
    return Shown(False, f"intact, `DSSNotMatching` {unmatched[1]}" if unmatched else "intact")


def stalled(output: str) -> Shown:
    """Transfers of stall.py that stand still."""
    stood, complete = output.count("STALLED"), output.count("complete:")
    if stood + complete == 0:
        return Shown(False, "no result")
    return Shown(stood > 0, f"{stood} of {stood + complete}")


def dropped(output: str) -> Shown:
    """Segments that overrun.py counted in the end."""
    counts = re.findall(r"(\d+) dropped so far", output)
    return Shown(int(counts[-1]) > 0, f"{counts[-1]} segments") if counts else Shown(False, "no result")


def narrowed(output: str) -> Shown:
    """Window of the first subflow in half_window.py, KiB: alone, and beside a silent one."""
    alone, beside = (window(output, when) for when in ("one subflow", "a second one on standby"))
    if alone is None or beside is None:
        return Shown(False, "no result")
    return Shown(beside < _NARROW * alone, f"{alone} and {beside} KiB")


def window(output: str, when: str) -> int | None:
    """Window of the first subflow at a step of half_window.py, KiB."""
    match = re.search(rf"(?m)^  {re.escape(when)}: (\d+)", output)
    return None if match is None else round(int(match[1]) / 1024)


FINDINGS = {
    "wrong_payload": Finding("1 wrong payload", ("wrong_payload.py",), wrong),
    "stall": Finding("2 a stall with full memory", ("stall.py", "--runs", "1"), stalled),
    "overrun": Finding("3 dropped beyond the window", ("overrun.py", "--lossy", "--seconds", "6"), dropped),
    "half_window": Finding("4 half the window", ("half_window.py",), narrowed),
}


def in_guest(kernel: Kernel, program: Sequence[str], seed: int, cpu: int | None = None) -> str:
    """Output of a program with its arguments in a guest, the same for the same seed.

    Raises
    ------
    mptune.guest.machine.Died : the guest gave no answer.
    """
    work = {"program": list(program), "begin_ns": machine.begin_ns(seed)}
    answer = machine.run(kernel.program, __name__, work, seed=seed, limit_s=_LIMIT_S, cpu=cpu, beside=[ROOT])
    return answer.decode()


def _inside(work: dict[str, Any]) -> bytes:
    program, *arguments = work["program"]
    inside.start_at(work["begin_ns"])
    command = [sys.executable, str(PROGRAMS / program), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout


if __name__ == "__main__":
    inside.serve(_inside)
