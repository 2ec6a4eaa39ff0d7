"""Competitors for an objective: sets of subflows, where a connection begins, and buffers."""

import itertools
import math
from collections.abc import Sequence

from mptune.optimisation.job import Job
from mptune.optimisation.plain_tcp import everywhere
from mptune.topology import Topology
from mptune.trial import Combination, Described

#: Up to this many paths every set of subflows is tried; of more paths each alone, and the quickest together.
_EVERY_SET = 4

#: Most buffers of a sweep that measures a saturated sender, too.
_FEW = 8


def competing(job: Job) -> list[Combination]:
    """Path managers and sets of subflows, and plain TCP on every path, with every congestion control."""
    options = job.options
    managers = [
        Combination(pm, cc, (), path)
        for pm in options.pms
        for cc in options.ccs
        for path in options.initial_paths or ("",)
        if pm != "pcdc"
    ]
    sets = [
        Combination("pcdc", cc, subset, path)
        for subset in (subsets(job.mptcp) if "pcdc" in options.pms else ())
        for cc in options.ccs
        for path in beginnings(job.mptcp, subset, options.initial_paths)
    ]
    return [*managers, *sets, *(everywhere(job.topology, options.ccs) if options.tcp else ())]


def subsets(topology: Topology) -> list[tuple[str, ...]]:
    """Sets of subflows that compete, in the order of the topology: some but not all of them."""
    labels = [path.label for path in topology.paths]
    if len(labels) <= _EVERY_SET:
        sizes = range(1, len(labels))
        return [chosen for size in sizes for chosen in itertools.combinations(labels, size)]
    known = {path.label: topology.known(path).base_rtt_ns for path in topology.paths}
    quickest = sorted(labels, key=lambda label: (known[label] is None, known[label] or 0))
    together = [quickest[:size] for size in range(2, len(labels))]
    return [*((label,) for label in labels), *(tuple(sorted(few, key=labels.index)) for few in together)]


def beginnings(topology: Topology, subset: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """Paths of the first handshake: the usual one if it is in the set, otherwise the first of the set.

    Messages that leave before another subflow has joined go over it.

    Parameters
    ----------
    asked : those that were asked for; of them those in the set count, and the first where none is.
    """
    usual = topology.initial_path or topology.paths[0].label
    if asked:
        return tuple(label for label in asked if label in subset) or (asked[0],)
    return ("" if usual in subset else subset[0],)


def few_of(buffers: Sequence[int], sent: Described) -> list[int]:
    """Buffers for a workload and a saturated sender, bytes, ascending: the workload's, and larger ones.

    At most `_FEW`, evenly spread by their logarithms, with the largest for the workload and of all.
    """
    of_workload, ordered = worth_measuring(buffers, sent), sorted(buffers)
    both = {of_workload[-1], ordered[-1]}
    low, high = math.log(of_workload[0]), math.log(ordered[-1])
    aims = [low + (high - low) * step / (_FEW - 1) for step in range(_FEW)]
    for aim in aims:
        if len(both) < _FEW:
            both.add(min(ordered, key=lambda size: abs(math.log(size) - aim)))
    return sorted(both)


def worth_measuring(buffers: Sequence[int], sent: Described) -> list[int]:
    """Buffers for a workload, bytes, ascending: of those that hold all that can wait the smallest alone.

    That are the messages of a standstill, or all that is asked for at once. Beside a sender that always has
    more, and where that is not known, all are worth it.
    """
    ordered = sorted(buffers)
    if sent.waiting_bytes is None:
        return ordered
    # Linux charges about twice the payload.
    least = next((size for size in ordered if size >= 4 * sent.waiting_bytes), ordered[-1])
    return [size for size in ordered if size <= least]
