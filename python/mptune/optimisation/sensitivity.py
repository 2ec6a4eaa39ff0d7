"""Uncertain values that would change the answer: each is varied alone by its range.

The check with networks that are off in everything at once (`mptune.decision.robustness`) shows whether an
answer holds; this shows what it depends on. The answer and its rivals are measured in the network as
stated and with every uncertain value at either end of its range, in short trials with the same seeds. It
covers the configurations of the shortlist with the buffer of the answer, and the answer with twice the
buffer: a change that only something else would profit from is not seen.
"""

from collections.abc import Sequence
from statistics import fmean

import msgspec

from mptune.decision.robustness import REGRET, SURVIVAL
from mptune.optimisation.candidates import SCREEN_RUNS
from mptune.optimisation.confirming import Confirmed
from mptune.optimisation.job import Job
from mptune.runner.planning import plan_trials
from mptune.topology import uncertain
from mptune.trial import Configuration, Record

#: Most values that are varied, those that concern the answer's paths first.
MOST_VALUES = 60

#: Most configurations of the shortlist beside the answer: with its set of subflows, and with others.
_ALIKE, _OTHERS = 1, 3


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that is measured; `name` is it in words."""

    name: str
    configuration: Configuration


class End(msgspec.Struct, frozen=True, kw_only=True):
    """Consequence of one end of a range.

    Attributes
    ----------
    value : there, in words; `is_largest` : it is the upper end.
    throughput_mbps : of the answer.
    best, best_mbps : the fastest of what might replace it.
    instead : what the answer would become; None if it stays.
    """

    value: str
    is_largest: bool
    throughput_mbps: float
    best: str
    best_mbps: float
    instead: str | None


class Varied(msgspec.Struct, frozen=True, kw_only=True):
    """An uncertain value: its key and words (`Uncertain`), and one or both ends of its range."""

    key: str
    stated: str
    because: str
    ends: tuple[End, ...]


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """Sensitivities of the answer: first the values that would change it, then by their effect.

    Attributes
    ----------
    throughput_mbps : of the answer in the network as stated, in the same short trials.
    contenders : what might replace it, in words.
    runs, duration_s : of each configuration with each value.
    trials : how many there were.
    left_out : uncertain values that were not varied, because there are too many.
    values : what was varied.
    """

    throughput_mbps: float
    contenders: tuple[str, ...]
    runs: int
    duration_s: float
    trials: int
    left_out: int
    values: tuple[Varied, ...]


def vary(job: Job, confirmed: Confirmed) -> tuple[Sensitivity, list[Record]]:
    """Vary every uncertain value alone; the result, and the trials.

    At most `MOST_VALUES` values, two ends, six configurations, `SCREEN_RUNS` runs of a third of the duration
    (`brief_ns`).
    """
    topology, options = job.topology, job.options
    ones = _contenders(job, confirmed)
    found = list(uncertain(topology, options.off_by))
    ours = set(confirmed.confirmation.recommended.active or confirmed.contest.decision.optimum.subflows)
    found.sort(key=lambda one: bool(ours) and not ours.intersection(one.paths))
    shown = found[:MOST_VALUES]
    networks = [
        topology,
        *(
            there
            for each_uncertain in shown
            for there in (each_uncertain.below, each_uncertain.above)
            if there is not None
        ),
    ]
    planned = [
        trial
        for network in networks
        for trial in plan_trials(
            network,
            [contender.configuration.under(job.brief) for contender in ones],
            purpose="vary",
            runs=SCREEN_RUNS,
            base_seed=options.seed,
            round_=job.round_,
        )
    ]
    with job.phase("assumed values") as progress:
        records = job.runner.measure(planned, progress=progress)
    given = iter(_given(records, len(ones)))
    stated = next(given)
    varied = []
    for each_uncertain in shown:
        ends = []
        for network, value in (
            (each_uncertain.below, each_uncertain.low),
            (each_uncertain.above, each_uncertain.high),
        ):
            if network is not None:
                upper = network is each_uncertain.above
                ends.append(_end((value, upper), ones, stated, next(given), options.sacrifice))
        varied.append(
            Varied(
                key=each_uncertain.key,
                stated=each_uncertain.stated,
                because=each_uncertain.because,
                ends=tuple(ends),
            )
        )
    ours_mbps = fmean(stated[0])
    varied.sort(key=lambda one: (all(end.instead is None for end in one.ends), -_effect(one, ours_mbps)))
    return Sensitivity(
        throughput_mbps=ours_mbps,
        contenders=tuple(contender.name for contender in ones[1:]),
        runs=SCREEN_RUNS,
        duration_s=job.brief.duration_ns / 1e9,
        trials=len(planned),
        left_out=len(found) - len(shown),
        values=tuple(varied),
    ), records


def _contenders(job: Job, confirmed: Confirmed) -> list[Contender]:
    """The answer, itself with twice the buffer, its opponent across protocols, the best of other sets."""
    contest, confirmation = confirmed.contest, confirmed.confirmation
    answer, buffer_bytes = contest.decision.optimum.combination, confirmation.recommended.buffer_bytes
    double = msgspec.structs.replace(confirmation.recommended, buffer_bytes=2 * buffer_bytes)
    ones = [
        Contender(name=f"{answer.manager} with {answer.cc}", configuration=confirmation.recommended),
        Contender(name=f"{answer.manager} with {answer.cc} and twice the buffer", configuration=double),
    ]
    ranked = sorted(
        contest.finalists, key=lambda finalist: -(finalist.throughput.mean if finalist.throughput else 0.0)
    )
    others = [each_finalist.combination for each_finalist in ranked if each_finalist.combination != answer]
    if contest.opponent is not None:
        others = [
            contest.opponent,
            *(each_combination for each_combination in others if each_combination != contest.opponent),
        ]
    # Another congestion control gains where losses are others, another set where rates and RTTs are.
    seen: set[str] = set()
    room = {True: _ALIKE, False: _OTHERS}
    for combination in others:
        alike = combination.manager == answer.manager
        if combination.manager not in seen and room[alike]:
            seen.add(combination.manager)
            room[alike] -= 1
            configuration = job.configuration(combination, buffer_bytes)
            ones.append(
                Contender(name=f"{combination.manager} with {combination.cc}", configuration=configuration)
            )
    return ones


#: Throughput of every run of each configuration in one network, Mbit/s.
_Given = Sequence[Sequence[float]]


def _given(records: Sequence[Record], contenders: int) -> list[_Given]:
    """Throughputs by network; 0 for a failed run."""
    values = [record.throughput_mbps or 0.0 for record in records]
    runs = [values[i : i + SCREEN_RUNS] for i in range(0, len(values), SCREEN_RUNS)]
    return [runs[i : i + contenders] for i in range(0, len(runs), contenders)]


def _end(
    value: tuple[str, bool], ones: Sequence[Contender], stated: _Given, there: _Given, sacrifice: float
) -> End:
    """Consequence of an end of a range.

    Another configuration replaces the answer where it gives, in every run, more than the accepted sacrifice
    allows (and more than what MPTCP may lose against plain TCP), and where its advantage is larger than in
    the network as stated.

    Parameters
    ----------
    value : in words, and whether it is the upper end.
    """
    means = [fmean(values) for values in there]
    ours, before = means[0], fmean(stated[0])
    best = max(range(1, len(ones)), key=lambda i: means[i])
    advantage = means[best] * before > (1 + REGRET) * fmean(stated[best]) * ours
    least = 1 - max(sacrifice, SURVIVAL)
    beaten = all(least * number > mine for mine, number in zip(there[0], there[best], strict=True))
    return End(
        value=value[0],
        is_largest=value[1],
        throughput_mbps=ours,
        best=ones[best].name,
        best_mbps=means[best],
        instead=ones[best].name if beaten and advantage else None,
    )


def _effect(varied: Varied, stated: float) -> float:
    """The largest change of the answer's throughput, Mbit/s."""
    return max(abs(end.throughput_mbps - stated) for end in varied.ends)
