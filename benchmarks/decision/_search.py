"""The best configuration of a network by exhaustive staged search, to judge an optimiser by.

Not a benchmark. Every subset of the paths (path manager pcdc) x every congestion control x a few buffers, in
short trials of one seed; the best of these over all buffers with more seeds; the best of those, and the
smallest buffers from which on the target is held, with seeds that nothing else used. What is reported comes
from the last stage alone, so that the luckiest of many is not believed.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from mptune.decision.selection import held
from mptune.runner.planning import plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.topology import Topology
from mptune.trial import Bulk, Configuration
from mptune.trial.stacks import Stack

#: The congestion controls of the papers, which are also the optimiser's.
CCS = ("reno", "cubic", "hybla", "scalable", "vegas", "olia")

#: A candidate that misses the target by this much in the short trials may still reach it in long ones.
LENIENCE = 0.05


#: Of a configuration; `Bench.measure` replaces it.
WORKLOAD = Bulk(duration_ns=0)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The effort of a search.

    Attributes
    ----------
    sizes : number of buffers of the fine grid; every `stride`-th of them, the largest included, is coarse.
    coarse_s, seconds : duration of a trial in the first stage and in all others.
    keep : share of the candidates that enters the second stage, but at least `least` of them.
    dense_runs, fresh_runs : seeds of the second and the last stage.
    finalists : of either kind (fastest, smallest) in the last stage.
    sweep_runs, impact_runs : of the optimiser's own trials.
    """

    sizes: int = 12
    stride: int = 3
    coarse_s: int = 8
    seconds: int = 20
    keep: float = 0.03
    least: int = 8
    dense_runs: int = 3
    fresh_runs: int = 10
    finalists: int = 4
    sweep_runs: int = 5
    impact_runs: int = 3


class Found(NamedTuple):
    """A configuration and the mean throughput of its trials, Mbit/s."""

    configuration: Configuration
    mbps: float

    @property
    def words(self) -> str:
        """Its subflows and congestion control; of plain TCP its path."""
        configuration = self.configuration
        return f"{'+'.join(configuration.active or ()) or configuration.manager}/{configuration.cc}"


class Known(NamedTuple):
    """Outcome of a search.

    Attributes
    ----------
    finalists : by falling throughput, with fresh seeds.
    target : what an answer has to hold, Mbit/s (`Holding`).
    holding : those of the finalists that held it in the search.
    """

    finalists: tuple[Found, ...]
    target: float
    holding: tuple[Found, ...]

    def smallest(self, sacrifice: float) -> Found:
        """The finalist with the smallest buffer that holds the target, with fresh seeds too."""
        target = min(self.target, (1 - sacrifice) * self.finalists[0].mbps)
        return min(
            (result for result in self.holding if result.mbps >= target),
            key=lambda result: result.configuration.buffer_bytes,
            default=self.finalists[0],
        )

    def beside(self, others: Iterable[Found]) -> "Known":
        """The same with further finalists, of which nobody knows what they hold."""
        finalists = tuple(sorted((*self.finalists, *others), key=lambda result: -result.mbps))
        return self._replace(finalists=finalists)


class Holding(NamedTuple):
    """Curves as the robust reading sees them (`mptune.decision.selection.READINGS`).

    Attributes
    ----------
    target : what an answer has to hold, Mbit/s.
    mbps : what each curve holds from each of its buffers on.
    """

    target: float
    mbps: list[list[float]]

    @classmethod
    def of(cls, curves: Sequence[Sequence[Found]], sacrifice: float) -> "Holding":
        """The best throughput less the sacrifice, up to the largest buffer; else up to twice the size.

        If nothing holds that, the best that is held over twice the size, less the sacrifice.
        """
        target = (1 - sacrifice) * max(result.mbps for curve in curves for result in curve)
        for reach in (math.inf, 2.0):
            mbps = [
                held(
                    [result.configuration.buffer_bytes for result in curve],
                    [result.mbps for result in curve],
                    reach,
                )
                for curve in curves
            ]
            most = max(map(max, mbps))
            if most >= target:
                break
        return cls(target if most >= target else (1 - sacrifice) * most, mbps)


class Bench(NamedTuple):
    """The means of measuring configurations of a network."""

    topology: Topology
    stack: Stack
    runner: TrialRunner
    plan: Plan
    reporter: Reporter

    def measure(
        self,
        configurations: Iterable[Configuration],
        purpose: str,
        runs: int,
        *,
        seconds: int | None = None,
        topology: Topology | None = None,
    ) -> list[Found]:
        """Means over runs with the seeds of a purpose, in order; a failed run counts as no throughput."""
        workload = Bulk(duration_ns=(seconds or self.plan.seconds) * 10**9)
        ones = list(configurations)
        planned = plan_trials(
            topology or self.topology,
            [asked.under(workload) for asked in ones],
            purpose=purpose,
            runs=runs,
            base_seed=0,
        )
        with self.reporter.phase(f"{self.topology.name}: {purpose}") as progress:
            records = self.runner.measure(planned, progress=progress)
        values = [record.throughput_mbps or 0.0 for record in records]
        return [
            Found(configuration, math.fsum(values[i * runs : (i + 1) * runs]) / runs)
            for i, configuration in enumerate(ones)
        ]


def buffer_grid(topology: Topology, sizes: int) -> tuple[int, ...]:
    """Buffers in geometric steps, whole KiB, ascending.

    From half of what the fastest path alone holds to four times what all paths hold at the largest RTT:
    Linux charges its buffers with more than the payload.
    """
    up = sum(interface.up_bps for interface in topology.sender.interfaces)
    down = sum(interface.down_bps for interface in topology.receiver.interfaces)
    rate = min(up, down, sum(path.rate_bps for path in topology.paths))
    whole = rate * max(path.base_rtt_ns for path in topology.paths) / 8e9
    fastest = max(topology.paths, key=lambda path: path.rate_bps).bdp_bytes
    low = max(32 * 1024.0, min(fastest / 2, whole / 4))
    high = max(4 * whole, 8 * low)
    step = (high / low) ** (1 / (sizes - 1))
    return tuple(math.ceil(low * step**number / 1024) * 1024 for number in range(sizes))


def subset(topology: Topology, active: Sequence[str], cc: str, size: int, stack: Stack) -> Configuration:
    """Some paths carry data, the others are standby."""
    standby = [path.label for path in topology.paths if path.label not in active]
    options = {"active": tuple(active)} | ({"standby_order": tuple(standby)} if standby else {})
    return Configuration(
        pm="pcdc", cc=cc, buffer_bytes=size, workload=WORKLOAD, pm_options=options, stack=stack
    )


def search(bench: Bench, sacrifice: float) -> Known:
    """Search a network; the smallest buffers are those from which on the target is held."""
    grid, plan = buffer_grid(bench.topology, bench.plan.sizes), bench.plan
    chosen = _promising(_coarse(bench, grid), plan, sacrifice)
    dense = bench.measure(
        [
            msgspec.structs.replace(configuration, buffer_bytes=size)
            for configuration in chosen
            for size in grid
        ],
        "dense",
        plan.dense_runs,
    )
    curves = [dense[i : i + len(grid)] for i in range(0, len(dense), len(grid))]
    target, holding = Holding.of(curves, sacrifice)
    fastest = sorted(dense, key=lambda result: -result.mbps)
    everything = zip(dense, itertools.chain.from_iterable(holding), strict=True)
    enough = (result for result, mbps in everything if mbps >= target)
    smallest = sorted(enough, key=lambda result: (result.configuration.buffer_bytes, -result.mbps))
    finalists = {_key(result): result for result in (*fastest[: plan.finalists], *smallest[: plan.finalists])}
    fresh = bench.measure(
        (finalist.configuration for finalist in finalists.values()), "fresh", plan.fresh_runs
    )
    holds = set(map(_key, smallest))
    return Known(
        finalists=tuple(sorted(fresh, key=lambda result: -result.mbps)),
        target=target,
        holding=tuple(result for result in fresh if _key(result) in holds),
    )


def _coarse(bench: Bench, grid: Sequence[int]) -> list[list[Found]]:
    """Every subset with every congestion control, over the coarse buffers."""
    labels = [path.label for path in bench.topology.paths]
    sizes = grid[:: -bench.plan.stride][::-1]
    subsets = [some for n in range(1, len(labels) + 1) for some in itertools.combinations(labels, n)]
    results = bench.measure(
        [
            subset(bench.topology, active, cc, size, bench.stack)
            for active, cc, size in itertools.product(subsets, CCS, sizes)
        ],
        "coarse",
        1,
        seconds=bench.plan.coarse_s,
    )
    return [results[i : i + len(sizes)] for i in range(0, len(results), len(sizes))]


def _promising(coarse: Sequence[list[Found]], plan: Plan, sacrifice: float) -> list[Configuration]:
    """The candidates (with any buffer) that are fastest, and those that come close with the least buffer."""
    count = max(plan.least, math.ceil(plan.keep * len(coarse)))
    top = {id(ones): max(result.mbps for result in ones) for ones in coarse}
    close = (1 - sacrifice - LENIENCE) * max(top.values())

    def least(ones: list[Found]) -> float:
        sizes = [result.configuration.buffer_bytes for result in ones if result.mbps >= close]
        return min(sizes, default=math.inf)

    fastest = sorted(coarse, key=lambda ones: -top[id(ones)])
    smallest = sorted(coarse, key=lambda ones: (least(ones), -top[id(ones)]))
    chosen = {_key(ones[0]): ones[0].configuration for ones in fastest[:count]}
    for ones in smallest[: max(1, count // 2)]:
        chosen.setdefault(_key(ones[0]), ones[0].configuration)
    return list(chosen.values())


def _key(result: Found) -> tuple[str, int]:
    return result.words, result.configuration.buffer_bytes
