"""The main job for transfers: for each size, the configuration with the smallest completion time.

    impact factors -> sets of subflows -> screening -> sweep -> choice for each size -> confirmation

There is no model and no sacrifice: a buffer that is too small costs time, and that shows. Of the
configurations that cannot be distinguished from the fastest one, the smallest buffer is the answer. What the
steps share with the search for throughput is in `mptune.optimisation.job`. It prints nothing and writes
no file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from mptune.decision.robustness import REGRET
from mptune.decision.selection import LAST_CHOICE, THROUGHPUT_TIE
from mptune.decision.sweep import combination_of, named
from mptune.errors import MptuneError
from mptune.impact import Impact, warnings_of
from mptune.optimisation import baselines
from mptune.optimisation.baselines import Baselines
from mptune.optimisation.candidates import SCREEN_RUNS, asked, competing, screen_buffers, screened
from mptune.optimisation.impacts import measure_impacts
from mptune.optimisation.job import Job, failures
from mptune.optimisation.options import OptimiseOptions
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.statistics import Summary, quantile, summarise, summary_of
from mptune.testbeds import stack_title
from mptune.topology import Topology
from mptune.trial import Combination, Configuration, Record
from mptune.trial.metrics import COMPLETION
from mptune.units import format_size

#: The percentile shown beside the mean.
PERCENTILE = 0.95

#: A buffer this many times as large as the transfer holds all of it, whatever the kernel charges for it
#: (about twice the payload): of such buffers only the smallest is measured.
_AMPLE = 4


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Completion times of one configuration, seconds.

    Attributes
    ----------
    summary : over the runs that completed; None if there are none.
    percentile : their 95th percentile, by linear interpolation between the closest ranks (type 7 of Hyndman
        and Fan, as every quantile here): with fewer than 21 runs it lies between the two longest ones.
    failed : runs that did not complete; not those for which the machine was too busy.
    """

    summary: Summary | None
    percentile: float | None
    failed: int = 0


class SizePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration with one size of transfer in the sweep.

    Attributes
    ----------
    by_run : completion time of every run that completed, seconds.
    """

    combination: Combination
    buffer_bytes: int
    transfer_bytes: int
    times: Times
    by_run: dict[int, float]


class SizeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one size.

    Attributes
    ----------
    points : everything that was measured for it, in the order of measurement.
    fastest : the point with the smallest mean; `chosen` : the smallest buffer of those like it.
    alike : how many points cannot be distinguished from the fastest, itself included.
    recommended, default : what was measured again with new seeds.
    subflows : labels of those that may carry data.
    confirmed, baseline : their completion times.
    baselines : completion times with what the hosts do today, and with endpoints by hand.
    gain : time saved, the default's minus ours, run by run with the same seed, seconds; None without a pair.
    """

    transfer_bytes: int
    points: tuple[SizePoint, ...]
    fastest: SizePoint
    chosen: SizePoint
    alike: int
    recommended: Configuration
    default: Configuration
    subflows: tuple[str, ...]
    confirmed: Times
    baseline: Times
    gain: Summary | None
    baselines: Baselines


class SizesResult(msgspec.Struct, frozen=True, kw_only=True):
    """An answer for each size, and the evidence; fields as in `mptune.optimisation.main_job.Result`."""

    name: str
    topology: Topology
    stack: str
    buffer_mode: str
    receive_bytes: int | None = None
    family: str
    impacts: tuple[Impact, ...]
    answers: tuple[SizeAnswer, ...]
    warnings: tuple[str, ...]
    records: tuple[Record, ...]


def optimise_by_size(
    topology: Topology,
    runner: TrialRunner,
    options: OptimiseOptions,
    *,
    reporter: Reporter | None = None,
) -> SizesResult:
    """Find the best configuration for each of `options.transfers`.

    Raises
    ------
    InputError : an invalid option; before anything is measured.
    MptuneError : no configuration completed a transfer.
    """
    options.check()
    job = Job.on(topology, runner, options, reporter)
    impacts = measure_impacts(job, options.impact)
    job = replace(job, sets=impacts.sets)
    screening, combinations = _screen(job, impacts.factors)
    swept = _sweep(job, combinations)
    points = {size: _points(records, job.optional) for size, records in swept.items()}
    chosen = {size: choose(found) for size, found in points.items()}
    answers, confirming = _confirm(job, points, chosen)
    all_swept = [record for records in swept.values() for record in records]
    return SizesResult(
        name=topology.name,
        topology=topology,
        stack=stack_title(runner.testbed.name, msgspec.structs.asdict(options.stack.chosen())),
        buffer_mode=options.mode_of_trials,
        receive_bytes=job.receive_bytes,
        family=options.family,
        impacts=impacts.factors,
        answers=answers,
        warnings=(
            *job.left_out,
            *warnings_of(impacts.factors),
            *failures(all_swept, "sweep"),
            *failures(confirming, "confirmation"),
            *(text for answer in answers for text in _verdict(answer)),
        ),
        records=(*impacts.records, *screening, *all_swept, *confirming),
    )


def sizes_worth_measuring(buffers: Sequence[int], transfer_bytes: int) -> list[int]:
    """Buffers for a transfer, bytes, ascending: of those that hold all of it the smallest alone."""
    ordered = sorted(buffers)
    enough = next((size for size in ordered if size >= _AMPLE * transfer_bytes), ordered[-1])
    return [size for size in ordered if size <= enough]


def choose(points: Sequence[SizePoint]) -> tuple[SizePoint, SizePoint, int]:
    """The fastest point, the one to use, and how many cannot be distinguished from the fastest.

    A point counts as slower if its mean exceeds the fastest one's by more than `REGRET` and, in pairs of runs
    with the same seed, it is slower with 95 % confidence; with a single run the first is enough. Of
    the others the smallest buffer is used, of equal ones the fastest, of those pcdc last. A configuration of
    which a run failed is used only if there is no other.

    Raises
    ------
    MptuneError : nothing completed.
    """
    done = [point for point in points if point.by_run]
    sound = [size_point for size_point in done if not size_point.times.failed] or done
    if not sound:
        size = format_size(points[0].transfer_bytes)
        raise MptuneError(f"no configuration completed a transfer of {size}")
    fastest = min(sound, key=lambda point: (_mean(point), point.buffer_bytes, point.combination))
    alike = [size_point for size_point in sound if not _is_slower(size_point, fastest)]
    return fastest, _simplest(alike), len(alike)


def _simplest(alike: Sequence[SizePoint]) -> SizePoint:
    """The smallest buffer; among equal ones the fastest; among those the simplest path manager."""
    least = min(point.buffer_bytes for point in alike)
    small = [size_point for size_point in alike if size_point.buffer_bytes == least]
    best = min(_mean(point) for point in small)
    equal = [size_point for size_point in small if _mean(size_point) <= (1 + THROUGHPUT_TIE) * best]
    return min(
        equal, key=lambda point: (point.combination.pm == LAST_CHOICE, _mean(point), point.combination)
    )


def _is_slower(point: SizePoint, fastest: SizePoint) -> bool:
    """True if it took longer for sure, run by run, and by as much as matters."""
    if _mean(point) <= (1 + REGRET) * _mean(fastest):
        return False
    runs = point.by_run.keys() & fastest.by_run.keys()
    if not runs:
        return True
    more = summarise([point.by_run[run] - fastest.by_run[run] for run in sorted(runs)])
    return (more.mean if more.low is None else more.low) > 0


def _mean(point: SizePoint) -> float:
    """Mean completion time, seconds; of a point that has one."""
    assert point.times.summary is not None
    return point.times.summary.mean


def _screen(job: Job, impacts: Sequence[Impact]) -> tuple[list[Record], dict[int, list[Combination]]]:
    """The combinations to sweep for each size: those asked for, and sets of subflows that come near the best.

    The trials are transfers too: what is good for a saturated sender need not be for a small one.
    """
    options, usual = job.options, asked(job.options)
    others = competing(options, job.mptcp, impacts)
    if not others:
        return [], dict.fromkeys(options.transfers, usual)
    by_size = {
        size: [
            job.of_size(size).configuration(combination, buffer)
            for combination in (*usual, *others)
            for buffer in screen_buffers(sizes_worth_measuring(options.buffers, size))
        ]
        for size in options.transfers
    }
    runs = min(options.runs_each, SCREEN_RUNS)
    records = _measured(job, by_size, "screen", runs, "screening")
    combinations = {}
    for size, ones in records.items():
        found = named(ones, job.optional)
        combinations[size] = [*usual, *screened(found, options.sacrifice, usual)]
    return [record for ones in records.values() for record in ones], combinations


def _sweep(job: Job, combinations: Mapping[int, Sequence[Combination]]) -> dict[int, list[Record]]:
    """Every combination with every buffer that makes a difference, for each size."""
    by_size = {
        size: [
            job.of_size(size).configuration(combination, buffer)
            for combination in combinations[size]
            for buffer in sizes_worth_measuring(job.options.buffers, size)
        ]
        for size in job.options.transfers
    }
    return _measured(job, by_size, "sweep", job.options.runs_each, "sweep")


def _confirm(
    job: Job,
    points: Mapping[int, tuple[SizePoint, ...]],
    chosen: Mapping[int, tuple[SizePoint, SizePoint, int]],
) -> tuple[tuple[SizeAnswer, ...], list[Record]]:
    """Every choice and the default again, with seeds that nothing else uses."""
    options = job.options
    by_size = {
        size: [
            job.of_size(size).configuration(point.combination, point.buffer_bytes),
            job.of_size(size).default,
        ]
        for size, (_, point, _) in chosen.items()
    }
    runs = options.fresh_runs
    records = _measured(job, by_size, "confirm", runs, "confirmation")
    answers = []
    for size, (fastest, point, alike) in chosen.items():
        ours, theirs = records[size][:runs], records[size][runs:]
        recommended, plain = by_size[size]
        answers.append(
            SizeAnswer(
                transfer_bytes=size,
                points=points[size],
                fastest=fastest,
                chosen=point,
                alike=alike,
                recommended=recommended,
                default=plain,
                subflows=_subflows(job.topology, recommended, ours),
                confirmed=_times(ours),
                baseline=_times(theirs),
                gain=summary_of(COMPLETION.gains(ours, theirs)),
                baselines=baselines.measure(job.of_size(size), ours, runs, metric=COMPLETION),
            )
        )
    return tuple(answers), [record for ones in records.values() for record in ones]


def _measured(
    job: Job, by_size: Mapping[int, Sequence[Configuration]], purpose: str, runs: int, name: str
) -> dict[int, list[Record]]:
    """Trials of all sizes side by side, by size: for each, configuration by configuration, run by run."""
    records = job.measure(
        [configuration for ones in by_size.values() for configuration in ones], purpose, runs, name
    )
    found, first = {}, 0
    for size, ones in by_size.items():
        found[size] = records[first : first + runs * len(ones)]
        first += runs * len(ones)
    return found


def _points(records: Sequence[Record], optional: Mapping[str, tuple[str, ...]]) -> tuple[SizePoint, ...]:
    """Trials of one size by configuration, in the order of measurement."""
    grouped: dict[tuple[Combination, int], list[Record]] = {}
    for record in records:
        grouped.setdefault((combination_of(record, optional), record.buffer_bytes), []).append(record)
    return tuple(
        SizePoint(
            combination=combination,
            buffer_bytes=buffer,
            transfer_bytes=int(ones[0].settings["transfer_bytes"]),
            times=_times(ones),
            by_run={record.run: took for record in ones if (took := COMPLETION.of(record)) is not None},
        )
        for (combination, buffer), ones in grouped.items()
    )


def _times(records: Sequence[Record]) -> Times:
    """Statistics of the trials of one configuration."""
    done = sorted(COMPLETION.values(records))
    return Times(
        summary=summary_of(done),
        percentile=quantile(done, PERCENTILE) if done else None,
        failed=sum(
            COMPLETION.of(record) is None and record.failed_kind != "overloaded" for record in records
        ),
    )


def _subflows(topology: Topology, configuration: Configuration, records: Sequence[Record]) -> tuple[str, ...]:
    """Subflows that carried data in any run, in the order of the topology."""
    used = {
        subflow.path for record in records for subflow in record.subflows if subflow.throughput_mbps
    } or set(configuration.active or ())
    return tuple(path.label for path in topology.paths if path.label in used)


def _verdict(answer: SizeAnswer) -> list[str]:
    """Sentences for what the fresh trials do not bear out; none if all is well."""
    size, gain, baseline = format_size(answer.transfer_bytes), answer.gain, answer.baseline.summary
    sentences = [f"{size}: {sentence}" for sentence in answer.baselines.warnings]
    if answer.confirmed.failed:
        sentences.append(f"{size}: {answer.confirmed.failed} fresh runs of the answer did not complete.")
    surely = gain is not None and gain.high is not None and gain.high < 0
    if surely and gain is not None and baseline is not None and -gain.mean > REGRET * baseline.mean:
        sentences.append(f"{size}: the answer is slower than the default in fresh runs; use the default.")
    return sentences
