"""The sweep as points: each configuration over its runs, for statistics, figures and response models.

Failed trials are left out here, once, for all of them. What is swept is decided in
`mptune.optimisation.main_job`.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from mptune.errors import MptuneError
from mptune.response import Sample
from mptune.statistics import Summary, summarise
from mptune.trial import Combination, Record
from mptune.trial.kept import is_tcp
from mptune.trial.metrics import THROUGHPUT, Metric
from mptune.units import MIB


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration of the sweep over its runs; `throughput` in Mbit/s."""

    combination: Combination
    buffer_mib: float
    throughput: Summary


def sweep_points(samples: Sequence[Sample]) -> tuple[SweepPoint, ...]:
    """Summaries of the configurations, in the order of their first observation."""
    by_configuration: dict[tuple[Combination, float], list[float]] = {}
    for sample in samples:
        key = sample.combination, sample.buffer_mib
        by_configuration.setdefault(key, []).append(sample.value)
    return tuple(
        SweepPoint(combination=combination, buffer_mib=buffer, throughput=summarise(values))
        for (combination, buffer), values in by_configuration.items()
    )


def sweep_samples(
    records: Sequence[Record], optional: Mapping[str, tuple[str, ...]], metric: Metric = THROUGHPUT
) -> list[Sample]:
    """Every usable observation, not the means: see `mptune.response.quadratic`.

    Parameters
    ----------
    optional : congestion control -> the set that PCDC has of itself, from the signs of its impact factors.

    Raises
    ------
    MptuneError : there is none at all.
    """
    samples = [
        Sample(combination_of(record, optional), record.buffer_bytes / MIB, metric.worth(value), record.run)
        for record in records
        if (value := metric.of(record)) is not None
    ]
    if not samples:
        raise MptuneError(f"every trial of the sweep failed (first reason: {records[0].failed})")
    return samples


def combination_of(record: Record, optional: Mapping[str, tuple[str, ...]]) -> Combination:
    """The combination that a trial is an observation of.

    Its subflows are named where they are not those that PCDC has of itself, its initial path where it was
    chosen.

    Raises
    ------
    KeyError : a trial of plain TCP whose path is not stated.
    """
    if is_tcp(record.settings):
        return Combination.plain_tcp(record.settings["initial_path"], record.cc)
    active = tuple(record.settings.get("active", ()))
    subflows = () if active == optional.get(record.cc, active) else active
    return Combination(record.pm, record.cc, subflows, record.settings.get("initial_path") or "")


def named(
    records: Iterable[Record], optional: Mapping[str, tuple[str, ...]]
) -> list[tuple[Combination, Record]]:
    """Trials with their combinations, in the same order."""
    return [(combination_of(record, optional), record) for record in records]


def stalls(
    records: Sequence[Record], optional: Mapping[str, tuple[str, ...]]
) -> set[tuple[Combination, float]]:
    """Combinations with the buffers (MiB) at which a run of theirs stalled."""
    return {
        (combination_of(record, optional), record.buffer_bytes / MIB)
        for record in records
        if record.failed_kind == "stalled"
    }
