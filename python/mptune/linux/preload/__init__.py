"""The library that is preloaded into programs (crate mptune-preload): its settings and its statistics.

`program` examines whether a program takes it, `statistics` reads its lines about connections. The environment
variables are described in `crates/mptune-preload/src/settings.rs`. It starts nothing.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import mptune
from mptune.errors import MptuneError
from mptune.linux.agent import REMEDY

#: `make setup` puts it there, also before a wheel is built.
LIBRARY = Path(mptune.__file__).parent / "_bin" / "libmptune_preload.so"

#: Larger buffers than this SO_SNDBUF does not take, bytes.
LARGEST: Final = 2**30

_PREFIX = "MPTUNE_EXEC_"
#: Variables that Go programs read themselves.
_GO = "multipathtcp"
#: The kernel's status of this process, with the number of its filters.
_STATUS = Path("/proc/self/status")


def environment(
    own: Mapping[str, str], protocol: str, kernel_cc: str | None, buffer_bytes: int | None
) -> dict[str, str]:
    """Variables for the library, for the loader that preloads it, and for children written in Go.

    Parameters
    ----------
    own : the environment of this program, of which they are changes.
    protocol : "mptcp", or "tcp" to leave sockets as they are.
    kernel_cc : the kernel's name of a congestion control; None leaves it to the system.
    buffer_bytes : SO_SNDBUF and SO_RCVBUF; None leaves them to autotuning.

    Raises
    ------
    MptuneError : the library is missing, or is where LD_PRELOAD cannot take it from.
    """
    if not LIBRARY.is_file():
        raise MptuneError(f"{LIBRARY} is missing: {REMEDY}")
    library = str(LIBRARY)
    if any(letter in ": \t\n" for letter in library):
        raise MptuneError(f"{library} has a blank or colon in it, which LD_PRELOAD cannot take: move mptune")
    others = [word for word in own.get("LD_PRELOAD", "").replace(":", " ").split() if word != library]
    variables = {
        "LD_PRELOAD": ":".join([library, *others]),
        f"{_PREFIX}PROTOCOL": protocol,
        f"{_PREFIX}CC": kernel_cc or "",
        f"{_PREFIX}BUFFER": "" if buffer_bytes is None else str(min(buffer_bytes, LARGEST)),
        f"{_PREFIX}STATS": "",
        f"{_PREFIX}FORCE": "",
        f"{_PREFIX}FILTERS": str(_filters()),
    }
    return variables | go(own, protocol, 1)


def collecting(file: Path) -> dict[str, str]:
    """The variable by which statistics go to a file (`mptune.linux.preload.statistics`)."""
    return {f"{_PREFIX}STATS": str(file)}


def forcing() -> dict[str, str]:
    """The variable by which buffers may exceed the kernel's limits, as those of trials do."""
    return {f"{_PREFIX}FORCE": "1"}


def go(own: Mapping[str, str], protocol: str, value: int) -> dict[str, str]:
    """The environment that makes Go programs use MPTCP, or not, unless the user has set it."""
    setting = own.get("GODEBUG", "")
    if protocol == "tcp" or f"{_GO}=" in setting:
        return {}
    return {"GODEBUG": f"{setting},{_GO}={value}".lstrip(",")}


def _filters() -> int:
    """Filters of system calls that this process has already, as in a container: programs know of them."""
    with suppress(OSError):
        lines = (line.split() for line in _STATUS.read_text().splitlines())
        status = {name: value for name, value, *_ in (words for words in lines if len(words) > 1)}
        # Linux counts them from 5.9 on.
        return int(status.get("Seccomp_filters:", status.get("Seccomp:", "0")))
    return 0
