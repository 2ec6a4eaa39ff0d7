"""Sets of subflows that `impact` ships, beside those of the signs alone and of the papers' rule.

For each drawn network, under each stack and one of the papers' congestion controls (in turn), there are
four sets: what `impact` ships, the signs of its factors without a contest (what does not matter stays),
Eq. 5-6 of MPCOA (`--impact eq5`), and all subflows. PCDC is measured with each of them, with seeds that no
rule has seen. Prints a table by stack and the cases that fall short, writes JSON, and with --write-docs the
table into the docs. The rule was developed on the networks 9000 to 9025; the docs report others. Trials are
kept under target/benchmarks, so that an interrupted run continues.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared import docs
from benchmarks.shared.measure import machine, write
from benchmarks.shared.random_networks import random_network
from benchmarks.shared.results import stored_results
from mptune.impact import Impact, ImpactOptions, measure_impact, partition
from mptune.optimisation.papers import CCS
from mptune.runner.planning import plan_trials
from mptune.runner.runner import TrialRunner
from mptune.statistics import paired
from mptune.testbeds import create as testbed
from mptune.topology import Topology
from mptune.trial import Bulk, Configuration, Record
from mptune.trial.stacks import STACKS

DOCS = Path(__file__).parents[2] / "docs" / "explanation" / "impact-factors.md"

#: The rules, the one that is shipped first.
RULES = ("shipped", "signs", "eq5", "all")

#: A set reaches another one with this share of its throughput.
REACHED = 0.98

#: Seeds that no rule has seen are derived from this one.
UNSEEN = 777


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A network under a stack and a congestion control.

    Attributes
    ----------
    sets : subflows by rule.
    mbps : throughputs of the runs by rule, 0 for a failed one, Mbit/s.
    factors, contest, eq5 : trials of the factors, of the contest, and of the papers' rule.
    factors_s, contest_s, eq5_s : their durations together, simulated seconds.
    """

    network: str
    paths: int
    stack: str
    cc: str
    sets: dict[str, tuple[str, ...]]
    mbps: dict[str, tuple[float, ...]]
    factors: int
    contest: int
    eq5: int
    factors_s: float
    contest_s: float
    eq5_s: float

    def mean(self, rule: str) -> float:
        """Mean throughput with a rule's set, Mbit/s."""
        return math.fsum(self.mbps[rule]) / len(self.mbps[rule])

    def reached(self, rule: str, *others: str) -> float:
        """Throughput as a share of the best of others; 1 where nothing is delivered."""
        best = max(self.mean(other) for other in others)
        return self.mean(rule) / best if best else 1.0

    def is_clear(self, rule: str, other: str) -> bool:
        """A rule's set is slower than another one with 95 % confidence, in pairs of runs."""
        if self.sets[rule] == self.sets[other]:
            return False
        difference = paired(self.mbps[other], self.mbps[rule])
        return difference.mean < 0 and difference.p < 0.05


def signs(impact: Impact) -> tuple[str, ...]:
    """Optional set of the signs alone; what does not matter stays."""
    means = {path.path: path.omega.mean if path.omega else None for path in impact.paths}
    inert = {path.path for path in impact.paths if path.decision == "does not matter"}
    return partition({path: None if path in inert else mean for path, mean in means.items()}).optional


def case(topology: Topology, cc: str, stack: str, runner: TrialRunner, runs: int) -> Case:
    """Measure one case."""
    (ours,), records = measure_impact(topology, runner, [cc], ImpactOptions(), stack=STACKS[stack])
    (papers,), eq5 = measure_impact(topology, runner, [cc], ImpactOptions(design="eq5"), stack=STACKS[stack])
    sets = {
        "shipped": ours.sets.optional,
        "signs": signs(ours),
        "eq5": papers.sets.optional,
        "all": tuple(path.label for path in topology.paths),
    }
    measured = {active: throughputs(topology, cc, stack, active, runner, runs) for active in {*sets.values()}}
    contest = [record for record in records if record.purpose == "sets"]
    factors = [record for record in records if record.purpose == "impact"]
    return Case(
        network=topology.name,
        paths=len(topology.paths),
        stack=stack,
        cc=cc,
        sets=sets,
        mbps={rule: measured[active] for rule, active in sets.items()},
        factors=len(factors),
        contest=len(contest),
        eq5=len(eq5),
        factors_s=seconds(factors),
        contest_s=seconds(contest),
        eq5_s=seconds(eq5),
    )


def throughputs(
    topology: Topology, cc: str, stack: str, active: tuple[str, ...], runner: TrialRunner, runs: int
) -> tuple[float, ...]:
    """Throughputs of PCDC on a set, with the buffer and the duration of the contest, Mbit/s."""
    standby = tuple(path.label for path in topology.paths if path.label not in active)
    configuration = Configuration(
        pm="pcdc",
        cc=cc,
        buffer_bytes=ImpactOptions().buffer_bytes,
        pm_options={"active": active, **({"standby_order": standby} if standby else {})},
        workload=Bulk(duration_ns=30_000_000_000),
        stack=STACKS[stack],
    )
    planned = plan_trials(topology, [configuration], purpose="confirm", runs=runs, base_seed=UNSEEN)
    return tuple(record.throughput_mbps or 0.0 for record in runner.measure(planned))


def seconds(records: Sequence[Record]) -> float:
    """Simulated duration of trials together."""
    return math.fsum(record.settings["duration_ns"] / 1e9 for record in records)


COLUMNS = (
    "stack",
    "set",
    "at least 98 % of the better rule",
    "at least 98 % of eq5",
    "clearly slower than either",
    "mean share of the better rule",
    "least share",
    "trials",
    "simulated time",
)


def rows(cases: Sequence[Case]) -> list[list[str]]:
    """A row by stack and rule."""
    return [
        row(stack, rule, [case for case in cases if case.stack == stack])
        for stack in dict.fromkeys(case.stack for case in cases)
        for rule in RULES
    ]


def row(stack: str, rule: str, cases: Sequence[Case]) -> list[str]:
    """Results of a rule under a stack."""
    shares = [case.reached(rule, "signs", "eq5") for case in cases]
    of_eq5 = [case.reached(rule, "eq5") for case in cases]
    clear = sum(
        any(case.reached(rule, other) < REACHED and case.is_clear(rule, other) for other in ("signs", "eq5"))
        for case in cases
    )
    trials, seconds_ = effort(rule, cases)
    return [
        stack,
        rule,
        f"{sum(share >= REACHED for share in shares)} of {len(cases)}",
        f"{sum(share >= REACHED for share in of_eq5)} of {len(cases)}",
        f"{clear}",
        f"{math.fsum(shares) / len(cases):.3f}",
        f"{min(shares):.2f}",
        f"{trials:.1f}",
        f"{seconds_:.0f} s",
    ]


def effort(rule: str, cases: Sequence[Case]) -> tuple[float, float]:
    """Mean number of trials that a rule takes, and of seconds."""

    def mean(values: Sequence[float]) -> float:
        return math.fsum(values) / len(cases)

    if rule == "all":
        return 0.0, 0.0
    if rule == "eq5":
        return mean([case.eq5 for case in cases]), mean([case.eq5_s for case in cases])
    contest = rule == "shipped"
    return (
        mean([case.factors + contest * case.contest for case in cases]),
        mean([case.factors_s + contest * case.contest_s for case in cases]),
    )


def short(cases: Sequence[Case]) -> list[str]:
    """The cases in which the shipped set falls short, as sentences."""
    return [
        f"{case.network}, {case.cc}, {case.stack}: {case.mean('shipped'):.3g} Mbit/s on "
        f"{', '.join(case.sets['shipped'])}; signs {case.mean('signs'):.3g}, eq5 {case.mean('eq5'):.3g} on "
        f"{', '.join(case.sets['eq5'])}."
        for case in cases
        if case.reached("shipped", "signs", "eq5") < REACHED
    ]


def summary(cases: Sequence[Case]) -> str:
    """The frequency with which the goals are met."""
    better = sum(case.reached("shipped", "signs", "eq5") >= REACHED for case in cases)
    eq5 = sum(case.reached("shipped", "eq5") >= REACHED for case in cases)
    return (
        f"The shipped set reaches 98 % of the better of both rules in {better} of {len(cases)} cases, and "
        f"98 % of eq5's throughput in {eq5}."
    )


def markdown(cases: Sequence[Case], asked: argparse.Namespace) -> str:
    """The table for the docs."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS), *rows(cases)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    missed = "\n".join(f"- {text}" for text in short(cases))
    last = asked.first + asked.networks - 1
    about = (
        f"Networks {asked.first} to {last}, {asked.runs} runs of each set; mptune {machine()['mptune']}, "
        "`python -m benchmarks.decision.sets`."
    )
    return f"{table}\n\n{summary(cases)} {about}\n" + (
        f"\nIt falls short here:\n\n{missed}\n" if missed else ""
    )


def arguments() -> argparse.Namespace:
    """The scope of the measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=41_000, help="seed of the first network")
    parser.add_argument("--networks", type=int, default=40)
    parser.add_argument("--runs", type=int, default=20, help="of each set, with seeds that no rule has seen")
    parser.add_argument("--jobs", type=int, help="trials in parallel; one per core")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--write-docs", action="store_true", help="put the table into the docs too")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write; the exit status is 0 if the goals are met."""
    asked = arguments()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print(
        f"networks {asked.first} to {asked.first + asked.networks - 1}, {asked.runs} runs of 30 s of each set"
    )
    cases: list[Case] = []
    for number in range(asked.first, asked.first + asked.networks):
        topology = random_network(number)
        with stored_results("sets", topology.name, fresh=asked.fresh) as store:
            runner = TrialRunner(testbed("simulated"), asked.jobs, store)
            for stack in ("linux", "v0.9x"):
                measured = case(topology, CCS[number % len(CCS)], stack, runner, asked.runs)
                cases.append(measured)
                means = ", ".join(f"{rule} {measured.mean(rule):.4g}" for rule in RULES)
                print(
                    f"{measured.network} {stack} {measured.cc}: {means} Mbit/s, "
                    f"{measured.factors} + {measured.contest} trials",
                    flush=True,
                )
    table = Table(*COLUMNS, title="Sets of subflows", title_justify="left")
    for line in rows(cases):
        table.add_row(*line)
    Console(width=160).print(table)
    for text in [*short(cases), summary(cases)]:
        print(text)
    write("sets", [msgspec.to_builtins(case) for case in cases])
    if asked.write_docs:
        docs.replace(DOCS, "sets", markdown(cases, asked))
        print(f"written to {DOCS}")
    better = sum(case.reached("shipped", "signs", "eq5") >= REACHED for case in cases) >= 0.95 * len(cases)
    return int(not (better and all(case.reached("shipped", "eq5") >= REACHED for case in cases)))


if __name__ == "__main__":
    sys.exit(main())
