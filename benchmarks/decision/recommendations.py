"""The answer for every shipped scenario, beside what hosts do without it, simulated and on a guest's kernel.

For each scenario the main job runs in the simulator as `mptune optimise SCENARIO` does, under the stack of
the guests' release. Its answer, what hosts do today, endpoints by hand (`mptune.optimisation.baselines`) and
the papers' default are then measured in guests and in the simulator, with seeds that the job did not use.
Trials are kept under target/benchmarks, so that an interrupted run continues (--fresh measures everything
again). Failed trials give no number and are counted. Prints a table, writes JSON, and with --write-docs the
table into the docs, where rows of other scenarios stay. Exit status 1 if an answer is worse on the kernel
than what hosts do, or what anybody would do by hand.
"""

import argparse
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared import docs
from benchmarks.shared.measure import machine, write
from benchmarks.shared.results import stored_results
from mptune._text import digits
from mptune.errors import MptuneError
from mptune.optimisation.main_job import Result, optimise
from mptune.optimisation.options import OptimiseOptions
from mptune.options.stacks import StackOptions
from mptune.runner.planning import plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.testbeds import create
from mptune.topology import Topology, load
from mptune.topology import shipped as scenarios
from mptune.trial import Configuration, Record
from mptune.trial.metrics import QUEUEING, THROUGHPUT
from mptune.units import MIB, format_size

#: Of the table's markers in the docs.
NAME = "recommendations"

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "regret.md"

#: What an answer is measured beside, in the table's order, and what each is called there.
BESIDE = {"now": "today", "by_hand": "by hand", "default": "papers' default"}

#: An answer is as good as another configuration down to this share of its throughput: what the sacrifice
#: of `mptune optimise` leaves to smaller buffers.
ENOUGH = 0.93


class Given(msgspec.Struct, frozen=True):
    """Throughput and delay of a configuration's runs.

    Attributes
    ----------
    mbps, delay_ms : means of the runs that gave a number; None where none did. The delay is that of queues.
    failed : runs that gave none.
    """

    mbps: float | None
    delay_ms: float | None
    failed: int

    @property
    def text(self) -> str:
        """Mbit/s and the delay under load, for a cell of the table."""
        if self.mbps is None:
            return "-"
        delay = "" if self.delay_ms is None else f", {self.delay_ms:.0f} ms"
        return f"{digits(self.mbps, 3)}{delay}{f' ({self.failed} failed)' if self.failed else ''}"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario's answer, and what it and the others gave by name: simulated, and on the kernel."""

    scenario: str
    answer: str
    buffers: str
    simulated: dict[str, Given]
    kernel: dict[str, Given]

    def over(self, name: str) -> float | None:
        """The answer's throughput on the kernel, relative to another's."""
        ours, theirs = self.kernel["answer"].mbps, self.kernel.get(name, Given(None, None, 0)).mbps
        return ours / theirs if ours is not None and theirs else None


class Row(msgspec.Struct, frozen=True):
    """A row of the table, measured now or read from the docs.

    Attributes
    ----------
    cells : in the order of `head`.
    """

    cells: tuple[str, ...]

    @property
    def scenario(self) -> str:
        """Its network."""
        return self.cells[0]

    def over(self, name: str) -> float | None:
        """The answer's throughput on the kernel, relative to another's; None where either has none."""
        theirs, ours = (_number(self.cells[place]) for place in (_FIRST + list(BESIDE).index(name), _ANSWER))
        return ours / theirs if ours is not None and theirs else None

    @property
    def holds(self) -> bool:
        """Neither today's settings nor endpoints by hand are better."""
        shares = [self.over(name) for name in ("now", "by_hand")]
        return _number(self.cells[_ANSWER]) is not None and all(
            share >= ENOUGH for share in shares if share is not None
        )


#: Columns: the first of `BESIDE`, and the answer's on the kernel.
_FIRST = 3
_ANSWER = _FIRST + len(BESIDE)


def _number(cell: str) -> float | None:
    """Mbit/s of a cell."""
    found = re.match(r"[0-9.]+", cell)
    return float(found[0]) if found else None


def kept(page: str) -> list[Row]:
    """Rows of the docs' table."""
    begin, end = docs.markers(NAME)
    lines = page.partition(begin)[2].partition(end)[0].splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line[:1] == "|"]
    return [Row(cells) for cells in rows[2:] if len(cells) == len(head())]


def joined(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """All rows, the new ones in place of old ones, by the names of their scenarios."""
    rows = {row.scenario: row for row in (*old, *new)}
    return [rows[name] for name in sorted(rows)]


def recommend(
    topology: Topology,
    stack: str,
    asked: argparse.Namespace,
    reporter: Reporter,
    duration_ns: int = OptimiseOptions().duration_ns,
) -> Result:
    """The main job in the simulator, with its own defaults."""
    options = OptimiseOptions(
        stack=StackOptions(stack=stack), seed=asked.seed, confirm_on="none", duration_ns=duration_ns
    )
    with stored_results("recommendations", topology.name, fresh=asked.fresh) as store:
        runner = TrialRunner(create("simulated"), asked.jobs, store)
        return optimise(topology, runner, options.completed(), reporter=reporter)


def compared(result: Result) -> dict[str, Configuration]:
    """The answer's configuration, and those that it is measured beside."""
    assert result.confirmation is not None and result.baselines is not None
    beside = {"now": result.baselines.now, "by_hand": result.baselines.by_hand}
    return {
        "answer": result.confirmation.recommended,
        **{name: baseline.configuration for name, baseline in beside.items() if baseline is not None},
        "default": result.confirmation.default,
    }


def measure(
    testbed: str,
    topology: Topology,
    configurations: Mapping[str, Configuration],
    asked: argparse.Namespace,
    reporter: Reporter,
) -> dict[str, Given]:
    """Throughput and delay of each configuration on a testbed."""
    planned = plan_trials(
        topology,
        list(configurations.values()),
        purpose="confirm",
        runs=asked.runs,
        base_seed=asked.seed + 1,  # the job has confirmed its answer with those of its own
    )
    name = f"{topology.name}.{testbed.replace(':', '-')}"
    with (
        stored_results("recommendations", name, fresh=asked.fresh) as store,
        reporter.phase(f"{topology.name}, {testbed}") as progress,
    ):
        records = TrialRunner(create(testbed), asked.jobs, store).measure(planned, progress=progress)
    return {
        name: given(records[number * asked.runs : (number + 1) * asked.runs])
        for number, name in enumerate(configurations)
    }


def given(records: Sequence[Record]) -> Given:
    """Means of the runs of a configuration."""
    rates, delays = THROUGHPUT.values(records), QUEUEING.values(records)
    return Given(
        statistics.fmean(rates) if rates else None,
        statistics.fmean(delays) if delays else None,
        len(records) - len(rates),
    )


def buffers(configuration: Configuration) -> str:
    """The send and the receive buffer, in words."""
    send, receive = configuration.buffer_bytes, configuration.receive_buffer_bytes
    return format_size(send, 3) + ("" if receive is None else f", {receive // MIB} MiB")


def outcome(topology: Topology, asked: argparse.Namespace, reporter: Reporter) -> Outcome:
    """Recommend, and measure."""
    stack = f"linux-{asked.testbed.partition(':')[2]}"
    result = recommend(topology, stack, asked, reporter)
    configurations = compared(result)
    ours = configurations["answer"]
    on = f" on {', '.join(result.subflows)}" if ours.pm == "pcdc" and ours.protocol != "tcp" else ""
    return Outcome(
        scenario=topology.name,
        answer=f"{ours.manager if ours.protocol == 'tcp' else ours.pm}{on}, {ours.cc}",
        buffers=buffers(ours),
        simulated=measure("simulated", topology, configurations, asked, reporter),
        kernel=measure(asked.testbed, topology, configurations, asked, reporter),
    )


def head() -> list[str]:
    """The table's head: on the kernel, but for the answer's own simulated throughput."""
    return [
        "scenario",
        "answer",
        "send, receive buffer",
        *BESIDE.values(),
        "answer",
        "simulated",
        *(f"over {name}" for name in ("today", "by hand")),
    ]


def row(measured: Outcome) -> Row:
    """A row of the table."""
    nothing = Given(None, None, 0)
    shares = [measured.over(name) for name in ("now", "by_hand")]
    cells = (
        measured.scenario,
        measured.answer,
        measured.buffers,
        *(measured.kernel.get(name, nothing).text for name in BESIDE),
        measured.kernel["answer"].text,
        measured.simulated["answer"].text,
        *("-" if share is None else f"{share:.2f}" for share in shares),
    )
    return Row(cells)


def summary(rows: Sequence[Row], testbed: str) -> str:
    """The number of answers at least as good as what they are measured beside, and the others."""
    worse = [line.scenario for line in rows if not line.holds]
    text = (
        f"On {testbed} {len(rows) - len(worse)} of {len(rows)} answers give at least "
        f"{100 * ENOUGH:.0f} % of the better of today's settings and endpoints by hand"
    )
    gains = {
        words: sorted(share for line in rows if (share := line.over(name)) is not None)
        for name, words in BESIDE.items()
    }
    ranges = [
        f"{values[0]:.2f} to {values[-1]:.2f} times {words} (median {statistics.median(values):.2f})"
        for words, values in gains.items()
        if values
    ]
    listed = f"; not: {', '.join(worse)}" if worse else ""
    return f"{text}{listed}. They give {', '.join(ranges)}."


def options(about: str | None) -> argparse.ArgumentParser:
    """Options of every measurement of answers."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each configuration on each testbed")
    parser.add_argument("--testbed", default="virtual:7.3", help="guests whose kernel measures")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, help="trials in parallel; one per core")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--write-docs", action="store_true", help="put the table into the docs too")
    return parser


def arguments() -> argparse.Namespace:
    """The scope of the measurement."""
    parser = options(__doc__)
    parser.add_argument("--only", action="append", help="only scenarios with this name; repeat")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write; exit status 1 if an answer is not good enough."""
    asked, reporter = arguments(), Reporter()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    outcomes: list[Outcome] = []
    stopped = False
    try:
        for name in scenarios():
            if not asked.only or name in asked.only:
                outcomes.append(outcome(load(name), asked, reporter))
                print(" | ".join(row(outcomes[-1]).cells), flush=True)
    except KeyboardInterrupt:
        stopped = True
    except MptuneError as error:
        print(error, file=sys.stderr)
        return 1
    table = Table(*head(), title=f"Answers on {asked.testbed} (Mbit/s, delay under load)")
    rows = [row(measured) for measured in outcomes]
    for line in rows:
        table.add_row(*line.cells)
    Console(width=220).print(table)
    print(summary(rows, asked.testbed))
    write("recommendations", [msgspec.to_builtins(measured) for measured in outcomes])
    if asked.write_docs and outcomes:
        shown = joined(kept(DOCS.read_text(encoding="utf-8")), rows)
        lines = docs.table([head(), *(line.cells for line in shown)])
        about = f"{summary(shown, asked.testbed)} Measured with mptune {machine()['mptune']}."
        docs.replace(DOCS, NAME, "\n".join([*lines, "", about]))
        print(f"written to {DOCS}")
    return int(stopped or not all(line.holds for line in rows))


if __name__ == "__main__":
    sys.exit(main())
