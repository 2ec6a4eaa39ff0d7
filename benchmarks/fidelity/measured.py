"""The papers' measurements, made again in the simulator: the tables of docs/reference/measured.md.

It is `mptune reproduce --measure all` with its trials kept under target/benchmarks. Prints the counts, writes
JSON, and with `--write-docs` the page.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared import docs
from benchmarks.shared.measure import write
from benchmarks.shared.results import stored_results
from mptune.papers.measure import ALL, VERDICTS, select
from mptune.papers.measure.document import counts, document, figure_title
from mptune.papers.measure.running import Again, MeasureOptions, measure
from mptune.papers.reproduce import PAPERS
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.testbeds import create

PAGE = Path(__file__).parents[2] / "docs/reference/measured.md"

#: Most letters of a cell with numbers: a curve of eight buffers is cut off.
_LETTERS = 60


def total(measured: Sequence[Again]) -> list[list[str]]:
    """Rows of the table of counts: papers, parts, all."""
    groups: dict[str, list[Again]] = {
        paper.title: [claim for claim in measured if claim.claim.paper == name]
        for name, paper in PAPERS.items()
    }
    for part in ("fit", "judge"):
        groups[f"part: {part}"] = [claim for claim in measured if claim.claim.part == part]
    groups["all"] = list(measured)
    return [
        [name, str(len(some)), *(str(number) for number in counts(some).values())]
        for name, some in groups.items()
    ]


def statements(measured: Iterable[Again]) -> list[list[str]]:
    """Rows of the table of a paper: every claim, with its statements below it."""
    rows = []
    for again in measured:
        claim = again.claim
        place = f"{figure_title(claim.figures[0])}, {', '.join(claim.scenarios)} ({claim.part})"
        rows.append([f"**{place}**", f"**{_cell(claim.words)}**", "", "", f"**{again.judgement.verdict}**"])
        rows += [
            ["", *map(_cell, (statement.words, statement.printed, statement.measured)), statement.verdict]
            for statement in again.judgement.statements
        ]
    return rows


def _cell(text: str) -> str:
    plain = text.replace("|", "/")
    return plain if len(plain) <= _LETTERS else f"{plain[: _LETTERS - 1]}…"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of the page."""
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


def write_docs(measured: Sequence[Again]) -> None:
    """Put the tables into the page."""
    docs.replace(PAGE, "counts", markdown(("paper", "claims", *VERDICTS), total(measured)))
    columns = ("figure", "statement", "printed", "measured", "verdict")
    for name in PAPERS:
        mine = [claim for claim in measured if claim.claim.paper == name]
        docs.replace(PAGE, name, markdown(columns, statements(mine)))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=MeasureOptions().runs)
    parser.add_argument("--fresh", action="store_true", help="simulate everything again")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into the docs too")
    asked = parser.parse_args()
    options = MeasureOptions(runs=asked.runs)
    with stored_results("measured", "trials", fresh=asked.fresh) as store:
        runner = TrialRunner(create(options.testbed), None, store)
        measured = measure(select(list(PAPERS), ALL), runner, options, reporter=Reporter())
    table = Table(
        "paper", "claims", *VERDICTS, title="Published claims, measured again", title_justify="left"
    )
    for row in total(measured):
        table.add_row(*row)
    Console(width=120).print(table)
    rows: list[dict[str, Any]] = msgspec.to_builtins(document(measured, {"runs": asked.runs})["claims"])
    write("measured", rows)
    if asked.write_docs:
        write_docs(measured)


if __name__ == "__main__":
    main()
