"""How often an answer for what programs do claims too much: `mptune optimise --workload` against a truth.

On drawn networks the main job runs in the simulator as a user's does, with default options. Its answer
claims, each with 95 %:

- value: the interval of the objective, from fresh runs, holds its mean;
- gain: so does the interval of what the answer gains over the papers' default;
- best: no other configuration is better by more than the answer states, its room.

The truth has seeds of its own. All combinations that competed have a first look, with the smallest and the
largest buffer of the question; the best of them are measured over its whole range; and the finalists of these
in many runs, of which there are two halves: what is best in one half is measured by the other, so that no
lucky run is believed. The regret is what the answer misses of that, run by run. A claim is wrong if the truth
lies beyond it by more than two standard errors; those that it lies beyond at all are in brackets, and those
that are wrong by more than anybody notices (the metric's `floor`) are counted apart.

Trials are kept under target/benchmarks/claims, so that an interrupted run continues. Prints a table and the
wrong claims one by one, writes JSON, and with --write-docs the table into docs/explanation/adaptive.md.
"""

import argparse
import itertools
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.decision._claimed import Judge, Outcome
from benchmarks.decision._ratios import quantile
from benchmarks.shared import docs
from benchmarks.shared.measure import machine, write
from benchmarks.shared.random_networks import random_network
from benchmarks.shared.results import stored_results
from mptune._text import digits
from mptune.optimisation.by_objective import optimise_by_objective
from mptune.optimisation.job import Job
from mptune.optimisation.options import OptimiseOptions
from mptune.optimisation.points import Choice
from mptune.options.workloads import WORKLOAD
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.strategy import STRATEGIES
from mptune.testbeds import create as testbed

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "adaptive.md"

#: Of the networks that are reported; those from 20270901 on are for trying things.
FIRST_SEED, NETWORKS = 20270201, 20

#: Each is judged by its own objective.
WORKLOADS = {
    "messages": "messages:200B/100ms",
    "requests": "requests:400B/64KiB,think=1s,at_once=2",
    "page": "page:60KiB/30x20KiB,think=1s",
    "on-off": "on-off:128KiB/1s",
    "video": "video:1M/2.5M/5M,segment=2s",
}

CLAIMS = ("value", "gain", "best")

#: A room up to this share of the objective is none to speak of, nor is one that nobody notices.
NARROW = 0.02

GOAL = "95 % claims wrong in at most 5 %"


def judged(workload: str, strategy: str, seed: int, asked: argparse.Namespace, reporter: Reporter) -> Outcome:
    """The main job's answer for a drawn network, judged."""
    topology = random_network(seed)
    sent = WORKLOAD.parse(WORKLOADS[workload])
    options = OptimiseOptions(workload=sent, strategy=strategy).completed()
    with stored_results("claims", f"{workload}.{topology.name}", fresh=asked.fresh) as store:
        runner = TrialRunner(testbed("simulated"), asked.jobs, store)
        result = optimise_by_objective(topology, runner, options, reporter=reporter)
        job = replace(Job.on(topology, runner, options, reporter), sent=options.sent)
        return Judge(job, Choice(options.objectives[0])).outcome(workload, strategy, result)


COLUMNS = (
    *("workload, objective", "strategy", "networks"),
    *("value: wrong", "noticeably", "gain: wrong", "noticeably"),
    *("best: claims", "wrong", "narrow ones", "wrong", "regret: median", "90 %", "trials", "simulated"),
)


def rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A line for each workload, and one for all of them."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    of_all: dict[tuple[str, str], list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault((f"{one.workload}, {one.objective}", one.strategy), []).append(one)
        of_all.setdefault(("all", one.strategy), []).append(one)
    return [row(name, ones) for (name, _), ones in (groups | of_all).items()]


def row(name: str, ones: Sequence[Outcome]) -> list[str]:
    """Claims and regret of some answers of one strategy."""
    by_claim = {claim: [one for one in ones if claim in one.claims] for claim in CLAIMS}
    narrow = [one for one in by_claim["best"] if is_narrow(one)]
    cells = [name, ones[0].strategy, str(len(ones))]
    for claim in CLAIMS[:2]:
        noticed = sum(one.is_noticed(claim) for one in by_claim[claim])
        cells += [wrong(claim, by_claim[claim]), str(noticed)]
    cells += [str(len(by_claim["best"])), wrong("best", by_claim["best"])]
    cells += [str(len(narrow)), wrong("best", narrow), *regrets(ones)]
    cells.append(f"{statistics.median(one.trials for one in ones):.0f}")
    return [*cells, f"{statistics.median(one.simulated_s for one in ones) / 3600:.1f} h"]


def is_narrow(one: Outcome) -> bool:
    """True if the answer claims to miss nothing to speak of, or that anybody notices."""
    return one.room is not None and one.room <= max(NARROW * abs(one.value), one.floor) + 1e-9


def wrong(claim: str, ones: Sequence[Outcome]) -> str:
    """How many claims of a kind are wrong for sure, in brackets at all, and the share of the former."""
    claims = [one.claims[claim] for one in ones]
    sure, missed = sum(one.is_wrong for one in claims), sum(one.is_missed for one in claims)
    return f"{sure} ({missed}), {sure / len(claims):.0%}" if claims else "-"


def regrets(ones: Sequence[Outcome]) -> Iterator[str]:
    """Median and 90th percentile, in the unit of the objective if it is one, and as shares."""
    lost = [max(one.regret, 0.0) for one in ones]
    shares = [one.share(regret) for one, regret in zip(ones, lost, strict=True)]
    for part in (0.5, 0.9):
        share = f"{quantile(shares, part):.1%}"
        is_one = len({one.objective for one in ones}) == 1
        yield f"{digits(quantile(lost, part), 2)} {ones[0].unit}, {share}" if is_one else share


def misses(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A line for each claim that is wrong for sure."""
    for one in outcomes:
        for name, claim in one.claims.items():
            if claim.is_wrong:
                at, off = digits(one.value, 3), digits(claim.beyond, 2)
                yield (
                    f"{one.workload}, {one.strategy}, {one.network}, {name}: {off} {one.unit} beyond "
                    f"(standard error {digits(claim.error, 2)}); {one.answer} gives {at}, "
                    f"best: {' or '.join(one.best)}"
                )


def main() -> int:
    """Ask, judge, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", type=int, default=NETWORKS, help=f"how many ({NETWORKS})")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="seed of the first network")
    parser.add_argument("--only", action="append", choices=list(WORKLOADS), help="only this workload; repeat")
    parser.add_argument(
        "--strategy", action="append", choices=sorted(STRATEGIES), help="only this one; repeat"
    )
    parser.add_argument("--jobs", type=int, help="trials in parallel; one per core")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--write-docs", action="store_true", help="put the table into the docs too")
    parser.add_argument("--out", default="claims", help="name of the JSON file")
    asked = parser.parse_args()
    outcomes: list[Outcome] = []
    stopped = False
    try:
        for workload in asked.only or WORKLOADS:
            for seed, strategy in itertools.product(
                range(asked.seed, asked.seed + asked.networks), asked.strategy or sorted(STRATEGIES)
            ):
                one = judged(workload, strategy, seed, asked, Reporter(quiet=True))
                outcomes.append(one)
                words = f"{workload}, {strategy}, {one.network}: regret {one.share(one.regret):.1%}"
                print(f"{words}, {one.trials} trials", file=sys.stderr)
    except KeyboardInterrupt:
        stopped = True
        print("interrupted: run it again to continue", file=sys.stderr)
    lines = rows(outcomes) if outcomes else []
    table = Table(*COLUMNS, title=GOAL, title_justify="left")
    for cells in lines:
        table.add_row(*cells)
    console = Console(width=220)
    console.print(machine(), table)
    for line in misses(outcomes):
        console.print(line, highlight=False, soft_wrap=True)
    write(asked.out, {"rows": lines, "outcomes": [msgspec.to_builtins(one) for one in outcomes]})
    if asked.write_docs and not stopped:
        docs.replace(PAGE, "claims, workloads", "\n".join(docs.table([COLUMNS, *lines])))
        print(f"written to {PAGE}")
    return 130 if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
