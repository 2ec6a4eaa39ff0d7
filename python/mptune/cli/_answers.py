"""The answer of a campaign: by size of transfer, by an objective, for throughput, or none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mptune.cli._common import console, emit_json
from mptune.errors import InputError
from mptune.files import read_json, reason
from mptune.store.directory import RESULT

if TYPE_CHECKING:
    from mptune.optimisation.outcomes import Outcome


def show(result: Outcome | None, directory: Path, as_json: bool) -> None:
    """Print the answer, or where the observations of a sweep are."""
    from mptune.cli import _objective_tables, _result_tables, _size_tables
    from mptune.optimisation.by_objective import ObjectiveResult
    from mptune.optimisation.by_size import SizesResult
    from mptune.report.files import PAGE
    from mptune.result.making import result_document
    from mptune.result.making_by_objective import objective_document
    from mptune.result.making_by_size import sizes_document

    if as_json:
        match result:
            case None:
                files = {}
            case SizesResult():
                files = sizes_document(result)
            case ObjectiveResult():
                files = objective_document(result)
            case _:
                files = result_document(result)
        emit_json({**files, "directory": str(directory), "report": str(directory / PAGE)})
    elif result is None:
        console().print(f"All trials are done. Observations: {directory}", markup=False)
        console().print(f"Report: {directory / PAGE}", markup=False)
    elif isinstance(result, SizesResult):
        _size_tables.show(console(), result, directory)
    elif isinstance(result, ObjectiveResult):
        _objective_tables.show(console(), result, directory)
    else:
        _result_tables.show(console(), result, directory)


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
    if as_json:
        emit_json({**document, "directory": str(directory), "report": str(directory / PAGE)})
        return
    out = console()
    out.print("Complete: no trial is left to run (--again recomputes the answer from them).", markup=False)
    for line in document.get("answer", []):
        out.print(line, markup=False)
    out.print(f"Observations and result: {directory}", markup=False)
    out.print(f"Report: {directory / PAGE}", markup=False)
