"""The worth of a recommendation: fresh measurements of it, of its plain rivals, and of its surroundings.

Not a benchmark; the figures of one network for `regret.py`. Trials of one purpose share their seeds, so
ratios are between runs with the same luck.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from benchmarks.decision._search import WORKLOAD, Bench, Found, Holding, Known, buffer_grid, subset
from mptune import path_managers
from mptune.optimisation.main_job import Result
from mptune.topology import Interface, Path, Topology
from mptune.trial import Configuration, Record
from mptune.trial.stacks import of_tcp
from mptune.units import MIB

#: Parts of a gap of the grid in which the true optimum lies.
WITHIN = 5

_T = TypeVar("_T", bound=msgspec.Struct)

#: Buffers of up to twice the recommended one, as multiples of it.
UP_TO_TWICE = (1.25, 1.5, 1.75, 2.0)

#: By how much rates, RTTs and losses may be off.
OFF = 0.2

#: Seeds of each surrounding of a recommendation.
NEAR_RUNS = 3

#: Candidates of the sweep, of either kind, with which the true optimum of the sweep is determined.
TRUE_CANDIDATES = 4


class Robustness(msgspec.Struct, frozen=True, kw_only=True):
    """Worst throughput around a recommendation, as shares.

    Attributes
    ----------
    doubled, larger : of its own throughput with the recommended buffer: with buffers of up to twice that,
        and of up to the largest measured.
    off : of the best finalist's, with the same buffers, where rates, RTTs or losses are off by a fifth.
    """

    doubled: float
    larger: float
    off: dict[str, float]


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Coverage of an answer's 95 % intervals: the optimum of many more runs is inside or not.

    Attributes
    ----------
    obs_mib, otp_mbps : that optimum, by the smallest buffer from which on a candidate holds the target.
    obs : whether the buffer's interval holds its buffer.
    otp : whether the throughput's interval holds what the recommended configuration gives: its buffer, and
        after fresh trials all of it, may be another one than the optimum's.
    """

    obs_mib: float
    otp_mbps: float
    obs: bool
    otp: bool


def rivals(bench: Bench, recommended: Configuration) -> dict[str, list[Configuration]]:
    """The throughput of a host without an optimiser, with the same buffer.

    Cubic over everything; each path alone, with Cubic and with the recommended congestion control; and plain
    TCP over each path.
    """
    size, ccs = recommended.buffer_bytes, dict.fromkeys(("cubic", recommended.cc))
    labels = [path.label for path in bench.topology.paths]
    alone = list(itertools.product(labels, ccs))
    rivals = {
        "fullmesh/cubic": [
            Configuration(pm="fullmesh", cc="cubic", buffer_bytes=size, workload=WORKLOAD, stack=bench.stack)
        ],
        "best single path": [subset(bench.topology, (label,), cc, size, bench.stack) for label, cc in alone],
    }
    rivals["best plain TCP"] = [tcp(bench, label, cc, size) for label, cc in alone]
    return rivals


def tcp(bench: Bench, path: str, cc: str, size: int) -> Configuration:
    """Plain TCP on a path."""
    stack = of_tcp(bench.stack)
    return Configuration(
        pm="default",
        cc=cc,
        buffer_bytes=size,
        workload=WORKLOAD,
        initial_path=path,
        protocol="tcp",
        stack=stack,
    )


def measured_rivals(bench: Bench, recommended: Configuration) -> dict[str, Found]:
    """The best of each kind of rival, by fresh seeds."""
    kinds = rivals(bench, recommended)
    every = [configuration for ones in kinds.values() for configuration in ones]
    measured = iter(bench.measure(every, "fresh", bench.plan.fresh_runs))
    return {
        kind: max(itertools.islice(measured, len(ones)), key=lambda result: result.mbps)
        for kind, ones in kinds.items()
    }


def robustness(bench: Bench, recommended: Configuration, known: Known) -> Robustness:
    """Throughput with larger buffers, and over networks that differ from the measured one."""
    own = recommended.buffer_bytes
    twice = [own, *(round(own * factor) for factor in UP_TO_TWICE)]
    larger = [size for size in buffer_grid(bench.topology, bench.plan.sizes) if size > 2 * own]
    sized = [msgspec.structs.replace(recommended, buffer_bytes=size) for size in (*twice, *larger)]
    mbps = [result.mbps for result in bench.measure(sized, "near", NEAR_RUNS)]
    others = [finalist.configuration for finalist in known.finalists]
    off = {}
    for name, topology in perturbed(bench.topology):
        measured = bench.measure([recommended, *others], "near", NEAR_RUNS, topology=topology)
        off[name] = _ratio(measured[0].mbps, max(result.mbps for result in measured))
    return Robustness(
        doubled=_ratio(min(mbps[: len(twice)]), mbps[0]), larger=_ratio(min(mbps), mbps[0]), off=off
    )


def perturbed(topology: Topology) -> Iterator[tuple[str, Topology]]:
    """The network with all rates, RTTs or losses a fifth lower or higher; queues and effects stay."""
    for sign, factor in (("-", 1 - OFF), ("+", 1 + OFF)):

        def scaled(value: int, factor: float = factor) -> int:
            return round(value * factor)

        yield f"rates {sign}20 %", _changed(topology, scaled, ("up_bps", "down_bps"), ("rate_bps",))
        yield (
            f"RTTs {sign}20 %",
            _changed(topology, scaled, ("delay_ns",), ("forward_ns", "reverse_ns")),
        )
        if any(path.loss_ppb for path in topology.paths):
            yield f"losses {sign}20 %", _changed(topology, scaled, ("loss_ppb",), ("loss_ppb",))


def _changed(
    topology: Topology, scaled: Callable[[int], int], access: Sequence[str], core: Sequence[str]
) -> Topology:
    """The topology with some fields of its access links and cores scaled."""

    def changed(record: _T, names: Sequence[str]) -> _T:
        values = {name: getattr(record, name) for name in names}
        new = {name: scaled(value) for name, value in values.items() if value is not None}
        return msgspec.structs.replace(record, **new)

    def interfaces(ones: Sequence[Interface]) -> tuple[Interface, ...]:
        return tuple(changed(interface, access) for interface in ones)

    sender, receiver = (
        msgspec.structs.replace(site, interfaces=interfaces(site.interfaces))
        for site in (topology.sender, topology.receiver)
    )

    def path(route: Path) -> Path:
        return msgspec.structs.replace(
            route,
            local=sender.interfaces[route.local_index],
            remote=receiver.interfaces[route.remote_index],
            core=changed(route.core, core),
        )

    paths = tuple(path(route) for route in topology.paths)
    return msgspec.structs.replace(topology, sender=sender, receiver=receiver, paths=paths)


def coverage(bench: Bench, result: Result, mbps: float) -> Coverage | None:
    """Hold the intervals of a result against an optimum from many more runs; None without intervals.

    The candidates are those of the sweep that matter: the fastest, and those that reached the target with the
    least buffer.

    Parameters
    ----------
    mbps : mean of the recommended configuration by fresh seeds.
    """
    uncertainty = result.decision.uncertainty
    if uncertainty is None:
        return None
    sacrifice, grid = (
        result.decision.options.sacrifice,
        [round(buffer * MIB) for buffer in result.decision.buffers],
    )
    candidates = _candidates(bench, result.records, sacrifice)
    sized = [
        msgspec.structs.replace(candidate, buffer_bytes=size) for candidate in candidates for size in grid
    ]
    measured = bench.measure(sized, "truth", bench.plan.fresh_runs)
    curves = [measured[i : i + len(grid)] for i in range(0, len(measured), len(grid))]
    size, otp = _smallest(bench, curves, sacrifice)

    def holds(interval: tuple[float, float], value: float) -> bool:
        return interval[0] <= value <= interval[1]

    return Coverage(
        obs_mib=size / MIB,
        otp_mbps=otp,
        obs=holds(uncertainty.obs_mib, size / MIB),
        otp=holds(uncertainty.otp_mbps, mbps),
    )


def _smallest(bench: Bench, curves: Sequence[Sequence[Found]], sacrifice: float) -> tuple[float, float]:
    """Smallest buffer (bytes) from which on any curve holds the target, and the throughput there.

    Between two sizes of the grid a curve may have a knee: the gap in which it crosses is measured in between.
    """
    target, holding = Holding.of(curves, sacrifice)
    size, _ = _first(curves, target, holding)
    refined = []
    for curve, held in zip(curves, holding, strict=True):
        index = next((i for i, mbps in enumerate(held) if mbps >= target), 0)
        if index and curve[index - 1].configuration.buffer_bytes < size:
            below, above = curve[index - 1], curve[index]
            low, high = below.configuration.buffer_bytes, above.configuration.buffer_bytes
            inside = [round(low * (high / low) ** (number / WITHIN)) for number in range(1, WITHIN)]
            sized = [msgspec.structs.replace(below.configuration, buffer_bytes=size) for size in inside]
            measured = bench.measure(sized, "truth", bench.plan.fresh_runs)
            curve = [*curve[:index], *measured, *curve[index:]]
        refined.append(curve)
    return _first(refined, target, Holding.of(refined, sacrifice).mbps)


def _first(
    curves: Sequence[Sequence[Found]], target: float, holding: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """The smallest buffer (bytes) from which on a curve holds the target, and the throughput there."""
    return min(_crossing(curve, target, held) for curve, held in zip(curves, holding, strict=True))


def _crossing(curve: Sequence[Found], target: float, held: Sequence[float]) -> tuple[float, float]:
    """Smallest buffer (bytes) from which on a curve holds the target, interpolated; its throughput there."""
    index = next((i for i, mbps in enumerate(held) if mbps >= target), None)
    if index is None:
        return math.inf, 0.0
    above = curve[index]
    high = above.configuration.buffer_bytes
    if index == 0 or curve[index - 1].mbps >= target:
        return high, above.mbps
    below = curve[index - 1]
    low = below.configuration.buffer_bytes
    return low + (high - low) * (target - below.mbps) / (above.mbps - below.mbps), target


def _candidates(bench: Bench, records: Sequence[Record], sacrifice: float) -> list[Configuration]:
    """Configurations of a sweep without their buffers, from the settings of its trials; those that matter."""
    values: dict[str, dict[int, list[float]]] = {}
    made: dict[str, Configuration] = {}
    for record in records:
        if record.purpose == "sweep":
            fields = _fields(record)
            key = json.dumps(fields, sort_keys=True)
            made.setdefault(
                key, Configuration(buffer_bytes=0, workload=WORKLOAD, stack=bench.stack, **fields)
            )
            values.setdefault(key, {}).setdefault(record.buffer_bytes, []).append(
                record.throughput_mbps or 0.0
            )
    means = {
        key: {size: math.fsum(mbps) / len(mbps) for size, mbps in sizes.items()}
        for key, sizes in values.items()
    }
    target = (1 - sacrifice) * max(max(sizes.values()) for sizes in means.values())

    def least(key: str) -> float:
        return min((size for size, mbps in means[key].items() if mbps >= target), default=math.inf)

    fastest = sorted(means, key=lambda key: -max(means[key].values()))[:TRUE_CANDIDATES]
    smallest = sorted(means, key=least)[:TRUE_CANDIDATES]
    return [made[key] for key in dict.fromkeys((*fastest, *smallest))]


def _fields(record: Record) -> dict[str, Any]:
    """Fields of a configuration in a record, whatever fields configurations have."""
    names = set(Configuration.__struct_fields__)
    own = {option.name for option in path_managers.options().get(record.pm, ())}
    fields: dict[str, Any] = {"pm": record.pm, "cc": record.cc}
    fields |= {name: value for name, value in record.settings.items() if name in names}
    fields["pm_options"] = {name: value for name, value in record.settings.items() if name in own}
    return fields


def _ratio(value: float, other: float) -> float:
    return value / other if other else 1.0
