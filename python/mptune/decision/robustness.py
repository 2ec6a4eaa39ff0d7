"""Check of an answer in fresh trials and perturbed networks, and its replacement if it fails.

A few finalists with the same buffer are measured with new seeds, in the network as stated and in networks
whose numbers are off by some share. The favourite, which the model chose, stays unless it is beaten. Nothing
is measured here.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from mptune._text import digits
from mptune.statistics import Summary, summarise
from mptune.trial import Combination
from mptune.trial.metrics import UNNOTICED

#: A finalist is better where it exceeds the favourite by more than this share of it, and its advantage, run
#: by run, is above zero with 95 % confidence.
REGRET = UNNOTICED

#: The default of every kernel. Another congestion control is the answer only if it gives
#: more: it would have to be chosen, loaded and watched for nothing.
FAMILIAR_CC = "cubic"

#: Loss of MPTCP against plain TCP with the same buffer that its survival of a path's failure is worth:
#: about what its DSS option costs on a path that is full (20 of 1448 bytes), and not more than an answer may
#: lose against the best plain path.
SURVIVAL = 0.02


class Finalist(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a configuration, Mbit/s.

    Attributes
    ----------
    throughput : with new seeds in the network as stated; None where every trial failed.
    worst : its smallest share of the best finalist's throughput over the other networks; None without any.
    average : the geometric mean of these shares, in which half the throughput weighs as much as twice; None
        without any.
    """

    combination: Combination
    buffer_bytes: int
    throughput: Summary | None
    worst: float | None
    average: float | None


def finalists(
    buffer_bytes: int,
    stated: Mapping[Combination, Sequence[float]],
    others: Mapping[Combination, Sequence[float]],
) -> tuple[Finalist, ...]:
    """Summaries of all finalists.

    Parameters
    ----------
    stated : throughput of every run in the network as stated, 0 where it failed; by run in all of them.
    others : throughput in each of the other networks, 0 where it failed; in the same order in all of them.
    """
    best = [max(values) for values in zip(*others.values(), strict=True)]
    result = []
    for combination, values in stated.items():
        shares = [mine / most for mine, most in zip(others[combination], best, strict=True) if most]
        finalist = Finalist(
            combination=combination,
            buffer_bytes=buffer_bytes,
            throughput=summarise(values) if any(values) else None,
            worst=min(shares, default=None),
            average=math.prod(shares) ** (1 / len(shares)) if shares else None,
        )
        result.append(finalist)
    return tuple(result)


def survivor(
    favourite: Combination,
    stated: Mapping[Combination, Sequence[float]],
    finalists_: Sequence[Finalist],
    sacrifice: float,
) -> Combination:
    """The favourite, or the finalist that is better.

    Of those that keep to the sacrifice in every other network (if there are none, on the average of these
    networks) the favourite is chosen, unless another one is faster by more than `REGRET` in the network as
    stated; and in place of either the same with the familiar congestion control, unless that is slower by
    more than `REGRET`, there or on the average of the other networks.
    """
    sound = [
        each_finalist.combination
        for each_finalist in finalists_
        if each_finalist.worst is None or each_finalist.worst >= 1 - sacrifice
    ]
    if not sound:
        averages = {finalist.combination: finalist.average or 0.0 for finalist in finalists_}
        needed = (1 - sacrifice) * max(averages.values())
        sound = [combination for combination, average in averages.items() if average >= needed]
    best = favourite if favourite in sound else max(sound, key=lambda one: (_mean(stated[one]), one))
    for each_combination in sorted(sound, key=lambda one: (-_mean(stated[one]), one)):
        if _clearly_faster(stated[each_combination], stated[best]):
            best = each_combination
            break
    familiar, by = (
        best._replace(cc=FAMILIAR_CC),
        {each_finalist.combination: each_finalist for each_finalist in finalists_},
    )
    return familiar if familiar in sound and _is_as_good(by[familiar], by[best]) else best


def _is_as_good(finalist: Finalist, other: Finalist) -> bool:
    """True if it gives as much, there and elsewhere, but for a little."""
    mine, theirs = (
        (it.throughput.mean if it.throughput else 0.0, it.average or 0.0) for it in (finalist, other)
    )
    return all(ours >= (1 - REGRET) * most for ours, most in zip(mine, theirs, strict=True))


def is_beaten(
    mptcp: Combination,
    tcp: Combination,
    stated: Mapping[Combination, Sequence[float]],
    finalists_: Sequence[Finalist],
    sacrifice: float,
) -> bool:
    """True if plain TCP is the better answer.

    MPTCP survives the failure of a path, so it stays unless TCP is faster by more than `SURVIVAL` in the
    network as stated, and in every other network keeps to the sacrifice or does no worse than MPTCP.
    """
    worst = {
        finalist.combination: 1.0 if finalist.worst is None else finalist.worst for finalist in finalists_
    }
    holds = worst[tcp] >= min(1 - sacrifice, worst[mptcp])
    return holds and _clearly_faster(stated[tcp], stated[mptcp], SURVIVAL)


def change(favourite: Combination, chosen: Combination, finalists_: Sequence[Finalist], off_by: float) -> str:
    """Why the model's favourite is not the answer, as a sentence."""
    by = {finalist.combination: finalist for finalist in finalists_}
    ours, theirs = by[favourite], by[chosen]
    name = f"{chosen.manager} with {chosen.cc}"
    if ours.throughput is None:
        return f"The model chose {favourite.manager} with {favourite.cc}, but every fresh trial of it failed."
    fresh = "-" if theirs.throughput is None else digits(theirs.throughput.mean)
    if chosen == favourite._replace(cc=FAMILIAR_CC) and _is_as_good(ours, theirs):
        return (
            f"The model chose {favourite.cc}; {chosen.cc}, which every kernel has, gives as much with the "
            f"same buffer: {fresh} Mbit/s instead of {digits(ours.throughput.mean)} in fresh trials."
        )
    elsewhere = ""
    if None not in (ours.worst, theirs.worst, ours.average, theirs.average):
        elsewhere = (
            f", and in networks off by up to {off_by:.0%} on average {theirs.average:.0%} of the best "
            f"instead of {ours.average:.0%}, at least {theirs.worst:.0%} instead of {ours.worst:.0%}"
        )
    return (
        f"The model chose {favourite.manager} with {favourite.cc}; in fresh trials with the same buffer "
        f"{name} gave {fresh} Mbit/s instead of {digits(ours.throughput.mean)}{elsewhere}."
    )


def without_mptcp(mptcp: Combination, tcp: Combination, finalists_: Sequence[Finalist]) -> str:
    """Why plain TCP is the answer, and at what price, as a sentence."""
    by = {finalist.combination: finalist.throughput for finalist in finalists_}
    ours, theirs = by[mptcp], by[tcp]
    assert theirs is not None  # it was faster
    best = f"the best MPTCP, {mptcp.manager} with {mptcp.cc},"
    gave = f"every trial of {best} failed" if ours is None else f"{best} {digits(ours.mean)}"
    return (
        f"In fresh trials with the same buffer {tcp.manager} with {tcp.cc} gave {digits(theirs.mean)} "
        f"Mbit/s, {gave}. No other path takes over when that one fails (--no-tcp keeps MPTCP)."
    )


def _clearly_faster(ones: Sequence[float], others: Sequence[float], margin: float = REGRET) -> bool:
    """True if the runs of one are faster than those of the other by more than a share, pair by pair."""
    if _mean(ones) <= (1 + margin) * _mean(others):
        return False
    gain = summarise([mine - other for mine, other in zip(ones, others, strict=True)])
    return gain.low is None or gain.low > 0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
