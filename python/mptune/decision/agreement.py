"""Agreement of simulator and kernel: the same configurations measured on both, in numbers.

Pure statistics of observations that others made (`mptune.cli.compare`, benchmarks/fidelity). A run that
stalled or failed gives no number on its side; it is counted instead.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from mptune.decision.model_error import OnKernel
from mptune.decision.selection import SACRIFICE
from mptune.statistics import quantile
from mptune.trial import BIN_NS, Observation


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration on one testbed.

    Attributes
    ----------
    throughput_mbps : mean of the runs that gave a number; None if none did.
    low_mbps, high_mbps : smallest and largest of them.
    runs, stalled, failed : how many there were, came to a halt, or gave no number for another reason.
    reason : of the first that gave no number.
    """

    throughput_mbps: float | None
    low_mbps: float | None
    high_mbps: float | None
    runs: int
    stalled: int
    failed: int
    reason: str | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration on both testbeds.

    Attributes
    ----------
    expected : what the simulated runs lead to expect of a kernel; None where nothing was asked for.
    """

    pm: str
    cc: str
    buffer_bytes: int
    simulated: Cell
    kernel: Cell
    expected: OnKernel | None = None

    @property
    def error(self) -> float | None:
        """Simulated throughput relative to the kernel's, minus 1; None unless both gave numbers."""
        if self.simulated.throughput_mbps is None or not self.kernel.throughput_mbps:
            return None
        return self.simulated.throughput_mbps / self.kernel.throughput_mbps - 1


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All configurations, and how well the testbeds agree.

    Attributes
    ----------
    compared : configurations with numbers on both sides; the statistics are about these.
    median_error, q90_error : of the absolute relative errors.
    rank_correlation : Spearman's, of the throughputs; None for fewer than three configurations.
    stalls_agree : share of the configurations that stall on both sides or on none.
    simulated_optimum, kernel_optimum : the configurations that each testbed recommends (`optimum`).
    kept : share of the kernel's optimal throughput that the kernel gives where the simulator's optimum is.
    """

    rows: tuple[Row, ...]
    compared: int
    median_error: float | None
    q90_error: float | None
    rank_correlation: float | None
    stalls_agree: float
    simulated_optimum: Row | None
    kernel_optimum: Row | None
    kept: float | None

    @property
    def same_optimum(self) -> bool | None:
        """Both testbeds recommend the same configuration; None if one of them cannot."""
        if self.simulated_optimum is None or self.kernel_optimum is None:
            return None
        return self.simulated_optimum is self.kernel_optimum


def summarise_runs(observations: Sequence[Observation], stall_ns: int) -> Cell:
    """The runs of one configuration on one testbed.

    Parameters
    ----------
    stall_ns : nothing arriving in order for this long is a stall, on either testbed, nanoseconds.
    """
    halted = [is_stalled(observation, stall_ns) for observation in observations]
    usable = [
        one.throughput_bps / 1e6
        for one, stalled in zip(observations, halted, strict=True)
        if not stalled and one.failed is None
    ]
    unusable = [one for one, stalled in zip(observations, halted, strict=True) if stalled or one.failed]
    silent = f"stalled: nothing in order for {stall_ns / 1e9:g} s"
    return Cell(
        throughput_mbps=math.fsum(usable) / len(usable) if usable else None,
        low_mbps=min(usable, default=None),
        high_mbps=max(usable, default=None),
        runs=len(observations),
        stalled=sum(halted),
        failed=len(unusable) - sum(halted),
        reason=str(unusable[0].failed or silent) if unusable else None,
    )


def is_stalled(observation: Observation, stall_ns: int) -> bool:
    """True if a run came to a halt: its failure is a stall, or its series is 0 for `stall_ns`."""
    if observation.failed is not None and observation.failed.kind == "stalled":
        return True
    bins = observation.bins
    silences = (
        sum(1 for _ in run) for quiet, run in itertools.groupby(bins, key=lambda size: size == 0) if quiet
    )
    return observation.completion_ns is None and max(silences, default=0) * BIN_NS >= stall_ns


def compare(rows: Sequence[Row]) -> Comparison:
    """Statistics over configurations."""
    pairs = [
        (row.simulated.throughput_mbps, row.kernel.throughput_mbps)
        for row in rows
        if row.simulated.throughput_mbps is not None and row.kernel.throughput_mbps is not None
    ]
    errors = sorted(abs(row.error) for row in rows if row.error is not None)
    simulated, kernel = optimum(rows, "simulated"), optimum(rows, "kernel")
    return Comparison(
        rows=tuple(rows),
        compared=len(errors),
        median_error=quantile(errors, 0.5) if errors else None,
        q90_error=quantile(errors, 0.9) if errors else None,
        rank_correlation=spearman([pair for pair, _ in pairs], [other for _, other in pairs]),
        stalls_agree=_share([(row.simulated.stalled > 0) == (row.kernel.stalled > 0) for row in rows]),
        simulated_optimum=simulated,
        kernel_optimum=kernel,
        kept=_retained(simulated, kernel),
    )


def optimum(rows: Sequence[Row], side: Literal["simulated", "kernel"]) -> Row | None:
    """Recommendation of a testbed: the smallest buffer within `SACRIFICE` of its best throughput.

    Of several with that buffer the one with the highest throughput; a configuration of which any run gave no
    number is never recommended. None if there is no other.
    """
    cells = [(row, getattr(row, side)) for row in rows]
    sound = [
        (row, cell.throughput_mbps)
        for row, cell in cells
        if cell.throughput_mbps is not None and not cell.stalled and not cell.failed
    ]
    if not sound:
        return None
    enough = (1 - SACRIFICE) * max(throughput for _, throughput in sound)
    good = [(row, throughput) for row, throughput in sound if throughput >= enough]
    return min(good, key=lambda values: (values[0].buffer_bytes, -values[1]))[0]


def bias(errors: Sequence[float]) -> float | None:
    """Signed error of many configurations: how far the geometric mean of simulated / kernel is from 1.

    Twice as much and half as much cancel out, which they would not in the mean of the relative errors. None
    without configurations, or where a side gave nothing.
    """
    if not errors or min(errors) <= -1:
        return None
    return math.expm1(math.fsum(math.log1p(error) for error in errors) / len(errors))


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation, -1 to 1: Pearson's of the ranks, ties sharing theirs.

    None for fewer than three values, or where all values of a side are the same.
    """
    if len(first) < 3:
        return None
    ranks = [_ranks(values) for values in (first, second)]
    middle = (len(first) + 1) / 2
    row, other = ([rank - middle for rank in side] for side in ranks)
    spread = math.sqrt(math.fsum(x * x for x in row) * math.fsum(y * y for y in other))
    return math.fsum(x * y for x, y in zip(row, other, strict=True)) / spread if spread else None


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values get the mean of theirs."""
    order = sorted(values)
    return [(2 * order.index(value) + order.count(value) + 1) / 2 for value in values]


def _retained(simulated: Row | None, kernel: Row | None) -> float | None:
    if simulated is None or kernel is None or not kernel.kernel.throughput_mbps:
        return None
    return (simulated.kernel.throughput_mbps or 0.0) / kernel.kernel.throughput_mbps


def _share(agreements: Sequence[bool]) -> float:
    return sum(agreements) / len(agreements) if agreements else 1.0
