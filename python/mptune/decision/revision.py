"""A decision revised by what later trials gave: another combination, a larger buffer, a wider interval.

Why it is revised is decided elsewhere (`mptune.decision.robustness`, `mptune.optimisation`).
"""

from collections.abc import Sequence

import msgspec

from mptune.decision import Decision
from mptune.decision.selection import Optimum
from mptune.decision.sweep import SweepPoint
from mptune.decision.tradeoff import FrontPoint
from mptune.statistics import summarise, summary_of
from mptune.trial import Combination


def enlarged(decision: Decision, size_mib: float, points: Sequence[SweepPoint]) -> Decision:
    """The decision with a larger buffer that was measured: the observation there is what to expect."""
    combination = decision.optimum.combination
    (point,) = (
        sweep_point
        for sweep_point in points
        if (sweep_point.combination, sweep_point.buffer_mib) == (combination, size_mib)
    )
    optimum = msgspec.structs.replace(
        decision.optimum, buffer_mib=size_mib, throughput_mbps=point.throughput.mean
    )
    uncertainty = decision.uncertainty
    if uncertainty is not None:
        low, high = uncertainty.obs_mib
        least, most = uncertainty.otp_mbps
        ends = point.throughput.low, point.throughput.high
        seen = [max(0.0, bound) for bound in ends if bound is not None]
        uncertainty = msgspec.structs.replace(
            uncertainty,
            obs_mib=(low, max(high, size_mib)),
            otp_mbps=(min((least, *seen)), max((most, *seen))),
        )
    return msgspec.structs.replace(answering(decision, optimum), uncertainty=uncertainty)


def answering(decision: Decision, optimum: Optimum) -> Decision:
    """The decision with another optimum, in its front too."""
    answer = FrontPoint(sacrifice=decision.options.sacrifice, optimum=optimum)
    front = tuple(answer if point.sacrifice == answer.sacrifice else point for point in decision.front)
    return msgspec.structs.replace(decision, optimum=optimum, front=front)


def tried(decision: Decision, values: Sequence[float]) -> Decision:
    """The decision after fresh trials of its optimum: the interval of its throughput holds theirs too.

    The resamples know the noise between runs, but not what the model assumes between two measured buffers.
    """
    uncertainty, fresh = decision.uncertainty, summary_of(values)
    if uncertainty is None or fresh is None or fresh.low is None or fresh.high is None:
        return decision
    low, high = uncertainty.otp_mbps
    wider = (min(low, max(fresh.low, 0.0)), max(high, fresh.high))
    return msgspec.structs.replace(decision, uncertainty=msgspec.structs.replace(uncertainty, otp_mbps=wider))


def moved(decision: Decision, chosen: Combination, values: Sequence[float]) -> Decision:
    """The decision with another combination and the same buffer: what fresh trials of it gave is expected."""
    throughput = summarise(values)
    optimum = msgspec.structs.replace(decision.optimum, **chosen._asdict(), throughput_mbps=throughput.mean)
    uncertainty = decision.uncertainty
    if uncertainty is not None and throughput.low is not None and throughput.high is not None:
        uncertainty = msgspec.structs.replace(
            uncertainty, otp_mbps=(max(throughput.low, 0.0), throughput.high)
        )
    return msgspec.structs.replace(answering(decision, optimum), uncertainty=uncertainty)
