"""Messages at fixed times, as calls and games send them; judged by the delay of each."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from mptune import units
from mptune.trial.kept import Record, sent_of
from mptune.trial.metrics import PERCENTILES, Metric
from mptune.trial.workloads._base import (
    InPieces,
    Written,
    check_sizes,
    size_text,
    time_text,
)
from mptune.trial.workloads._criteria import Times

#: Most messages of a trial (`crates/mptune-core/src/workload/messages.rs`).
_MOST = 1_000_000


def series_of(sent: Mapping[str, Any], arrived: int, *, many: bool) -> int:
    """Number of messages that follow each other in a list of so many delays.

    In it the messages of another connection, or of the other direction, follow those of the one before.
    """
    if many or sent.get("both_ways"):
        return int(-(-sent["duration_ns"] // sent["interval_ns"]))
    return arrived


def _longest_gap(kept: Record) -> float | None:
    """The longest time without a message arriving, ms; from the first on."""
    sent = sent_of(kept.settings)
    if not sent or len(kept.delays_ms) < 2:
        return None
    interval_ms = sent["interval_ns"] / 1e6
    count = series_of(sent, len(kept.delays_ms), many=bool(kept.parts))
    gaps = [
        after - before
        for first in range(0, len(kept.delays_ms), count)
        for before, after in itertools.pairwise(
            number * interval_ms + delay for number, delay in enumerate(kept.delays_ms[first : first + count])
        )
    ]
    return float(max(gaps))


GAP = Metric(name="longest gap", word="gap", unit="ms", more_is_better=False, read=_longest_gap, floor=1.0)


class Messages(InPieces, frozen=True, kw_only=True, tag="messages"):
    """A message at fixed times, as calls and games send them; the program sets TCP_NODELAY.

    The first is due when the connection is established, the next one interval later and so on, whatever
    became of those before. The delay of a message counts from when it was due, also if it found no room in
    the send buffer then, until its last byte arrived in order.

    Attributes
    ----------
    bytes : payload of a message.
    interval_ns : from one to the next.
    both_ways : the receiver of the data sends the same to the sender; judged are all together.
    """

    judged_by: ClassVar[Times] = Times(
        of="delay",
        many="messages",
        from_to="From when a message was due to its last byte in order.",
        waiting="a message that waits for a retransmission lets those behind it wait too.",
        heading="Delay of messages",
        across="due_s",
        along="message due (s)",
        shown=("p99", "p50", "p99.9"),
        in_tables=("p50", "p99"),
        own=(GAP,),
        standstill=GAP,
        listed="delays_ms",
    )

    bytes: int
    interval_ns: int
    both_ways: bool = False

    @property
    def count(self) -> int:
        """Number of messages in a direction."""
        return -(-self.duration_ns // self.interval_ns)

    @property
    def size(self) -> int:
        """Payload of those in a direction."""
        return self.count * self.bytes

    @property
    def ways(self) -> int:
        """Directions in which as much is sent."""
        return 2 if self.both_ways else 1

    @property
    def pause_ns(self) -> int:
        """Time from one to the next."""
        return self.interval_ns

    @property
    def waiting_bytes(self) -> int:
        """Bytes that can wait to be sent: a message, and those of a standstill of 2 s."""
        return self.bytes + self.bytes * 2_000_000_000 // self.interval_ns

    @property
    def phrase(self) -> str:
        """The workload for people."""
        size, interval = units.format_size(self.bytes), units.format_time(self.interval_ns)
        return f"messages of {size} every {interval}" + (" both ways" if self.both_ways else "")

    def arrived(self, number: int, connections: int = 1) -> str:
        """So many of them, for people."""
        due = self.due(connections)["due"]
        of_all = "" if number == due else f" of {due}"
        return f"{number}{of_all} messages of {units.format_size(self.bytes)}"

    def due(self, connections: int) -> dict[str, int]:
        """Number of messages that are due."""
        return {"due": self.count * self.ways * connections}

    def messages_in(self, payload: int) -> int:
        """Each has packets of its own."""
        return payload // self.bytes


class Pattern(Written, frozen=True, kw_only=True, tag="messages"):
    """Messages without an end, with fields of `Messages`."""

    form: ClassVar[str] = "messages:SIZE/INTERVAL[,both]"
    help: ClassVar[str] = (
        "messages:200B/100ms: a message of 200 B every 100 ms, judged by its delay; with ,both each way."
    )
    objectives_help: ClassVar[str] = (
        f"of messages delay:{', '.join(PERCENTILES)} or mean, or gap (the longest time without one)"
    )

    bytes: int
    interval_ns: int
    both_ways: bool = False

    @classmethod
    def read(cls, text: str, rest: str | None) -> Self:
        """The workload that a text means."""
        main, *words = (word.strip() for word in (rest or "").split(","))
        if words not in ([], ["both"]):
            raise cls.wrong(text)
        size, interval, _ = cls.halves(text, main)
        return cls(
            bytes=units.parse_size(size), interval_ns=units.parse_time(interval), both_ways=bool(words)
        )

    @property
    def text(self) -> str:
        """The text that means it."""
        both = ",both" if self.both_ways else ""
        return f"messages:{size_text(self.bytes)}/{time_text(self.interval_ns)}{both}"

    def check(self) -> None:
        """Refuse values that no trial can have."""
        if self.interval_ns <= 0:
            raise ValueError("expected an interval above 0, found 0")
        check_sizes({"a message": self.bytes})

    def impossible(self, duration_ns: int) -> Iterator[str]:
        """Errors of the workload for this time."""
        if (messages := self.lasting(duration_ns).count) > _MOST:
            yield f"expected at most {_MOST} messages, found {messages}"

    def lasting(self, duration_ns: int) -> Messages:
        """The workload of a trial."""
        return Messages(
            bytes=self.bytes,
            interval_ns=self.interval_ns,
            duration_ns=duration_ns,
            both_ways=self.both_ways,
        )
