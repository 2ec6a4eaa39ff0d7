"""Candidates: sets of subflows beside the path managers, buffers beyond the ends, rivals of the favourite.

The sign of an impact factor proposes a set; measurement disposes. The sets that are worth comparing
(`mptune.impact.candidates`) are screened with few trials, and those that are far from the best are not swept.
Nothing is measured here.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from mptune._text import digits
from mptune.decision import Decision
from mptune.decision.confirmation import Confirmation
from mptune.decision.robustness import Finalist
from mptune.decision.selection import whole_buffer
from mptune.decision.sweep import SweepPoint
from mptune.decision.uncertainty import gap
from mptune.impact import Impact
from mptune.impact import candidates as proposed
from mptune.optimisation.options import OptimiseOptions
from mptune.topology import Topology
from mptune.trial import Combination, Record
from mptune.units import MIB, format_size

#: Runs of each configuration in the screening.
SCREEN_RUNS = 2

#: Buffers of the screening, as places in the sweep's list from its smallest (0) to its largest (1). A set
#: that is good with none of them is no answer.
_PLACES = (0.25, 0.5, 1.0)

#: A set stays if it comes this close to the best throughput of the screening, beyond the sacrifice: what two
#: runs leave open.
_MARGIN = 0.10

#: Sets that stay, at most: the fastest, then those with the smallest buffers.
MOST = 4

#: Brief trials last this part of any other trial, but no less than `_SHORTEST_NS` if those do.
_PART = 3
_SHORTEST_NS = 5_000_000_000


#: Most enlargements of the buffer because fresh trials miss the target.
ENLARGEMENTS = 3


def asked(options: OptimiseOptions) -> list[Combination]:
    """Every path manager with every congestion control and initial path."""
    paths = _initial_paths(options)
    return [
        Combination(pm, cc, (), path) for pm, cc, path in itertools.product(options.pms, options.ccs, paths)
    ]


def competing(options: OptimiseOptions, topology: Topology, impacts: Iterable[Impact]) -> list[Combination]:
    """Other sets of subflows for PCDC that might be better, from every initial path.

    Parameters
    ----------
    topology : what is left to MPTCP.
    """
    if not sets_compete(options, topology):
        return []
    return [
        Combination("pcdc", impact.cc, candidate.optional, path)
        for impact in impacts
        for candidate in proposed(impact, topology)
        if candidate.optional != impact.sets.optional and len(candidate.optional) < len(topology.paths)
        for path in _initial_paths(options)
    ]


def sets_compete(options: OptimiseOptions, topology: Topology) -> bool:
    """True if PCDC may have other sets than its own."""
    return options.sets == "compete" and "pcdc" in options.pms and len(topology.paths) > 1


def _initial_paths(options: OptimiseOptions) -> tuple[str, ...]:
    """Every initial path; an empty one leaves it to the topology and the path manager."""
    return options.initial_paths or ("",)


def brief_ns(duration_ns: int) -> int:
    """Duration of a trial that is only a first look, where others have `duration_ns`."""
    return max(duration_ns // _PART, min(duration_ns, _SHORTEST_NS))


def screen_buffers(buffers: Sequence[int]) -> list[int]:
    """Buffers of the screening, bytes, ascending."""
    ordered = sorted(buffers)
    return sorted({ordered[round(place * (len(ordered) - 1))] for place in _PLACES})


def screened(
    records: Iterable[tuple[Combination, Record]], sacrifice: float, known: Collection[Combination]
) -> list[Combination]:
    """The combinations that are worth a sweep.

    Parameters
    ----------
    records : the trials of the screening with their combinations.
    known : combinations that are swept anyway; they set the mark and are not returned.
    """
    means = _means(records)
    tops = {combination: max(by_buffer.values()) for combination, by_buffer in means.items()}
    mark = (1 - sacrifice) * (1 - _MARGIN) * max(tops.values())
    sufficient = {
        combination: min(
            (buffer_bytes for buffer_bytes, mean in by_buffer.items() if mean >= mark), default=None
        )
        for combination, by_buffer in means.items()
        if combination not in known
    }
    staying = [
        (buffer_bytes, combination)
        for combination, buffer_bytes in sufficient.items()
        if buffer_bytes is not None
    ]
    staying.sort(key=lambda row: (row[0], -means[row[1]][row[0]], row[1]))
    ordered = [combination for _, combination in staying]
    fastest = sorted(ordered, key=lambda one: (-tops[one], one))[:1]
    return list(dict.fromkeys((*fastest, *ordered)))[:MOST]


def peaks(records: Iterable[tuple[Combination, Record]]) -> dict[Combination, float]:
    """The best mean throughput of each combination over its buffers, Mbit/s; a failed trial counts as 0."""
    return {combination: max(by_buffer.values()) for combination, by_buffer in _means(records).items()}


def _means(records: Iterable[tuple[Combination, Record]]) -> dict[Combination, dict[int, float]]:
    """Mean throughput by combination and buffer (bytes)."""
    found: dict[Combination, dict[int, list[float]]] = {}
    for combination, record in records:
        by_buffer = found.setdefault(combination, {})
        by_buffer.setdefault(record.buffer_bytes, []).append(record.throughput_mbps or 0.0)
    return {
        combination: {buffer_bytes: sum(values) / len(values) for buffer_bytes, values in by_buffer.items()}
        for combination, by_buffer in found.items()
    }


#: No buffer below this is tried, bytes: connections stall with less.
FLOOR = 64 * 1024

#: A curve still rises at its last buffer if it exceeds its value at the one before by more than this share.
_RISING = 0.02


def beyond(
    decision: Decision, measured: Mapping[Combination, Sequence[int]]
) -> tuple[list[Combination], list[int]]:
    """Further buffers (bytes) where the optimum is at an end of the measured ones, and who needs them.

    At the small end, which is that of the optimum's own combination, those that are sufficient there; at the
    large end, also where the best curve still rises, those that are near the best. Nothing at all where the
    optimum is inside.

    Parameters
    ----------
    measured : buffers of every combination, bytes, ascending, whatever became of the trials.
    """
    curves, high = decision.response.curves, decision.buffers[-1]
    best = max(curve.maximum(decision.buffers[0], high)[1] for curve in curves.values())
    target = (1 - decision.options.sacrifice) * best
    low = measured[decision.optimum.combination][0]
    if decision.optimum.buffer_mib * MIB <= low * (1 + 1e-6):
        # The target may be lower than that: the best that is held with larger buffers too.
        target = min(target, (1 - 1e-9) * decision.optimum.throughput_mbps)
        sizes = [buffer_bytes for buffer_bytes in (round(low / 4), round(low / 2)) if buffer_bytes >= FLOOR]
        return (
            [combination for combination in curves if curves[combination].predict(low / MIB) >= target],
            sizes,
        )
    before = decision.buffers[-2]
    top = max(curves.values(), key=lambda curve: curve.predict(high))
    rises = top.predict(high) > (1 + _RISING) * top.predict(before)
    if rises or decision.optimum.buffer_mib >= high * (1 - 1e-6):
        near = [
            combination
            for combination in curves
            if curves[combination].predict(high) >= (1 - _MARGIN) * target
        ]
        return near, [round(1.5 * high * MIB), round(2 * high * MIB)]
    return [], []


#: Buffers that are added between two measured ones, in geometric steps.
_BETWEEN = 3

#: Neighbours in the sweep closer than this ratio have nothing between them.
_CLOSE = 1.15


def between(
    decision: Decision, measured: Mapping[Combination, Sequence[int]]
) -> tuple[list[Combination], list[int]]:
    """Buffers (bytes) inside the gap of the measured ones in which the optimum lies, and who needs them.

    What a curve does between two buffers is the model's assumption; a knee is wherever it is. Those that
    reach the target at the upper end of the gap are measured, the favourite and the fastest others.

    Parameters
    ----------
    measured : as in `beyond`.
    """
    optimum, curves = decision.optimum, decision.response.curves
    favourite = optimum.combination
    low, high = gap(measured[favourite], optimum.buffer_mib * MIB)
    if high < _CLOSE * low:
        return [], []
    sufficient = [
        curve
        for curve in curves
        if curve != favourite and curves[curve].predict(high / MIB) >= optimum.throughput_mbps
    ]
    sufficient.sort(key=lambda combination: (-curves[combination].predict(high / MIB), combination))
    step = (high / low) ** (1 / (_BETWEEN + 1))
    inside = [round(low * step**number) for number in range(1, _BETWEEN + 1)]
    return [favourite, *sufficient[: MOST - 1]], inside


def collapsing(
    decision: Decision, points: Sequence[SweepPoint], ones: Collection[Combination]
) -> set[Combination]:
    """Those that lose more than the sacrifice with larger buffers, and more than the favourite does.

    Against their throughput with the smallest measured buffer that is not below the optimum's, up to the
    largest measured; what was not swept is not judged.
    """
    least = decision.optimum.buffer_mib * (1 - 1e-9)

    def kept(combination: Combination) -> float:
        means = {
            point.buffer_mib: point.throughput.mean
            for point in points
            if point.combination == combination and point.buffer_mib >= least
        }
        here = means[min(means)] if means else 0.0
        return min(means.values()) / here if here else 1.0

    needed = min(1 - decision.options.sacrifice, kept(decision.optimum.combination))
    return {each_combination for each_combination in ones if kept(each_combination) < needed}


#: Fresh trials miss the target if they are below it by more than this share of it.
_MISSED = 0.005


def wanted(decision: Decision, points: Sequence[SweepPoint]) -> float:
    """Throughput that the optimum must reach in fresh trials, Mbit/s.

    The best mean of the sweep less the sacrifice; where nothing holds that with larger buffers, what the
    optimum was chosen for.
    """
    best = max(point.throughput.mean for point in points)
    return min((1 - decision.options.sacrifice) * best, decision.optimum.throughput_mbps)


def larger(
    decision: Decision, finalists: Sequence[Finalist], points: Sequence[SweepPoint], target: float
) -> float | None:
    """The next measured buffer of the optimum that reaches the target, MiB, if fresh trials missed it.

    None where it was reached, nothing was tried, or no larger buffer reached it.

    Parameters
    ----------
    target : Mbit/s, as `wanted`.
    """
    optimum = decision.optimum
    fresh = [finalist.throughput for finalist in finalists if finalist.combination == optimum.combination]
    if not fresh or (fresh[0] is not None and fresh[0].mean >= (1 - _MISSED) * target):
        return None
    return next_larger(decision, points, target)


def next_larger(decision: Decision, points: Sequence[SweepPoint], target: float) -> float | None:
    """The next measured buffer of the optimum that reaches the target, MiB; None if no larger one did."""
    optimum = decision.optimum
    sizes = [
        point.buffer_mib
        for point in points
        if point.combination == optimum.combination
        and whole_buffer(point.buffer_mib) > whole_buffer(optimum.buffer_mib)
        and point.throughput.mean >= target
    ]
    return min(sizes, default=None)


def missed(confirmation: Confirmation, again: Confirmation, target: float) -> str:
    """That fresh trials missed the target (Mbit/s) and the buffer was enlarged, as a sentence."""
    gave = "nothing" if confirmation.confirmed is None else f"{digits(confirmation.confirmed.mean)} Mbit/s"
    before, after = (
        format_size(each_confirmation.recommended.buffer_bytes, 3)
        for each_confirmation in (confirmation, again)
    )
    return (
        f"With {before} fresh trials gave {gave}, less than the target of {digits(target)}: the buffer was "
        f"enlarged to {after}."
    )


#: The fastest combinations by the model that a favourite is compared with, and the fastest single paths.
_FASTEST, _SINGLE = 3, 2


def rivals(
    decision: Decision,
    topology: Topology,
    pms: Collection[str],
    default: Combination,
    optional: Mapping[str, tuple[str, ...]],
) -> list[Combination]:
    """Rivals of the favourite with its buffer; the favourite comes first.

    The fastest combinations there by the model, the default, and the fastest paths alone.

    Parameters
    ----------
    pms : path managers that may be used.
    default : what a host that was never tuned has.
    optional : congestion control -> the set that PCDC has of itself.
    """
    at, favourite = decision.optimum.buffer_mib, decision.optimum.combination
    curves = decision.response.curves
    found = [
        favourite,
        *sorted(curves, key=lambda combination: (-curves[combination].predict(at), combination))[:_FASTEST],
    ]
    if default.pm in pms:
        found.append(default)
    if "pcdc" in pms:
        # A path whose rate is not known may be the fastest.
        fastest = sorted(topology.paths, key=lambda path: -(topology.known(path).rate_bps or math.inf))
        fastest = fastest[:_SINGLE]
        found += [
            Combination(
                "pcdc",
                cc,
                () if (path.label,) == optional.get(cc) else (path.label,),
                favourite.initial_path,
            )
            for path in fastest
            for cc in dict.fromkeys((favourite.cc, default.cc))
        ]
    return list(dict.fromkeys(found))


#: Sets of subflows that are measured again beside the rivals, at most.
_AGAIN = 3


def again(
    screening: Iterable[tuple[Combination, Record]],
    known: Sequence[Combination],
    buffer_bytes: int,
    topology: Topology,
    optional: Mapping[str, tuple[str, ...]],
) -> list[Combination]:
    """Sets of subflows to measure again with the congestion control and the buffer of PCDC's favourite.

    The screening saw them with other buffers and few runs. Those stay that came near the best of them with
    the screened buffer nearest to the favourite's, the fastest first; FullMesh is the set of all.

    Parameters
    ----------
    screening : its trials with their combinations.
    known : the favourite and its rivals, which are measured anyway.
    buffer_bytes : the favourite's buffer.
    optional : as in `rivals`.
    """
    favourite = known[0]
    if favourite.pm != "pcdc":
        return []
    own = favourite._replace(subflows=())
    mesh = own._replace(pm="fullmesh")
    same = [
        (pair, record)
        for pair, record in screening
        if pair.pm in ("pcdc", "fullmesh") and pair._replace(pm="pcdc", subflows=()) == own
    ]
    nearest = min(
        (record.buffer_bytes for _, record in same),
        key=lambda measured_bytes: abs(measured_bytes - buffer_bytes),
        default=None,
    )
    found: dict[Combination, float] = {}
    for combination, record in same:
        if record.buffer_bytes == nearest:
            found[combination] = found.get(combination, 0.0) + (record.throughput_mbps or 0.0)
    if mesh in found and len(optional.get(favourite.cc, ())) == len(topology.paths):
        found.pop(own, None)
    mark = (1 - _MARGIN) * max(found.values(), default=0.0)
    near = [
        each_combination
        for each_combination in found
        if found[each_combination] >= mark and each_combination not in known
    ]
    return sorted(near, key=lambda combination: (-found[combination], combination))[:_AGAIN]
