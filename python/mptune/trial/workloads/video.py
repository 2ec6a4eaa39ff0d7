"""A video in segments; judged by its bitrates, its stalls and its start."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple, Self

from mptune import units
from mptune._text import quoted
from mptune.trial.kept import Piece, Record, sent_of
from mptune.trial.metrics import Metric, time
from mptune.trial.workloads._base import (
    LONG_PATIENCE_NS,
    REQUEST_BYTES,
    InPieces,
    Written,
    check_within,
    time_text,
)
from mptune.trial.workloads._criteria import Times

#: The bitrates of a video unless others are asked for, bit/s: those of 16:9 in H.264 from the HLS authoring
#: specification for Apple devices, 416x234 to 1920x1080.
LADDER: tuple[int, ...] = (
    145_000,
    365_000,
    730_000,
    1_100_000,
    2_000_000,
    3_000_000,
    4_500_000,
    6_000_000,
    7_800_000,
)
#: Playing time of a segment and of the player's buffer, as of DASH's reference player (dash.js).
_SEGMENT_NS, _BUFFER_NS = 4_000_000_000, 30_000_000_000
#: Most bitrates (`crates/mptune-core/src/workload/video.rs`).
_MOST_BITRATES = 256


class _Watched(NamedTuple):
    """Playback of one player: bitrates, Mbit/s; start, stalls, and from the first segment to the last, s."""

    bitrates: list[float]
    highest: float
    start_s: float
    stalled_s: float
    viewed_s: float

    @property
    def quality(self) -> float:
        """Quality of experience of a video, per segment.

        Bitrates, less the changes between them and what stalls and start cost: the measure of X. Yin, A.
        Jindal, V. Sekar and B. Sinopoli, "A Control-Theoretic Approach for Dynamic Adaptive Video Streaming
        over HTTP", SIGCOMM 2015, with the bitrate as the quality of a segment and their balanced weights: a
        second without pictures costs what a segment at the highest bitrate gives (3000 of their ladder up to
        3000 kbit/s).
        """
        changes = sum(abs(after - before) for before, after in itertools.pairwise(self.bitrates))
        missed_s = self.start_s + self.stalled_s
        return (sum(self.bitrates) - changes - self.highest * missed_s) / len(self.bitrates)

    @property
    def changes(self) -> int:
        """Number of changes of the bitrate."""
        return sum(before != after for before, after in itertools.pairwise(self.bitrates))


def _watched(kept: Record) -> Iterator[_Watched]:
    """Every player of a trial with videos: of each the first request is the earliest."""
    sent, seen = sent_of(kept.settings), list(zip(kept.pieces, kept.delays_ms, strict=False))
    if not seen:
        return
    first = [
        place for place in range(len(seen)) if not place or seen[place][0].at_ns < seen[place - 1][0].at_ns
    ]
    for begin, end in itertools.pairwise((*first, len(seen))):
        mine = seen[begin:end]
        arrivals = [piece.at_ns / 1e9 + taken_ms / 1e3 for piece, taken_ms in mine]
        yield _Watched(
            bitrates=[piece.bytes * 8e3 / sent["segment_ns"] for piece, _ in mine],
            highest=sent["ladder_bps"][-1] / 1e6,
            start_s=mine[0][1] / 1e3,
            stalled_s=sum(piece.stalled_ns for piece, _ in mine) / 1e9,
            viewed_s=arrivals[-1] - arrivals[0],
        )


def _of_video(
    value: Callable[[_Watched], float], *, of_time: bool = False
) -> Callable[[Record], float | None]:
    """Reads the mean of a value over the players; `of_time` needs a second segment."""

    def read(kept: Record) -> float | None:
        found = [value(view) for view in _watched(kept) if view.viewed_s or not of_time]
        return sum(found) / len(found) if found else None

    return read


def _metric(
    word: str, name: str, unit: str, read: Callable[[Record], float | None], *, more_is_better: bool = False
) -> Metric:
    floor = 0.01 if unit == "Mbit/s" else 0.1
    metric = Metric(name, unit, more_is_better, read, floor, word=f"video:{word}")
    return replace(metric, tabled=f"video_{word}_{metric.ending}")


STALLED = _metric(
    "stalled",
    "stalled share",
    "%",
    _of_video(lambda view: 100 * view.stalled_s / view.viewed_s, of_time=True),
)

#: Metrics of a video, the usual first. Pictures stand still for a share of the time from the
#: arrival of the first segment to that of the last; the start is from the first request to the first segment.
VIDEO = (
    _metric("quality", "quality", "Mbit/s", _of_video(lambda view: view.quality), more_is_better=True),
    _metric(
        "bitrate",
        "bitrate",
        "Mbit/s",
        _of_video(lambda view: sum(view.bitrates) / len(view.bitrates)),
        more_is_better=True,
    ),
    STALLED,
    replace(
        time("start", _of_video(lambda view: 1e3 * view.start_s), "video:start"), tabled="video_start_ms"
    ),
    _metric(
        "changes",
        "changes of bitrate",
        "/min",
        _of_video(lambda view: 60 * view.changes / view.viewed_s, of_time=True),
    ),
)


class Video(InPieces, frozen=True, kw_only=True, tag="video"):
    """Segments of a video on one connection, asked for one at a time; both programs set TCP_NODELAY.

    The data receiver is the player: playing begins with the first segment, stands still while the next one is
    missing, and the bitrate of each is chosen by what is left to play (BOLA,
    `crates/mptune-core/src/workload/player.rs`).

    Attributes
    ----------
    request_bytes : payload of a request.
    ladder_bps : bitrates, ascending, bit/s.
    segment_ns : playing time of a segment.
    buffer_ns : playing time that the player keeps at most, at least two segments.
    """

    judged_by: ClassVar[Times] = Times(
        of="segment",
        many="segments",
        from_to="From the request for a segment of the video to its last byte in order.",
        waiting="the next segment is asked for when one is there and the buffer has room.",
        shown=(),
        in_tables=(),
        own=VIDEO,
        standstill=STALLED,
    )

    request_bytes: int = REQUEST_BYTES
    ladder_bps: tuple[int, ...]
    segment_ns: int
    buffer_ns: int
    patience_ns: int = LONG_PATIENCE_NS

    @property
    def pause_ns(self) -> int:
        """Time until there is room for a segment."""
        return self.segment_ns

    @property
    def waiting_bytes(self) -> int:
        """Bytes that can wait to be sent: a segment."""
        return -(-self.ladder_bps[-1] * self.segment_ns // 8_000_000_000)

    @property
    def phrase(self) -> str:
        """The workload for people."""
        return f"video of up to {units.format_rate(self.ladder_bps[-1])}"

    def arrived(self, number: int, connections: int = 1) -> str:
        """So many segments, for people."""
        return f"{number} segments of {units.format_time(self.segment_ns)}"

    def details(self, pieces: Sequence[Piece]) -> dict[str, list[float]]:
        """When each segment was asked for, its bitrate, and how long the player waited for it."""
        return {
            "asked_ms": [piece.at_ns / 1e6 for piece in pieces],
            "bitrates_mbps": [piece.bytes * 8e3 / self.segment_ns for piece in pieces],
            "stalls_ms": [piece.stalled_ns / 1e6 for piece in pieces],
        }


class Watching(Written, frozen=True, kw_only=True, tag="video"):
    """A video without an end, with fields of `Video`."""

    form: ClassVar[str] = "video[:RATE/RATE...][,segment=TIME][,buffer=TIME]"
    help: ClassVar[str] = (
        "video:1M/2.5M/5M/8M,segment=4s,buffer=30s: segments of a video, each at the bitrate that the "
        "player's buffer allows; video alone has usual bitrates."
    )
    objectives_help: ClassVar[str] = (
        "of a video video:quality, bitrate, stalled, start or changes, or segment:mean or a percentile"
    )
    named: ClassVar[Mapping[str, tuple[str, Callable[[str], int]]]] = {
        "segment": ("segment_ns", units.parse_time),
        "buffer": ("buffer_ns", units.parse_time),
    }

    ladder_bps: tuple[int, ...] = LADDER
    segment_ns: int = _SEGMENT_NS
    buffer_ns: int = _BUFFER_NS

    @classmethod
    def read(cls, text: str, rest: str | None) -> Self:
        """The workload that a text means, such as "1M/2.5M", with what else is named."""
        parts = [] if rest is None else rest.split(",")
        ladder = LADDER
        if parts and "=" not in parts[0]:
            ladder = tuple(map(_bitrate, parts.pop(0).split("/")))
        return cls(ladder_bps=ladder, **cls.options(text, parts))

    @property
    def text(self) -> str:
        """The text that means it."""
        rates = (units.format_rate(bps) for bps in self.ladder_bps)
        ladder = "/".join(rate.replace(" ", "").removesuffix("bit/s") for rate in rates)
        return f"video:{ladder},segment={time_text(self.segment_ns)},buffer={time_text(self.buffer_ns)}"

    def check(self) -> None:
        """Refuse values that no trial can have."""
        check_within("bitrates", len(self.ladder_bps), _MOST_BITRATES)
        for lower, higher in itertools.pairwise((0, *self.ladder_bps)):
            if higher <= lower:
                rates = " and ".join(map(units.format_rate, (lower, higher)))
                raise ValueError(f"expected bitrates that rise, found {rates if lower else '0 bit/s'}")
        if self.segment_ns <= 0:
            raise ValueError("expected segments longer than 0, found 0")
        if self.buffer_ns < 2 * self.segment_ns:
            least, found = units.format_time(2 * self.segment_ns), units.format_time(self.buffer_ns)
            raise ValueError(f"expected a buffer of at least two segments, {least}, found {found}")

    def impossible(self, duration_ns: int) -> Iterator[str]:
        """Errors of the workload for this time."""
        if self.segment_ns >= duration_ns:
            segment, whole = units.format_time(self.segment_ns), units.format_time(duration_ns)
            yield f"expected segments shorter than the duration of {whole}, found {segment}"

    def lasting(self, duration_ns: int) -> Video:
        """The workload of a trial."""
        return Video(
            ladder_bps=self.ladder_bps,
            segment_ns=self.segment_ns,
            buffer_ns=self.buffer_ns,
            duration_ns=duration_ns,
        )


def _bitrate(text: str) -> int:
    """Bit/s of "2.5M"."""
    try:
        return units.parse_rate(f"{text.strip()}bit/s")
    except ValueError:
        raise ValueError(f"expected bitrates such as 365k/1M/2.5M, found {quoted(text)}") from None
