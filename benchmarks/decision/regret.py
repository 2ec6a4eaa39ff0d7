"""The loss from following `mptune optimise`: its recommendation against the best configuration.

Over shipped scenarios and networks drawn at random, under each stack, in the simulator. The best known
configuration comes from an exhaustive staged search (`_search.py`): all subsets of the paths x congestion
controls x buffers. The recommendation, the best of the search, and plain rivals with the recommended buffer
are measured with the same fresh seeds. Targets:

- at least 1 - sacrifice - 2 % of the best known throughput, in 95 % of the cases;
- never below 98 % of the best plain rival: fullmesh with Cubic, the best single path, the best plain TCP;
- a buffer within a step of the grid of the smallest known from which on 1 - sacrifice is held, in 80 %;
- 95 % intervals that hold the optimal buffer and the answer's throughput, by many runs, in 93 to 97 %.

Robustness (larger buffers; rates, RTTs and losses off by a fifth) is reported beside them. Trials are kept
in target/benchmarks/regret, by network, stack and simulator, so that an interrupted benchmark continues; a
changed simulator starts anew. All of it takes hours on two cores; `--quick` is a coarse search with few
seeds. Prints a table and the misses one by one, and writes JSON; with --write-docs also
docs/reference/regret.md. `--again` measures the answers and the best known of a finished table with new
seeds.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.decision._judge import Coverage, Robustness, coverage, measured_rivals, robustness, tcp
from benchmarks.decision._search import Bench, Found, Known, Plan, buffer_grid, search, subset
from benchmarks.shared import docs
from benchmarks.shared.measure import RESULTS, machine, write
from benchmarks.shared.random_networks import random_network
from benchmarks.shared.results import stored_results
from mptune._text import plain_tcp
from mptune.decision.selection import SACRIFICE
from mptune.errors import MptuneError
from mptune.impact import ImpactOptions
from mptune.optimisation.main_job import Result, optimise
from mptune.optimisation.options import OptimiseOptions
from mptune.options.stacks import StackOptions
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.strategy import STRATEGIES
from mptune.testbeds import create as testbed
from mptune.topology import Topology, load, shipped
from mptune.trial import FIXED, Configuration
from mptune.trial.stacks import STACKS
from mptune.units import format_size

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "regret.md"

#: Room of the targets: below the sacrifice, and below plain rivals.
ROOM = 0.02

#: A plan for a first impression.
QUICK = Plan(
    sizes=8,
    coarse_s=5,
    seconds=10,
    dense_runs=2,
    fresh_runs=5,
    finalists=3,
    sweep_runs=3,
    impact_runs=2,
)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One network under one stack; throughputs in Mbit/s, buffers in bytes.

    Attributes
    ----------
    best, smallest : best known throughput, and the smallest known buffer from which on that less the
        sacrifice is held.
    recommended, recommended_mbps : the answer's configuration in words; None, 0 if there was no answer.
    share : its part of the best known throughput.
    rivals : best throughput of each kind of plain rival; `against_rivals` is the share of the best of them.
    steps : of the grid between its buffer and the smallest known; negative if it is below.
    error : why there was no answer.
    """

    network: str
    description: str
    stack: str
    paths: int
    best: str
    best_mbps: float
    best_bytes: int
    smallest: str
    smallest_bytes: int
    seconds: float
    recommended: str | None = None
    recommended_mbps: float = 0.0
    recommended_bytes: int = 0
    share: float = 0.0
    rivals: dict[str, float] = {}
    against_rivals: float = 0.0
    steps: float | None = None
    robustness: Robustness | None = None
    coverage: Coverage | None = None
    error: str | None = None

    def misses(self, sacrifice: float) -> list[str]:
        """Missed targets, in words."""
        if self.error is not None:
            return [f"no answer: {self.error}"]
        misses = []
        if self.share < 1 - sacrifice - ROOM:
            misses.append(f"{100 * self.share:.1f} % of the best known, {self.best_words}")
        if self.against_rivals < 1 - ROOM:
            rival = max(self.rivals, key=self.rivals.__getitem__)
            misses.append(f"{100 * self.against_rivals:.1f} % of {rival} ({self.rivals[rival]:.1f} Mbit/s)")
        if self.steps is not None and self.steps > 1:
            misses.append(
                f"{self.steps:.1f} steps more buffer than {self.smallest} with "
                f"{format_size(self.smallest_bytes, 3)}"
            )
        return misses

    @property
    def best_words(self) -> str:
        """The best known configuration with its throughput."""
        return f"{self.best} with {format_size(self.best_bytes, 3)}: {self.best_mbps:.1f} Mbit/s"


def networks(asked: argparse.Namespace) -> list[Topology]:
    """The networks that were asked for: shipped ones, then random ones."""
    drawn = [random_network(asked.seed + number) for number in range(asked.networks)]
    topologies = [*(load(name) for name in shipped()), *drawn] if not asked.random_only else drawn
    return [topology for topology in topologies if not asked.only or topology.name in asked.only]


def answer(bench: Bench, stack: str, asked: argparse.Namespace) -> Result:
    """The optimiser's answer, with as much effort as the search's second stage."""
    plan = bench.plan
    options = OptimiseOptions(
        buffers=buffer_grid(bench.topology, plan.sizes),
        runs=plan.sweep_runs,
        duration_ns=plan.seconds * 10**9,
        buffer_mode=FIXED,  # as in the search
        stack=StackOptions(stack=stack),
        impact=ImpactOptions(runs=plan.impact_runs, window_ns=plan.seconds * 10**9 // 2),
        confirm_runs=plan.sweep_runs,
        sacrifice=asked.sacrifice,
        strategy=asked.strategy,
    )
    return optimise(bench.topology, bench.runner, options.completed(), reporter=bench.reporter)


def judge(bench: Bench, stack: str, asked: argparse.Namespace) -> Outcome:
    """Search, ask, and measure the answer."""
    start = time.monotonic()
    known = search(bench, asked.sacrifice)
    common: dict[str, Any] = {
        "network": bench.topology.name,
        "description": bench.topology.description,
        "stack": stack,
        "paths": len(bench.topology.paths),
    }
    try:
        result = answer(bench, stack, asked)
    except MptuneError as error:
        seconds = time.monotonic() - start
        return Outcome(**common, **best_of(known, asked.sacrifice), seconds=seconds, error=str(error))
    assert result.confirmation is not None  # measurements of its own are confirmed
    recommended = result.confirmation.recommended
    (own,) = bench.measure([recommended], "fresh", bench.plan.fresh_runs)
    rivals = measured_rivals(bench, recommended)
    known = known.beside((own, *rivals.values()))
    best = best_of(known, asked.sacrifice)
    grid = buffer_grid(bench.topology, bench.plan.sizes)
    return Outcome(
        **common,
        **best,
        recommended=words(own, result),
        recommended_mbps=own.mbps,
        recommended_bytes=recommended.buffer_bytes,
        share=own.mbps / best["best_mbps"],
        rivals={kind: rival.mbps for kind, rival in rivals.items()},
        against_rivals=own.mbps / max(rival.mbps for rival in rivals.values()),
        steps=steps(recommended.buffer_bytes, best["smallest_bytes"], grid),
        robustness=robustness(bench, recommended, known),
        coverage=coverage(bench, result, own.mbps),
        seconds=time.monotonic() - start,
    )


def best_of(known: Known, sacrifice: float) -> dict[str, Any]:
    """Fields of an outcome with the known optimum."""
    best = known.finalists[0]
    smallest = known.smallest(sacrifice)
    return {
        "best": best.words,
        "best_mbps": best.mbps,
        "best_bytes": best.configuration.buffer_bytes,
        "smallest": smallest.words,
        "smallest_bytes": smallest.configuration.buffer_bytes,
    }


def words(own: Found, result: Result) -> str:
    """Subflows and congestion control of the answer."""
    if result.optimum.combination.is_tcp:
        return own.words
    chosen = getattr(result.optimum, "subflows", None) or own.configuration.active or result.subflows
    return f"{'+'.join(chosen) or own.configuration.pm}/{own.configuration.cc}"


def steps(size: int, smallest: int, grid: Sequence[int]) -> float:
    """Steps of the geometric grid between two buffers."""
    return math.log(size / smallest) / (math.log(grid[-1] / grid[0]) / (len(grid) - 1))


#: Columns of the table.
COLUMNS = (
    *("network", "paths", "stack", "best known", "Mbit/s", "least buffer"),
    *("recommended", "Mbit/s", "buffer"),
    *("of best", "of plain", "steps", "2x", "max", "off", "OBS", "OTP"),
)


def row(outcome: Outcome) -> list[str]:
    """A network and stack as text; cut off where there was no answer."""
    known = (outcome.best, f"{outcome.best_mbps:.1f}", format_size(outcome.smallest_bytes, 3))
    cells = [outcome.network, str(outcome.paths), outcome.stack, *known]
    if outcome.recommended is None:
        return [*cells, outcome.error or "-"]
    near, held = outcome.robustness, outcome.coverage
    return [
        *cells,
        *(outcome.recommended, f"{outcome.recommended_mbps:.1f}", format_size(outcome.recommended_bytes, 3)),
        *(percent(outcome.share), percent(outcome.against_rivals)),
        "-" if outcome.steps is None else f"{outcome.steps:+.1f}",
        *(("-", "-", "-") if near is None else map(percent, (near.doubled, near.larger, lowest(near)))),
        *(("-", "-") if held is None else ("in" if ok else "out" for ok in (held.obs, held.otp))),
    ]


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    """A row for each network and stack."""
    table = Table(*COLUMNS, title="Regret", title_justify="left")
    for outcome in outcomes:
        table.add_row(*row(outcome))
    console.print(table)


def markdown(outcomes: Sequence[Outcome], asked: argparse.Namespace) -> str:
    """The table, the totals and the misses for the docs."""
    rows = [COLUMNS, ["---"] * len(COLUMNS), *map(row, outcomes)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    about = machine()
    how = f"{'Quick search, seeds' if asked.quick else 'Seeds'} from {asked.seed} on"
    findings = "\n".join(f"- {line.strip()}" for line in summaries(outcomes, asked.sacrifice))
    missed = "\n".join(f"- {line}" for line in misses(outcomes, asked.sacrifice))
    return f"{table}\n\n{how}, mptune {about['mptune']}:\n\n{findings}\n\nMisses:\n\n{missed}"


def lowest(near: Robustness) -> float:
    """The worst of the networks that differ from the measured one."""
    return min(near.off.values(), default=1.0)


def percent(share: float) -> str:
    """A share as text."""
    return f"{100 * share:.1f} %"


def totals(outcomes: Sequence[Outcome], sacrifice: float) -> dict[str, float | int | None]:
    """The numbers that have targets, and the worst of robustness."""
    answered = [outcome for outcome in outcomes if outcome.recommended is not None]
    near = [outcome.robustness for outcome in answered if outcome.robustness is not None]
    held = [outcome.coverage for outcome in answered if outcome.coverage is not None]
    return {
        "cases": len(outcomes),
        "reached": part([outcome.share >= 1 - sacrifice - ROOM for outcome in outcomes]),
        "mean_share": sum(outcome.share for outcome in outcomes) / max(len(outcomes), 1),
        "worst_share": min((outcome.share for outcome in outcomes), default=None),
        "worst_against_rivals": min((outcome.against_rivals for outcome in outcomes), default=None),
        "below_rivals": sum(outcome.against_rivals < 1 - ROOM for outcome in outcomes),
        "within_a_step": part([outcome.steps is not None and outcome.steps <= 1 for outcome in outcomes]),
        "worst_doubled": min((robustness.doubled for robustness in near), default=None),
        "worst_larger": min((robustness.larger for robustness in near), default=None),
        "worst_off": min((lowest(robustness) for robustness in near), default=None),
        "obs_covered": part([coverage.obs for coverage in held]),
        "otp_covered": part([coverage.otp for coverage in held]),
    }


def part(values: Sequence[bool]) -> float | None:
    """Share of what holds; None of nothing."""
    return sum(values) / len(values) if values else None


def summaries(outcomes: Sequence[Outcome], sacrifice: float) -> Iterator[str]:
    """Totals by stack and over all, a line each."""
    for stack in (*dict.fromkeys(outcome.stack for outcome in outcomes), None):
        total = totals([outcome for outcome in outcomes if stack in (None, outcome.stack)], sacrifice)
        figures = ", ".join(
            f"{name.replace('_', ' ')} {value if isinstance(value, int) else percent(value)}"
            for name, value in total.items()
            if value is not None
        )
        yield f"{stack or 'all'}: {figures}"


def misses(outcomes: Sequence[Outcome], sacrifice: float) -> list[str]:
    """A line for each answer that falls short of a target."""
    return [
        f"{outcome.network} ({outcome.stack}), {outcome.recommended or '-'}: {'; '.join(misses)}"
        for outcome in outcomes
        if (misses := outcome.misses(sacrifice))
    ] or ["none"]


def tell(outcomes: Sequence[Outcome], sacrifice: float, console: Console) -> None:
    """Totals, then the misses."""
    console.print(f"\nWith a sacrifice of {percent(sacrifice)}:")
    for line in summaries(outcomes, sacrifice):
        console.print(f"  {line}", highlight=False)
    console.print("\nMisses:")
    for line in misses(outcomes, sacrifice):
        console.print(f"  {line}", highlight=False, soft_wrap=True)


def run(asked: argparse.Namespace, reporter: Reporter) -> Iterator[Outcome]:
    """Outcomes, one by one."""
    plan = QUICK if asked.quick else Plan()
    for topology in networks(asked):
        for stack in asked.stack or STACKS:
            with stored_results("regret", f"{topology.name}.{stack}", fresh=asked.fresh) as store:
                runner = TrialRunner(testbed("simulated"), asked.jobs, store)
                bench = Bench(topology, STACKS[stack], runner, plan, reporter)
                yield judge(bench, stack, asked)


def rerun(asked: argparse.Namespace, reporter: Reporter) -> Iterator[tuple[Outcome, float]]:
    """Finished outcomes with the share by seeds that neither chose nor judged anything.

    The best known is the best of several by the seeds that also judge it, and so looks better than it is;
    that is how an answer as good as any can miss.
    """
    rows = json.loads((RESULTS / f"{asked.out}.json").read_text(encoding="utf-8"))["result"]["outcomes"]
    topologies = {network.name: network for network in networks(asked)}
    for outcome in msgspec.convert(rows, list[Outcome]):
        if outcome.recommended is None or outcome.network not in topologies:
            continue
        runner = TrialRunner(testbed("simulated"), asked.jobs)
        plan = QUICK if asked.quick else Plan()
        bench = Bench(topologies[outcome.network], STACKS[outcome.stack], runner, plan, reporter)
        asked_for = (outcome.recommended, outcome.recommended_bytes), (outcome.best, outcome.best_bytes)
        configurations = [named(bench, *words) for words in asked_for]
        own, best = (result.mbps for result in bench.measure(configurations, "again", asked.again))
        yield outcome, own / best


def named(bench: Bench, words: str, size: int) -> Configuration:
    """The configuration that a table names."""
    subflows, _, cc = words.rpartition("/")
    labels = [path.label for path in bench.topology.paths]
    for label in labels:
        if subflows == plain_tcp(label):
            return tcp(bench, label, cc, size)
    active = labels if subflows == "fullmesh" else subflows.split("+")
    return subset(bench.topology, active, cc, size, bench.stack)


def report_rerun(again: Sequence[tuple[Outcome, float]], asked: argparse.Namespace) -> None:
    """Results of the new seeds by stack, and the remaining misses."""
    mark = 1 - asked.sacrifice - ROOM
    for stack in dict.fromkeys(outcome.stack for outcome, _ in again):
        shares = [share for outcome, share in again if outcome.stack == stack]
        reached = part([share >= mark for share in shares])
        print(f"{stack}, {asked.again} new seeds, {len(shares)} cases: reached {percent(reached or 0.0)}")
    for outcome, share in again:
        if share < mark or outcome.share < mark:
            print(
                f"{outcome.network} ({outcome.stack}): {percent(outcome.share)}, "
                f"by new seeds {percent(share)}"
            )


def arguments() -> argparse.Namespace:
    """The scope of the measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stack", action="append", choices=list(STACKS), help="only this stack; repeat")
    parser.add_argument("--networks", type=int, default=50, help="number of random networks")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first random network")
    parser.add_argument("--random-only", action="store_true", help="no shipped scenarios")
    parser.add_argument("--only", action="append", help="only networks with this name; repeat")
    parser.add_argument("--quick", action="store_true", help="a coarse search with few seeds")
    parser.add_argument("--strategy", choices=list(STRATEGIES), default="adaptive", help="of the answers")
    parser.add_argument("--sacrifice", type=float, default=SACRIFICE)
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--jobs", type=int, help="trials in parallel; one per core")
    parser.add_argument("--write-docs", action="store_true", help="put the table into the docs too")
    parser.add_argument("--out", default="regret", help="name of the JSON file")
    parser.add_argument(
        "--again", type=int, metavar="RUNS", help="judge a finished table by this many new seeds"
    )
    return parser.parse_args()


def main() -> int:
    """Measure, print, write."""
    asked = arguments()
    if asked.again:
        report_rerun(list(rerun(asked, Reporter())), asked)
        return 0
    console = Console(width=220)
    outcomes: list[Outcome] = []
    stopped = False
    try:
        for outcome in run(asked, Reporter()):
            outcomes.append(outcome)
            misses = "; ".join(outcome.misses(asked.sacrifice)) or "no miss"
            print(f"{outcome.network} ({outcome.stack}): {percent(outcome.share)}, {misses}", file=sys.stderr)
    except KeyboardInterrupt:
        stopped = True
        print("interrupted: run it again to continue", file=sys.stderr)
    if outcomes:
        show(outcomes, console)
        tell(outcomes, asked.sacrifice, console)
    if not stopped:
        rows = [msgspec.to_builtins(outcome) for outcome in outcomes]
        if asked.write_docs:
            docs.replace(DOCS, "regret", markdown(outcomes, asked))
            print(f"written to {DOCS}")
        write(asked.out, {"totals": totals(outcomes, asked.sacrifice), "outcomes": rows})
    return 130 if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
