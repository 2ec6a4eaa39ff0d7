"""Messages, requests and videos of the simulator beside the kernel, on drawn networks.

Networks as in `benchmarks.fidelity.throughput`, each with a series of messages, with a client that asks,
and with a video, drawn too. Every metric of a workload is compared by its mean over the runs; beside it the
kernel against itself, one half of its runs against the other. `--write-docs` writes the table into
docs/reference/fidelity.md. A seed that was looked at guides whoever works on the model: report on one that
nobody looked at.
"""

import argparse
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.fidelity import _drawn
from benchmarks.shared import docs
from benchmarks.shared.measure import RESULTS, machine, write
from benchmarks.shared.random_networks import Draw
from mptune import testbeds
from mptune.runner.running import reduce_trials
from mptune.runner.seeds import seed_for
from mptune.statistics import quantile
from mptune.topology import Topology
from mptune.trial import Messages, Observation, PlannedTrial, Ran, Record, Requests, Trial, Video
from mptune.trial.objectives import metrics_of
from mptune.trial.records import record
from mptune.trial.stacks import STACKS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fidelity.md"

NETWORKS, KERNEL_RUNS, SIMULATED_RUNS = 12, 6, 20
DURATION_NS = 10_000_000_000

#: Bytes of a message, and the share of the slowest path's rate that all of them take.
MESSAGE_BYTES, SHARE = (100, 20_000), ("0.02", "0.4")
#: Bytes of a response, and ns of thinking.
RESPONSE_BYTES, THINK_NS = (5_000, 500_000), (1_000_000, 1_000_000_000)
REQUEST_BYTES = 400
#: The highest bitrate of a video as a share of the rate of all paths, and the others as shares of it.
VIDEO_SHARE, LADDER, SEGMENT_NS = ("0.5", "3"), (0.1, 0.2, 0.35, 0.6, 1), 1_000_000_000
#: The duration of a trial with a video, of which the buffer is to be a small part.
VIDEO_NS = 40_000_000_000
BUFFER_BYTES = 2**20


class Case(NamedTuple):
    """A workload in a network."""

    network: str
    trial: Trial

    def runs(self, seed: int, number: int, **members: str) -> list[Trial]:
        """So many runs."""
        return [
            msgspec.structs.replace(self.trial, seed=seed_for(seed, "sweep", run), **members)
            for run in range(number)
        ]


class Judged(NamedTuple):
    """A metric of a case: means of both sides, and of the two halves of the kernel's runs."""

    case: Case
    metric: str
    unit: str
    simulated: float
    kernel: float
    halves: tuple[float, float]

    @property
    def error(self) -> float:
        """Error of the simulator: relative, of a share in percent by its difference."""
        return self._apart(self.simulated, self.kernel)

    @property
    def own(self) -> float:
        """The same of one half of the kernel's runs against the other."""
        return self._apart(*self.halves)

    def _apart(self, one: float, other: float) -> float:
        return (one - other) / 100 if self.unit == "%" else one / other - 1


def cases(seed: int, number: int) -> Iterator[Case]:
    """Draw."""
    folder = RESULTS / f"programs-{seed}"
    for network in _drawn.networks(seed, number, 0, DURATION_NS, folder):
        draw = Draw(seed_for(seed, "sweep", len(network.topology.name)) ^ hash_of(network.topology.name))
        for workload in _messages(network.topology, draw), _requests(draw), _video(network.topology, draw):
            trial = Trial(
                topology=network.topology,
                pm="fullmesh",
                cc="cubic",
                buffer_bytes=BUFFER_BYTES,
                seed=0,
                workload=workload,
            )
            yield Case(network.topology.name, trial)


def hash_of(name: str) -> int:
    """A number of a name, the same on every machine."""
    return int.from_bytes(name.encode()[-6:], "big")


def _messages(topology: Topology, draw: Draw) -> Messages:
    rates = [known.rate_bps for known in map(topology.known, topology.paths) if known.rate_bps]
    size = int(draw.uniform(*MESSAGE_BYTES))
    interval_ns = int(size * 8e9 / (float(draw.uniform(*SHARE)) * min(rates)))
    return Messages(
        bytes=size, interval_ns=min(max(interval_ns, 5_000_000), 500_000_000), duration_ns=DURATION_NS
    )


def _requests(draw: Draw) -> Requests:
    return Requests(
        request_bytes=REQUEST_BYTES,
        response_bytes=int(draw.uniform(*RESPONSE_BYTES)),
        think_ns=int(draw.uniform(*THINK_NS)),
        duration_ns=DURATION_NS,
    )


def _video(topology: Topology, draw: Draw) -> Video:
    rate = sum(known.rate_bps for known in map(topology.known, topology.paths) if known.rate_bps)
    highest = float(draw.uniform(*VIDEO_SHARE)) * rate
    return Video(
        ladder_bps=tuple(int(share * highest) for share in LADDER),
        segment_ns=SEGMENT_NS,
        buffer_ns=8 * SEGMENT_NS,
        duration_ns=VIDEO_NS,
    )


def observed(testbed_name: str, planned: Sequence[Sequence[Trial]]) -> list[list[Record]]:
    """The records of all runs of all cases."""
    testbed = testbeds.create(testbed_name)
    flat = [trial for trials in planned for trial in trials]

    def condensed(index: int, _: Ran, observation: Observation) -> Record:
        return record(PlannedTrial(purpose="sweep", run=index, trial=flat[index]), observation)

    rest = iter(reduce_trials(testbed, flat, condensed))
    return [[next(rest) for _ in trials] for trials in planned]


def judged(case: Case, simulated: Sequence[Record], kernel: Sequence[Record]) -> Iterator[Judged]:
    """Every metric of a case that both sides have."""
    half = len(kernel) // 2
    for metric in metrics_of(case.trial.workload):
        both = [metric.values(runs) for runs in (simulated, kernel, kernel[:half], kernel[half:])]
        if all(both) and (metric.unit == "%" or all(sum(values) > 0 for values in both)):
            ours, theirs, first, second = (statistics.fmean(values) for values in both)
            yield Judged(case, metric.name, metric.unit, ours, theirs, (first, second))


def rows(found: Sequence[Judged]) -> list[tuple[str, ...]]:
    """Median and 90th percentile of the error of each metric, and the kernel against itself."""
    table: list[tuple[str, ...]] = [
        ("metric", "cases", "median error", "90th percentile", "the kernel against itself")
    ]
    for name in dict.fromkeys(one.metric for one in found):
        of_metric = [one for one in found if one.metric == name]
        errors = sorted(abs(one.error) for one in of_metric)
        own = sorted(abs(one.own) for one in of_metric)
        table.append(
            (
                name,
                str(len(errors)),
                f"{quantile(errors, 0.5):.1%}",
                f"{quantile(errors, 0.9):.1%}",
                f"{quantile(own, 0.5):.1%}, {quantile(own, 0.9):.1%}",
            )
        )
    return table


def main() -> None:
    """Draw, measure, compare, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--networks", type=int, default=NETWORKS)
    parser.add_argument("--testbed", default="virtual:7.3")
    parser.add_argument("--runs", type=int, default=KERNEL_RUNS)
    parser.add_argument("--write-docs", action="store_true")
    asked = parser.parse_args()
    drawn = list(cases(asked.seed, asked.networks))
    _, _, release = asked.testbed.partition(":")
    stack = f"linux-{release}"
    members = {"accounting": STACKS[stack].accounting} if stack in STACKS else {}
    simulated = observed("simulated", [case.runs(asked.seed, SIMULATED_RUNS, **members) for case in drawn])
    kernel = observed(asked.testbed, [case.runs(asked.seed, asked.runs) for case in drawn])
    found = [
        one
        for case, ours, theirs in zip(drawn, simulated, kernel, strict=True)
        for one in judged(case, ours, theirs)
    ]
    for one in sorted(found, key=lambda one: -abs(one.error)):
        print(
            f"{one.case.network:16} {one.metric:16} simulated {one.simulated:9.2f} "
            f"kernel {one.kernel:9.2f} {one.error:+8.1%} (itself {one.own:+.1%})"
        )
    table = rows(found)
    print("\n".join(docs.table(table)))
    failed = sum(run.failed is not None for runs in (*simulated, *kernel) for run in runs)
    print(f"{failed} runs failed")
    write(
        f"programs-{asked.seed}",
        [
            {
                "network": one.case.network,
                "metric": one.metric,
                "simulated": one.simulated,
                "kernel": one.kernel,
                "halves": one.halves,
            }
            for one in found
        ],
    )
    if asked.write_docs:
        runs = f"{asked.runs} runs of {DURATION_NS / 1e9:g} s each, videos {VIDEO_NS / 1e9:g} s"
        head = (
            f"Seed {asked.seed}, {asked.networks} networks, {asked.testbed} ({runs}), "
            f"simulated {SIMULATED_RUNS} times; mptune {machine()['mptune']}."
        )
        docs.replace(PAGE, "programs", "\n".join([head, "", *docs.table(table)]))


if __name__ == "__main__":
    main()
