"""The papers' measurements, made again in the simulator: the tables of docs/reference/measured.md.

It is `mptune reproduce --measure all`, and once more with `--calibrated`, with the trials kept under
target/benchmarks. Prints the counts, writes JSON, and with `--write-docs` the page.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared import docs
from benchmarks.shared.measure import write
from benchmarks.shared.results import stored_results
from mptune.papers.measure import ALL, VERDICTS, select
from mptune.papers.measure.claims import on_calibrated
from mptune.papers.measure.document import counts, document, figure_title, tally
from mptune.papers.measure.results import gains, results
from mptune.papers.measure.rule import Verdict, change
from mptune.papers.measure.running import Again, MeasureOptions, measure
from mptune.papers.reproduce import PAPERS
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.testbeds import create

PAGE = Path(__file__).parents[2] / "docs/reference/measured.md"

#: Head of the table of counts; each cell has the number of each verdict.
COUNTED = ("paper", "claims", "as stated: agrees / half / disagrees", "calibrated")

#: Most letters of a cell with numbers: a curve of eight buffers is cut off.
_LETTERS = 60


#: What is compared: the scenarios as they are, and calibrated ones where there are any.
Both = tuple[Sequence[Again], Sequence[Again]]


def total(both: Both) -> list[list[str]]:
    """Rows of the table of counts: papers, parts, all, results."""
    groups: dict[str, Callable[[Again], bool]] = {
        paper.title: lambda again, name=name: again.claim.paper == name  # type: ignore[misc] # bound now
        for name, paper in PAPERS.items()
    }
    groups["part: fit"] = lambda again: again.claim.part == "fit"
    groups["part: judge"] = lambda again: again.claim.part == "judge"
    groups["all"] = lambda _: True
    rows = []
    for name, belongs in groups.items():
        sides = [[again for again in side if belongs(again)] for side in both]
        rows.append([name, str(len(sides[0])), *(_three(counts(side)) for side in sides)])
    judged = [results(side) for side in both]
    rows.append(
        [
            "**results**",
            str(len(judged[0])),
            *(_three(tally(result.verdict for result in side)) for side in judged),
        ]
    )
    return rows


def _three(number: Mapping[Verdict, int]) -> str:
    return " / ".join(str(number[verdict]) for verdict in VERDICTS)


def listed(both: Both) -> list[list[str]]:
    """Rows of the table of results."""
    rows = []
    for number, (stated, calibrated) in enumerate(zip(*map(results, both), strict=True), 1):
        place = f"{PAPERS[stated.paper].title.partition(' (')[0]}, {figure_title(stated.figure)}"
        words = "; ".join(map(_plain, stated.words))
        rows.append([str(number), place, stated.scenario, words, stated.verdict, calibrated.verdict])
    return rows


def gained(both: Both) -> list[list[str]]:
    """Rows of the table of PCDC's gains."""
    rows = []
    for stated, calibrated in zip(*map(gains, both), strict=True):
        shown = ["-" if gain.measured is None else change(gain.measured) for gain in (stated, calibrated)]
        sign = (
            "as printed"
            if calibrated.has_sign
            else "**not**"
            if calibrated.counts
            else "not; printed below 5 %"
        )
        rows.append(
            [
                f"{figure_title(stated.figure)}, {stated.scenario}",
                stated.cc,
                change(stated.printed),
                *shown,
                sign,
            ]
        )
    return rows


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


def _plain(text: str) -> str:
    return text.replace("|", "/")


def _cell(text: str) -> str:
    plain = _plain(text)
    return plain if len(plain) <= _LETTERS else f"{plain[: _LETTERS - 1]}…"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of the page."""
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


def write_docs(both: Both) -> None:
    """Put the tables into the page."""
    docs.replace(PAGE, "counts", markdown(COUNTED, total(both)))
    head = ("", "figure or table", "pair", "result", "as stated", "calibrated")
    docs.replace(PAGE, "results", markdown(head, listed(both)))
    head = ("figure and pair", "cc", "printed", "as stated", "calibrated", "sign on calibrated")
    docs.replace(PAGE, "gains", markdown(head, gained(both)))
    measured, _ = both
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
    parser.add_argument("--jobs", type=int, help="trials in parallel; one per core")
    parser.add_argument("--fresh", action="store_true", help="simulate everything again")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into the docs too")
    asked = parser.parse_args()
    options = MeasureOptions(runs=asked.runs)
    with stored_results("measured", "trials", fresh=asked.fresh) as store:
        runner = TrialRunner(create(options.testbed), asked.jobs, store)
        every = select(list(PAPERS), ALL)
        both = (
            measure(every, runner, options, reporter=Reporter()),
            measure(on_calibrated(every), runner, options, reporter=Reporter()),
        )
    table = Table(*COUNTED, title="Published claims, measured again", title_justify="left")
    for row in total(both):
        table.add_row(*row)
    Console(width=120).print(table)
    rows: list[dict[str, Any]] = [
        {**claim, "calibrated": calibrated}
        for calibrated, side in zip((False, True), both, strict=True)
        for claim in msgspec.to_builtins(document(side, {})["claims"])
    ]
    write("measured", rows)
    if asked.write_docs:
        write_docs(both)


if __name__ == "__main__":
    main()
