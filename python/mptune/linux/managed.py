"""One connection of the kernel under a policy of the core: reports in, orders out.

It opens no socket and reads no clock: what the kernel said and when is told to it, what the kernel is to do
it returns (`mptune.linux.kernel_path_manager` does both). It keeps the policies' view of the world, as
crates/mptune-core/src/mptcp does in the simulator:

- A subflow is lost after `LOST_AFTER_TIMEOUTS` consecutive timeouts, or when it is closed, and restored by
  the first progress after that. One that nothing is sent on cannot be found lost.
- A withdrawn path carries no data, whatever the policy says: its subflows are standby, and if no active
  one is left, all other standby ones become active. (The kernel knows no subflow that is silent even as the
  last resort: with every path withdrawn it sends on any of them, the simulator on none.)
"""

import errno
import os
from collections.abc import Mapping

import msgspec

from mptune.linux.assignment import Assignment, Connect, Event, Policy, SubflowView
from mptune.linux.managed_subflow import Outage, PriorityChange, Subflow
from mptune.linux.mptcp_messages import Endpoint, Pair, SubflowEvent
from mptune.linux.path_lookup import addresses_of, find_path
from mptune.linux.sock_diag import Statistics

#: As in the simulator (`LOST_AFTER_TIMEOUTS` in crates/mptune-core/src/mptcp).
LOST_AFTER_TIMEOUTS = 3

#: A subflow that ends so soon after its handshake without an error was not wanted, nanoseconds.
_AT_ONCE_NS = 1_000_000_000

#: So long a successor's first data are waited for with attention, nanoseconds.
_AWAITED_NS = 5_000_000_000

#: So long a change of priority may be refused before it is called a problem, nanoseconds. The kernel tells of
#: a subflow before it enters it in the connection's list, and refuses to change it until then.
_REFUSED_NS = 1_000_000_000


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """Open subflow number `subflow`."""

    subflow: int
    local: Endpoint
    remote: Endpoint
    address_id: int
    backup: bool


class SetPriority(msgspec.Struct, frozen=True, kw_only=True):
    """Make subflow number `subflow` standby or active."""

    subflow: int
    pair: Pair
    backup: bool


Order = Create | SetPriority


class ManagedConnection:
    """A connection that this side opened.

    Parameters
    ----------
    pair : ends of its first subflow, which runs on path number `path`.
    withdrawn : numbers of the paths that carry no data; the caller changes it and calls `on_withdrawal`.

    Attributes
    ----------
    subflows : in the order of creation, as the policy numbers them.
    family : AF_INET or AF_INET6.
    created_ns, closed_ns : when the kernel told of it.
    changes, outages, problems : what happened, for the record.
    """

    def __init__(
        self, assignment: Assignment, pair: Pair, path: int, withdrawn: set[int], now_ns: int
    ) -> None:
        self._paths = assignment.paths
        self._policy = Policy(assignment)
        self._withdrawn = withdrawn
        self._remote_port = pair.remote.port
        self._initial_local = assignment.paths[path].local
        self._established = False
        self.family = pair.local.family
        self.created_ns = now_ns
        self.closed_ns: int | None = None
        self._notify_at: int | None = None
        first = Subflow(path, backup=False)
        first.establish(pair, now_ns)
        self.subflows = [first]
        self.changes: list[PriorityChange] = []
        self.outages: list[Outage] = []
        self.problems: list[str] = []
        self._creates: list[Create] = []
        self._open_outages: dict[int, Outage] = {}
        self._awaited: dict[int, Outage] = {}

    # What happened

    def on_established(self, seen: Mapping[Pair, Statistics], now_ns: int) -> list[Order]:
        """The connection is fully established; nothing is ordered before."""
        self._established = True
        self._look(seen, now_ns)
        self._tell("established")
        return self._orders()

    def on_closed(self, now_ns: int) -> None:
        """The connection is gone."""
        self.closed_ns = now_ns

    def on_subflow(self, event: SubflowEvent, seen: Mapping[Pair, Statistics], now_ns: int) -> list[Order]:
        """The kernel reports a subflow established or closed."""
        self._look(seen, now_ns)
        if event.kind == "sub_established":
            self._on_join(event.pair, seen, now_ns)
        elif event.kind == "sub_closed":
            self._on_end(event, now_ns)
        return self._orders()

    def on_statistics(self, seen: Mapping[Pair, Statistics], now_ns: int) -> list[Order]:
        """It was time to look at the subflows."""
        self._look(seen, now_ns)
        for number, subflow in enumerate(self.subflows):
            if subflow.state != "established" or subflow.last is None:
                continue
            if not subflow.lost and subflow.last.timeouts >= LOST_AFTER_TIMEOUTS:
                self._lose(number, now_ns)
            elif subflow.lost and subflow.last.timeouts == 0:
                self._restore(number, now_ns)
        return self._orders()

    def on_bytes_sent(self, sent: int) -> list[Order]:
        """So many payload bytes of the connection were sent."""
        if self._notify_at is not None and sent >= self._notify_at:
            self._notify_at = None
            self._tell({"bytes_sent": sent})
        return self._orders()

    def on_withdrawal(self) -> list[Order]:
        """The set of withdrawn paths changed."""
        return self._orders()

    def on_done(self, order: Order, now_ns: int) -> None:
        """The kernel carried out an order."""
        if isinstance(order, SetPriority):
            subflow = self.subflows[order.subflow]
            subflow.kernel_backup, subflow.refused_ns = order.backup, None
            change = PriorityChange(at_ns=now_ns, path=self.label(subflow), backup=order.backup)
            self.changes.append(change)

    def on_refused(self, order: Order, reason: str, now_ns: int) -> None:
        """The kernel refused an order; a change of priority is ordered anew at the next look."""
        subflow = self.subflows[order.subflow]
        if isinstance(order, Create):
            subflow.state = "refused"
            self._problem(subflow, reason)
        elif subflow.refused_ns is None:
            subflow.refused_ns = now_ns
        elif now_ns - subflow.refused_ns > _REFUSED_NS and not subflow.refusal_told:
            subflow.refusal_told = True
            self._problem(subflow, reason)

    def troubled(self, now_ns: int) -> bool:
        """Whether something is going wrong or about to be put right: to be looked at more often."""
        timed_out = any(one.alive and one.last is not None and one.last.timeouts > 0 for one in self.subflows)
        refused = any(one.refused_ns is not None and not one.refusal_told for one in self.subflows)
        awaited = any(now_ns - one.detected_ns < _AWAITED_NS for one in self._awaited.values())
        return timed_out or refused or awaited

    # What it means

    def _on_join(self, pair: Pair, seen: Mapping[Pair, Statistics], now_ns: int) -> None:
        """A subflow was established: one that was ordered, or one that the peer opened on a known path."""
        path = find_path(self._paths, pair)
        if path is None or any(subflow.pair == pair for subflow in self.subflows):
            return
        number = self._joining(path)
        if number is None:
            number = len(self.subflows)
            self.subflows.append(Subflow(path, backup=False))
        self.subflows[number].establish(pair, now_ns)
        if pair in seen:
            self.subflows[number].note(seen[pair], now_ns)
        self._tell({"subflow_established": number})

    def _on_end(self, event: SubflowEvent, now_ns: int) -> None:
        """A subflow was closed, or its join failed."""
        for number, subflow in enumerate(self.subflows):
            if subflow.state == "established" and subflow.pair == event.pair:
                if event.error == 0 and now_ns - subflow.established_ns < _AT_ONCE_NS:
                    self._problem(subflow, "closed by the receiver, whose path manager accepts no more")
                subflow.state = "closed"
                if not subflow.lost:
                    self._lose(number, now_ns)
                return
        path = find_path(self._paths, event.pair)
        failed = None if path is None else self._joining(path)
        if failed is not None:
            self.subflows[failed].state = "refused"
            self._problem(self.subflows[failed], _why(event))

    def _joining(self, path: int) -> int | None:
        """The first subflow on a path whose join is under way."""
        for number, subflow in enumerate(self.subflows):
            if subflow.state == "joining" and subflow.path == path:
                return number
        return None

    def _lose(self, number: int, now_ns: int) -> None:
        subflow = self.subflows[number]
        subflow.lost = True
        standby = [number for number, other in enumerate(self.subflows) if other.backup]
        self._tell({"subflow_lost": number})
        successors = [number for number in standby if not self.subflows[number].backup]
        outage = Outage(
            path=self.label(subflow),
            last_heard_ns=subflow.heard_ns,
            detected_ns=now_ns,
            successors=tuple(self.label(self.subflows[number]) for number in successors),
        )
        self.outages.append(outage)
        self._open_outages[number] = outage
        self._awaited.update((successor, outage) for successor in successors)
        self._see_successors()

    def _restore(self, number: int, now_ns: int) -> None:
        self.subflows[number].lost = False
        self._open_outages.pop(number).restored_ns = now_ns
        self._tell({"subflow_restored": number})

    def _look(self, seen: Mapping[Pair, Statistics], now_ns: int) -> None:
        """Bring the subflows up to date."""
        for subflow in self.subflows:
            statistics = None if subflow.pair is None else seen.get(subflow.pair)
            if statistics is not None:
                subflow.note(statistics, now_ns)
        self._see_successors()

    def _see_successors(self) -> None:
        """Note which of those that are awaited carry data by now."""
        for number, outage in list(self._awaited.items()):
            carrying_ns = self.subflows[number].carrying_ns
            if carrying_ns is not None and outage.carrying_ns is None:
                outage.carrying_ns = max(carrying_ns, outage.last_heard_ns)
                outage.take_over_ns = outage.carrying_ns - outage.last_heard_ns
            if outage.carrying_ns is not None or not self.subflows[number].alive:
                del self._awaited[number]

    # What is to be done

    def _tell(self, event: Event) -> None:
        """Tell the policy, and note what it wants."""
        for command in self._policy.on_event(event, self._views()):
            if command.connect is not None:
                self._connect(command.connect)
            elif command.set_backup is not None:
                self.subflows[command.set_backup.subflow].backup = command.set_backup.backup
            else:
                self._notify_at = command.notify_at_bytes

    def _views(self) -> list[SubflowView]:
        return [
            SubflowView(
                path=subflow.path,
                alive=subflow.alive,
                backup=subflow.backup,
                min_rtt=subflow.last.min_rtt_ns if subflow.last else 0,
            )
            for subflow in self.subflows
        ]

    def _connect(self, wanted: Connect) -> None:
        path = self._paths[wanted.path]
        number = len(self.subflows)
        subflow = Subflow(wanted.path, wanted.backup)
        self.subflows.append(subflow)
        addresses = addresses_of(path, self.family)
        if addresses is None:
            subflow.state = "refused"
            self._problem(subflow, "it has no address of the connection's family")
            return
        create = Create(
            subflow=number,
            local=Endpoint(addresses[0]),
            remote=Endpoint(addresses[1], self._remote_port),
            # RFC 8684 section 3.2: 0 is the local address of the first subflow.
            address_id=0 if path.local == self._initial_local else path.local + 1,
            backup=wanted.backup,
        )
        self._creates.append(create)

    def _orders(self) -> list[Order]:
        """Subflows to open, then priorities that the kernel has otherwise: active first, lest data stop."""
        if not self._established:
            return []
        creates, self._creates = self._creates, []
        changes = []
        for number, standby in enumerate(self._standby()):
            subflow = self.subflows[number]
            if subflow.state != "established" or subflow.pair is None:
                continue
            if standby != subflow.kernel_backup:
                changes.append(SetPriority(subflow=number, pair=subflow.pair, backup=standby))
        return [*creates, *sorted(changes, key=lambda change: change.backup)]

    def _standby(self) -> list[bool]:
        """For each subflow, whether it is to be standby in the kernel."""
        withdrawn = [subflow.path in self._withdrawn for subflow in self.subflows]
        ends = list(zip(self.subflows, withdrawn, strict=True))
        if any(withdrawn) and not any(one.alive and not one.backup and not out for one, out in ends):
            return withdrawn
        return [one.backup or out for one, out in ends]

    def label(self, subflow: Subflow) -> str:
        """Label of a subflow's path."""
        return self._paths[subflow.path].label

    def _problem(self, subflow: Subflow, reason: str) -> None:
        self.problems.append(f"{self.label(subflow)}: {reason}")


def _why(event: SubflowEvent) -> str:
    """Why a join failed."""
    if event.error == errno.ECONNREFUSED:
        return f"nobody listens at {event.pair.remote.address}: the receiver must listen on all its addresses"
    return os.strerror(event.error) if event.error else "the receiver refused to join it"
