"""The metrics that each workload has, by the words that name them.

A workload's own are declared with it (`mptune.trial.workloads`).
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from mptune import units
from mptune._text import quoted
from mptune.errors import one_of
from mptune.trial.kept import Record, of_part, sent_of
from mptune.trial.metrics import COMPLETION, COST, FAIRNESS, LATER, Metric, late
from mptune.trial.mixes import Mix, Workload, judged
from mptune.trial.workloads import KINDS, TIMED, Bulk, Timed

#: By their words.
_WORDS = {
    metric.word: metric
    for metric in (
        *(*Bulk.judged_by.objectives, COMPLETION, COST),
        *(metric for kind in TIMED.values() for metric in kind.judged_by.objectives),
    )
}

#: Every column of tables of trials for a metric of a kind of workload.
COLUMNS = tuple(name for kind in TIMED.values() for name in kind.judged_by.columns)

#: Metrics of which more is better, by name.
_MORE_IS_BETTER = {metric.name for metric in _WORDS.values() if metric.more_is_better}


#: Objectives at a time: one, or two whose front is asked for.
_MOST = 2


def metric_named(text: str) -> Metric:
    """The metric of a word, such as "delay:p99", "response:mean", "gap" or "late:150ms".

    Raises
    ------
    ValueError : there is none.
    """
    if text.strip() in _WORDS:
        return _WORDS[text.strip()]
    word, colon, rest = text.strip().partition(":")
    if word == "late" and colon:
        deadline_ns = units.parse_time(rest)
        if deadline_ns == 0:
            raise ValueError(f"expected a time above 0, found {quoted(text)}")
        return late(deadline_ns)
    raise ValueError(one_of((*_WORDS, "late:TIME"), text))


def check_objectives(text: str) -> None:
    """Check the words of metrics with a comma between them.

    Raises
    ------
    ValueError : one is unknown, two are the same, or there are more than two.
    """
    metrics = [metric_named(word) for word in text.split(",")]
    if len(metrics) > _MOST:
        raise ValueError(f"expected one metric, or two with a comma between them, found {len(metrics)}")
    if len({metric.name for metric in metrics}) < len(metrics):
        raise ValueError(f"expected two different metrics, found {metrics[0].name} twice")


def metric_called(name: str) -> Metric | None:
    """The metric of a name, such as "delay p99" or "later than 150 ms"; None if it is none's."""
    if name.startswith(LATER):
        with suppress(ValueError):
            return late(units.parse_time(name.removeprefix(LATER).strip()))
    return next((metric for metric in _WORDS.values() if metric.name == name), None)


def metric_of(workload: Workload) -> Metric:
    """The metric that a workload is judged by, unless another is asked for."""
    return judged(workload).judged_by.metrics[0]


def usual_of(kept: Record) -> Metric:
    """The metric that a trial is judged by, unless another is asked for; of a saturated sender throughput."""
    return KINDS[sent_of(kept.settings).get("kind", "bulk")].judged_by.metrics[0]


def metrics_of(workload: Workload) -> tuple[Metric, ...]:
    """The metrics that a workload has and an answer shows, the usual objective first.

    Of a mix those of its first part, the fairness among its connections, and those of the other parts.
    """
    if not isinstance(workload, Mix):
        return workload.judged_by.metrics
    shared = (FAIRNESS,) if workload.parts[0].connections > 1 else ()
    return (*judged(workload).judged_by.metrics, *shared, *_of_others(workload))


def _of_others(mix: Mix) -> Iterator[Metric]:
    """Metrics of all parts but the first."""
    words = [part.word for part in mix.parts]
    for number, part in enumerate(mix.parts[1:], start=1):
        word = part.word if words.count(part.word) == 1 else f"{part.word} {number + 1}"
        for metric in part.workload.judged_by.metrics:
            yield _in_part(metric, number, word)


def _in_part(metric: Metric, number: int, word: str) -> Metric:
    """The metric of another part of a mix."""

    def read(kept: Record) -> float | None:
        return metric.read(of_part(kept, number)) if kept.parts else None

    return replace(metric, name=f"{word}: {metric.name}", read=read)


def has(workload: Workload, metric: Metric) -> bool:
    """True if trials of the workload have the metric."""
    if metric is COST:
        return True
    workload = judged(workload)
    is_lateness = isinstance(workload, Timed) and metric.name.startswith(LATER)
    return is_lateness or metric in workload.judged_by.objectives


def cost(name: str, value: float) -> float:
    """A value of the metric of this name such that less is better, to order by."""
    return -value if name in _MORE_IS_BETTER else value


def values(kept: Record) -> dict[str, float | None]:
    """Those columns that the workload of a trial has, with their values."""
    kind = TIMED.get(sent_of(kept.settings).get("kind", ""))
    return {} if kind is None else {name: metric.of(kept) for name, metric in kind.judged_by.columns.items()}
