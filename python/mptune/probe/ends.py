"""Both ends of a probe: orders for the agent's role `probe` on two machines, and what it reports.

It passes on orders and samples; what to send, and what follows from the samples, is decided elsewhere.
"""

from __future__ import annotations

import itertools
import secrets
import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from mptune.errors import TrialError
from mptune.linux.talker import Message, Talker
from mptune.probe.estimates import Train

End = Literal["sender", "receiver"]
ENDS: tuple[End, End] = ("sender", "receiver")

#: Ending of a route: at the other end; in routers that send packets to each other; behind a last router that
#: answered; without any router that answered; not traced for a reason that it has.
State = Literal["reached", "loop", "unfinished", "silent", "failed"]

#: Seconds an end may take to begin, or to answer in addition to the time that an order takes.
STEP_S = 20.0
#: Longest wait without checking for an interruption, seconds.
_TICK_S = 0.2
#: Messages of an end that nobody has read.
_UNREAD = 10_000
#: Most hops of a route, and datagrams for a hop that does not answer.
_HOPS, _ATTEMPTS = 30, 2
#: Smallest packet, with the headers of IPv4 or IPv6.
LEAST_BYTES = {4: 60, 6: 80}


class Flow(NamedTuple):
    """Packets of one size on one path; see the agent's `FlowSpec`."""

    path: int
    packets: int
    bytes: int
    interval_ns: int = 0
    start_ns: int = 0
    answer: bool = False
    timed: bool = True


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a flow at its sender (the agent's `Sent`)."""

    sent: int
    refused: int
    because: str | None
    span_ns: int
    answered: int
    min_rtt_ns: int | None
    rtt_ns: list[int]


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """Arrivals of a flow (the agent's `Arrived`)."""

    received: int
    duplicates: int
    seq: list[int]
    sent: list[int]
    arrived: list[int]


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """Router on a route, or its end.

    Attributes
    ----------
    address : None if it did not answer.
    rtt_ns : time until its answer.
    """

    address: str | None
    rtt_ns: int | None


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Route of one direction of a path (the agent's `Traced`).

    Attributes
    ----------
    hops : from the first router on; the last is the other end, if it was reached.
    failed : why it could not be traced.
    """

    hops: list[Hop]
    reached: bool
    failed: str | None = None

    @property
    def state(self) -> State:
        """Its last state."""
        if self.reached:
            return "reached"
        if all(hop.address is None for hop in self.hops):
            return "silent" if self.failed is None else "failed"
        return "unfinished" if self.turn is None else "loop"

    @property
    def turn(self) -> int | None:
        """Index of the first hop at a router that was left before; None without one.

        The same router twice in a row is none: some let a packet pass whose hop limit has run out.
        """
        addresses = [hop.address for hop in self.hops]
        for number, address in enumerate(addresses):
            before, last = addresses[: max(0, number - 1)], addresses[number - 1] if number else None
            if address is not None and address != last and address in before:
                return number
        return None

    @property
    def routers(self) -> list[Hop]:
        """The hops without the other end."""
        return self.hops[:-1] if self.reached else self.hops


class Result(NamedTuple):
    """A flow at both ends."""

    flow: Flow
    sent: Sent
    arrived: Arrived

    @property
    def train(self) -> Train:
        """The flow as a train."""
        return Train(
            bytes=self.flow.bytes,
            packets=self.sent.sent,
            seq=tuple(self.arrived.seq),
            sent=tuple(self.arrived.sent),
            arrived=tuple(self.arrived.arrived),
        )


class Subflow(msgspec.Struct, frozen=True, kw_only=True):
    """A subflow as one end sees it."""

    local: str
    remote: str
    received: int
    retransmitted: int
    min_rtt_ns: int


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A connection as one end sees it (the agent's `View`)."""

    mptcp: bool
    subflows: list[Subflow] = []
    arrived: list[tuple[int, int]] = []


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """A connection that was tried."""

    id: int
    failed: str | None
    took_ns: int
    syn_ack: str | None
    view: View


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Course of a connection; `served` is the receiver's view, None if it never reported."""

    failed: str | None
    pings_ns: list[int]
    view: View
    served: View | None
    source: str | None


class Path(NamedTuple):
    """The numbers of the interfaces of a path, and its addresses; none without a family that both have."""

    local: int
    remote: int
    addresses: tuple[str, str] | None


class Ends:
    """The agents at both ends, and a count of what they sent.

    Parameters
    ----------
    talkers : the role `probe` at each end; the caller ends them.
    addresses : of each end, each once.
    both_families : connections may have subflows of both address families.
    port : at the receiver, 0 for any free one.
    interrupted : called regularly; True ends the probe.

    Attributes
    ----------
    bytes : sent so far by both ends, headers included.
    plain_because : why the receiver cannot do MPTCP; None if it can.
    """

    def __init__(
        self,
        talkers: Mapping[End, Talker],
        addresses: Mapping[End, Sequence[str]],
        *,
        both_families: bool = False,
        port: int = 0,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._talkers, self._addresses, self._interrupted = talkers, addresses, interrupted
        self._heard: dict[End, list[Message]] = {end: [] for end in ENDS}
        self._numbers = itertools.count(1)
        self._ready: dict[End, Message] = {}
        self.bytes = 0
        token = secrets.token_hex(16)
        for end in ENDS:
            listens = end == "receiver"
            config = {"token": token, "addresses": list(addresses[end]), "both_families": both_families}
            talkers[end].tell({**config, "listens": listens, "port": port if listens else 0})
        for end in ENDS:
            self._ready[end] = self._expect(end, "ready", None, STEP_S)
        self.plain_because: str | None = self._ready["receiver"]["plain_because"]

    def join(self, paths: Sequence[Path]) -> None:
        """Number the paths; the receiver learns where their other ends are when it hears from them."""
        ports, (ours, theirs) = self._ready["receiver"]["ports"], (self._addresses[end] for end in ENDS)
        ends: list[dict[str, object]] = []
        learned: list[dict[str, object]] = []
        for path in paths:
            if path.addresses is None:  # its number is not used
                ends.append({"local": 0, "peer": None})
                learned.append({"local": 0, "peer": None})
                continue
            local, remote = path.addresses
            there = theirs.index(remote)
            ends.append({"local": ours.index(local), "peer": _joined(remote, ports[there])})
            learned.append({"local": there, "peer": None})
        self._talkers["sender"].tell({"action": "paths", "paths": ends})
        self._talkers["receiver"].tell({"action": "paths", "paths": learned})

    @property
    def port(self) -> int:
        """Port at which the receiver accepts connections, at all its addresses."""
        return int(self._ready["receiver"]["tcp"])

    def send(
        self, end: End, flows: Sequence[Flow], *, wait_ns: int = 0, quiet_ns: int
    ) -> tuple[list[Result], list[str | None]]:
        """Let an end send, and collect what arrived at the other.

        Parameters
        ----------
        wait_ns : how long answers may take.
        quiet_ns : after a silence of this length, what is missing is lost.

        Returns
        -------
        tuple
            The flows, and for each path where its packets came from.
        """
        if not flows:
            return [], []
        other: End = "receiver" if end == "sender" else "sender"
        number = next(self._numbers)
        lasts_ns = max(flow.start_ns + flow.packets * flow.interval_ns for flow in flows)
        limit_s = STEP_S + (lasts_ns + wait_ns + quiet_ns) / 1e9
        told = [flow._asdict() for flow in flows]
        self._talkers[end].tell({"action": "send", "id": number, "wait_ns": wait_ns, "flows": told})
        sent = self._expect(end, "sent", number, limit_s)
        packets = [flow["sent"] for flow in sent["flows"]]
        self._talkers[other].tell(
            {"action": "collect", "id": number, "packets": packets, "quiet_ns": quiet_ns}
        )
        collected = self._expect(other, "collected", number, limit_s)
        results = [
            Result(flow, msgspec.convert(one, Sent), msgspec.convert(two, Arrived))
            for flow, one, two in zip(flows, sent["flows"], collected["flows"], strict=True)
        ]
        self.bytes += sum(result.flow.bytes * result.sent.sent for result in results)
        # An answer is a header without padding.
        self.bytes += sum(60 * result.arrived.received for result in results if result.flow.answer)
        return results, collected["sources"]

    def connect(self, paths: Sequence[int], *, mptcp: bool, limit_ns: int) -> list[Connected]:
        """Open a connection on each path, all at the same time."""
        numbers = [next(self._numbers) for _ in paths]
        for number, path in zip(numbers, paths, strict=True):
            order = {"action": "connect", "id": number, "path": path, "port": self.port}
            self._talkers["sender"].tell({**order, "mptcp": mptcp, "limit_ns": limit_ns})
        limit_s = STEP_S + limit_ns / 1e9
        found = [self._expect("sender", "connected", number, limit_s) for number in numbers]
        return [msgspec.convert(row, Connected) for row in found]

    def ask(
        self, connections: Sequence[int], steps: Sequence[Mapping[str, int]], *, limit_ns: int
    ) -> list[Asked]:
        """Do something on connections, on all at the same time."""
        for number in connections:
            order = {"action": "ask", "id": number, "steps": list(steps), "limit_ns": limit_ns}
            self._talkers["sender"].tell(order)
        limit_s = STEP_S + limit_ns / 1e9
        asked = [self._expect("sender", "asked", number, limit_s) for number in connections]
        moved = sum(step.get("upload", 0) + step.get("download", 0) for step in steps)
        self.bytes += moved * len(connections)
        return [self._asked(number, one) for number, one in zip(connections, asked, strict=True)]

    def _asked(self, number: int, report: Message) -> Asked:
        # The receiver reports before the sender knows; from another machine that may still arrive later.
        served = None
        if report["failed"] is None:
            served = self._expect("receiver", "served", number, STEP_S)
        return Asked(
            failed=report["failed"],
            pings_ns=report["pings_ns"],
            view=msgspec.convert(report["view"], View),
            served=None if served is None else msgspec.convert(served["view"], View),
            source=None if served is None else served["from"],
        )

    def trace(self, end: End, paths: Sequence[int], *, wait_ns: int) -> dict[int, Route]:
        """Routes of paths from one end to the other, all at the same time.

        Parameters
        ----------
        wait_ns : time in which a router must answer.
        """
        numbers = {path: next(self._numbers) for path in paths}
        for path, number in numbers.items():
            order = {"action": "trace", "id": number, "path": path, "hops": _HOPS}
            self._talkers[end].tell({**order, "attempts": _ATTEMPTS, "wait_ns": wait_ns})
        limit_s = STEP_S + (_HOPS + 1) * _ATTEMPTS * wait_ns / 1e9
        routes = {}
        for path, number in numbers.items():
            traced = self._expect(end, "traced", number, limit_s)
            self.bytes += LEAST_BYTES[4] * len(traced["hops"])
            routes[path] = msgspec.convert(traced, Route)
        return routes

    def end(self, connections: Sequence[int]) -> None:
        """End connections."""
        for number in connections:
            self._talkers["sender"].tell({"action": "end", "id": number})

    def pause(self, seconds: float) -> None:
        """Let some time pass.

        Raises
        ------
        KeyboardInterrupt : the probe is to end.
        TrialError : an end refuses or ends.
        """
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._listen(min(left, _TICK_S))

    def _expect(self, end: End, event: str, number: int | None, within_s: float) -> Message:
        """The next message of this kind from an end, whatever else comes before it.

        Raises
        ------
        KeyboardInterrupt : the probe is to end.
        TrialError : it refuses, ends or is silent.
        """
        until = time.monotonic() + within_s
        while True:
            for message in self._heard[end]:
                if message["event"] == event and message.get("id") == number:
                    self._heard[end].remove(message)
                    return message
            if time.monotonic() > until:
                raise TrialError(f"{self._talkers[end].name}: no {event!r} within {within_s:g} s")
            self._listen(_TICK_S)

    def _listen(self, seconds: float) -> None:
        if self._interrupted():
            raise KeyboardInterrupt
        select.select(list(self._talkers.values()), [], [], seconds)
        for end, talker in self._talkers.items():
            self._heard[end] += talker.take()
            if len(self._heard[end]) > _UNREAD:
                raise TrialError(f"{talker.name}: more than {_UNREAD} messages unasked", "refused")
            for message in self._heard[end]:
                if message["event"] == "error":
                    raise TrialError(f"{talker.name}: {message['reason']}", "refused")
            if talker.ended:
                raise TrialError(talker.death(), talker.kind)


def _joined(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def host_of(address: str) -> str:
    """The address without the port."""
    return address.rpartition(":")[0].strip("[]")
