"""MPTCP on paths: the paths that subflows can use, and the network that is left of that.

Middleboxes remove the options of MPTCP on some paths (`mptune probe` finds out). Plain TCP passes there all
the same. Whoever makes a trial does not have to think of it: `Trial` has the network that is left.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mptune._text import quoted
from mptune.errors import InputError
from mptune.topology._sites import Carries, Path, Provenance

#: Fate of MPTCP on a path, by the word in the file: `first` is that connections may begin there and no
#: subflow joins them, `none` that they are plain TCP.
FULL: Carries = "full"
FIRST: Carries = "first"
NONE: Carries = "none"
WORDS: dict[str, Carries] = {word: word for word in (FULL, FIRST, NONE)}

#: Provenance of each value, by its key.
_Origins = Mapping[str, Provenance]


def begins(paths: Sequence[Path], wanted: str = "") -> Path:
    """Default path on which connections begin: the first that carries MPTCP.

    Parameters
    ----------
    wanted : label of the path that comes before all others.
    """
    ordered = sorted(paths, key=lambda path: path.label != wanted)
    return next((path for path in ordered if path.core.mptcp != NONE), ordered[0])


def all_carry(paths: Sequence[Path]) -> bool:
    """True if nothing is known that keeps MPTCP from a path."""
    return all(path.core.mptcp in (None, FULL) for path in paths)


def carrying(paths: Sequence[Path], first: Path, origins: _Origins) -> tuple[Path, ...]:
    """The paths that carry subflows of a connection that begins on the first.

    Their values for MPTCP are removed, so that the rest stays as it is.

    Raises
    ------
    InputError : MPTCP does not pass on the path where it begins.
    """
    if first.core.mptcp == NONE:
        others = ", ".join(path.label for path in paths if path.core.mptcp != NONE) or "none"
        expected = f"expected a path that carries MPTCP ({others}), found {quoted(first.label)}"
        raise InputError("initial path", "", f"{expected}: {_how(first, origins)}")
    kept = (path for path in paths if path is first or path.core.mptcp in (None, FULL))
    return tuple(
        msgspec.structs.replace(path, core=msgspec.structs.replace(path.core, mptcp=None)) for path in kept
    )


def ruled_out(paths: Sequence[Path], origins: _Origins) -> Iterator[str]:
    """A sentence about every path that does not carry all subflows of MPTCP."""
    for path in paths:
        if path.core.mptcp == NONE:
            yield f"{path.label} carries no MPTCP, and is left to plain TCP: {_how(path, origins)}."
        elif path.core.mptcp == FIRST:
            yield f"On {path.label} no subflow joins; connections may begin there: {_how(path, origins)}."


def _how(path: Path, origins: _Origins) -> str:
    """Origin of that knowledge, which over IPv6 may have a key of its own."""
    key = f"core.segments.{path.crosses}.mptcp"
    of_path = [origins.get(name) for name in (key, f"{key}_ipv6")]
    fitting = [one for one in of_path if one is not None and one.value == path.core.mptcp]
    origin = fitting[-1 if path.family == "ipv6" else 0] if fitting else None
    told = None if origin is None else origin.measured or origin.assumed or origin.source
    return (told or "the topology file").rstrip(".")
