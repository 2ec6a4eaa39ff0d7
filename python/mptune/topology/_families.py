"""Paths of a connection over both address families: a pair of interfaces has one in each family.

A file lists pairs of interfaces, and a connection over one family has a path for each of them. Over both, the
paths over IPv4 keep their labels and come first; labels of those over IPv6 end in `/6`. The two paths of a
pair cross the same links: the access links of its interfaces and its core segment.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from mptune.errors import InputError
from mptune.topology._flows import Background, TcpBackground
from mptune.topology._sites import Interface, Path, Site

#: An address family.
Family = Literal["ipv4", "ipv6"]
FAMILIES: tuple[Family, ...] = get_args(Family)
#: The word for a connection with paths of both.
BOTH: Final = "both"
#: End of the label of a path over IPv6 beside paths over IPv4; no abbreviation of an interface has a slash.
OVER_IPV6 = "/6"

#: Most paths the core supports.
MAX_PATHS = 64
_IN_WORDS = {"ipv4": "IPv4", "ipv6": "IPv6"}


class Pair(NamedTuple):
    """Two interfaces by their numbers; without a family that of the connection."""

    local_index: int
    remote_index: int
    local: Interface
    remote: Interface
    family: Family | None = None

    @property
    def label(self) -> str:
        """Label of its path."""
        return label(self.local, self.remote, self.family)


def label(local: Interface, remote: Interface, family: Family | None) -> str:
    """Label of a path; its family, if it has one of its own, is IPv6 where the label ends with that."""
    return f"{local.abbr}-{remote.abbr}{OVER_IPV6 if family == 'ipv6' else ''}"


def pairs(sender: Site, receiver: Site, *, both: bool) -> Iterator[Pair]:
    """All pairs of interfaces, local by local; over both families those over IPv4 first."""
    for family in FAMILIES if both else (None,):
        for i, local in enumerate(sender.interfaces):
            for j, remote in enumerate(receiver.interfaces):
                if family is None or (_has(local, family) and _has(remote, family)):
                    yield Pair(i, j, local, remote, family)


def _has(interface: Interface, family: Family) -> bool:
    """An interface has addresses of both families, unless the file gives one of the other family alone."""
    return interface.address(family) is not None or (interface.ipv4 is None and interface.ipv6 is None)


def is_dual(paths: Sequence[Path]) -> bool:
    """True for the paths of a connection over both families."""
    return any(path.family is not None for path in paths)


def dual(sender: Site, receiver: Site, paths: Sequence[Path], file: str) -> tuple[Path, ...]:
    """The paths over both families.

    Parameters
    ----------
    paths : of one family.
    file : named in errors.

    Raises
    ------
    InputError : no pair has a family, or there are more paths than the core supports.
    """
    of_pair = {(path.local_index, path.remote_index): path for path in paths}
    found = tuple(
        msgspec.structs.replace(
            _alone(path, pair.family), label=pair.label, family=pair.family, segment=path.crosses
        )
        for pair in pairs(sender, receiver, both=True)
        if (path := of_pair.get((pair.local_index, pair.remote_index))) is not None
    )
    for family in FAMILIES:
        if not any(path.family == family for path in found):
            expected = f"expected {_IN_WORDS[family]} addresses at both sites for both families, found none"
            raise InputError(file, family, expected)
    if len(found) > MAX_PATHS:
        expected = f"expected at most {MAX_PATHS} paths over both families, found {len(found)}"
        raise InputError(file, "sites", expected)
    return found


def differs(paths: Sequence[Path]) -> bool:
    """True if MPTCP over IPv6 fares otherwise than over IPv4 on some of these paths of one family."""
    return any(path.core.mptcp_ipv6 is not None for path in paths)


def over_ipv6(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The paths of a connection over IPv6 alone."""
    return tuple(_alone(path, "ipv6") for path in paths)


def _alone(path: Path, family: Family | None) -> Path:
    """A path as one family has it."""
    core = path.core
    if core.mptcp_ipv6 is None:
        return path
    mptcp = core.mptcp_ipv6 if family == "ipv6" else core.mptcp
    return msgspec.structs.replace(path, core=msgspec.structs.replace(core, mptcp=mptcp, mptcp_ipv6=None))


def relabelled(text: str, paths: Sequence[Path]) -> str:
    """Label of a path over both families that is called `text` over one: over IPv6 where it has no other."""
    labels = [path.label for path in paths]
    return text if text in labels else text + OVER_IPV6


def moved(flow: Background, paths: Sequence[Path]) -> Background:
    """A flow of others on a path over both families; links keep their names."""
    if isinstance(flow, TcpBackground):
        return msgspec.structs.replace(flow, path=relabelled(flow.path, paths))
    return flow
