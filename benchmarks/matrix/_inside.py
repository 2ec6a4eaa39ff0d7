"""The program inside a guest: prints the kernel's features and behaviour, in lines of JSON.

Not a benchmark. `_guest` starts it as `python _inside.py STEP...`, and its steps are `STEPS`.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from mptune.errors import MptuneError
from mptune.linux import bpf

REPOSITORY = Path(__file__).resolve().parents[2]
FINDINGS = Path(__file__).parent.parent / "findings"
#: So long that the subflow joins, and data arrive, while recv() holds the socket, however slow the guest is.
_HOLD = ("--hold", "20")
#: Each program of findings/, with its arguments: those of the page, and more runs of what is seldom shown.
PROGRAMS = {
    "wrong_payload": (("wrong_payload.py", *_HOLD), ("wrong_payload.py", *_HOLD, "--checksum")),
    "stall": (("stall.py", "--runs", "12"),),
    "overrun": (("overrun.py", "--seconds", "8"), ("overrun.py", "--seconds", "8")),
    "half_window": (("half_window.py",), ("half_window.py",)),
}
#: Longest time for one command: a program of findings gives up after 60 s in each of its parts.
_COMMAND_S = 240
#: Modules whose congestion controls are to be seen, and devices.
_LOADED = ("tun", "tcp_hybla", "tcp_scalable", "tcp_vegas", "tcp_dctcp", "tcp_bbr", "sch_tbf", "veth")
#: Bytes of a transfer with a BPF program, over both of its subflows.
_TRANSFER = 500_000
_INTEGRITY = ("--transfers", "3000", "--within", "60s")


def emit(event: str, **values: Any) -> None:
    """One line to whoever booted this."""
    sys.stdout.write(json.dumps({"event": event, **values}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Each step that was asked for; one that fails does not keep others from running."""
    emit("kernel", release=platform.release(), version=platform.version(), up_s=time.monotonic())
    for module in _LOADED:
        subprocess.run(["modprobe", "-q", module], check=False)
    for name in sys.argv[1:]:
        begin = time.monotonic()
        try:
            for event, values in STEPS[name]():
                emit(event, **values)
        except (MptuneError, OSError, ValueError) as error:
            emit("failed", step=name, reason=str(error))
        emit("took", step=name, seconds=round(time.monotonic() - begin, 1))
    emit("end")


def run(*command: str) -> dict[str, Any]:
    """Output of a command, and its exit code: None if it had to be ended."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return {"code": None, "output": (late.output or b"").decode()}
    # A traceback names files; where they lie on this machine is nobody's concern.
    return {"code": done.returncode, "output": done.stdout.replace(f"{REPOSITORY}/", "")}


def _settings() -> Iterator[tuple[str, dict[str, Any]]]:
    """Settings of MPTCP as they are at first, and counters that the kernel has."""
    values = {
        path.name: path.read_text().strip()
        for path in sorted(Path("/proc/sys/net/mptcp").iterdir())
        if os.access(path, os.R_OK)
    }
    netstat = Path("/proc/net/netstat").read_text().splitlines()
    counters = next((line.split()[1:] for line in netstat if line.startswith("MPTcpExt:")), [])
    yield "settings", {"values": values, "counters": counters}


def _doctor() -> Iterator[tuple[str, dict[str, Any]]]:
    """`mptune doctor`."""
    yield "doctor", _mptune("doctor", "--json")


def _integrity() -> Iterator[tuple[str, dict[str, Any]]]:
    """`mptune doctor --integrity`."""
    yield "integrity", _mptune("doctor", "--integrity", *_INTEGRITY, "--json", "--quiet")


def _mptune(*arguments: str) -> dict[str, Any]:
    finished = run(sys.executable, "-m", "mptune.cli", *arguments)
    start = finished["output"].find("{")
    try:
        return {"said": json.loads(finished["output"][start:])}
    except ValueError:
        return finished


def _finding(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A program of findings/, which needs nothing of mptune, with each of its arguments."""
    for program, *arguments in PROGRAMS[name]:
        done = run(sys.executable, str(FINDINGS / program), *arguments)
        yield "finding", {"name": name, "arguments": arguments, **done}


def _programs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each BPF program: the instructions that the verifier followed, and a transfer with it."""
    sys.path.append(str(REPOSITORY))
    from tests.plugins.bpf_objects import objects, verified

    bpf.STEP_S = _COMMAND_S
    command = [sys.executable, str(REPOSITORY / "tests/kernel/bpf_transfer.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as transfers:
        assert transfers.stdin is not None and transfers.stdout is not None
        for cc in bpf.programs():
            before = objects()
            try:
                with bpf.loaded([cc]) as names:
                    added = [number for kind, number in objects() - before if kind == "prog"]
                    transfers.stdin.write(json.dumps({"cc": names[cc], "size": _TRANSFER}) + "\n")
                    transfers.stdin.flush()
                    result = json.loads(transfers.stdout.readline())
                    yield (
                        "program",
                        {
                            "name": cc,
                            "instructions": max(map(verified, added), default=None),
                            "intact": result["intact"] and result["cc"] == names[cc],
                            "carried": result["carried"],
                        },
                    )
            except MptuneError as error:
                yield "program", {"name": cc, "refused": str(error)}
        transfers.stdin.close()


#: The steps.
STEPS: dict[str, Callable[[], Iterator[tuple[str, dict[str, Any]]]]] = {
    "settings": _settings,
    "doctor": _doctor,
    **{name: partial(_finding, name) for name in PROGRAMS},
    "integrity": _integrity,
    "programs": _programs,
}


if __name__ == "__main__":
    main()
