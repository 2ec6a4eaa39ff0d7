"""Output of an answer by an objective: what to set, what it gives beside the default, and the next best.

It formats an `ObjectiveResult` and computes nothing.
"""

from pathlib import Path

from rich.console import Console

from mptune._text import digits
from mptune.cli._result_tables import where_it_is
from mptune.cli._tables import section, table
from mptune.optimisation.by_objective import Figure, ObjectiveResult
from mptune.optimisation.points import Point
from mptune.result import wording
from mptune.statistics import Summary, summarise
from mptune.trial.objectives import cost
from mptune.units import format_size

#: Combinations in the table of what was compared.
_SHOWN = 5


def show(out: Console, result: ObjectiveResult, directory: Path) -> None:
    """Print the answer, the evidence, and where the files are."""
    # The others are in the first table.
    for number, sentence in enumerate(wording.objective_answer(result)[:2]):
        out.print(sentence, style=None if number else "bold", markup=False)
    for sentence in () if result.failover is None else wording.failover_sentences(result.failover):
        out.print(sentence, markup=False)
    _beside(out, result)
    if result.front:
        _front(out, result)
    _compared(out, result)
    where_it_is(out, result.warnings, directory)


def _beside(out: Console, result: ObjectiveResult) -> None:
    """Every metric of the answer and of the default."""
    listing = table(
        "", "| answer", "95 % interval", "| default", "95 % interval", "| better by", "95 % interval"
    )
    outages = (
        ()
        if result.outage is None
        else ((f"{result.outage[1].name} if {result.outage[0]} fails", result.outage[1]),)
    )
    single = (*result.table, *result.harm)
    rows = [*((figure.name, figure) for figure in single), *outages]
    for name, figure in rows:
        listing.add_row(f"{name} ({figure.unit})", *_cells(figure))
    section(out, "With new seeds", listing)


def _cells(figure: Figure) -> list[str]:
    return [cell for summary in (figure.ours, figure.default, figure.gain) for cell in _pair(summary)]


def _pair(summary: Summary | None) -> tuple[str, str]:
    if summary is None:
        return "-", "-"
    return digits(summary.mean), wording.interval(summary).strip(" ()") or "-"


def _front(out: Console, result: ObjectiveResult) -> None:
    """Print the configurations that no other one beats in both objectives."""
    names = f"{result.objective} ({result.unit})", f"{result.second} ({result.second_unit})"
    listing = table(
        *("path manager", "CC", "| buffer", f"| {names[0]}", "95 % interval"),
        *(f"| {names[1]}", "95 % interval", ""),
    )
    for point in result.front:
        combination, values = point.combination, (list(point.by_run.values()), list(point.second.values()))
        cells = [cell for runs in values for cell in _pair(summarise(runs))]
        mark = "recommended" if point == result.chosen else ""
        listing.add_row(combination.manager, combination.cc, format_size(point.buffer_bytes), *cells, mark)
    section(out, "What no other configuration beats in both", listing)


def _compared(out: Console, result: ObjectiveResult) -> None:
    """The best configuration of each combination, the best combinations first."""
    best: dict[object, Point] = {}

    def order(point: Point) -> tuple[bool, float]:
        # A single run may have been lucky.
        few = 2 * len(point.by_run) < len(result.chosen.by_run)
        return few, cost(result.objective, point.mean)

    for point in result.points:
        usable = point.by_run and point.kept >= result.best.kept
        if usable and (point.combination not in best or order(point) < order(best[point.combination])):
            best[point.combination] = point
    ordered = sorted(best.values(), key=order)
    value = f"| {result.objective} ({result.unit})"
    listing = table("path manager", "CC", "| buffer", value, "| runs", "| failed")
    for point in ordered[:_SHOWN]:
        combination = point.combination
        listing.add_row(
            combination.manager,
            combination.cc,
            format_size(point.buffer_bytes),
            digits(point.mean),
            str(len(point.by_run)),
            str(point.failed),
        )
    many = f"{len(result.points)} configurations measured, {result.alike} may be as good"
    section(out, f"Best combinations ({many})", listing)
