"""Result of measuring impact factors: statistics, the resulting sets, and their plausibility.

Structs, and the papers' rule for the sets (MPCOA Eq. 6). It measures nothing and computes no statistics.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from mptune.statistics import Summary

#: Knowledge about a subflow: the sign of its impact factor, that it is within +-1 %, or neither.
Decision = Literal["helps", "hurts", "does not matter", "unresolved"]


class SubflowSets(msgspec.Struct, frozen=True, kw_only=True):
    """Partition of the subflows of one congestion control (MPCOA Eq. 6).

    Attributes
    ----------
    optional : subflows that carry data, in the order of the topology.
    standby : subflows that are established but silent, best impact factor first.
    rtt_ns : smallest RTT of every path that has one, by label: PCDC sorts the optional set by it.
    fallback : no subflow qualified, so the best one was taken: the papers leave this case undefined
        (errata E27), and a connection needs one.
    name : short, for tables, where several partitions are compared (`mptune.impact.candidates`).
    """

    optional: tuple[str, ...]
    standby: tuple[str, ...]
    fallback: bool = False
    rtt_ns: dict[str, int] = {}
    name: str = ""


class PathImpact(msgspec.Struct, frozen=True, kw_only=True):
    """Impact factor of one subflow over the runs.

    Attributes
    ----------
    omega : its statistics; None if every run failed.
    rtt_ms : mean over the runs of its last smoothed RTT; None if it never measured one.
    decision : at the error rate of the whole set of subflows (`Impact.error_rate`).
    low, high : the interval that decided; None if there were too few runs for one.
    carried_mbps : mean of what it delivered in the trials; None if it was never there.
    """

    path: str
    omega: Summary | None
    rtt_ms: float | None
    decision: Decision = "unresolved"
    low: float | None = None
    high: float | None = None
    carried_mbps: float | None = None


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A set of subflows on which PCDC was measured: throughput of each run, Mbit/s, 0 for a failed one."""

    subflows: tuple[str, ...]
    throughput_mbps: tuple[float, ...]


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """Impact factors of all subflows under one congestion control.

    Attributes
    ----------
    doubts : why the factors are not to be believed, in sentences; empty if they are plausible.
    homogeneous : plausible, and `every_subflow_helps`, with certainty.
    design : one of `mptune.impact.DESIGNS`.
    compared : sets that competed where that was not so, those with most runs first, of these the fastest.
    trials : that it took, with the failed ones.
    measured_ns : duration of those trials together, simulated or real, nanoseconds.
    error_rate : probability that any of the decisions is wrong, at most.
    """

    cc: str
    paths: tuple[PathImpact, ...]
    sets: SubflowSets
    warnings: tuple[str, ...]
    doubts: tuple[str, ...] = ()
    homogeneous: bool = False
    design: str = "eq5"
    compared: tuple[Compared, ...] = ()
    trials: int = 0
    measured_ns: int = 0
    error_rate: float = 0.05

    @property
    def plausible(self) -> bool:
        """True if the factors can be shares of the throughput, with every sign known."""
        return not self.doubts


def warnings_of(impacts: Iterable[Impact]) -> list[str]:
    """Warnings of several congestion controls; one that several share appears once."""
    ccs_of: dict[str, list[str]] = {}
    for impact in impacts:
        for text in impact.warnings:
            ccs_of.setdefault(text.removeprefix(f"{impact.cc}: "), []).append(impact.cc)
    return [f"{', '.join(ccs)}: {text}" for text, ccs in ccs_of.items()]


def every_subflow_helps(contributions: Iterable[float | None]) -> bool:
    """MPCOA's condition for FullMesh, which then is PCDC without its effort (sections 5.3 and 6).

    Parameters
    ----------
    contributions : impact factors as printed, or the lower ends of the intervals of measured ones; None for
        one that is not known.
    """
    return all(contribution is not None and contribution > 0 for contribution in contributions)


def partition(means: Mapping[str, float | None], zero: str = "standby") -> SubflowSets:
    """Optional and standby sets from mean impact factors (None: could not be measured).

    The sign of the unrounded mean decides, which is consistent with every set the papers print. A
    subflow that could not be measured stays optional, as in FullMesh.
    """
    known = {path: mean for path, mean in means.items() if mean is not None}
    best_first = sorted(known, key=lambda path: -known[path])
    standby = [p for p in best_first if known[p] < 0 or (known[p] == 0 and zero == "standby")]
    fallback = len(standby) == len(means)
    if fallback:
        standby = standby[1:]
    optional = tuple(path for path in means if path not in standby)
    return SubflowSets(optional=optional, standby=tuple(standby), fallback=fallback)
