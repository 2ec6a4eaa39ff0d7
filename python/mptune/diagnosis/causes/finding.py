"""A cause with its share of what is missing, its evidence and its remedy; and the parts that they share."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from mptune.diagnosis import rfc6349
from mptune.diagnosis.evidence import Evidence

#: Parts of what is missing (`mptune.diagnosis.diagnose`); one on a path names it: "path A-X".
Part = str

#: Buffers hold that many times what is on the way: the kernel counts the memory of packets, not payload, and
#: a lost segment is waited for (net/ipv4/tcp_output.c; the buffer-size study, Eq. 2).
ROOM = 4

Kind = Literal[
    "buffer",
    "receive window",
    "head-of-line",
    "shared bottleneck",
    "loss",
    "policing",
    "stripped",
    "fallback",
    "subflows",
    "processor",
]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A cause.

    Attributes
    ----------
    part : of what is missing, from which its share is taken.
    mbps : its share, Mbit/s.
    paths : that it concerns; empty for all.
    because : the evidence, a sentence with numbers.
    remedy : what removes it, a sentence, with a command or a setting where there is one.
    always : named even if its share is small: it is seen directly.
    """

    kind: Kind
    part: Part
    mbps: float
    paths: tuple[str, ...] = ()
    because: str
    remedy: str
    always: bool = False


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of what is missing, Mbit/s; on a path and absent by path."""

    path: Mapping[str, float]
    absent: Mapping[str, float]
    buffers: float
    together: float

    def of(self, part: Part) -> float:
        """One part: "path A-X", "absent A-X", "buffers", "together"."""
        word, _, label = part.partition(" ")
        if word in ("path", "absent"):
            by_path: Mapping[str, float] = getattr(self, word)
            return by_path.get(label, 0.0)
        return float(getattr(self, word))

    def left(self, part: Part, found: Sequence[Finding]) -> float:
        """Remainder of a part after the causes that were found before."""
        return self.of(part) - sum(finding.mbps for finding in found if finding.part == part)


def enough_bytes(evidence: Evidence) -> int:
    """Size of buffers that are enough: `ROOM` times the sum of the rates for the longest RTT under load."""
    rates = 1e6 * sum(map(evidence.potential_mbps, evidence.labels))
    rtt_s = max(map(evidence.loaded_rtt_ms, evidence.labels)) / 1e3
    return max(1, round(ROOM * rfc6349.least_window_bytes(rates, rtt_s)))


def mbps(value: float) -> str:
    """A throughput in a sentence, without its unit."""
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
