"""Confirmation: the recommended and the default configuration measured again with new seeds, side by side.

A model's optimum is a prediction, and the largest of many predictions is an optimistic one. New seeds
give the expected value. It judges the prediction, also by the sweep; it does not choose again.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from mptune._text import digits
from mptune.decision import Decision
from mptune.decision.selection import Optimum
from mptune.decision.sweep import SweepPoint
from mptune.errors import LimitReached
from mptune.runner.planning import plan_run
from mptune.runner.runner import TrialRunner
from mptune.runner.running import Advance
from mptune.statistics import Summary, summarise, summary_of
from mptune.topology import Topology
from mptune.trial import PLAIN_TCP, Configuration, Record
from mptune.trial.metrics import QUEUEING, THROUGHPUT

#: Prediction and confirmation disagree when they differ by more than this share of the confirmed
#: mean, and by more than its interval explains.
DISAGREEMENT = 0.10

#: A mean is known well enough if the ends of its interval are within this share of it.
TIGHT = 0.02


class AgainstTcp(msgspec.Struct, frozen=True, kw_only=True):
    """MPTCP beside the best plain TCP with the same buffer, Mbit/s: the first goal of RFC 6356, section 2.

    Attributes
    ----------
    mptcp, tcp : the two configurations; one of them is the recommended one.
    with_mptcp, with_tcp : their throughput; None where every trial failed.
    gain : of MPTCP, paired as in `Confirmation`; negative where it is slower.
    """

    mptcp: Configuration
    tcp: Configuration
    with_mptcp: Summary | None
    with_tcp: Summary | None
    gain: Summary | None


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """Results of fresh trials, Mbit/s.

    Attributes
    ----------
    recommended, default : the two configurations.
    confirmed, baseline : their throughput; None where every trial failed.
    gain : confirmed minus baseline, run by run with the same seed, so that its interval is that of a
        paired comparison; None where no run succeeded with both.
    against_tcp : None where plain TCP was not tried.
    records : the trials.
    """

    recommended: Configuration
    default: Configuration
    confirmed: Summary | None
    baseline: Summary | None
    gain: Summary | None
    against_tcp: AgainstTcp | None = None
    records: tuple[Record, ...]

    @property
    def runs(self) -> int:
        """Runs of each configuration."""
        return len(self.records) // (2 if self.against_tcp is None else 3)

    @property
    def queueing(self) -> dict[str, Summary]:
        """Delay under load of the configurations by their names, ms; without those that saw no RTT."""
        names = ["recommended", "default"]
        if self.against_tcp is not None:
            names.append("best MPTCP" if self.against_tcp.tcp == self.recommended else "best TCP")
        runs = self.runs
        found = {
            name: QUEUEING.values(self.records[place * runs : (place + 1) * runs])
            for place, name in enumerate(names)
        }
        return {name: summarise(values) for name, values in found.items() if values}

    @property
    def carried(self) -> dict[str, float]:
        """Throughput of each path with the recommended configuration, Mbit/s: means over the runs."""
        done = [record for record in self.records[: self.runs] if record.failed is None]
        found: dict[str, float] = {}
        for subflow in (carried for record in done for carried in record.subflows):
            found[subflow.path] = found.get(subflow.path, 0.0) + subflow.throughput_mbps / len(done)
        return found

    @property
    def mean_mbps(self) -> float:
        """Mean of the recommended configuration; 0 where every run failed."""
        return 0.0 if self.confirmed is None else self.confirmed.mean

    @property
    def is_tight(self) -> bool:
        """True if the mean of the recommended configuration is known well enough."""
        confirmed = self.confirmed
        if confirmed is None or confirmed.low is None or confirmed.high is None:
            return False
        return confirmed.high - confirmed.low <= 2 * TIGHT * confirmed.mean

    def misses(self, target_mbps: float) -> bool | None:
        """True if the recommended configuration gives less than a target; None where that is open."""
        if self.mean_mbps >= target_mbps:
            return False
        if self.confirmed is None:
            return True if self.runs > 1 else None
        high = self.confirmed.high
        return True if high is not None and high < target_mbps else None


#: Asked after each run whether another one is worth it.
More = Callable[[Confirmation], bool]


def confirm(
    topology: Topology,
    runner: TrialRunner,
    recommended: Configuration,
    default: Configuration,
    *,
    other: Configuration | None = None,
    runs: int,
    base_seed: int,
    round_: int = 0,
    progress: Advance | None = None,
    more: More = lambda _: False,
) -> Confirmation:
    """Measure the configurations with seeds that nothing else uses; errors as `run_trials`.

    Parameters
    ----------
    other : the best plain TCP; where that is recommended, the best MPTCP.
    runs : of each configuration, at least.
    more : whether to add one of each.
    """
    configurations = [recommended, default] if other is None else [recommended, default, other]
    results: list[list[Record]] = [[] for _ in configurations]

    def measure(first: int, count: int) -> Confirmation:
        planned = [
            plan_run(
                topology,
                configuration,
                purpose="confirm",
                run=run,
                base_seed=base_seed,
                round_=round_,
            )
            for configuration in configurations
            for run in range(first, first + count)
        ]
        records = runner.measure(planned, progress=progress, before=sum(map(len, results)))
        for number, own in enumerate(results):
            own += records[number * count : (number + 1) * count]
        return confirmation_of(recommended, default, other, results)

    confirmation = measure(0, runs)
    # A limit that the user set ends what was only an addition.
    with suppress(LimitReached):
        while more(confirmation):
            confirmation = measure(confirmation.runs, 1)
    return confirmation


def confirmation_of(
    recommended: Configuration,
    default: Configuration,
    other: Configuration | None,
    results: Sequence[Sequence[Record]],
) -> Confirmation:
    """Confirmation from the trials of each configuration, in this order."""
    ours, theirs, *rest = results
    others = rest[0] if rest else []
    return Confirmation(
        recommended=recommended,
        default=default,
        confirmed=summary_of(THROUGHPUT.values(ours)),
        baseline=summary_of(THROUGHPUT.values(theirs)),
        gain=_gain(ours, theirs),
        against_tcp=None if other is None else _against_tcp(recommended, ours, other, others),
        records=(*ours, *theirs, *others),
    )


def turned(confirmation: Confirmation) -> Confirmation:
    """The same trials, with the opponent across protocols as what is recommended.

    Raises
    ------
    ValueError : there was none.
    """
    against = confirmation.against_tcp
    if against is None:
        raise ValueError("nothing was compared across protocols")
    runs = confirmation.runs
    ours, theirs, others = (confirmation.records[i * runs : (i + 1) * runs] for i in range(3))
    recommended = against.tcp if confirmation.recommended == against.mptcp else against.mptcp
    return msgspec.structs.replace(
        confirmation,
        recommended=recommended,
        confirmed=summary_of(THROUGHPUT.values(others)),
        gain=_gain(others, theirs),
        records=(*others, *theirs, *ours),
    )


def _against_tcp(
    recommended: Configuration, ours: Sequence[Record], other: Configuration, others: Sequence[Record]
) -> AgainstTcp:
    """Put MPTCP first, whichever of the two is recommended."""
    (mptcp, with_mptcp), (tcp, with_tcp) = sorted(
        [(recommended, ours), (other, others)], key=lambda row: row[0].protocol == PLAIN_TCP
    )
    return AgainstTcp(
        mptcp=mptcp,
        tcp=tcp,
        with_mptcp=summary_of(THROUGHPUT.values(with_mptcp)),
        with_tcp=summary_of(THROUGHPUT.values(with_tcp)),
        gain=_gain(with_mptcp, with_tcp),
    )


def _gain(ones: Sequence[Record], others: Sequence[Record]) -> Summary | None:
    """Throughput of some trials minus that of others, run by run; None where no run succeeded with both."""
    return summary_of(THROUGHPUT.gains(ones, others))


def verdict(decision: Decision, points: Sequence[SweepPoint], confirmation: Confirmation | None) -> list[str]:
    """Sentences for what the observations do not bear out; none if all is well.

    Parameters
    ----------
    points : the sweep that was decided on.
    confirmation : None where nothing can be measured again.

    The target is what the selection promised: the sacrifice below the best mean of all, or in the literal
    reading of the chosen combination.
    """
    optimum, sacrifice = decision.optimum, decision.options.sacrifice
    if decision.options.selection == "literal":
        points = [point for point in points if point.combination == optimum.combination]
    # What was not swept (plain TCP, a rival of the shortlist) has no points, and is held to its own promise.
    most = max((point.throughput.mean for point in points), default=optimum.throughput_mbps)
    target = (1 - sacrifice) * most
    sentences = []
    if confirmation is not None:
        sentences = [*_against_trials(optimum, target, confirmation), *_against_default(confirmation.gain)]
    return [*sentences, *_against_sweep(points, optimum, target), *_falls_again(points, optimum, target)]


def _against_trials(optimum: Optimum, target_mbps: float, confirmation: Confirmation) -> list[str]:
    """Warnings where fresh trials contradict the prediction or miss the target."""
    predicted_mbps, confirmed = optimum.throughput_mbps, confirmation.confirmed
    if confirmed is None:
        reason = confirmation.records[0].failed
        return [f"No trial of the recommended configuration succeeded (first reason: {reason})."]
    low, high = (confirmed.mean if end is None else end for end in (confirmed.low, confirmed.high))
    sentences = []
    outside = not low <= predicted_mbps <= high
    if outside and abs(predicted_mbps - confirmed.mean) > DISAGREEMENT * confirmed.mean:
        sentences.append(
            f"The model predicts {digits(predicted_mbps)} Mbit/s, fresh trials gave {digits(confirmed.mean)} "
            f"({digits(low)} to {digits(high)}): trust the trials."
        )
    if high < target_mbps and confirmed.high is None:
        sentences.append(
            f"The only confirming run gave {digits(confirmed.mean)} Mbit/s, less than the best mean of the "
            f"sweep less the sacrifice, {digits(target_mbps)}. One run is too few to judge: a longer "
            "budget adds confirming runs."
        )
    elif high < target_mbps:
        # An answer promises less where nothing holds the target.
        unheld = high >= predicted_mbps
        sentences.append(
            f"The recommended configuration gives {digits(confirmed.mean)} Mbit/s, less than the best mean "
            f"of the sweep less the sacrifice, {digits(target_mbps)}: no configuration tried sustains that "
            "with larger buffers and in fresh trials."
            if unheld
            else "The recommended configuration misses its target: "
            f"{digits(confirmed.mean)} Mbit/s, where the best mean of the sweep less the sacrifice is "
            f"{digits(target_mbps)}."
        )
    return sentences


def _against_default(gain: Summary | None) -> list[str]:
    """Warning if the answer is slower than the default."""
    if gain is None or gain.high is None or gain.high >= 0:
        return []
    return [
        f"It is slower than the default configuration, by {digits(-gain.mean)} Mbit/s; a smaller "
        "sacrifice would buy throughput with buffer."
    ]


def _against_sweep(points: Sequence[SweepPoint], optimum: Optimum, target_mbps: float) -> list[str]:
    """Warning if the sweep itself reached the target with a smaller buffer than the model asks for.

    A point counts with the lower end of its interval, so that the luckiest of many is not believed.
    """
    less = [
        point
        for point in points
        if point.buffer_mib < optimum.buffer_mib
        and (point.throughput.mean if point.throughput.low is None else point.throughput.low) >= target_mbps
    ]
    if not less:
        return []
    least = min(less, key=lambda point: (point.buffer_mib, -point.throughput.mean))
    combination = least.combination
    return [
        f"In the sweep {combination.manager} with {combination.cc} reached "
        f"{digits(least.throughput.mean)} Mbit/s with {least.buffer_mib:.4g} MiB already, and "
        f"{digits(target_mbps)} is the best mean less the sacrifice: "
        "the model asks for more buffer than the observations do."
    ]


def _falls_again(points: Sequence[SweepPoint], optimum: Optimum, target_mbps: float) -> list[str]:
    """Warning if the recommended combination missed the target with more buffer than is recommended.

    A point counts with the upper end of its interval, so that it must miss it for sure.
    """
    missed = [
        point
        for point in points
        if point.combination == optimum.combination
        and point.buffer_mib > optimum.buffer_mib
        and (point.throughput.mean if point.throughput.high is None else point.throughput.high) < target_mbps
    ]
    if not missed:
        return []
    least = min(missed, key=lambda point: point.throughput.mean)
    first, last = (end(point.buffer_mib for point in missed) for end in (min, max))
    where = f"with {first:.4g} MiB" if first == last else f"between {first:.4g} and {last:.4g} MiB"
    return [
        f"More buffer may make {optimum.pm} with {optimum.cc} slower: {where} it missed the target, down to "
        f"{digits(least.throughput.mean)} Mbit/s. Do not exceed the recommended buffer."
    ]
