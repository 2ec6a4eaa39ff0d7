"""Subflows that join on a path and carry data: a connection of several paths, used one at a time.

The path manager of both machines is the agent's role `paths`, which opens a subflow on every path and puts
all but one on standby: data that passes has used that one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

from mptune.errors import TrialError
from mptune.linux import assignment
from mptune.linux.assignment import SATURATED, Assignment, KernelPath
from mptune.linux.talker import Talker
from mptune.probe.ends import ENDS, STEP_S, Asked, End, Ends, Path, host_of

#: Bytes in each direction on each path at a time, and those that prove a subflow.
_BYTES, _PROOF = 20_000, 1_000
#: Pauses before data, seconds: the other end learns of a standby only a while later.
_PAUSES_S = (0.1, 0.3, 0.6)
#: Longest time for a subflow to join, and for data to pass, seconds.
_JOIN_S, _DATA_NS = 4.0, 6_000_000_000
_LOOK_S = 0.1

_USERSPACE = ({"net.mptcp.path_manager": "userspace"}, {"net.mptcp.pm_type": "1"})


class Changing(Protocol):
    """Machine on which joins are tried."""

    def start(self, role: str, name: str | None = None) -> Talker:
        """Start the agent in a role."""
        ...

    def set(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Change settings of the network."""
        ...

    def restore(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Put them back."""
        ...


def try_joins(
    machines: Mapping[End, Changing],
    ends: Ends,
    paths: Sequence[Path],
    first: int,
    others: Collection[int],
) -> dict[int, bool]:
    """Other paths that carry data as joined subflows of a connection that begins on path `first`.

    Raises
    ------
    TrialError : a machine refuses.
    """
    kernel_paths = {
        number: KernelPath(
            label=str(number),
            local=path.local,
            remote=path.remote,
            pairs=(path.addresses,),
        )
        for number, path in enumerate(paths)
        if path.addresses is not None and (number == first or number in others)
    }
    task = Assignment(pm="fullmesh", paths=tuple(kernel_paths.values()), transfer_bytes=SATURATED)
    with _managed(machines, task, ends.port) as manager:
        (connection,) = ends.connect([first], mptcp=True, limit_ns=round(_JOIN_S * 1e9))
        if connection.failed is not None:
            return {}
        try:
            return _use(ends, manager, connection.id, kernel_paths, first)
        finally:
            ends.end([connection.id])


@contextmanager
def _managed(machines: Mapping[End, Changing], task: Assignment, port: int) -> Iterator[Talker]:
    """Path managers at both ends of connections to a port; gives the sender's."""
    with ExitStack() as stack:
        for machine in machines.values():
            _choose(machine, stack)
        sender, receiver = (stack.enter_context(machines[end].start("paths", "path manager")) for end in ENDS)
        sender.tell({"side": "sender", "assignment": assignment.document(task), "ports": [port]})
        receiver.tell({"side": "receiver", "ports": [port]})
        for talker in (sender, receiver):
            talker.expect("ready", STEP_S)
        yield sender


def _choose(machine: Changing, stack: ExitStack) -> None:
    """Inside the block, new connections of a machine get the userspace path manager."""
    for settings in _USERSPACE:  # its name since Linux 6.15, and the one before
        try:
            machine.set(settings)
        except TrialError:
            if settings is _USERSPACE[-1]:
                raise
            continue
        stack.callback(machine.restore, list(settings))
        return


def _use(
    ends: Ends, manager: Talker, connection: int, paths: Mapping[int, KernelPath], first: int
) -> dict[int, bool]:
    """Use one path after the other."""
    others = [number for number in paths if number != first]
    _wait_for_joins(ends, connection, len(paths))
    carried: dict[int, bool] = {}
    for used in others:
        for number, path in paths.items():
            manager.tell({"action": "readmit" if number == used else "withdraw", "path": path.label})
        found = _moves(ends, connection, *paths[used].pairs[0])
        if found is None:
            break
        carried[used] = found
    return {number: carried.get(number, False) for number in others}


def _moves(ends: Ends, connection: int, local: str, remote: str) -> bool | None:
    """True if data passes between two addresses, both ways; None if the connection has become useless."""
    before = _ask(ends, connection, [{"ping": 1}])
    for pause in _PAUSES_S:
        if before is None:
            return None
        ends.pause(pause)
        after = _ask(ends, connection, [{"upload": _BYTES}, {"download": _BYTES}])
        if after is None:
            return None
        if _carried(before, after, local, remote):
            return True
    return False


def _wait_for_joins(ends: Ends, connection: int, wanted: int) -> None:
    """Wait until there is a subflow on every path, but not forever."""
    for _ in range(round(_JOIN_S / _LOOK_S)):
        asked = _ask(ends, connection, [{"ping": 1}])
        if asked is None or len(asked.view.subflows) >= wanted:
            return
        ends.pause(_LOOK_S)


def _ask(ends: Ends, connection: int, steps: Sequence[Mapping[str, int]]) -> Asked | None:
    (asked,) = ends.ask([connection], steps, limit_ns=_DATA_NS)
    return None if asked.failed is not None or not asked.view.mptcp else asked


def _carried(before: Asked, after: Asked, local: str, remote: str) -> bool:
    """True if data passed on the subflow between two addresses, both ways."""

    def bytes_of(asked: Asked) -> tuple[int, int]:
        near = [
            subflow
            for subflow in asked.view.subflows
            if (host_of(subflow.local), host_of(subflow.remote)) == (local, remote)
        ]
        ports = {each_subflow.local.rpartition(":")[2] for each_subflow in near}
        served = asked.served.subflows if asked.served is not None else []
        # Behind an address translation the receiver sees another address, usually with the same port.
        far = [
            each_subflow
            for each_subflow in served
            if host_of(each_subflow.local) == remote
            and (host_of(each_subflow.remote) == local or each_subflow.remote.rpartition(":")[2] in ports)
        ]
        return sum(subflow.received for subflow in near), sum(subflow.received for subflow in far)

    (near, far), (near_then, far_then) = bytes_of(after), bytes_of(before)
    return near - near_then >= _PROOF and far - far_then >= _PROOF
