"""MPCOA's Algorithm 1 as the main job runs it: its options, its stop rule, and its traditional buffer.

The other steps are those of every main job (`mptune.optimisation.main_job`). Different are the defaults of
the options, step 6, which measures on until the response model is accepted, and the buffer of MPCOA Table 5,
from RTTs and timeouts that the sweep measured. It runs no trial.
"""

import math
import statistics
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from mptune import theory
from mptune.impact import Impact, ImpactOptions
from mptune.optimisation.options import OptimiseOptions
from mptune.response import MAX_P, MIN_R_SQUARED, MODELS, Response, Sample, means
from mptune.topology import Topology
from mptune.trial import FIXED, Record

#: Step 6 measures on until this many times the runs it began with.
MOST_TIMES = 3

#: Probability that step 6 gives up although more runs would do.
_ERROR_RATE = 0.01

#: Ending of step 6.
Ending = Literal["accepted", "bound", "out of reach"]

_MODEL, _STRATEGY = "quadratic", "grid"


class MpcoaOptions(OptimiseOptions, frozen=True, kw_only=True):
    """Options of Algorithm 1: those of the main job with the paper's defaults; any of them may be overridden.

    Path managers, congestion controls, buffers, runs, duration and sacrifice are the paper's anyway.
    """

    strategy: str | None = _STRATEGY
    buffer_mode: str = FIXED
    impact: ImpactOptions = ImpactOptions(design="eq5")
    sets: str = "signs"
    selection: str = "global"
    model: str = _MODEL
    off_by: float = 0.0
    tcp: bool = False
    extend: bool = False

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Refuse what Algorithm 1 is not about, and what its stop rule cannot judge."""
        for name in ("transfers", "workload"):
            if getattr(self, name):
                yield name, "expected only without --as-papers: Algorithm 1 is about throughput"
        if self.chosen_strategy != _STRATEGY:
            yield "strategy", f"expected {_STRATEGY} with --as-papers, found {self.chosen_strategy}"
        if self.model != _MODEL:
            yield (
                "model",
                f"expected {_MODEL} with --as-papers, whose stop rule is about it, found {self.model}",
            )
        yield from super().conflicts()

    @property
    def most_runs(self) -> int:
        """Runs of each configuration after which step 6 ends in any case."""
        return MOST_TIMES * self.runs_each


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """The fit of one path manager to the means of some runs (Eq. 8).

    Attributes
    ----------
    runs : of each configuration.
    r_squared, p_value : of the whole fit, the second by its F-test; None where nothing varies.
    ceiling : R-square that means of endless runs would have, by the scatter of the runs; None with one run.
    out_of_reach : no number of runs would make it acceptable: the shape is at fault, not the scatter.
    """

    pm: str
    runs: int
    r_squared: float | None
    p_value: float | None
    ceiling: float | None = None
    out_of_reach: bool = False

    @property
    def accepted(self) -> bool:
        """True if it fulfils step 6."""
        return (
            self.r_squared is not None
            and self.p_value is not None
            and self.r_squared >= MIN_R_SQUARED
            and self.p_value <= MAX_P
        )


class StepSix(msgspec.Struct, frozen=True, kw_only=True):
    """Course of step 6.

    Attributes
    ----------
    fits : of every path manager after every round of runs, the last ones last.
    most_runs : the bound.
    """

    fits: tuple[Fit, ...]
    ended: Ending
    most_runs: int

    @property
    def last(self) -> tuple[Fit, ...]:
        """The fits that are used."""
        runs = self.fits[-1].runs
        return tuple(fit for fit in self.fits if fit.runs == runs)


class Traditional(msgspec.Struct, frozen=True, kw_only=True):
    """The traditional buffer of MPCOA Table 5, from what the sweep measured.

    Attributes
    ----------
    rtt_ns, rtt_path : RTTmax: the largest of the subflows' medians of their smoothed RTTs at the end of the
        trials, nanoseconds.
    rto_ns, rto_path : RTOmax, in the same way.
    rate_bps : sum over all paths of the slower access rate.
    size_bytes : `3 (RTTmax + RTOmax) * rate` (`mptune.theory.table5`).
    """

    rtt_ns: int
    rtt_path: str
    rto_ns: int
    rto_path: str
    rate_bps: int
    size_bytes: int


class Mpcoa(msgspec.Struct, frozen=True, kw_only=True):
    """Results of Algorithm 1 alone; `traditional` is None if rates, RTTs or timeouts are unknown."""

    step_six: StepSix
    traditional: Traditional | None


def averaged(samples: Sequence[Sample]) -> list[Sample]:
    """One sample for each configuration, the mean of its runs: MPCOA fits means (section 4)."""
    return [Sample(mean.combination, mean.buffer_mib, mean.value) for mean in means(samples)]


def fits(samples: Sequence[Sample], runs: int) -> tuple[Fit, ...]:
    """The response model of every path manager, by its R-square and p-value.

    Raises
    ------
    MptuneError : the observations do not determine the model.
    """
    response = MODELS[_MODEL].fit(averaged(samples))
    made = []
    for quality in response.qualities:
        terms = len(quality.p_values)
        lack = _Lack.of(response, samples, quality.pm, terms) if runs > 1 else None
        made.append(
            Fit(
                pm=quality.pm,
                runs=runs,
                r_squared=quality.r_squared,
                p_value=_p_of_fit(quality.r_squared, quality.n, terms),
                ceiling=None if lack is None else lack.ceiling,
                out_of_reach=lack is not None and lack.is_proven,
            )
        )
    return tuple(made)


def _p_of_fit(r_squared: float | None, n: int, terms: int) -> float | None:
    """Probability of such an R-square if buffer and congestion control did nothing (F-test of all terms)."""
    if r_squared is None or n <= terms:
        return None
    if r_squared >= 1:
        return 0.0
    from scipy.special import fdtrc

    explained, left = terms - 1, n - terms
    return float(fdtrc(explained, left, (r_squared / explained) / ((1 - r_squared) / left)))


class _Lack(NamedTuple):
    """Lack of fit of the means of a path manager beside the scatter of their runs.

    Attributes
    ----------
    missed, total : sums of squares: of what the curves miss, and of all; (Mbit/s)^2.
    scatter : variance of a mean, by its runs, (Mbit/s)^2.
    means, terms, free : numbers of means, of terms of the model, and of degrees of freedom of the scatter.
    """

    missed: float
    total: float
    scatter: float
    means: int
    terms: int
    free: int

    @classmethod
    def of(cls, response: Response, samples: Sequence[Sample], manager: str, terms: int) -> "_Lack":
        """By the runs of a path manager."""
        measured = [mean for mean in means(samples) if mean.combination.manager == manager]
        middle = math.fsum(mean.value for mean in measured) / len(measured)
        curves = response.curves
        errors = [mean.value - curves[mean.combination].predict(mean.buffer_mib) for mean in measured]
        repeated = [mean for mean in measured if mean.n > 1]
        variances = [mean.squares / (mean.n * (mean.n - 1)) for mean in repeated]
        return cls(
            missed=math.fsum(error**2 for error in errors),
            total=math.fsum((mean.value - middle) ** 2 for mean in measured),
            scatter=math.fsum(variances) / max(1, len(variances)),
            means=len(measured),
            terms=terms,
            free=sum(mean.n - 1 for mean in repeated),
        )

    @property
    def ceiling(self) -> float | None:
        """R-square without the scatter; None if nothing else varies."""
        total = self.total - (self.means - 1) * self.scatter
        missed = self.missed - (self.means - self.terms) * self.scatter
        return 1 - max(0.0, missed) / total if total > 0 else None

    @property
    def is_proven(self) -> bool:
        """True if chance and an acceptable lack of fit do not explain the deviation (noncentral F-test)."""
        total = max(0.0, self.total - (self.means - 1) * self.scatter)
        acceptable, left = (1 - MIN_R_SQUARED) * total, self.means - self.terms
        if self.missed <= acceptable or left < 1:
            return False
        if not self.scatter:
            return True
        from scipy.special import ncfdtr

        ratio = self.missed / left / self.scatter
        return bool(ncfdtr(left, self.free, acceptable / self.scatter, ratio) > 1 - _ERROR_RATE)


def ending(fits_: Sequence[Fit], runs: int, most_runs: int) -> Ending | None:
    """Ending of step 6 with these fits; None if it measures on."""
    if all(fit.accepted for fit in fits_):
        return "accepted"
    if any(fit.out_of_reach for fit in fits_):
        return "out of reach"
    return "bound" if runs >= most_runs else None


def homogeneous(impacts: Sequence[Impact]) -> set[str]:
    """Congestion controls under which SP* = SP (Eq. 6): PCDC is FullMesh then (MPCOA sections 5.3, 6)."""
    return {impact.cc for impact in impacts if not impact.sets.standby}


def traditional(topology: Topology, records: Collection[Record]) -> Traditional | None:
    """The traditional buffer by what active subflows of these trials measured.

    Medians, as single trials with a full queue or a backed-off timer would decide otherwise.
    """
    if topology.missing:
        return None
    rtt, rto = _largest_median(records, "rtt_ms"), _largest_median(records, "rto_ms")
    if rtt is None or rto is None:
        return None
    subflows = [theory.access(path, round(rtt[0] * 1e6), round(rto[0] * 1e6)) for path in topology.paths]
    return Traditional(
        rtt_ns=subflows[0].rtt_ns,
        rtt_path=rtt[1],
        rto_ns=subflows[0].rto_ns,
        rto_path=rto[1],
        rate_bps=sum(subflow.rate_bps for subflow in subflows),
        size_bytes=theory.table5(subflows),
    )


def _largest_median(records: Collection[Record], name: str) -> tuple[float, str] | None:
    """The largest median of the subflows, ms, and whose it is."""
    values: dict[str, list[float]] = {}
    for record in records:
        for subflow in record.subflows if record.failed is None else ():
            value = getattr(subflow, name)
            if subflow.active and value is not None:
                values.setdefault(subflow.path, []).append(value)
    return max(((statistics.median(found), path) for path, found in values.items()), default=None)
