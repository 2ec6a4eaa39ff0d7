"""The sweep as points: each configuration over its runs, for statistics, figures and response models.

Failed trials are left out here, once, for all of them. What is swept is decided in `mptune.optimise`.
"""

from collections.abc import Sequence

import msgspec

from mptune.campaign.grid import MIB
from mptune.campaign.records import Record, throughputs
from mptune.errors import MptuneError
from mptune.response import Combination, Sample
from mptune.statistics import Summary, summarise


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration of the sweep over its runs; `throughput` in Mbit/s."""

    combination: Combination
    buffer_mib: float
    throughput: Summary


def sweep_points(records: Sequence[Record]) -> tuple[SweepPoint, ...]:
    """Summaries of the configurations that have at least one usable trial, in the order measured.

    Raises
    ------
    MptuneError : there is none at all.
    """
    by_configuration: dict[tuple[Combination, int], list[Record]] = {}
    for one in records:
        by_configuration.setdefault((Combination(one.pm, one.cc), one.buffer_bytes), []).append(one)
    points = tuple(
        SweepPoint(combination=combination, buffer_mib=size / MIB, throughput=summarise(values))
        for (combination, size), runs in by_configuration.items()
        if (values := throughputs(runs))
    )
    if not points:
        raise MptuneError(f"every trial of the sweep failed (first reason: {records[0].failed})")
    return points


def sweep_samples(records: Sequence[Record]) -> list[Sample]:
    """Every usable observation, not the means: see `mptune.response.quadratic`."""
    return [
        Sample(Combination(one.pm, one.cc), one.buffer_bytes / MIB, one.throughput_mbps)
        for one in records
        if one.throughput_mbps is not None
    ]
