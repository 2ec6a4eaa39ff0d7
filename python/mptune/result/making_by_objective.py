"""JSON document and files of an answer by an objective (`mptune.optimisation.by_objective`).

Sizes in bytes, values in the unit of their metric, intervals of 95 %.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from mptune.optimisation import by_objective
from mptune.optimisation.by_objective import ObjectiveResult
from mptune.optimisation.failover import Failover
from mptune.optimisation.points import Point
from mptune.result import wording
from mptune.result.answer import (
    RESULT_VERSION,
    FailoverFigure,
    Figure,
    ObjectiveAnswer,
    OutageFigure,
)
from mptune.result.making import besides, counts, course, document, write_table
from mptune.result.values import Front, FrontPoint, Interval, Setting
from mptune.statistics import Summary, summary_of
from mptune.store.directory import COMPARED, RESULT, write_config, write_json, write_observations
from mptune.trial import Configuration
from mptune.trial.stacks import DEFAULT_STACK, STACKS, sysctls_of


def objective_document(result: ObjectiveResult) -> dict[str, Any]:
    """The answer of `mptune optimise --workload`."""
    return document(
        ObjectiveAnswer(
            version=RESULT_VERSION,
            topology=result.topology.name,
            stack=result.stack,
            buffer_mode=result.buffer_mode,
            receive_bytes=result.receive_bytes,
            family=result.family,
            trials=counts(result.records),
            # Switches of a saturated sender are off here.
            workload={
                name: value
                for name, value in msgspec.to_builtins(result.workload).items()
                if value is not False
            },
            objective=result.objective,
            unit=result.unit,
            limits=result.limits,
            recommended=_setting(result.recommended, result.subflows),
            default=_setting(result.default, ()),
            figures=tuple(map(_figure, result.figures)),
            throughput=_figure(result.throughput),
            outage=None
            if result.outage is None
            else OutageFigure(path=result.outage[0], gap=_figure(result.outage[1])),
            failover=None if result.failover is None else _failover(result.failover),
            harm=tuple(map(_figure, result.harm)),
            sent=result.workload.phrase,
            baselines=besides(result.baselines),
            compared=len(result.points),
            alike=result.alike,
            room=result.room,
            front=_front(result) if result.front else None,
            reached=None if result.reached is None else course(result.reached, of_objective=True),
            answer=tuple(wording.objective_answer(result)),
            warnings=result.warnings,
        )
    )


def write_objective(
    directory: Path, result: ObjectiveResult, options: Mapping[str, Any], now: datetime
) -> None:
    """Write config, observations, the answer, and all that was compared (`compared.csv`)."""
    write_config(directory, options, msgspec.to_builtins(result.topology), now)
    write_observations(directory, result.records)
    write_json(directory / RESULT, objective_document(result))
    write_table(directory / COMPARED, [_row(result, point) for point in result.points])


def _row(result: ObjectiveResult, point: Point) -> dict[str, Any]:
    """One configuration of the sweep."""
    combination = point.combination
    return document(
        {
            "pm": combination.pm,
            "cc": combination.cc,
            "active": " ".join(combination.subflows),
            "initial_path": combination.initial_path or None,
            "buffer_bytes": point.buffer_bytes,
            "objective": result.objective,
            "unit": result.unit,
            **msgspec.structs.asdict(_of_runs(point.by_run)),
            **_second(result, point),
            "failed": point.failed,
            "within_limits": point.kept,
            "chosen": point == result.chosen,
        }
    )


def _second(result: ObjectiveResult, point: Point) -> dict[str, Any]:
    """Columns of a second objective, if there is one."""
    if not result.second:
        return {}
    interval = msgspec.structs.asdict(_of_runs(point.second))
    interval.pop("runs")
    columns = {f"second_{name}": value for name, value in interval.items()}
    return {"second": result.second, "second_unit": result.second_unit, **columns}


def _front(result: ObjectiveResult) -> Front:
    return Front(
        second=result.second,
        second_unit=result.second_unit,
        points=tuple(
            FrontPoint(
                protocol="tcp" if point.combination.is_tcp else "mptcp",
                pm=point.combination.pm,
                cc=point.combination.cc,
                buffer_bytes=point.buffer_bytes,
                initial_path=point.combination.initial_path or None,
                subflows=point.combination.subflows,
                value=_of_runs(point.by_run),
                second=_of_runs(point.second),
                recommended=point == result.chosen,
            )
            for point in result.front
        ),
    )


def _of_runs(by_run: Mapping[int, float]) -> Interval:
    return _interval(summary_of(by_run.values()))


def _setting(configuration: Configuration, subflows: tuple[str, ...]) -> Setting:
    return Setting(
        protocol=configuration.protocol,
        pm=configuration.pm,
        cc=configuration.cc,
        buffer_bytes=configuration.buffer_bytes,
        initial_path=configuration.initial_path,
        subflows=subflows,
        standby=configuration.standby_order,
        sysctls=sysctls_of(msgspec.structs.asdict(configuration.stack)),
    )


def _failover(failover: Failover) -> FailoverFigure:
    usual = msgspec.structs.asdict(STACKS[DEFAULT_STACK])
    return FailoverFigure(
        metric=failover.metric,
        limit_ms=failover.limit_ms,
        kept=failover.kept,
        path=failover.ours.path,
        recommended=_finite(failover.ours.ms),
        default_path=failover.default.path,
        default=_finite(failover.default.ms),
        tried=tuple((sysctls_of({**usual, **members}), _finite(ms)) for members, ms in failover.tried),
    )


def _finite(ms: float) -> float | None:
    return ms if math.isfinite(ms) else None


def _figure(figure: by_objective.Figure) -> Figure:
    return Figure(
        name=figure.name,
        unit=figure.unit,
        recommended=_interval(figure.ours),
        default=_interval(figure.default),
        gain=_interval(figure.gain),
    )


def _interval(summary: Summary | None) -> Interval:
    return Interval() if summary is None else Interval(summary.mean, summary.low, summary.high, summary.n)
