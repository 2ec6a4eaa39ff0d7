"""Head-of-line blocking: data of a slow path is waited for, and what the fast ones sent fills the buffers."""

from collections.abc import Iterator

from mptune.diagnosis.causes.finding import Finding, Gaps, mbps
from mptune.diagnosis.causes.loss import is_lossy
from mptune.diagnosis.evidence import UNLIKE, Evidence

#: Without the slow paths there is more by this factor; large buffers do not help if they bring less than this
#: share of that.
_HARMS, _BLOCKED = 1.05, 0.9


def find(evidence: Evidence, gaps: Gaps) -> Iterator[Finding]:
    """Buffers that are enough for each path alone are not for all: the longest RTT counts for every byte."""
    together, slow = evidence.basis, evidence.slow
    if together is None or not slow:
        return
    others = [label for label in evidence.carrying if label not in slow]
    quick_ms = min(filter(None, map(evidence.loaded_rtt_ms, others)), default=0.0)
    slow_ms = max(map(evidence.loaded_rtt_ms, slow))
    without, large = evidence.found(evidence.without), evidence.large
    kept = max(0.0 if without is None else without.mbps, *map(evidence.alone_mbps, evidence.carrying))
    harms = kept > _HARMS * together.mbps
    blocked = large is not None and large.mbps < _BLOCKED * kept
    if slow_ms < UNLIKE * quick_ms and not (blocked and not any(is_lossy(evidence, one) for one in slow)):
        return
    best = max(evidence.carrying, key=evidence.alone_mbps)
    if without is None or without.mbps < _BLOCKED * kept:
        slow = tuple(label for label in evidence.carrying if label != best)
    names = "+".join(slow)
    because = f"RTT under load {slow_ms:.0f} ms on {names}, {quick_ms:.0f} ms on the quickest path"
    if without is not None:
        because += (
            f"; without {'+'.join(evidence.slow)} {mbps(without.mbps)} instead of {mbps(together.mbps)}"
        )
    if without is None or without.mbps < kept:
        because += f"; {best} alone {mbps(kept)}"
    if large is not None:
        because += f", with large buffers {mbps(large.mbps)}"
    remedy = f"leave {names} out, or as backup" if harms else "larger buffers at both ends"
    shares = {"buffers": gaps.buffers - of_single_paths(evidence, gaps)}
    if kept > together.mbps + gaps.buffers:
        # Not even large buffers bring within a trial what there is without them.
        shares["together"] = gaps.together
    for part, share in shares.items():
        yield Finding(
            kind="head-of-line",
            part=part,
            mbps=max(0.0, share),
            paths=slow,
            because=because,
            remedy=f"{remedy} (mptune optimise finds what is best)",
        )


def of_single_paths(evidence: Evidence, gaps: Gaps) -> float:
    """Gain of the paths alone from larger buffers: no other path is to blame for that."""
    gain = 0.0
    for label in evidence.labels:
        now, large = evidence.alone(label), evidence.alone(label, "large")
        if label not in gaps.absent and now is not None and large is not None:
            gain += max(0.0, large.mbps - now.mbps)
    return min(gain, gaps.buffers)
