"""The answer of a campaign: by size of transfer, by an objective, for throughput, or none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptune.cli._common import console, emit_json
from mptune.errors import InputError
from mptune.files import read_json, reason
from mptune.store.directory import RESULT

if TYPE_CHECKING:
    from mptune.optimisation.outcomes import Outcome


def show(result: Outcome | None, directory: Path, as_json: bool, *, details: bool = False) -> None:
    """Print the answer on one screen, or where the observations of a sweep are.

    Parameters
    ----------
    details : print all of the evidence instead.
    """
    from mptune.cli import _objective_tables, _result_tables, _size_tables
    from mptune.optimisation.by_objective import ObjectiveResult
    from mptune.optimisation.by_size import SizesResult
    from mptune.report.files import PAGE

    if result is None:
        if as_json:
            emit_json({"directory": str(directory), "report": str(directory / PAGE)})
            return
        _print_observed(directory)
    elif as_json or not details:
        _print(_document(result), directory, as_json)
    elif isinstance(result, SizesResult):
        _size_tables.show(console(), result, directory)
    elif isinstance(result, ObjectiveResult):
        _objective_tables.show(console(), result, directory)
    else:
        _result_tables.show(console(), result, directory)


def _print_observed(directory: Path) -> None:
    """Print a sweep's observations in a sentence, and the place of all of them."""
    from mptune.report.answer import observed
    from mptune.report.files import PAGE
    from mptune.result.reading import read_run

    out = console()
    out.print(observed(read_run(directory, directory.name)), markup=False)
    out.print(f"Report: {directory / PAGE}", markup=False)
    out.print(
        f"Next: mptune report {directory} (figures as SVG, PNG, PDF); mptune bundle {directory} (to publish)",
        markup=False,
    )


def _document(result: Outcome) -> dict[str, Any]:
    from mptune.optimisation.by_objective import ObjectiveResult
    from mptune.optimisation.by_size import SizesResult
    from mptune.result.making import result_document
    from mptune.result.making_by_objective import objective_document
    from mptune.result.making_by_size import sizes_document

    match result:
        case SizesResult():
            return sizes_document(result)
        case ObjectiveResult():
            return objective_document(result)
        case _:
            return result_document(result)


def _print(document: dict[str, Any], directory: Path, as_json: bool) -> None:
    """Print a document as it is, or as a screen."""
    from mptune.report.files import PAGE
    from mptune.result import screen
    from mptune.result.documents import converted

    page = str(directory / PAGE)
    if as_json:
        emit_json({**document, "directory": str(directory), "report": page})
        return
    first, *others = screen.lines(converted(document, str(directory)), str(directory), page)
    out = console()
    out.print(first, style="bold", markup=False)
    for line in others:
        out.print(line, markup=False)


def recall(directory: Path, as_json: bool) -> None:
    """Print what a finished campaign has written, without deciding again."""
    from mptune.report.files import PAGE

    answer = directory / RESULT
    try:
        document = read_json(answer)
    except FileNotFoundError:
        document = {}
    except (OSError, ValueError) as error:
        raise InputError(str(directory), RESULT, f"expected a readable JSON file: {reason(error)}") from None
    if not isinstance(document, dict):
        raise InputError(str(directory), RESULT, "expected an object")
    if document.get("answer") or as_json:
        _print(document, directory, as_json)
        return
    console().print("Complete: no trial is left to run.", markup=False)
    console().print(f"Observations: {directory}", markup=False)
    console().print(f"Report: {directory / PAGE}", markup=False)
