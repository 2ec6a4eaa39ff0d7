"""The answer of what the main job found, and the files of the run directory.

`--json` prints the documents that are in the run directory.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from mptune.decision import Decision, confirmation
from mptune.decision.model_error import gain
from mptune.decision.robustness import Finalist
from mptune.decision.tradeoff import FrontPoint
from mptune.decision.uncertainty import Uncertainty
from mptune.files import writing_table
from mptune.impact import Impact
from mptune.optimisation import baselines
from mptune.optimisation.main_job import Result
from mptune.optimisation.on_kernel import MeasuredOnKernel
from mptune.optimisation.reached import Reached as HowReached
from mptune.optimisation.rounds import Round
from mptune.response import BELIEF
from mptune.result import algorithm, wording
from mptune.result.answer import (
    RESULT_VERSION,
    AgainstTcp,
    Answer,
    Candidate,
    ConfirmedOnKernel,
    Ends,
    FinalistRow,
    FrontRow,
    ModelRow,
    Reached,
    RoundAnswer,
    RoundRow,
    Step,
    TraditionalSize,
    TrialCounts,
    UncertaintyRow,
    Win,
)
from mptune.result.values import Baseline, Baselines, Beside, Gain, Interval, TcpBaseline
from mptune.result.variation import nearly_always
from mptune.statistics import Summary
from mptune.store.directory import RESULT, write_config, write_json, write_observations
from mptune.trial import Combination, Configuration, Record
from mptune.units import MIB

#: Significant digits of a number in a document: enough for any use, and few enough that the last bits
#: of linear algebra, which differ between processors, never show.
_DIGITS = 9

#: Fields of some answers alone.
_OF_SOME = ("confirmed_on_kernel", "sensitivity", "rounds", "algorithm", "baselines", "heed")

#: Points of a fitted curve in a table.
_CURVE_POINTS = 120


def impact_document(impact: Impact) -> dict[str, Any]:
    """Impact factors and sets of one congestion control; RTTs in ms, `mean` null if every run failed.

    `low` and `high` of a decision are the interval that decided, null if there were too few runs for one.
    """
    return document(
        {
            "cc": impact.cc,
            "omega": {
                path.path: {
                    **_omega(path.omega),
                    "rtt_ms": path.rtt_ms,
                    "runs": path.omega.n if path.omega else 0,
                }
                for path in impact.paths
            },
            "optional": list(impact.sets.optional),
            "standby": list(impact.sets.standby),
            "fallback": impact.sets.fallback,
            "warnings": list(impact.warnings),
            "design": impact.design,
            "decisions": {
                path.path: {"decision": path.decision, "low": path.low, "high": path.high}
                for path in impact.paths
            },
            "plausible": impact.plausible,
            "doubts": list(impact.doubts),
            "homogeneous": impact.homogeneous,
            "compared": [
                {"subflows": list(contest.subflows), "throughput_mbps": list(contest.throughput_mbps)}
                for contest in impact.compared
            ],
            "trials": impact.trials,
            "measured_s": impact.measured_ns / 1e9,
            "error_rate": impact.error_rate,
        }
    )


def answer_of(result: Result) -> Answer:
    """The answer of `mptune optimise`: MiB, Mbit/s, intervals of 95 %.

    Where plain TCP is the answer, `protocol` is "tcp", and so is every path manager that stands for it; its
    path is the subflow. What is unknown for measurements made elsewhere is None or empty.
    """
    decision, optimum, confirmation = result.decision, result.optimum, result.confirmation
    low, high = result.predicted or (None, None)
    options, eq3 = decision.options, result.traditional.get("eq3")
    return Answer(
        version=RESULT_VERSION,
        topology=None if result.topology is None else result.topology.name,
        stack=result.stack or None,
        buffer_mode=result.buffer_mode or None,
        receive_bytes=result.receive_bytes,
        family=result.family or None,
        protocol="tcp" if optimum.combination.is_tcp else "mptcp",
        opm=optimum.pm,
        occ=optimum.cc,
        initial_path=optimum.initial_path or None,
        obs_mib=optimum.buffer_mib,
        otp_mbps=optimum.throughput_mbps,
        subflows=result.subflows,
        standby=() if confirmation is None else confirmation.recommended.standby_order,
        obs_bytes=result.buffer_bytes,
        predicted=Interval(optimum.throughput_mbps, low, high),
        confirmed=Interval() if confirmation is None else _interval(confirmation.confirmed),
        default=None if confirmation is None else _baseline(confirmation.default, confirmation.baseline),
        gain=None if confirmation is None else _gain(confirmation.gain, confirmation.baseline),
        against_tcp=None if confirmation is None else _against_tcp(confirmation.against_tcp),
        finalists=tuple(map(_finalist, result.finalists)),
        on_kernel=result.on_kernel,
        gain_on_kernel=None
        if result.on_kernel is None or result.default_on_kernel is None
        else gain(result.on_kernel, result.default_on_kernel),
        confirmed_on_kernel=_confirmed_on_kernel(result.measured_on_kernel),
        uncertainty=_uncertainty(decision.uncertainty),
        reached=None if result.reached is None else course(result.reached),
        models=tuple(_models(decision)),
        r_squared=decision.response.r_squared,
        fits=decision.response.qualities,
        comparison=decision.response.comparison,
        pareto=tuple(map(_front_row, decision.front)),
        traditional_mib=None if eq3 is None else eq3 / MIB,
        share_of_traditional=None if eq3 is None else result.buffer_bytes / eq3,
        traditional={
            name: TraditionalSize(size / MIB, result.buffer_bytes / size)
            for name, size in result.traditional.items()
        },
        sacrifice=options.sacrifice,
        selection=options.selection,
        model=decision.response.model,
        model_asked=options.model,
        trials=counts(result.records),
        answer=tuple(wording.answer(result)),
        warnings=(*algorithm.warnings(result), *result.warnings),
        sensitivity=result.sensitivity,
        rounds=tuple(map(_round, result.rounds)),
        algorithm=algorithm.steps(result),
        baselines=None if result.baselines is None else besides(result.baselines, confirmation),
        heed=result.heed,
        nearly_always=next(nearly_always(result), msgspec.UNSET),
    )


def result_document(result: Result) -> dict[str, Any]:
    """The answer as JSON; what only some answers have is left out of the others."""
    content = document(answer_of(result))
    return {name: value for name, value in content.items() if value or name not in _OF_SOME}


def counts(records: Sequence[Record]) -> TrialCounts:
    """Numbers of trials."""
    return TrialCounts(len(records), sum(record.failed is not None for record in records))


def course(reached: HowReached, *, of_objective: bool = False) -> Reached:
    """Course of the decision: seconds, bytes, Mbit/s or the objective's unit; a candidate by its index."""
    candidates = sorted(
        {combination for step in reached.steps for combination in (*step.contenders, step.combination)}
    )
    place = {candidate: index for index, candidate in enumerate(candidates)}
    return Reached(
        strategy=reached.strategy,
        certainty_asked=reached.wanted,
        budget_s=reached.budget_s,
        spent_s=reached.spent_s,
        ended=reached.ended,
        candidates=tuple(Candidate(**_combination(candidate)) for candidate in candidates),
        steps=tuple(
            Step(
                trials=step.trials,
                seconds=step.seconds,
                candidate=place[step.combination],
                buffer_bytes=step.buffer_bytes,
                throughput_mbps=None if of_objective else step.value,
                value=step.value if of_objective else msgspec.UNSET,
                certainty=step.certainty,
                room=step.room,
                among=step.among,
                contenders=tuple(place[contender] for contender in step.contenders),
                buffers=step.buffers,
                more_s=step.more_s,
                prior=step.prior or None,
                drift=step.drift,
            )
            for step in reached.steps
        ),
    )


def _round(round_: Round) -> RoundRow:
    """A round of a repeated campaign."""
    answered = round_.answered
    return RoundRow(
        round=round_.number,
        at_s=round_.at_ns / 1e9,
        failed=round_.failed or None,
        changes=round_.changes,
        answer=None
        if answered is None
        else RoundAnswer(
            opm=answered.optimum.pm,
            occ=answered.optimum.cc,
            initial_path=answered.optimum.initial_path or None,
            subflows=answered.subflows,
            obs_bytes=answered.buffer_bytes,
            otp_mbps=answered.optimum.throughput_mbps,
            confirmed=_interval(answered.confirmed),
            gain=_interval(answered.gain),
            omega={
                impact.cc: {path.path: path.omega.mean if path.omega else None for path in impact.paths}
                for impact in answered.impacts
            },
            optional={impact.cc: impact.sets.optional for impact in answered.impacts},
        ),
    )


def _front_row(point: FrontPoint) -> FrontRow:
    """A point of the front; intervals None without resampling."""
    buffer, throughput = point.buffer_interval or (None, None), point.throughput_interval or (None, None)
    optimum = point.optimum
    return FrontRow(
        sacrifice=point.sacrifice,
        pm=optimum.pm,
        cc=optimum.cc,
        subflows=" ".join(optimum.subflows),
        initial_path=optimum.initial_path or None,
        buffer_mib=optimum.buffer_mib,
        buffer_mib_low=buffer[0],
        buffer_mib_high=buffer[1],
        throughput_mbps=optimum.throughput_mbps,
        throughput_mbps_low=throughput[0],
        throughput_mbps_high=throughput[1],
    )


def write_result(directory: Path, result: Result, options: Mapping[str, Any], now: datetime) -> None:
    """Write config, observations, impact factors and result into a directory.

    Parameters
    ----------
    options : of the run, as the user would give them again.
    now : time of the run; only `config.json` contains it.
    """
    decision = result.decision
    write_config(directory, options, _topology(result), now)
    if result.records:
        write_observations(directory, result.records)
    write_impacts(directory, result.impacts)
    answer = result_document(result)
    write_json(directory / RESULT, answer)
    write_table(directory / "pareto.csv", answer["pareto"])
    write_table(directory / "curves.csv", curve_rows(decision))


def write_impacts(directory: Path, impacts: Sequence[Impact]) -> None:
    """Write impact factors and sets of every congestion control; nothing if none were measured."""
    if impacts:
        write_json(directory / "impact.json", {"impact": [impact_document(impact) for impact in impacts]})


def curve_rows(decision: Decision) -> list[dict[str, Any]]:
    """Every fitted curve over the measured buffers, MiB and Mbit/s; 95 % intervals if there are any.

    The points are evenly spaced; those of a belief by octaves, as its buffers are.
    """
    low, high = decision.buffers[0], decision.buffers[-1]
    buffers = [low + i * (high - low) / (_CURVE_POINTS - 1) for i in range(_CURVE_POINTS)]
    if decision.response.model == BELIEF:
        buffers = [low * (high / low) ** (i / (_CURVE_POINTS - 1)) for i in range(_CURVE_POINTS)]
    rows = []
    for combination, curve in decision.response.curves.items():
        for buffer_mib in buffers:
            interval = curve.interval(buffer_mib) or (None, None)
            rows.append(
                document(
                    {
                        "pm": combination.pm,
                        "cc": combination.cc,
                        "subflows": " ".join(combination.subflows),
                        "initial_path": combination.initial_path or None,
                        "buffer_mib": buffer_mib,
                        "predicted_mbps": curve.predict(buffer_mib),
                        "low_mbps": interval[0],
                        "high_mbps": interval[1],
                    }
                )
            )
    return rows


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV; an empty field means that there is no value."""
    with writing_table(path) as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _topology(result: Result) -> dict[str, Any]:
    """The topology as used: its network and the origin of each value; empty if there is none."""
    built: dict[str, Any] = {} if result.topology is None else msgspec.to_builtins(result.topology)
    return built


def _uncertainty(uncertainty: Uncertainty | None) -> UncertaintyRow | None:
    """Intervals of the optimum, and how often each combination wins."""
    if uncertainty is None:
        return None
    return UncertaintyRow(
        resamples=uncertainty.resamples,
        single_runs=uncertainty.single_runs,
        obs_mib=Ends(*uncertainty.obs_mib),
        otp_mbps=Ends(*uncertainty.otp_mbps),
        wins=tuple(Win(**_combination(win), share=share) for win, share in uncertainty.wins.items()),
    )


def _finalist(finalist: Finalist) -> FinalistRow:
    """A configuration of the shortlist; `worst` is a share of the best finalist's throughput."""
    return FinalistRow(
        **_fields(finalist.throughput),
        **_combination(finalist.combination),
        buffer_mib=finalist.buffer_bytes / MIB,
        worst=finalist.worst,
        average=finalist.average,
    )


def _confirmed_on_kernel(measured: MeasuredOnKernel | None) -> ConfirmedOnKernel | None:
    """Results of a kernel with the answer."""
    if measured is None:
        return None
    found, rival = measured.confirmation, measured.runner_up
    beside = None
    if rival is not None:
        beside = _finalist(
            Finalist(
                combination=rival.combination,
                buffer_bytes=rival.buffer_bytes,
                throughput=rival.throughput,
                worst=None,
                average=None,
            )
        )
    return ConfirmedOnKernel(
        testbed=measured.testbed,
        kernel=measured.kernel,
        duration_s=measured.duration_ns / 1e9,
        confirmed=_interval(found.confirmed),
        default=_baseline(found.default, found.baseline),
        gain=_gain(found.gain, found.baseline),
        runner_up=beside,
        finalists=tuple(map(_finalist, measured.finalists)),
    )


def _models(decision: Decision) -> Iterator[ModelRow]:
    """Formula and maximum of every curve within the measured range (MPCOA Table 4)."""
    for combination, curve in decision.response.curves.items():
        buffer, maximum = curve.maximum(decision.buffers[0], decision.buffers[-1])
        yield ModelRow(
            **_combination(combination),
            formula=curve.formula(),
            max_mbps=maximum,
            buffer_at_max_mib=buffer,
        )


def _combination(combination: Combination) -> dict[str, Any]:
    """Fields of a `Candidate`; empty or None where it was left to the path manager."""
    return {
        "pm": combination.pm,
        "cc": combination.cc,
        "subflows": combination.subflows,
        "initial_path": combination.initial_path or None,
    }


def _omega(summary: Summary | None) -> dict[str, float | None]:
    """Statistics of an impact factor, all null when there is none."""
    return {
        name: None if summary is None else getattr(summary, name)
        for name in ("mean", "median", "min", "max", "q10", "q90")
    }


def _fields(summary: Summary | None) -> dict[str, Any]:
    """Fields of an `Interval`: mean, 95 % interval and number of runs."""
    if summary is None:
        return {}
    return {"mean": summary.mean, "low": summary.low, "high": summary.high, "runs": summary.n}


def _interval(summary: Summary | None) -> Interval:
    return Interval(**_fields(summary))


def _baseline(configuration: Configuration, throughput: Summary | None) -> Baseline:
    return Baseline(
        **_fields(throughput),
        pm=configuration.pm,
        cc=configuration.cc,
        buffer_mib=configuration.buffer_bytes / MIB,
        subflows=configuration.active or (),
    )


def beside(measured: baselines.Measured | None) -> Beside | None:
    """A baseline, and what it gave in the unit that was asked for."""
    if measured is None:
        return None
    configuration = measured.configuration
    return Beside(
        **_fields(measured.value),
        pm=configuration.pm,
        cc=configuration.cc,
        buffer_mib=configuration.buffer_bytes / MIB,
        receive_mib=(configuration.receive_buffer_bytes or configuration.buffer_bytes) / MIB,
        subflows=measured.subflows,
        gain=_gain(measured.gain, measured.value),
        queueing=_interval(measured.queueing),
    )


def besides(found: baselines.Baselines, confirmed: confirmation.Confirmation | None = None) -> Baselines:
    """Baselines of an answer; of a confirmed one with its delays under load and its paths."""
    queueing = {} if confirmed is None else confirmed.queueing
    return Baselines(
        whose=found.whose,
        now=beside(found.now),
        by_hand=beside(found.by_hand),
        queueing={name: _interval(summary) for name, summary in queueing.items()},
        carried={} if confirmed is None else confirmed.carried,
    )


def _gain(gain: Summary | None, baseline: Summary | None) -> Gain:
    """A gain, and its mean as a share of what it is over."""
    share = gain.mean / baseline.mean if gain and baseline and baseline.mean else None
    return Gain(**_fields(gain), share=share)


def _against_tcp(against: confirmation.AgainstTcp | None) -> AgainstTcp | None:
    """Gain of MPTCP over the best plain TCP."""
    if against is None:
        return None
    tcp = against.tcp
    return AgainstTcp(
        mptcp=_baseline(against.mptcp, against.with_mptcp),
        tcp=TcpBaseline(
            **_fields(against.with_tcp),
            path=tcp.initial_path or "",
            cc=tcp.cc,
            buffer_mib=tcp.buffer_bytes / MIB,
        ),
        gain=_gain(against.gain, against.with_tcp),
    )


def document(content: msgspec.Struct | Mapping[str, Any]) -> dict[str, Any]:
    """Finish a document: built-in types, and rounded numbers."""
    document_: dict[str, Any] = msgspec.to_builtins(content)
    return {key: _rounded(value) for key, value in document_.items()}


def _rounded(thing: Any) -> Any:
    """The same value with its floats rounded to `_DIGITS` significant digits."""
    if isinstance(thing, float):
        return float(f"{thing:.{_DIGITS}g}")
    if isinstance(thing, Mapping):
        return {key: _rounded(value) for key, value in thing.items()}
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return [_rounded(value) for value in thing]
    return thing
