"""Losses that congestion does not explain: more connections on the path would get more."""

from collections.abc import Iterator
from typing import NamedTuple

from mptune.diagnosis.causes.finding import Finding, Gaps, enough_bytes, mbps
from mptune.diagnosis.evidence import Evidence, Experiment, Figures
from mptune.diagnosis.plan import EMPTY, LOSSES, MARGIN

#: Four subflows get so many times what one gets where each is limited by losses of its own, or close so much
#: of the gap; a policer gives all of them together what it gives one.
_MORE, _CLOSES, _LESS = 1.2, 0.5, 0.85
#: Round trips of a trial from which on it tells more than its slow starts: they take ten at most.
_ROUND_TRIPS = 24


def find(evidence: Evidence, gaps: Gaps) -> Iterator[Finding]:
    """Paths that lose packets while their rate is not used up."""
    for label, missing in gaps.path.items():
        losing = losing_path(evidence, label)
        if losing is None or not losing.at_random:
            continue
        alone = losing.trial.flows[label]
        because = (
            f"{label}: {alone.lost:.2%} of the segments are lost, {mbps(losing.trial.mbps)} of "
            f"{mbps(evidence.potential_mbps(label))} used, RTT {alone.rtt_ms:.0f} ms of at least "
            f"{alone.min_rtt_ms:.0f} ms"
        )
        if losing.four_mbps is not None:
            because += f"; four subflows get {mbps(losing.four_mbps)}"
        large = evidence.large
        flow = None if large is None else large.flows.get(label)
        # A scheduler gives a path that loses packets less than TCP would take, and data lost there is waited
        # for: then all paths together give less than the best of the others. A far path is another matter.
        shy = 0.0 if flow is None else evidence.alone_mbps(label) - flow.mbps
        below = large is not None and large.mbps < max(map(evidence.alone_mbps, evidence.carrying))
        if flow is not None and below and not evidence.is_far(label):
            shy = gaps.together
        # Buffers that are enough and bring more when enlarged are full of what waits for a lost segment.
        settings = evidence.settings
        roomy = min(settings.send_bytes, settings.receive_bytes) >= enough_bytes(evidence)
        waiting = gaps.buffers if roomy else 0.0
        for part, share in ((f"path {label}", missing), ("together", shy), ("buffers", waiting)):
            yield Finding(
                kind="loss",
                part=part,
                mbps=max(0.0, share),
                paths=(label,),
                because=because,
                remedy=f"mend the line of {label} (Wi-Fi, cable, duplex); until then --pm ndiffports there",
            )


def is_lossy(evidence: Evidence, label: str) -> bool:
    """Losses limit the path, and no link does."""
    losing = losing_path(evidence, label)
    return losing is not None and losing.at_random


class Losing(NamedTuple):
    """A path that loses packets under plain TCP, and what four subflows get there, if that was tried."""

    trial: Figures
    four_mbps: float | None
    potential_mbps: float

    @property
    def at_random(self) -> bool:
        """Each connection has losses of its own; without four subflows, those while the queue is empty."""
        one = self.trial.mbps
        if self.four_mbps is None:
            return self.idle
        if self.four_mbps < _LESS * one or self.is_brief:
            return self.idle  # too short a trial for slow starts: it proves nothing
        return self.four_mbps >= _MORE * one or (self.idle and self.closes)

    @property
    def closes(self) -> bool:
        """Four subflows get most of what one leaves; behind a full queue that is no sign of losses."""
        gap = self.potential_mbps - self.trial.mbps
        return self.four_mbps is not None and self.four_mbps - self.trial.mbps >= _CLOSES * gap

    @property
    def is_brief(self) -> bool:
        """Too few round trips to tell what limits it: losses of slow start weigh as much as all others."""
        (flow,) = self.trial.flows.values()
        return self.trial.seconds * 1e3 < _ROUND_TRIPS * flow.min_rtt_ms

    @property
    def idle(self) -> bool:
        """The queue was empty."""
        (flow,) = self.trial.flows.values()
        return flow.rtt_ms < EMPTY * flow.min_rtt_ms


def losing_path(evidence: Evidence, label: str) -> Losing | None:
    """The path if it loses packets and does not give what it could."""
    trial = evidence.alone(label, "large") or evidence.alone(label)
    if trial is None or label not in trial.flows or trial.flows[label].lost < LOSSES:
        return None
    if evidence.alone_mbps(label) > (1 - MARGIN) * evidence.potential_mbps(label):
        return None
    four = evidence.found(Experiment(paths=(label,), buffers="large", subflows="four"))
    return Losing(trial, None if four is None else four.mbps, evidence.potential_mbps(label))
