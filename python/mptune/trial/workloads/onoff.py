"""Bursts with silence between them; judged by the time of each, and by what is carried meanwhile."""

import itertools
from collections.abc import Iterator
from typing import ClassVar, Self

from mptune import units
from mptune.trial.kept import Record
from mptune.trial.metrics import Metric
from mptune.trial.workloads._base import (
    FILE,
    LONG_PATIENCE_NS,
    InPieces,
    Written,
    check_sizes,
    size_text,
    time_text,
    without_file,
)
from mptune.trial.workloads._criteria import Times
from mptune.trial.workloads.lists import bursts

#: Most bursts of a trial (`crates/mptune-core/src/workload/onoff.rs`).
_MOST = 100_000


def _while_on(kept: Record) -> float | None:
    """Payload of the bursts over the time during which any of them was under way, Mbit/s."""
    on_ns, size, until_ns = 0.0, 0, 0.0
    for piece, taken_ms in zip(kept.pieces, kept.delays_ms, strict=False):
        begin_ns = max(piece.at_ns, until_ns) if piece.at_ns else 0  # 0 of the first of each connection
        until_ns = piece.at_ns + 1e6 * taken_ms
        on_ns, size = on_ns + max(until_ns - begin_ns, 0.0), size + piece.bytes
    return 8e3 * size / on_ns if on_ns else None


#: Throughput of a connection while it has bursts to carry.
WHILE_ON = Metric(
    name="throughput while on",
    word="on-off:throughput",
    unit="Mbit/s",
    more_is_better=True,
    read=_while_on,
    floor=0.01,
)


class OnOff(InPieces, frozen=True, kw_only=True, tag="on-off"):
    """Bursts with silence between them; the program sets TCP_NODELAY.

    Sizes and gaps are those of a list, or exponentially distributed: then they follow from the seed of the
    trial (`crates/mptune-core/src/workload/onoff.rs`). The first is due when the connection is established,
    each other one a gap after the one before was due, whatever became of it. The time of a burst counts from
    when it was due until its last byte arrived in order.

    Attributes
    ----------
    mean_bytes : mean payload of a burst.
    mean_gap_ns : mean time from one to the next.
    listed : when each is due, and its payload; empty for bursts that are drawn.
    """

    judged_by: ClassVar[Times] = Times(
        of="burst",
        many="bursts",
        from_to="From when a burst was due to its last byte in order.",
        waiting="a burst that is due before the one in front of it has arrived waits for it.",
        own=(WHILE_ON,),
    )

    mean_bytes: int
    mean_gap_ns: int
    listed: tuple[tuple[int, int], ...] = ()
    patience_ns: int = LONG_PATIENCE_NS

    @property
    def pause_ns(self) -> int:
        """Time from one to the next: of those that are drawn one in a million is longer."""
        listed = [after - before for (before, _), (after, _) in itertools.pairwise(self.listed)]
        return max(listed) if listed else 14 * self.mean_gap_ns

    @property
    def waiting_bytes(self) -> int:
        """Bytes that can wait to be sent: the largest burst, or three of the mean: 5 % are larger."""
        return max((size for _, size in self.listed), default=3 * self.mean_bytes)

    @property
    def phrase(self) -> str:
        """The workload for people."""
        size, gap = units.format_size(self.mean_bytes), units.format_time(self.mean_gap_ns)
        return f"bursts of {size} every {gap} on average"


class Bursting(Written, frozen=True, kw_only=True, tag="on-off"):
    """Bursts without an end, with fields of `OnOff`; `file` has the list."""

    form: ClassVar[str] = "on-off:SIZE/TIME"
    help: ClassVar[str] = (
        "on-off:1MiB/2s: bursts of 1 MiB every 2 s on average, exponentially distributed; on-off:@FILE has "
        "its lines START,SIZE as bursts."
    )
    objectives_help: ClassVar[str] = "of bursts burst:mean or a percentile, or on-off:throughput"

    mean_bytes: int
    mean_gap_ns: int
    listed: tuple[tuple[int, int], ...] = ()
    file: str = ""

    @classmethod
    def read(cls, text: str, rest: str | None) -> Self:
        """The workload that a text means."""
        if rest is not None and rest.startswith(FILE) and "," not in rest:
            return cls._of_file(rest.removeprefix(FILE))
        size, gap, _ = cls.halves(text, rest)
        return cls(mean_bytes=units.parse_size(size), mean_gap_ns=units.parse_time(gap))

    @classmethod
    def _of_file(cls, file: str) -> Self:
        """Bursts of a file; their means are what is known of them beforehand."""
        listed = bursts(file)
        last_ns, _ = listed[-1]
        return cls(
            mean_bytes=round(sum(size for _, size in listed) / len(listed)),
            mean_gap_ns=last_ns // (len(listed) - 1) if listed[1:] else 1_000_000_000,
            listed=listed,
            file=file,
        )

    @property
    def text(self) -> str:
        """The text that means it."""
        drawn = f"{size_text(self.mean_bytes)}/{time_text(self.mean_gap_ns)}"
        return f"on-off:{FILE}{self.file}" if self.listed else f"on-off:{drawn}"

    def check(self) -> None:
        """Refuse values that no trial can have."""
        if self.mean_gap_ns <= 0:
            raise ValueError("expected a gap above 0, found 0")
        check_sizes({"a burst": self.mean_bytes})

    def impossible(self, duration_ns: int) -> Iterator[str]:
        """Errors of the workload for this time."""
        if (count := duration_ns // self.mean_gap_ns + 1) > _MOST:
            yield f"expected at most {_MOST} bursts, found about {count}"

    def lasting(self, duration_ns: int) -> OnOff:
        """The workload of a trial."""
        return OnOff(**without_file(self), duration_ns=duration_ns)
