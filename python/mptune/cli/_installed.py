"""Findings of `mptune doctor --installed`: whether every part of the package is there and does its part.

It needs neither root nor MPTCP, takes seconds, and changes nothing. What trials need of the machine is
`mptune.linux.doctor`'s matter.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import msgspec

from mptune import __version__, _core, files
from mptune.errors import MptuneError
from mptune.linux import agent, bpf, daemon
from mptune.linux.doctor import Finding
from mptune.linux.preload import LIBRARY
from mptune.result import schema
from mptune.topology import load, shipped
from mptune.trial.congestion import PAIRS

#: Size of the trial's transfer, bytes, and its network.
_SIZE, _NETWORK = 1 << 20, "UNIS-HiN"
_PACKAGE = Path(agent.__file__).parents[1]
#: Processor for which the network of guests' kernels is compiled.
_GUESTS = "x86_64"


class _Broken(Exception):
    """Failure of a part."""


def examine() -> list[Finding]:
    """A finding for each part; "limited" is what a package may be built without."""
    parts: dict[str, Callable[[], str | Finding]] = {
        "core": _trial,
        "agent": _agent,
        "preload library": _preload,
        "BPF programs": _bpf,
        "network of guests": _guests,
        "scenarios": _scenarios,
        "result schema": _schema,
    }
    return [_finding(name, part) for name, part in parts.items()]


def _finding(name: str, part: Callable[[], str | Finding]) -> Finding:
    try:
        found = part()
    except (_Broken, MptuneError, OSError, ValueError, ImportError) as error:
        words = " ".join(str(error).split())
        return Finding(name=name, state="missing", found=words, remedy=agent.REMEDY, required=True)
    if isinstance(found, str):
        return Finding(name=name, state="ok", found=found, required=True)
    return found


def _trial() -> str:
    """The compiled core is this package's, and gives the same bytes twice for the same seed."""
    if _core.version() != __version__:
        raise _Broken(f"version {_core.version()} beside mptune {__version__}")
    import mptune

    first, second = (mptune.run(_NETWORK, transfer=f"{_SIZE}B").observation for _ in range(2))
    if first.failed is not None or first.in_order_bytes != _SIZE:
        problem = first.failed or f"{first.in_order_bytes} of {_SIZE} bytes arrived"
        raise _Broken(f"a trial over {_NETWORK}: {problem}")
    if msgspec.json.encode(first) != msgspec.json.encode(second):
        raise _Broken(f"a trial over {_NETWORK}: another result the second time")
    return f"{__version__}; 1 MiB over {_NETWORK} arrived, twice the same"


def _agent() -> str:
    """It starts, is of this package's version, and answers."""
    if (version := agent.version()) != __version__:
        raise _Broken(f"version {version} beside mptune {__version__}")
    policies = daemon.check_text("", "the agent's answer")["policies"]
    if [policy["name"] for policy in policies] != ["default"]:
        raise _Broken("it answers something else than it is asked")
    return f"mptune-agent {version}, which answers"


def _preload() -> str:
    if not (library := Path(LIBRARY)).is_file():
        raise _Broken(f"{library.name} is missing")
    return library.name


def _bpf() -> str | Finding:
    """All of them, or none: they are compiled together."""
    texts = (_PACKAGE / "guest/bpf/congestion").glob("*.h")
    expected = {path.stem for path in texts} - {"cubic", "reno"} | set(PAIRS)
    if not (built := set(bpf.programs())):
        return _without("BPF programs", "none: the package was built without clang")
    if lacking := sorted(expected - built):
        raise _Broken(f"{', '.join(lacking)} missing")
    return f"all {len(expected)}"


def _guests() -> str | Finding:
    name = "mptune-guest-network.o"
    if (_PACKAGE / "_bin" / name).is_file():
        return name
    if platform.machine() == _GUESTS:
        raise _Broken(f"{name} is missing")
    return _without("network of guests", f"none: there is one for {_GUESTS} alone")


def _scenarios() -> str:
    if not (names := shipped()):
        raise _Broken("none")
    for name in names:
        load(name)
    return f"all {len(names)}"


def _schema() -> str:
    """The shipped schema is the one that the structs give."""
    text = files.read_text(Path(schema.__file__).with_name("result.schema.json"))
    if text != schema.text():
        raise _Broken("result.schema.json is of another version")
    return str(schema.result_schema()["$id"])


def _without(name: str, found: str) -> Finding:
    return Finding(name=name, state="limited", found=found)
