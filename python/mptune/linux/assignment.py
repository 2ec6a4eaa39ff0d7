"""The task of a path manager on the kernel, in the format of the agent's role `paths`.

The policies themselves are in Rust, the same code as in the simulator; this translates labels of paths to
numbers and back. It does not use the kernel.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from mptune import _core, path_managers
from mptune.errors import InputError, one_of
from mptune.linux.addresses import Named, Side, pairs
from mptune.topology import FAMILIES, Topology

#: `Assignment.transfer_bytes` of a saturated sender: the largest number that the core accepts.
SATURATED = 2**64 - 1


class KernelPath(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A path with its addresses.

    Attributes
    ----------
    label : as in the topology.
    local, remote : numbers of its interfaces at the two sites.
    pairs : its local and remote address, as the sender sees them, for each address family.
    metered : data over it are paid for.
    """

    label: str
    local: int
    remote: int
    pairs: tuple[tuple[str, str], ...]
    metered: bool = False


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, its options and its paths.

    Attributes
    ----------
    pm : name of the policy, from the core's list.
    paths : all paths, in the order of the topology.
    transfer_bytes : payload bytes of the connection; `SATURATED`; or None if unknown, and the classes of pcdc
        follow the bytes actually sent.
    pm_options : as in a `Trial`.
    lsrr_honoured : binder may use its gateways.
    cc : congestion control of the connection as a trial names it, for forecasts; None for the host's.
    """

    pm: str
    paths: tuple[KernelPath, ...]
    transfer_bytes: int | None = None
    pm_options: dict[str, Any] = {}
    lsrr_honoured: bool = False
    cc: str | None = None

    def number(self, label: str, key: str) -> int:
        """Number of the path with a label.

        Raises
        ------
        InputError : there is no such path; `key` is where the label was written.
        """
        for number, path in enumerate(self.paths):
            if path.label == label:
                return number
        raise InputError("path manager", key, one_of((path.label for path in self.paths), label))


class Start(NamedTuple):
    """Beginning of a connection under an assignment.

    Attributes
    ----------
    initial_path : label of the path for the first subflow, if the user named none.
    thresholds : numbers of sent bytes that are to be reported to the policy.
    """

    initial_path: str
    thresholds: list[int]


def start(assignment: Assignment, default: str) -> Start:
    """Beginning of a connection if the topology's initial path is `default`.

    Raises
    ------
    InputError : no such policy or path, or an option that the policy does not have.
    """
    ends = [
        {"local": path.local, "remote": path.remote, "metered": path.metered} for path in assignment.paths
    ]
    number = assignment.number(default, "initial path")
    options, paths = msgspec.json.encode(_numbered(assignment)), msgspec.json.encode(ends)
    try:
        initial, thresholds = _core.path_manager_start(
            assignment.pm, options, paths, assignment.transfer_bytes, number
        )
    except _core.SpecError as error:
        raise InputError("path manager", *error.args) from None
    return Start(assignment.paths[initial].label, thresholds)


def document(assignment: Assignment) -> dict[str, Any]:
    """The assignment as the agent's role `paths` reads it: paths by number.

    Raises
    ------
    InputError : an option names an unknown path.
    """
    plain: dict[str, Any] = msgspec.to_builtins(assignment)
    return {**plain, "pm_options": _numbered(assignment)}


def seen_from(side: Side, assignment: Assignment) -> Assignment:
    """The assignment for a path manager on that site: its addresses come first in every pair.

    The numbers of interfaces stay those of the two sites, by which policies know the paths.
    """
    if side == "local":
        return assignment
    paths = (
        msgspec.structs.replace(path, pairs=tuple((ours, theirs) for theirs, ours in path.pairs))
        for path in assignment.paths
    )
    return msgspec.structs.replace(assignment, paths=tuple(paths))


def _numbered(assignment: Assignment) -> dict[str, Any]:
    return path_managers.numbered(assignment.pm, assignment.pm_options, assignment.number)


def kernel_paths(
    topology: Topology, named: Named, families: Sequence[str] = FAMILIES
) -> tuple[KernelPath, ...]:
    """The paths of a topology with the addresses that its interfaces have.

    Parameters
    ----------
    families : of paths that have none of their own.
    """
    return tuple(
        KernelPath(
            label=path.label,
            local=path.local_index,
            remote=path.remote_index,
            pairs=pairs(
                named["local"][path.local_index],
                named["remote"][path.remote_index],
                families if path.family is None else (path.family,),
            ),
            metered=path.metered,
        )
        for path in topology.paths
    )


def labels(paths: Iterable[KernelPath]) -> dict[tuple[str, str], str]:
    """Label of the path by its pair of local and remote address."""
    return {pair: path.label for path in paths for pair in path.pairs}
