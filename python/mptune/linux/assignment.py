"""What a path manager on the kernel is to do, and the core's policy that decides it.

The policies themselves are Rust, the same code as in the simulator (`mptune._core.PathManager`); this
translates labels of paths to numbers and back. It knows no kernel.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from mptune import _core
from mptune.errors import InputError
from mptune.linux import addresses
from mptune.topology import Topology

#: `Assignment.transfer_bytes` of a sender that always has more: the largest number the core takes.
SATURATED = 2**64 - 1


class KernelPath(msgspec.Struct, frozen=True, kw_only=True):
    """A path as both namespaces know it.

    Attributes
    ----------
    label : as in the topology.
    local, remote : numbers of its interfaces at the two sites.
    pairs : its local and remote address, once for every address family.
    """

    label: str
    local: int
    remote: int
    pairs: tuple[tuple[str, str], ...]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, its options, and the paths it is for; the options mean what those of a `Trial` mean.

    Attributes
    ----------
    pm : name of the policy, from the core's list.
    paths : all paths, in the order of the topology.
    transfer_bytes : payload bytes the connection will have; `SATURATED`; or None when nobody knows, and
        the classes of pcdc follow the bytes really sent.
    lsrr_honoured : binder may use its gateways.
    """

    pm: str
    paths: tuple[KernelPath, ...]
    transfer_bytes: int | None = None
    active: tuple[str, ...] | None = None
    standby_order: tuple[str, ...] = ()
    class_bytes: tuple[int, int] = (512 * 1024, 1024 * 1024)
    ndiffports: int = 2
    lsrr_honoured: bool = False

    def number(self, label: str, key: str) -> int:
        """Number of the path with a label.

        Raises
        ------
        InputError : there is none; `key` is where the label stood.
        """
        for number, path in enumerate(self.paths):
            if path.label == label:
                return number
        known = ", ".join(path.label for path in self.paths)
        raise InputError("path manager", key, f"one of {known} expected, found {label!r}")


class SubflowView(msgspec.Struct, frozen=True):
    """A subflow as the policies see it; `min_rtt` in nanoseconds, 0 when it is not known."""

    path: int
    alive: bool
    backup: bool
    min_rtt: int


class Connect(msgspec.Struct, frozen=True):
    """Open a subflow on a path."""

    path: int
    backup: bool


class SetBackup(msgspec.Struct, frozen=True):
    """Make a subflow standby or active."""

    subflow: int
    backup: bool


class Command(msgspec.Struct, frozen=True):
    """What a policy wants done: exactly one of these."""

    connect: Connect | None = None
    set_backup: SetBackup | None = None
    notify_at_bytes: int | None = None


#: What happened: "established", or what happened with the number of the subflow or of bytes.
Event = (
    Literal["established"]
    | dict[Literal["subflow_established", "subflow_lost", "subflow_restored", "bytes_sent"], int]
)


class _View(msgspec.Struct, frozen=True):
    paths: Sequence[dict[str, int]]
    lsrr_honoured: bool
    subflows: Sequence[SubflowView]
    transfer_bytes: int | None


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(list[Command])


class Policy:
    """One policy with its state: for one connection.

    Raises
    ------
    InputError : no such policy, or an option it cannot have.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._ends = [{"local": path.local, "remote": path.remote} for path in assignment.paths]
        active = assignment.active
        options = {
            "active": None if active is None else [assignment.number(label, "active") for label in active],
            "standby_order": [
                assignment.number(label, "standby order") for label in assignment.standby_order
            ],
            "class_bytes": assignment.class_bytes,
            "ndiffports": assignment.ndiffports,
        }
        try:
            self._core = _core.PathManager(assignment.pm, _ENCODER.encode(options))
        except _core.SpecError as error:
            raise InputError("path manager", *error.args) from None

    def initial_path(self, default: str) -> str:
        """Label of the path for the first subflow, when the user named none and the topology `default`."""
        number = self._assignment.number(default, "initial path")
        return self._assignment.paths[self._core.initial_path(_ENCODER.encode(self._ends), number)].label

    def on_event(self, event: Event, subflows: Sequence[SubflowView]) -> list[Command]:
        """What is to be done, in this order, after something happened to these subflows."""
        view = _View(self._ends, self._assignment.lsrr_honoured, subflows, self._assignment.transfer_bytes)
        return _DECODER.decode(self._core.on_event(_ENCODER.encode(event), _ENCODER.encode(view)))


def kernel_paths(topology: Topology) -> tuple[KernelPath, ...]:
    """The paths of a topology with the addresses they have in the namespaces."""
    named = addresses.interfaces(topology)
    paths = []
    for path in topology.paths:
        local, remote = named["local"][path.local_index], named["remote"][path.remote_index]
        paths.append(
            KernelPath(
                label=path.label,
                local=path.local_index,
                remote=path.remote_index,
                pairs=((local.ipv4, remote.ipv4), (local.ipv6, remote.ipv6)),
            )
        )
    return tuple(paths)
