"""The course of a probe: two machines, their interfaces, and every path between them, within limits.

`orders` has what is sent, `estimates` and `verdicts` what follows from it; here is the sequence. Paths are
measured one after the other, because they share links; only losses and round-trip times, which take time and
hardly any data, are measured on all of them side by side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple, Protocol

from mptune.errors import TrialError
from mptune.linux.talker import Talker
from mptune.machines import SshMachine
from mptune.probe import estimates, interfaces, joins, orders
from mptune.probe.ends import ENDS, LEAST_BYTES, End, Ends, Flow, Path, Result, host_of
from mptune.probe.estimates import Estimate, LinkRates, Loss, Queue, Train
from mptune.probe.interfaces import Nic
from mptune.probe.result import InterfaceFound, PathFound, Probed, SiteFound, Way
from mptune.probe.verdicts import Tried, Verdict, verdict

_S = 1_000_000_000
_MS = 1_000_000
#: Round trips longer than this are not waited for, ns.
_LONGEST_RTT_NS = 1_500 * _MS
#: Patience with connections, ns: before the kernel gives up MPTCP on a path for all connections.
_CONNECT_NS, _DATA_NS, _TRANSFER_NS = 2_500 * _MS, 4 * _S, 8 * _S
#: Shares of the data budget.
_FOR_RATES, _FOR_TOGETHER, _FOR_TCP, _FOR_LOSSES = 0.3, 0.1, 0.1, 0.3
#: If trains disagree by more than this, more of them decide, and in the end a TCP transfer of some seconds.
_AGREE, _DISAGREE = 0.06, 0.2
_TRANSFER_S = 1.5
#: Enough echoes for a path: a loss of 0.1 % is known within a factor of 2.
_ENOUGH_ECHOES = 30_000
#: Share of the time kept for the losses, and seconds for the end.
_TIME_FOR_LOSSES, _END_S = 0.3, 6.0
#: Share of a packet that the headers of TCP leave.
_PAYLOAD = 1448 / 1500

_STAGES = ("machines", "paths", "MPTCP", "rates", "shared links", "TCP", "queues", "joins", "losses")

Advance = Callable[..., None]


class Machine(joins.Changing, Protocol):
    """What a probe needs of a machine (`mptune.machines.Machine` and others)."""

    name: str

    def look(self, names: Sequence[str] = (), pairs: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Facts."""
        ...


class Wish(NamedTuple):
    """What the user asked for.

    Attributes
    ----------
    data_bytes, time_s : limits.
    interfaces : by end, devices; none for all that qualify.
    family : 4, 6 or None.
    ssh : how the machines are reached, for the topology.
    """

    data_bytes: int = 20_000_000
    time_s: float = 60.0
    interfaces: Mapping[End, Sequence[str]] = {"sender": (), "receiver": ()}
    family: int | None = None
    ssh: Mapping[End, str | None] = {"sender": None, "receiver": None}
    port: int = 0


def probe(
    machines: Mapping[End, Machine],
    wish: Wish,
    *,
    advance: Advance | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Probed:
    """Find out what the paths between two machines are like.

    Parameters
    ----------
    advance : called with the number of stages done, how many there are, and the one that begins.
    interrupted : called regularly; True ends the probe.

    Raises
    ------
    InputError : an interface that the user asked for does not exist.
    TrialError : a machine refuses or is gone, or no path lets anything through.
    KeyboardInterrupt : it was interrupted.
    """
    with ExitStack() as stack:
        try:
            return _Course(machines, wish, stack, advance, interrupted).run()
        except KeyboardInterrupt:
            for machine in machines.values():
                if isinstance(machine, SshMachine):
                    machine.hurry()  # before anybody is waited for
            raise


class _Course:
    """One probe, and its state. Directions are named after the end that sends."""

    def __init__(
        self,
        machines: Mapping[End, Machine],
        wish: Wish,
        stack: ExitStack,
        advance: Advance | None,
        interrupted: Callable[[], bool],
    ) -> None:
        self._machines, self._wish, self._stack = machines, wish, stack
        self._advance, self._interrupted = advance, interrupted
        self._began = time.monotonic()
        self._notes: list[str] = []
        self._trains: dict[End, dict[int, list[Train]]] = {end: {} for end in ENDS}
        #: Trains sent as fast as possible, which show queues.
        self._bursts: dict[End, dict[int, list[Train]]] = {end: {} for end in ENDS}
        self._together: dict[End, tuple[dict[int, Estimate], dict[int, Estimate]]] = {
            end: ({}, {}) for end in ENDS
        }
        self._plain: dict[int, int] = {}
        self._no_mptcp: str | None = None
        self._tried: dict[int, tuple[Tried, Tried]] = {}

    def run(self) -> Probed:
        """All stages."""
        stages = (
            self._look, self._hello, self._connect, self._rates, self._shared, self._transfers,
            self._queues, self._joins, self._losses,
        )  # fmt: skip
        for number, (name, stage) in enumerate(zip(_STAGES, stages, strict=True)):
            if self._advance is not None:
                self._advance(number, len(stages), name)
            stage()
        if self._advance is not None:
            self._advance(len(stages), len(stages), "")
        return self._result()

    # Machines and paths.

    def _look(self) -> None:
        """Choose interfaces, start both agents, and see by which interfaces packets leave."""
        facts = {end: self._machines[end].look() for end in ENDS}
        wish = self._wish
        self._nics = {
            end: interfaces.choose(
                facts[end], wish.interfaces[end], wish.family, f"--{end}-interfaces", self._machines[end].name
            )
            for end in ENDS
        }
        for end in ENDS:
            option, host = f"--{end}-interfaces", self._machines[end].name
            if note := interfaces.left_out(facts[end], wish.interfaces[end], option, host):
                self._notes.append(note)
        self._paths = [
            Path(i, j, interfaces.endpoints(near, far, wish.family))
            for i, near in enumerate(self._nics["sender"])
            for j, far in enumerate(self._nics["receiver"])
        ]
        self._possible = [number for number, path in enumerate(self._paths) if path.addresses is not None]
        if not self._possible:
            raise TrialError(self._nothing_in_common(), "refused")
        self._pairs = [path.addresses for path in self._paths if path.addresses is not None]
        self._addresses = {
            end: list(dict.fromkeys(pair[number] for pair in self._pairs)) for number, end in enumerate(ENDS)
        }
        self._found = [
            PathFound(
                label=f"{self._nics['sender'][path.local].abbr}-{self._nics['receiver'][path.remote].abbr}",
                local=path.local,
                remote=path.remote,
            )
            for path in self._paths
        ]
        self._facts, self._leaving = facts, self._check_leaving()
        talkers: dict[End, Talker] = {
            end: self._stack.enter_context(self._machines[end].start("probe")) for end in ENDS
        }
        self._ends = Ends(talkers, self._addresses, port=self._wish.port, interrupted=self._interrupted)
        self._ends.join(self._paths)

    def _nothing_in_common(self, path: Path | None = None) -> str:
        """That two machines, or the interfaces of a path, have no family of addresses in common."""
        near, far = (self._nics[end] for end in ENDS)
        if path is None:
            names = [self._machines[end].name for end in ENDS]
            return interfaces.nothing_in_common(names[0], near, names[1], far)
        nic, other = near[path.local], far[path.remote]
        return interfaces.nothing_in_common(nic.device, [nic], other.device, [other])

    def _check_leaving(self) -> list[interfaces.Leaving]:
        found = []
        for number, end in enumerate(ENDS):
            pairs = [(pair[number], pair[1 - number]) for pair in self._pairs]
            facts = self._machines[end].look(pairs=pairs)
            found += interfaces.leaving(facts, self._nics[end], pairs, self._machines[end].name)
        return found

    def _family(self, path: int) -> int:
        """The family of a path's addresses, 4 or 6."""
        addresses = self._paths[path].addresses
        return 6 if addresses is not None and ":" in addresses[0] else 4

    def _least(self, path: int) -> int:
        """The smallest packet of a path."""
        return LEAST_BYTES[self._family(path)]

    def _ways(self, path: int) -> dict[End, Way]:
        return {"sender": self._found[path].up, "receiver": self._found[path].down}

    def _hello(self) -> None:
        """Which paths let datagrams through, their rough round-trip times, and how large packets may be."""
        self._udp: list[int] = []
        waiting = self._possible
        for _ in range(2):
            flows = [Flow(path, 5, self._least(path), 20 * _MS, 0, True, False) for path in waiting]
            sent, sources = self._ends.send("sender", flows, wait_ns=_LONGEST_RTT_NS, quiet_ns=100 * _MS)
            for result in sent:
                if result.sent.answered:
                    self._udp.append(result.flow.path)
                    self._note_source(result.flow.path, sources[result.flow.path])
                    self._note_rtt(result.flow.path, [result])
            waiting = [path for path in waiting if path not in self._udp]
        self._udp.sort()
        for path in self._udp:
            self._found[path].udp = True
        for end in ENDS:
            self._find_mtu(end)

    def _note_source(self, path: int, source: str | None) -> None:
        found, addresses = self._found[path], self._paths[path].addresses
        if source is not None and addresses is not None:
            found.source = host_of(source)
            found.translated = found.source != addresses[0]

    def _note_rtt(self, path: int, results: Sequence[Result]) -> None:
        samples, least = (
            [result.sent.rtt_ns for result in results],
            [result.sent.min_rtt_ns for result in results],
        )
        self._found[path].rtt = estimates.round_trip(samples, least) or self._found[path].rtt

    def _rtt_ns(self, path: int) -> int:
        rtt = self._found[path].rtt
        return _LONGEST_RTT_NS if rtt is None else rtt.median_ns

    @property
    def _longest_ns(self) -> int:
        """Round-trip time of the longest path."""
        return max((self._rtt_ns(path) for path in self._udp), default=0)

    @property
    def _apart_ns(self) -> int:
        """How much longer one path may take than another."""
        times = [self._rtt_ns(path) for path in self._udp]
        return max(times) - min(times) if times else 0

    def _nic(self, end: End, path: int) -> Nic:
        number = self._paths[path].local if end == "sender" else self._paths[path].remote
        return self._nics[end][number]

    def _find_mtu(self, end: End) -> None:
        """The largest packets that arrive whole, in one direction."""
        tried: dict[int, list[int]] = {path: [self._nic(end, path).mtu] for path in self._udp}
        arrived: dict[int, set[int]] = {path: {self._least(path)} for path in self._udp}
        missing: dict[int, set[int]] = {path: set() for path in self._udp}
        for step in range(3):
            flows = []
            for path, sizes in tried.items():
                for number, size in enumerate(min(size, 9000) for size in sizes):
                    flows.append(
                        Flow(path, 3 if step == 0 else 2, size, 10 * _MS, number * 25 * _MS, False, False)
                    )
            sent, _ = self._ends.send(end, flows, quiet_ns=self._longest_ns + 200 * _MS)
            for result in sent:
                known = arrived if result.arrived.received else missing
                known[result.flow.path].add(result.flow.bytes)
            tried = {}
            for path in self._udp:
                largest, above = estimates.mtu(sorted(arrived[path]), sorted(missing[path]))
                assert largest is not None
                if above is not None and above > largest + 1:
                    least = self._least(path)
                    lower = orders.ladder(above, least) if step == 0 else orders.between(largest, above)
                    tried[path] = lower
        for path in self._udp:
            way = self._ways(path)[end]
            way.mtu, way.mtu_next = estimates.mtu(sorted(arrived[path]), sorted(missing[path]))

    # MPTCP as the first path of a connection, and plain TCP beside it.

    def _connect(self) -> None:
        numbers = self._possible
        tried = {}
        for mptcp in (False, True):
            opened = self._ends.connect(numbers, mptcp=mptcp, limit_ns=_CONNECT_NS)
            alive = [each_connected.id for each_connected in opened if each_connected.failed is None]
            steps = [{"ping": 3}, {"upload": 4000}, {"download": 4000}, {"ping": 2}]
            asked = dict(zip(alive, self._ends.ask(alive, steps, limit_ns=_DATA_NS), strict=True))
            for path, connected in zip(numbers, opened, strict=True):
                answer = asked.get(connected.id)
                tried[path, mptcp] = Tried(
                    connected=connected.failed is None,
                    data=answer is not None and answer.failed is None,
                    at_handshake=connected.view.mptcp,
                    near=answer is not None and answer.view.mptcp,
                    far=answer is not None and answer.served is not None and answer.served.mptcp,
                    syn_ack=connected.syn_ack,
                    failed=connected.failed or (None if answer is None else answer.failed),
                )
                if not mptcp and answer is not None and answer.failed is None:
                    self._plain[path] = connected.id
                    self._note_tcp(path, answer.pings_ns, answer.source)
                else:
                    self._ends.end([connected.id])
        self._tried = {path: (tried[path, True], tried[path, False]) for path in numbers}
        self._no_mptcp = self._unsupported()
        if not self._udp and not self._plain:
            reasons = {f"{self._found[path].label}: {tried[path, False].failed}" for path in numbers}
            raise TrialError(self._nothing_gets_through(sorted(reasons)), "unreachable")

    def _nothing_gets_through(self, reasons: Sequence[str]) -> str:
        """That no path reaches the receiver, and what to do."""
        sender, receiver = (self._machines[end].name for end in ENDS)
        return (
            f"nothing gets through to {receiver} ({', '.join(self._addresses['receiver'])}): UDP is lost, "
            f"TCP {'; '.join(reasons)}. Behind a NAT it cannot be reached: probe the other way round, "
            f"mptune probe {receiver} {sender}, which measures both directions as well. "
            "Behind a firewall: let --port in, UDP and TCP"
        )

    def _note_tcp(self, path: int, pings_ns: Sequence[int], source: str | None) -> None:
        if not self._found[path].udp:
            self._note_source(path, source)
            self._found[path].rtt = estimates.round_trip([pings_ns], [min(pings_ns)])

    def _unsupported(self) -> str | None:
        for end in ENDS:
            if (reason := self._facts[end].get("mptcp")) is not None:
                return f"{self._machines[end].name}: {reason}"
        return self._ends.plain_because

    # Rates.

    def _rates(self) -> None:
        """Trains of growing length, one path and one direction after the other."""
        self._sizes = {
            end: {path: min(self._ways(path)[end].mtu or 1280, 1500) for path in self._udp} for end in ENDS
        }
        for end in ENDS:
            budget = _FOR_RATES * self._wish.data_bytes / max(1, 2 * len(self._udp))
            self._run_trains(end, orders.rough(self._udp, self._sizes[end], self._apart_ns), burst=True)
            self._run_trains(end, self._trains_for(end, 1, 0.2 * budget, paced=False), burst=True)
            self._run_trains(end, self._trains_for(end, 4, 0.8 * budget, paced=True), burst=False)
            for path in self._udp:
                found = self._rate(end, path)
                if found is not None and estimates.disagree(self._trains[end][path]) > _AGREE:
                    again = orders.trains(
                        {path: found.value}, self._sizes[end], 4, 0.8 * budget, 0, paced=True
                    )
                    self._run_trains(end, again, burst=False)
                if found is not None and found.at_least:
                    # The path kept up with the trains: the first estimate was too low.
                    flows = orders.trains(
                        {path: 4 * found.value}, self._sizes[end], 2, 0.4 * budget, 0, paced=False
                    )
                    self._run_trains(end, flows, burst=True)

    def _trains_for(self, end: End, count: int, budget: float, *, paced: bool) -> list[Flow]:
        rates = {path: found.value for path in self._udp if (found := self._rate(end, path)) is not None}
        return orders.trains(rates, self._sizes[end], count, budget, self._apart_ns, paced=paced)

    def _rate(self, end: End, path: int) -> Estimate | None:
        return estimates.rate(self._trains[end].get(path, []))

    def _run_trains(self, end: End, flows: Sequence[Flow], *, burst: bool) -> list[Train]:
        """Send trains, and remember what arrived."""
        quiet_ns = self._longest_ns + 400 * _MS
        results, _ = self._ends.send(end, flows, quiet_ns=quiet_ns)
        for result in results:
            self._trains[end].setdefault(result.flow.path, []).append(result.train)
            if burst:
                self._bursts[end].setdefault(result.flow.path, []).append(result.train)
        return [result.train for result in results]

    def _shared(self) -> None:
        """What paths of one interface carry together, which tells its link apart from those behind it."""
        groups = [
            (end, near, members)
            for end in ENDS
            for near in (True, False)
            for members in self._groups(end, near=near)
        ]
        for end, near, members in groups:
            rates = {path: found.value for path in members if (found := self._rate(end, path)) is not None}
            if len(rates) > 1:
                budget = _FOR_TOGETHER * self._wish.data_bytes / len(groups)
                carried = self._carry(end, rates, budget, near=near)
                if carried is not None:
                    own = self._number(end, members[0], near=near)
                    self._together[end][0 if near else 1][own] = carried
        for end in ENDS:
            self._find_links(end)

    def _number(self, end: End, path: int, *, near: bool) -> int:
        """Number of the interface of a path where it is sent, or where it arrives."""
        local = (end == "sender") == near
        return self._paths[path].local if local else self._paths[path].remote

    def _groups(self, end: End, *, near: bool) -> list[list[int]]:
        """Paths of the same interface."""
        found: dict[int, list[int]] = {}
        for path in self._udp:
            found.setdefault(self._number(end, path, near=near), []).append(path)
        return [members for members in found.values() if len(members) > 1]

    def _carry(self, end: End, rates: Mapping[int, float], budget: float, *, near: bool) -> Estimate | None:
        """Rate of several paths together, from a few attempts; None if no attempt shows it."""
        # If they leave by one link they begin together; if they arrive by one they arrive together.
        farthest = max(self._rtt_ns(path) for path in rates)
        starts = {path: 0 if near else (farthest - self._rtt_ns(path)) // 2 for path in rates}
        flows = orders.together(rates, self._sizes[end], starts, budget, self._apart_ns)
        results, _ = self._ends.send(end, flows, quiet_ns=self._longest_ns + 400 * _MS)
        trains = [result.train for result in results]
        count = len(rates)
        found = [
            estimates.joint_rate(trains[first : first + count], leaving=near)
            for first in range(0, len(trains), count)
        ]
        known = [rate for rate in found if rate is not None]
        if not known:
            return None
        return Estimate(value=median(known), low=min(known), high=max(known), samples=len(known))

    def _find_links(self, end: End) -> None:
        near = len(self._nics[end])
        far = len(self._nics["receiver" if end == "sender" else "sender"])
        rates = {
            (self._number(end, path, near=True), self._number(end, path, near=False)): found
            for path in range(len(self._paths))
            if (found := self._ways(path)[end].rate or self._rate(end, path)) is not None
        }
        if not hasattr(self, "_links"):
            self._links: dict[End, LinkRates] = {}
        self._links[end] = estimates.link_rates(rates, *self._together[end], near, far)
        for path in range(len(self._paths)):
            way = self._ways(path)[end]
            if way.rate is None and path in self._udp:
                way.rate = self._rate(end, path)
                way.how = f"{way.rate.samples} trains" if way.rate is not None else "no train arrived"

    def _transfers(self) -> None:
        """Where there are no trains, or they disagree, a TCP transfer decides."""
        doubtful = [
            (end, path)
            for path in self._plain
            for end in ENDS
            if self._ways(path)[end].rate is None or self._doubtful(end, path)
        ]
        for end, path in doubtful:
            if path in self._plain:
                # Without trains, their share of the data is left for transfers.
                share = _FOR_TCP if self._udp else _FOR_RATES + _FOR_TCP
                self._transfer(end, path, share * self._wish.data_bytes / len(doubtful))
        for end in ENDS:
            self._find_links(end)

    def _doubtful(self, end: End, path: int) -> bool:
        trains = self._trains[end].get(path, [])[2:]
        return estimates.disagree(trains) > _DISAGREE or estimates.sustained(trains) is not None

    def _transfer(self, end: End, path: int, budget: float) -> None:
        """One transfer, in one direction."""
        way = self._ways(path)[end]
        before = way.rate
        size = round(budget if before is None else min(budget, before.value * _TRANSFER_S / 8))
        word = "upload" if end == "sender" else "download"
        (asked,) = self._ends.ask([self._plain[path]], [{word: size}], limit_ns=_TRANSFER_NS)
        if asked.failed is not None:
            del self._plain[path]
            return
        view = asked.served if end == "sender" else asked.view
        found = None if view is None else estimates.transfer_rate(view.arrived, _PAYLOAD)
        if before is None:
            if found is not None:
                way.rate = Estimate(value=found, low=found, high=found, samples=1, at_least=True)
                way.how = "a TCP transfer"
            return
        trains = estimates.sustained(self._trains[end][path][2:]) or before.value
        value = estimates.decided(trains, found)
        way.rate = Estimate(
            value=value, low=min(before.low, value), high=max(before.high, value), samples=before.samples
        )
        way.how = f"{before.samples} trains that disagree, and a TCP transfer"

    # Queues.

    def _queues(self) -> None:
        """Bursts of growing length in front of each link that limits a path."""
        left = (1 - _FOR_LOSSES) * self._wish.data_bytes - self._ends.bytes
        waiting = {(end, link): path for end in ENDS for link, path in self._limits(end).items()}
        share = left / max(1, len(waiting))
        ends = dict(waiting)
        bursts = {(end, link): self._bursts_before(end, link) for end, link in waiting}
        slower: dict[tuple[End, tuple[str, int, int]], list[Train]] = {}
        spent = dict.fromkeys(waiting, 0)
        while waiting and self._left_s > _END_S + _TIME_FOR_LOSSES * self._wish.time_s:
            for key, path in list(waiting.items()):
                end, left = key[0], share - spent[key]
                queue = self._queue(end, path, bursts[key])
                spares = self._spares(end, path)
                if queue is None or queue.at_least:
                    # Half of it is for a slower burst, where one has to follow.
                    room = left if spares else left - share / 2
                    flow, kept = self._next_burst(end, path, bursts[key], room), bursts[key]
                elif key in slower or spares:
                    flow, kept = None, []
                else:
                    kept = slower[key] = []
                    flow = self._slower_burst(end, path, queue, left)
                if flow is None:
                    del waiting[key]
                    continue
                spent[key] += flow.packets * flow.bytes
                kept += self._run_trains(end, [flow], burst=False)
        for (end, link), path in ends.items():
            queue = estimates.queue_behind(
                self._queue(end, path, bursts[end, link]),
                self._queue(end, path, slower.get((end, link), ())),
                spared=self._spares(end, path),
            )
            for other in self._udp:
                if queue is not None and self._limit(end, other) == link:
                    self._ways(other)[end].queue = queue

    def _queue(self, end: End, path: int, bursts: Sequence[Train]) -> Queue | None:
        """What bursts say of a queue."""
        rate = self._ways(path)[end].rate
        assert rate is not None
        seen = [estimates.queue(train, rate.value) for train in bursts]
        return estimates.joined_queue([queue for queue in seen if queue is not None])

    def _next_burst(self, end: End, path: int, bursts: Sequence[Train], left: float) -> Flow | None:
        """A larger burst for a queue that never overflowed."""
        rate = self._ways(path)[end].rate
        assert rate is not None
        sent = max((train.bytes * train.packets for train in bursts), default=0)
        pace = self._pace(end, path, rate.value)
        return orders.burst(path, self._sizes[end][path], rate.value, pace, sent, left)

    def _slower_burst(self, end: End, path: int, queue: Queue, left: float) -> Flow | None:
        """A burst that spares the queue of the link before, when it is unknown how much faster that is."""
        rate, near = self._ways(path)[end].rate, self._links[end].near[self._number(end, path, near=True)]
        assert rate is not None and near is not None
        size = self._sizes[end][path]
        return orders.slower_burst(path, size, rate.value, near.value, queue.bytes, left)

    def _pace(self, end: End, path: int, rate: float) -> float | None:
        """Pace of bursts into the queue of the link that limits a path; None if that is the first one."""
        limit, near = self._limit(end, path), self._links[end].near[self._number(end, path, near=True)]
        if limit is None or near is None or (limit[0] == "near" and not near.at_least):
            return None
        return orders.burst_pace(rate, near.value, at_least=near.at_least)

    def _spares(self, end: End, path: int) -> bool:
        """Whether the bursts into that queue leave those before it empty."""
        rate, near = self._ways(path)[end].rate, self._links[end].near[self._number(end, path, near=True)]
        assert rate is not None and near is not None
        pace = self._pace(end, path, rate.value)
        return pace is None or not near.at_least or orders.spares(pace, near.value)

    def _bursts_before(self, end: End, link: tuple[str, int, int]) -> list[Train]:
        """Bursts that went straight into the queue of a link."""
        paths = [
            path
            for path in self._udp
            if self._limit(end, path) == link and self._pace(end, path, 1.0) is None
        ]
        return [train for path in paths for train in self._bursts[end].get(path, [])]

    def _limit(self, end: End, path: int) -> tuple[str, int, int] | None:
        """The link that limits a path: at the sending end, at the arriving end, or between them."""
        i, j = self._number(end, path, near=True), self._number(end, path, near=False)
        links = self._links[end]
        near, far = links.near[i], links.far[j]
        if (i, j) in links.core:
            return "core", i, j
        if near is None or far is None:
            return None
        rate = self._ways(path)[end].rate
        which = estimates.limit(near, far, near.value if rate is None else rate.value)
        return None if which is None else (which, i if which == "near" else j, 0)

    def _limits(self, end: End) -> dict[tuple[str, int, int], int]:
        """For each link that limits paths, the one of them whose first link is the fastest."""
        found: dict[tuple[str, int, int], int] = {}
        for path in sorted(self._udp, key=lambda path: -self._first_rate(end, path)):
            link = self._limit(end, path) if self._ways(path)[end].rate is not None else None
            if link is not None:
                found.setdefault(link, path)
        return found

    def _first_rate(self, end: End, path: int) -> float:
        near = self._links[end].near[self._number(end, path, near=True)]
        return 0.0 if near is None else near.value

    # MPTCP as joined subflows, losses and round trips.

    def _joins(self) -> None:
        """Try to join on each path, if there are several and both machines allow it."""
        whole = [path for path, (mptcp, _) in self._tried.items() if mptcp.near and mptcp.far]
        joined: dict[int, bool] = {}
        reason = self._no_joins(whole)
        if reason is None:
            try:
                # The first two of each family: of the others it is known what becomes of MPTCP there.
                firsts = [path for members in self._by_family(whole) for path in members[:2]]
                for first in firsts:
                    alike = {path for path in whole if self._family(path) == self._family(first)}
                    if others := alike - {first} - set(joined):
                        joined |= joins.try_joins(self._machines, self._ends, self._paths, first, others)
            except TrialError as error:
                reason = str(error)
        if reason is not None:
            self._notes.append(f"joins were not tried: {reason}")
        elif len(self._by_family(whole)) > 1:
            self._notes.append(
                "joins were not tried between IPv4 and IPv6: a trial's connection has one family"
            )
        for path, (mptcp, plain) in self._tried.items():
            self._found[path].mptcp = verdict(mptcp, plain, joined.get(path), self._no_mptcp)
        for number, route in enumerate(self._paths):
            if route.addresses is None:
                because = self._nothing_in_common(route)
                self._found[number].mptcp = Verdict(kind="unreachable", because=because)

    def _by_family(self, paths: Sequence[int]) -> list[list[int]]:
        found = ([path for path in paths if self._family(path) == family] for family in (4, 6))
        return [members for members in found if members]

    def _no_joins(self, whole: Sequence[int]) -> str | None:
        if self._no_mptcp is not None:
            return self._no_mptcp
        if not whole:
            return "no connection stays MPTCP"
        if len(self._possible) == 1:
            return "there is only one path"
        if len(whole) == 1:
            return "connections stay MPTCP on one path alone"
        if all(len(members) == 1 for members in self._by_family(whole)):
            return "one path has IPv4 and one IPv6, and a trial's connection has one family"
        for end in ENDS:
            if not self._facts[end].get("net_admin"):
                return f"{self._machines[end].name}: needs root (or sudo without a password)"
            if (missing := self._facts[end].get("path_manager")) is not None:
                return f"{self._machines[end].name}: {missing}"
        return None

    def _losses(self) -> None:
        """Echoes on all paths side by side, as long as there is time and data."""
        if not self._udp:
            return
        sizes = {path: self._least(path) for path in self._udp}
        left = self._wish.data_bytes - self._ends.bytes
        shared = max(len(self._nics["sender"]), len(self._nics["receiver"]))
        seconds = max(2.0, self._left_s - _END_S - 3 * self._longest_ns / 1e9)
        flows = []
        for number, path in enumerate(self._udp):
            rates = [way.rate.value for way in self._ways(path).values() if way.rate is not None]
            interval_ns = orders.echo_interval_ns(rates, shared, sizes[path])
            most = min(_ENOUGH_ECHOES, seconds * 1e9 / interval_ns, left / (2 * sizes[path] * len(self._udp)))
            start_ns = number * interval_ns // len(self._udp)
            flows.append(Flow(path, max(50, int(most)), sizes[path], interval_ns, start_ns, True, False))
        wait_ns = 2 * self._longest_ns + 500 * _MS
        results, _ = self._ends.send("sender", flows, wait_ns=wait_ns, quiet_ns=300 * _MS)
        for result in results:
            path, arrived = result.flow.path, result.arrived
            answers = arrived.received + arrived.duplicates
            self._found[path].up.loss = Loss(sent=result.sent.sent, lost=result.sent.sent - arrived.received)
            self._found[path].down.loss = Loss(sent=answers, lost=max(0, answers - result.sent.answered))
            self._note_rtt(path, [result])

    @property
    def _left_s(self) -> float:
        return self._began + self._wish.time_s - time.monotonic()

    # The result.

    def _result(self) -> Probed:
        for path, found in enumerate(self._found):
            self._conclude(path, found)
        return Probed(
            when=datetime.now(UTC).date().isoformat(),
            sender=self._site("sender"),
            receiver=self._site("receiver"),
            paths=self._found,
            leaving=self._leaving,
            notes=self._notes,
            seconds=time.monotonic() - self._began,
            bytes=self._ends.bytes,
        )

    def _conclude(self, path: int, found: PathFound) -> None:
        """What the findings about its links mean for a path."""
        out, back = self._links["sender"], self._links["receiver"]
        links = [
            *(
                estimate.value
                for estimate in (out.near[found.local], out.far[found.remote])
                if estimate is not None
            ),
            *(
                estimate.value
                for estimate in (back.near[found.remote], back.far[found.local])
                if estimate is not None
            ),
        ]
        cores = [out.core.get((found.local, found.remote)), back.core.get((found.remote, found.local))]
        found.core_bps = min((core for core in cores if core is not None), default=None)
        if found.rtt is not None:
            size = self._least(path) if found.udp else 0
            found.base_rtt_ns = estimates.propagation_ns(found.rtt.min_ns, size, [*links, *cores])
            waits = [way.queue.delay_ns for way in (found.up, found.down) if way.queue is not None]
            found.loaded_rtt_ns = found.rtt.min_ns + max(waits, default=0)

    def _site(self, end: End) -> SiteFound:
        machine, facts = self._machines[end], self._facts[end]
        other: End = "receiver" if end == "sender" else "sender"
        up, down = self._links[end].near, self._links[other].far
        queues: dict[tuple[str, int], Queue] = {}
        for path in range(len(self._paths)):
            for way_end, kind, key in ((end, "near", "up"), (other, "far", "down")):
                queue, limit = self._ways(path)[way_end].queue, self._limit(way_end, path)
                if queue is not None and limit is not None and limit[0] == kind:
                    queues[key, limit[1]] = queue
        return SiteFound(
            name=machine.name,
            ssh=self._wish.ssh[end],
            kernel=str(facts.get("kernel", "")),
            interfaces=[
                InterfaceFound(
                    nic=nic,
                    up=up[number],
                    down=down[number],
                    queue_up=queues.get(("up", number)),
                    queue_down=queues.get(("down", number)),
                )
                for number, nic in enumerate(self._nics[end])
            ],
        )
