"""Queues in front of the links that limit paths: bursts of growing length, until one of them overflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mptune.probe import estimates, orders
from mptune.probe.echoes import END_S
from mptune.probe.ends import ENDS, End, Flow
from mptune.probe.estimates import Queue, Train
from mptune.probe.links import Link, Links
from mptune.probe.preparation import Prepared
from mptune.probe.trains import Trains

#: Shares of data and time that are kept for the losses.
_FOR_LOSSES, _TIME_FOR_LOSSES = 0.3, 0.3

#: Queues by the end that sends and path.
Queues = Mapping[tuple[End, int], Queue]


def measure_queues(prepared: Prepared, trains: Trains, links: Links) -> Queues:
    """The queue of the link that limits each path, as far as it is known whose queue it is."""
    waiting = [
        _Bursts(prepared, trains, links, end, path, link)
        for end in ENDS
        for link, path in _limits(trains, links, end).items()
    ]
    left = (1 - _FOR_LOSSES) * prepared.wish.data_bytes - prepared.ends.bytes
    share, everything = left / max(1, len(waiting)), tuple(waiting)
    while waiting and prepared.left_s > END_S + _TIME_FOR_LOSSES * prepared.wish.time_s:
        waiting = [bursts for bursts in waiting if bursts.send_next(share)]
    return {
        (bursts.end, path): queue
        for bursts in everything
        if (queue := bursts.queue()) is not None
        for path in trains.udp
        if links.limit(bursts.end, path) == bursts.link
    }


def _limits(trains: Trains, links: Links, end: End) -> dict[Link, int]:
    """For each link that limits paths, the one of them whose first link is the fastest."""

    def first(path: int) -> float:
        near = links.near(end, path)
        return 0.0 if near is None else near.value

    found: dict[Link, int] = {}
    for path in sorted(trains.udp, key=lambda path: -first(path)):
        link = links.limit(end, path) if links.rate(end, path) is not None else None
        if link is not None:
            found.setdefault(link, path)
    return found


@dataclass
class _Bursts:
    """Bursts into the queue of one link, on one path that it limits."""

    prepared: Prepared
    trains: Trains
    links: Links
    end: End
    path: int
    link: Link

    def __post_init__(self) -> None:
        #: The first ones went straight into that queue, when the rates were measured.
        straight = (
            path
            for path in self.trains.udp
            if self.links.limit(self.end, path) == self.link and self._pace(path, 1.0) is None
        )
        self._fast = [train for path in straight for train in self.trains.bursts(self.end, path)]
        self._slow: list[Train] = []
        self._spent = 0

    def send_next(self, share: float) -> bool:
        """Send another burst within this share of the data, bytes; whether there was any to send.

        Larger ones as long as the queue never overflowed; then one that spares the queue before.
        """
        queue, left = self._seen(self._fast), share - self._spent
        if queue is None or queue.at_least:
            # Half of it is for a slower burst, where one has to follow.
            flow, kept = self._larger(left if self._spares else left - share / 2), self._fast
        elif self._slow or self._spares:
            return False
        else:
            flow, kept = self._slower(queue, left), self._slow
        if flow is None:
            return False
        self._spent += flow.packets * flow.bytes
        kept += self.trains.send(self.end, [flow])
        return True

    def queue(self) -> Queue | None:
        """The queue, as far as the bursts separate it from those before it."""
        fast, slow = self._seen(self._fast), self._seen(self._slow)
        return estimates.queue_behind(fast, slow, spared=self._spares)

    def _seen(self, bursts: Sequence[Train]) -> Queue | None:
        """Estimate of the queue from its bursts."""
        seen = [estimates.queue(train, self._rate_bps) for train in bursts]
        return estimates.joined_queue([queue for queue in seen if queue is not None])

    def _larger(self, left: float) -> Flow | None:
        """A burst of more bytes than before."""
        sent = max((train.bytes * train.packets for train in self._fast), default=0)
        pace = self._pace(self.path, self._rate_bps)
        return orders.burst(self.path, self._size, self._rate_bps, pace, sent, left)

    def _slower(self, queue: Queue, left: float) -> Flow | None:
        """A burst that spares the queue of the link before, when it is unknown how much faster that is."""
        near = self.links.near(self.end, self.path)
        assert near is not None
        return orders.slower_burst(self.path, self._size, self._rate_bps, near.value, queue.bytes, left)

    @property
    def _rate_bps(self) -> float:
        rate = self.links.rate(self.end, self.path)
        assert rate is not None  # a link limits it
        return rate.value

    @property
    def _size(self) -> int:
        return self.trains.sizes[self.end][self.path]

    def _pace(self, path: int, rate_bps: float) -> float | None:
        """Pace of bursts into the queue of the link that limits a path; None if that is the first one."""
        limit, near = self.links.limit(self.end, path), self.links.near(self.end, path)
        if limit is None or near is None or (limit[0] == "near" and not near.at_least):
            return None
        return orders.burst_pace(rate_bps, near.value, at_least=near.at_least)

    @property
    def _spares(self) -> bool:
        """True if the bursts into that queue leave those before it empty."""
        near, pace = self.links.near(self.end, self.path), self._pace(self.path, self._rate_bps)
        assert near is not None
        return pace is None or not near.at_least or orders.spares(pace, near.value)
