"""The workload of a run by an objective, by ordinary programs between its two machines.

Like `mptune.apply._transfers`, for more than bytes: the metric that the answer is about is measured. What
several results mean together is `mptune.apply.verify`'s business.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec

from mptune.apply._transfers import Course, Got
from mptune.apply.plan import Outline
from mptune.errors import InputError, TrialError
from mptune.testbeds.ordinary import Ends, check, measure
from mptune.trial import PLAIN_TCP, Bulk, Timed, Trial, Workload
from mptune.trial.metrics import COST, Metric
from mptune.trial.objectives import has, metric_called
from mptune.trial.records import PlannedTrial, record


class Sent(NamedTuple):
    """Traffic of programs, and the metric that decides."""

    workload: Bulk | Timed
    metric: Metric


def sent(outline: Outline, times: int, seconds: int | None, max_data_bytes: int | None) -> Sent | None:
    """Workload and metric of an answer by an objective; None of one for throughput.

    Parameters
    ----------
    times : number of transfers to come.
    seconds : how long each lasts; None is as long as in the run.
    max_data_bytes : a limit on payload, which none of them keeps.

    Raises
    ------
    InputError : it is none that programs can show between two machines.
    """
    by_objective = outline.answered.run.by_objective
    if by_objective is None:
        return None
    metric, found = metric_called(by_objective.objective), f"found one for {by_objective.sent}"
    try:
        workload = msgspec.convert(by_objective.workload, Workload)
    except msgspec.ValidationError as error:
        raise InputError(str(outline.answered.directory), "result.json: workload", f"{error}") from None
    if not isinstance(workload, Bulk | Timed):
        raise InputError("--verify", "", f"expected a run for one connection, {found}")
    if metric is None or metric is COST or not has(workload, metric):
        found = f"found one for {by_objective.objective}"
        raise InputError("--verify", "", f"expected a run for something that programs show, {found}")
    if by_objective.figures[0].recommended.mean is None:
        raise InputError("--verify", "", f"expected a run with a promise, found no {metric.name}")
    if outline.opener != "sender":
        expected = f"expected connections that the sender opens, {found}, opened by the receiver"
        raise InputError("--verify", "", expected)
    if max_data_bytes is not None:
        raise InputError("--max-data", "", f"expected with a run for throughput, {found}")
    if seconds is not None:
        workload = msgspec.structs.replace(workload, duration_ns=seconds * 1_000_000_000)
    sending = Sent(workload, metric)
    check(_trial(sending, outline, 0), times)
    return sending


def by_workload(
    sending: Sent,
    outline: Outline,
    course: Course,
    number: int,
    guard: Callable[[Sequence[Any]], AbstractContextManager[None]],
) -> tuple[Got, float]:
    """One run of the workload, and its value of the metric.

    Parameters
    ----------
    number : of the run, and the seed of what is drawn.
    guard : a context for both machines while it lasts.

    Raises
    ------
    TrialError : it did not end well, or has no such value.
    """
    trial = _trial(sending, outline, number)
    sides = {"local": course.opener, "remote": course.other}
    ends = Ends(lambda side, role, name: sides[side].start(role, name), course.address, course.version)
    with guard([course.opener, course.other]):
        measured = measure(trial, ends)
    observation = measured.observation
    kept = record(PlannedTrial(purpose="verify", run=number, trial=trial), observation)
    if kept.failed is not None:
        raise TrialError(kept.failed.reason, kept.failed.kind)
    value = sending.metric.of(kept)
    if value is None:
        raise TrialError(f"the transfer has no {sending.metric.name}", "incomplete")
    got = Got(
        mbps=kept.throughput_mbps or 0.0,
        bytes=observation.in_order_bytes,
        seconds=observation.duration_ns / 1e9,
        mptcp=measured.is_mptcp,
        cc=measured.cc,
        subflows=tuple(subflow.path for subflow in observation.subflows if subflow.active),
    )
    return got, value


def _trial(sending: Sent, outline: Outline, number: int) -> Trial:
    """The workload as a trial of which nothing else is set: the machines choose that."""
    answer = outline.answered.answer
    return Trial(
        topology=outline.answered.topology,
        pm="default",
        cc=answer.occ,
        buffer_bytes=answer.obs_bytes,
        seed=number,
        workload=sending.workload,
        protocol="tcp" if answer.protocol == PLAIN_TCP else "mptcp",
        initial_path=outline.initial,
    )
