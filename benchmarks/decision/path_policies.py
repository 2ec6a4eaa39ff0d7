"""A path policy or a scheduler beside the kernel's and each path alone: networks that stay, and dynamics.

Networks that stay as they are: saturated senders for 10 s, each path with a bottleneck of its own and a queue
of 50 ms; buffers of parts of the product of all rates and the largest RTT, and buffers that grow as hosts'
do. A cell is the mean of the runs, each with another seed; on the kernel runs also differ by themselves.
"Best path" is the best of them alone, under plain TCP.

`--dynamics N`: those of `_dynamics.py` instead, with their own congestion controls and buffers, from seeds on
which no rule was tried; all paths under the policy against fullmesh without it and against the best path of
each dynamic. `--draw hosts` has up to six paths and buffers that grow, `--draw small` what a guest can
carry in minutes. Ctrl-C prints the dynamics so far.

`--testbed simulated` needs nothing, `virtual` a kernel for guests (half an hour for three runs); `namespaces`
needs root, a quiet machine, and some 40 minutes. With --write-docs the tables go to
docs/explanation/scheduling.md.

`--policy scheduler=hold` measures the scheduler of that name in place of a path policy, `--policy pm=guard` a
path manager. Dynamics take several at once, with commas.

`--before` and `--after` a change of a policy measure the pair alone, and compare case by case. Changes are
tried on the dynamics of `--seed 3000000`, and judged once by those of other seeds.
"""

import argparse
import contextlib
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path as File
from typing import NamedTuple, TypeVar

import msgspec
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.decision import _before, _dynamics, _ratios
from benchmarks.decision._ratios import over
from benchmarks.shared import docs
from benchmarks.shared.contenders import Bench
from benchmarks.shared.measure import machine, write
from benchmarks.shared.random_networks import wide_site
from mptune.testbeds import create as testbed
from mptune.topology import CoreSegment, Path, Topology
from mptune.trial import Bulk, Observation, Trial

DOCS = File(__file__).parents[2] / "docs" / "explanation" / "scheduling.md"

#: Networks: Mbit/s and ms of RTT of each path. The first four are those on which the first rule was tried.
NETWORKS = (
    ((20, 20), (5, 200)),
    ((100, 20), (10, 100)),
    ((50, 30), (50, 30)),
    ((10, 10), (10, 300)),
    ((50, 20), (20, 60), (5, 200)),
    ((30, 15), (30, 15), (10, 80), (3, 250)),
)
#: Buffers in products; another one grows.
PRODUCTS = (0.25, 1.0, 4.0)
QUEUE_MS = 50
LEAST_QUEUE = 64_000
SECONDS = 10
RUNS = 3
#: What the policy is compared on: not below these parts of the best path and of the kernel's scheduler alone.
GOALS = (0.98, 0.97)
#: Seed of the first dynamic; the rules were tried on 3,000,000 to 3,000,249.
FIRST_SEED = 7_000_000
#: From the seed of a dynamic's run to that of the next.
NEXT_RUN = 10**9
#: Of the quantiles.
_SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95)
_MS = 1_000_000
_T = TypeVar("_T")
#: Before the name of a scheduler, and of a path manager.
_SCHEDULER, _MANAGER = "scheduler=", "pm="


class Case(NamedTuple):
    """A network with its buffer; reverse: the data goes to the site with several uplinks."""

    paths: tuple[tuple[int, int], ...]
    products: float | None
    reverse: bool = False

    def title(self) -> str:
        """For the table."""
        network = " + ".join(f"{rate}/{rtt}" for rate, rtt in self.paths)
        return f"{network}, reverse" if self.reverse else network

    def buffer(self) -> str:
        """For the table."""
        return "auto" if self.products is None else f"{self.products:g}"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Mean throughputs of a case, Mbit/s, and those of the single runs."""

    network: str
    buffer: str
    best: float
    alone: float
    policy: float
    runs: dict[str, list[float]]


def cases() -> Iterator[Case]:
    """Every network with every buffer, and the first the other way round."""
    for paths in NETWORKS:
        for products in (*PRODUCTS, None):
            yield Case(paths, products)
    for products in PRODUCTS:
        yield Case(NETWORKS[0], products, reverse=True)


def topology(paths: Sequence[tuple[int, int]]) -> Topology:
    """A site with an uplink for each path, and one with a single link."""
    sender = wide_site("S", "ABCD"[: len(paths)], "made up")
    receiver = wide_site("R", "X", "made up")
    ends = zip(sender.interfaces, paths, strict=True)
    made = tuple(
        Path(
            label=f"{local.abbr}-X",
            local_index=number,
            remote_index=0,
            local=local,
            remote=receiver.interfaces[0],
            core=_core(rate, rtt),
        )
        for number, (local, (rate, rtt)) in enumerate(ends)
    )
    return Topology(
        name="path-policies",
        description="a bottleneck for each path",
        sender=sender,
        receiver=receiver,
        paths=made,
        initial_path=made[0].label,
        lsrr_honoured=False,
        provenance={},
        file="",
    )


def _core(mbps: int, rtt_ms: int) -> CoreSegment:
    return CoreSegment(
        forward_ns=rtt_ms * _MS // 2,
        reverse_ns=rtt_ms * _MS // 2,
        jitter_ns=0,
        loss_ppb=0,
        rate_bps=mbps * 1_000_000,
        queue_bytes=max(mbps * QUEUE_MS * 125, LEAST_QUEUE),
    )


class Runner:
    """Runs trials on a testbed, as many at once as it can take."""

    def __init__(self, name: str) -> None:
        self._testbed = None if name == "namespaces" else testbed(name)
        self._bench = Bench()

    def run(self, trial: Trial) -> float:
        """Mbit/s of one trial, 0 of one that failed."""
        if self._testbed is not None:
            return _mbps(self._testbed.run(trial))
        return _mbps(self._bench.run(trial))

    def __enter__(self) -> "Runner":
        if self._testbed is None:
            self._bench.awake.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bench.close()
        if self._testbed is None:
            self._bench.awake.__exit__(None, None, None)


def _mbps(observation: Observation) -> float:
    return observation.in_order_bytes * 8 / SECONDS / 1e6


def _under(trial: Trial, policy: str) -> Trial:
    """The trial under a path policy, or under another scheduler or path manager."""
    change = msgspec.structs.replace
    if policy.startswith(_SCHEDULER):
        return change(trial, scheduler=policy.removeprefix(_SCHEDULER))
    if policy.startswith(_MANAGER):
        return change(trial, pm=policy.removeprefix(_MANAGER))
    return change(trial, cc=_named(trial.cc, policy))


def _named(cc: str, policy: str) -> str:
    """Congestion control and policy, scheduler or path manager, for the tables."""
    if policy.startswith(_SCHEDULER):
        return f"{cc}, scheduler {policy.removeprefix(_SCHEDULER)}"
    if policy.startswith(_MANAGER):
        return f"{cc}, {policy.removeprefix(_MANAGER)}"
    return f"{cc}+{policy}"


def _trials(case: Case, cc: str, policy: str) -> dict[str, Trial]:
    """The contenders of a case: every path alone, all of them, and all of them under the policy."""
    network = topology(case.paths)
    if case.reverse:
        network = network.reversed()
    whole = sum(rate for rate, _ in case.paths) * max(rtt for _, rtt in case.paths) * 125
    common = Trial(
        topology=network,
        pm="fullmesh",
        cc=cc,
        buffer_mode="auto" if case.products is None else "fixed",
        buffer_bytes=_dynamics.HOST_BUFFER_BYTES if case.products is None else int(case.products * whole),
        seed=1,
        workload=Bulk(duration_ns=SECONDS * 1_000_000_000),
    )
    change = msgspec.structs.replace
    alone = {
        path.label: change(common, protocol="tcp", pm="default", initial_path=path.label)
        for path in network.paths
    }
    return {**alone, cc: common, _named(cc, policy): _under(common, policy)}


def measure(runner: Runner, trials: Mapping[str, Trial], runs: int) -> dict[str, list[float]]:
    """The runs of each contender, Mbit/s."""
    jobs = [
        (name, msgspec.structs.replace(trial, seed=seed + 1))
        for name, trial in trials.items()
        for seed in range(runs)
    ]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda job: runner.run(job[1]), jobs))
    gained: dict[str, list[float]] = {}
    for (name, _), mbps in zip(jobs, done, strict=True):
        gained.setdefault(name, []).append(mbps)
    return gained


def compared(runner: Runner, case: Case, cc: str, policy: str, runs: int) -> Row:
    """All contenders of one case."""
    gained = measure(runner, _trials(case, cc, policy), runs)
    means = {name: statistics.fmean(values) for name, values in gained.items()}
    paired = _named(cc, policy)
    return Row(
        network=case.title(),
        buffer=case.buffer(),
        best=max(mbps for name, mbps in means.items() if name not in (cc, paired)),
        alone=means[cc],
        policy=means[paired],
        runs=gained,
    )


class Dynamic(msgspec.Struct, frozen=True, kw_only=True):
    """Throughputs of a dynamic over the whole of it, Mbit/s; of the policies by their names."""

    seed: int
    cc: str
    description: str
    policies: dict[str, float]
    fullmesh: float
    best: float

    @property
    def better(self) -> float:
        """Of fullmesh and the best path."""
        return max(self.fullmesh, self.best)


class Job(NamedTuple):
    """A dynamic that is to be measured on a testbed, under policies, each so many times."""

    drawn: _dynamics.Dynamic
    testbed: str
    policies: tuple[str, ...]
    runs: int

    def mbps(self, pm: str = "fullmesh", path: str | None = None, policy: str | None = None) -> float:
        """Mean over all paths, under a policy or not, or over one path alone; each run has its own seed."""
        trial, bed = self.drawn.trial(pm, path), testbed(self.testbed)
        if policy is not None:
            trial = _under(trial, policy)
        seeds = [trial.seed + run * NEXT_RUN for run in range(self.runs)]
        done = [bed.run(msgspec.structs.replace(trial, seed=seed)) for seed in seeds]
        return statistics.fmean(self.drawn.mbps(observation.in_order_bytes) for observation in done)

    def under_policies(self) -> dict[str, float]:
        """Each of them."""
        return {policy: self.mbps(policy=policy) for policy in self.policies}


def under_policy(job: Job) -> tuple[str, float]:
    """A name for the dynamic, and Mbit/s under its only policy."""
    (mbps,) = job.under_policies().values()
    return f"seed {job.drawn.seed} ({job.drawn.cc})", mbps


def dynamic(job: Job) -> Dynamic:
    """All trials of a dynamic."""
    drawn = job.drawn
    return Dynamic(
        seed=drawn.seed,
        cc=drawn.cc,
        description=drawn.description,
        policies=job.under_policies(),
        fullmesh=job.mbps(),
        best=max(job.mbps("default", path.label) for path in drawn.topology.paths),
    )


def ratios(dynamics: Sequence[Dynamic]) -> dict[str, list[float]]:
    """The comparisons, over all dynamics: several policies with the best of all, one by its controls."""
    policies = tuple(dynamics[0].policies)
    rows: dict[str, list[float]] = {}
    for policy in policies:
        rows |= _of_policy(dynamics, policy, several=len(policies) > 1)
    rows["fullmesh / better of both"] = [over(drawn.fullmesh, drawn.better) for drawn in dynamics]
    rows["best path / better of both"] = [over(drawn.best, drawn.better) for drawn in dynamics]
    if len(policies) == 1:
        for cc in sorted({drawn.cc for drawn in dynamics}):
            rows[f"{policies[0]} / better of both, {cc}"] = [
                over(drawn.policies[policies[0]], drawn.better) for drawn in dynamics if drawn.cc == cc
            ]
    return rows


def _of_policy(dynamics: Sequence[Dynamic], policy: str, *, several: bool) -> dict[str, list[float]]:
    rivals: dict[str, Callable[[Dynamic], float]] = {
        "better of both": lambda drawn: drawn.better,
        "best path": lambda drawn: drawn.best,
        "fullmesh": lambda drawn: drawn.fullmesh,
    }
    if several:
        rivals["best of all"] = lambda drawn: max(drawn.better, *drawn.policies.values())
    return {
        f"{policy} / {rival}": [over(drawn.policies[policy], mbps(drawn)) for drawn in dynamics]
        for rival, mbps in rivals.items()
    }


def table(rows: Sequence[Row], cc: str, policy: str) -> list[list[str]]:
    """A line for each case."""
    head = ["Mbit/s / ms RTT", "buffer", "best path", cc, _named(cc, policy), "of best path", f"of {cc}"]
    lines = [
        [
            row.network,
            row.buffer,
            *(f"{mbps:.1f}" for mbps in (row.best, row.alone, row.policy)),
            f"{over(row.policy, row.best):.2f}",
            f"{over(row.policy, row.alone):.2f}",
        ]
        for row in rows
    ]
    return [head, *lines]


def facts(rows: Sequence[Row], runs: int) -> list[str]:
    """The goals, a line each, and what a cell is."""
    of_best = [over(row.policy, row.best) for row in rows]
    of_alone = [over(row.policy, row.alone) for row in rows]
    cell = f"Each cell is the mean of {runs} runs." if runs > 1 else "Each cell is one run."
    goals = [
        f"{name}: at least {goal:.2f} in {sum(value >= goal for value in values)} of {len(values)} "
        f"(lowest {min(values):.2f}, mean {statistics.geometric_mean(max(v, 1e-3) for v in values):.2f})."
        for name, goal, values in (
            ("Of the best path", GOALS[0], of_best),
            ("Of the kernel's scheduler alone", GOALS[1], of_alone),
        )
    ]
    return [*goals, cell]


def _show(lines: Sequence[Sequence[str]], remarks: Sequence[str]) -> None:
    printed = Table(*lines[0])
    for line in lines[1:]:
        printed.add_row(*line)
    console = Console()
    console.print(printed)
    for remark in remarks:
        console.print(remark)


def _what(policy: str) -> str:
    """Of tables and of files: what was measured."""
    return "schedulers" if policy.startswith(_SCHEDULER) else "path policies"


def over_networks(arguments: argparse.Namespace) -> None:
    """Measure the networks that stay, print, write."""
    (policy,) = arguments.policy
    with Runner(arguments.testbed) as runner:
        rows = [
            compared(runner, case, arguments.cc, policy, arguments.runs)
            for case in _shown(list(cases()), "networks")
        ]
    lines, remarks = table(rows, arguments.cc, policy), facts(rows, arguments.runs)
    _show(lines, remarks)
    kept = {"machine": machine(), "runs": arguments.runs, "rows": msgspec.to_builtins(rows), "facts": remarks}
    write(f"{_what(policy)}-{arguments.testbed}".replace(" ", "-"), kept)
    if arguments.write_docs:
        docs.replace(
            DOCS,
            f"{_what(policy)}, {arguments.testbed.partition(':')[0]}",
            "\n".join([*docs.table(lines), "", *(f"- {remark}" for remark in remarks)]),
        )


def over_dynamics(arguments: argparse.Namespace) -> None:
    """Measure the dynamics, print, write."""
    done: list[Dynamic] = []
    with contextlib.suppress(KeyboardInterrupt):
        done.extend(_of_dynamics(dynamic, arguments))
    if not done:
        return
    lines = _ratios.table(ratios(done), _SHARES)
    _show(lines, [f"{len(done)} dynamics"])
    what, title = _what(arguments.policy[0]), "dynamics"
    if arguments.draw != "any" or arguments.testbed != "simulated":
        what, title = "contenders", f"dynamics, {arguments.draw}, {arguments.testbed.partition(':')[0]}"
    if arguments.runs > 1:
        title += ", several runs"
    kept = {"machine": machine(), "dynamics": msgspec.to_builtins(done), "table": lines}
    write(f"{what} {title}".replace(",", "").replace(" ", "-"), kept)
    if arguments.write_docs:
        docs.replace(DOCS, f"{what}, {title}", _ratios.markdown(len(done), lines, []))


def of_a_change(arguments: argparse.Namespace) -> None:
    """Measure the pair alone, and keep that, or compare it with what was kept."""
    (policy,) = arguments.policy
    words: tuple[str, ...] = ("cc", "policy", "runs")
    name, what = arguments.testbed, _named(arguments.cc, policy)
    if arguments.dynamics:
        name, what, words = "dynamics", policy, ("policy", "dynamics", "draw", "testbed", "seed", "runs")
    name, options = f"path-policies-{name}", {word: getattr(arguments, word) for word in words}
    before = {} if arguments.before else _before.kept(name, options)
    if arguments.dynamics:
        measured = dict(_of_dynamics(under_policy, arguments))
    else:
        measured = {}
        with Runner(arguments.testbed) as runner:
            for case in _shown(list(cases()), "networks"):
                trials = {what: _trials(case, arguments.cc, policy)[what]}
                (runs,) = measure(runner, trials, arguments.runs).values()
                measured[f"{case.title()}, buffer {case.buffer()}"] = statistics.fmean(runs)
    if arguments.before:
        _before.keep(name, options, measured)
    else:
        _show(_before.table(before, measured), _before.verdict(what, before, measured))


def _shown(work: list[_T], what: str) -> Iterable[_T]:
    return track(work, what, console=Console(stderr=True))


def _of_dynamics(job: Callable[[Job], _T], arguments: argparse.Namespace) -> Iterator[_T]:
    """A job for each dynamic, on all processors."""
    dynamics = _dynamics.drawn(arguments.draw, arguments.seed, arguments.dynamics)
    work = [Job(drawn, arguments.testbed, tuple(arguments.policy), arguments.runs) for drawn in dynamics]
    chunk = 4 if arguments.testbed == "simulated" else 1
    with ProcessPoolExecutor() as pool:
        try:
            measured = pool.map(job, work, chunksize=chunk)
            yield from track(measured, "dynamics", total=len(work), console=Console(stderr=True))
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--testbed", default="simulated", help="simulated, virtual:RELEASE or namespaces (simulated)"
    )
    parser.add_argument("--cc", default="cubic", help="window algorithm (cubic)")
    parser.add_argument(
        "--policy",
        type=lambda names: names.split(","),
        default=["hold"],
        help="path policy, scheduler=NAME or pm=NAME; of dynamics several with commas (hold)",
    )
    parser.add_argument("--runs", type=int, help=f"of each contender ({RUNS}, in dynamics 1)")
    parser.add_argument("--dynamics", type=int, default=0, help="how many, instead of networks that stay")
    parser.add_argument("--draw", choices=_dynamics.DRAWS, default="any", help="of the dynamics (any)")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help=f"of the first dynamic ({FIRST_SEED})")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--before", action="store_true", help="only the pair; keep that")
    change.add_argument("--after", action="store_true", help="only the pair; compare that with what was kept")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table into {DOCS.name}")
    arguments = parser.parse_args()
    arguments.runs = arguments.runs or (1 if arguments.dynamics else RUNS)
    is_comparison = arguments.dynamics and not (arguments.before or arguments.after)
    if len(arguments.policy) > 1 and not is_comparison:
        parser.error("--policy: expected one; several need --dynamics, without --before and --after")
    if arguments.dynamics and arguments.testbed == "namespaces":
        parser.error("--testbed namespaces: dynamics there are those of benchmarks.decision.dynamics")
    if arguments.before or arguments.after:
        of_a_change(arguments)
    elif arguments.dynamics:
        over_dynamics(arguments)
    else:
        over_networks(arguments)


if __name__ == "__main__":
    main()
