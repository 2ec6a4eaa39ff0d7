"""`mptune reproduce`: the papers' derived numbers beside those mptune computes from the same inputs.

It only prints; the computations are in `mptune.papers.reproduce`. With --measure it is the papers'
measurements, made again (`mptune.cli._measured_claims`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli import _measured_claims
from mptune.cli._common import JsonOption, QuietOption, add, console, emit_json
from mptune.errors import InputError, MptuneError, one_of
from mptune.options import Given, Options
from mptune.papers.measure.running import MeasureOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from mptune.papers.reproduce import Check, Reproduction

#: Digits shown of a recomputed number: two more than the paper prints, and at least four in all.
_MORE_DIGITS = 2
_LEAST_DIGITS = 4

#: Smallest width of the quantities' names on a narrow terminal.
_QUANTITY_WIDTH = 24


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        reproduce,
        "mptune reproduce                            # all five papers",
        "mptune reproduce glm pcdc",
        "mptune reproduce --only contradicts         # with explanations",
        'mptune reproduce mpcoa --only "within rounding" --json',
        "mptune reproduce --measure list             # figures and tables that can be measured again",
        "mptune reproduce pcdc --measure fig-6",
        "mptune reproduce --measure all --out again  # everything, and a page per paper",
    )


def reproduce(
    papers: Annotated[
        list[str] | None,
        typer.Argument(metavar="mpcoa|buffersizes|pcdc|pathmgmt|glm", help="Papers; all by default."),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="VERDICT", help="Show only: agrees, within rounding, or contradicts."),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE|TABLE|all|list",
            help="Measure a figure (fig-6) or table (table-3) again, or all; list shows what there is.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="With --measure: directory of the trials, a page per paper, and measured.json.  "
            f"[default: trials in {_measured_claims.DIRECTORY}, no pages]",
        ),
    ] = None,
    *,
    options: Given[MeasureOptions],
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recompute the papers' numbers, or measure them again.

    A number agrees if it has the printed digits. It is within rounding if the rounding of the printed inputs
    explains the difference. Otherwise it contradicts the paper, and the erratum is shown. The exit code is 0
    if exactly the documented contradictions occur, otherwise 1.

    With --measure the scenarios of the papers are simulated under the stack of their kernels. Every claim of
    a figure or table is shown beside the printed numbers, and agrees, agrees half or disagrees by one rule
    (docs/reference/measured.md). Trials are kept: a second call continues the first.
    """
    from mptune.papers.reproduce import PAPERS, VERDICTS
    from mptune.papers.reproduce import reproduce as recompute

    chosen = list(papers or PAPERS)
    for number, paper in enumerate(chosen):
        if paper not in PAPERS:
            raise InputError("PAPERS", "", one_of(PAPERS, paper))
        if paper in chosen[:number]:
            raise InputError("PAPERS", "", f"expected each paper once, found {paper} twice")
    if measure is not None:
        if only is not None:
            raise InputError("--only", "", "expected without --measure")
        if measure == _measured_claims.LIST:
            _measured_claims.show_list(chosen, as_json=as_json)
        else:
            _measured_claims.measure_again(
                chosen, measure, options.build(), out=out, quiet=quiet, as_json=as_json
            )
        return
    if flags := [*options.beyond(Options), *(["--out"] if out is not None else [])]:
        raise InputError(flags[0], "", "expected only with --measure")
    if only is not None and only not in VERDICTS:
        raise InputError("--only", "", one_of(VERDICTS, only))
    result = recompute(chosen)
    selected = [check for check in result.checks if only in (None, check.verdict)]
    if as_json:
        emit_json(_document(chosen, result, selected))
    else:
        _show(console(), chosen, result, selected)
    if not result.as_documented:
        raise MptuneError(_fault(result))


def _document(papers: Sequence[str], result: Reproduction, checks: Sequence[Check]) -> dict[str, Any]:
    """`--json`: all counts, the numbers asked for, and what is not as documented."""
    return {
        "papers": papers,
        "counts": {**{paper: result.counts(paper) for paper in papers}, "total": result.counts()},
        "checks": checks,
        "undocumented": result.undocumented,
        "absent": result.absent,
    }


def _fault(result: Reproduction) -> str:
    """One line that names what is not as documented."""
    parts = []
    by_key = {check.key: check for check in result.checks}
    for key in result.undocumented:
        check = by_key[key]
        parts.append(f"{key} contradicts ({check.published} published, {check.recomputed} recomputed)")
    parts += [f"{key} is documented as a contradiction but agrees" for key in result.absent]
    return f"not as documented: {'; '.join(parts)}"


def _show(out: Console, papers: Sequence[str], result: Reproduction, checks: Sequence[Check]) -> None:
    """A table per paper, the errata behind the contradictions, and the totals."""
    from mptune.papers.reproduce import PAPERS

    for paper in papers:
        out.print(f"{PAPERS[paper].title}: {_counted(result.counts(paper))}", style="bold", markup=False)
        rows = [check for check in checks if check.paper == paper]
        if rows:
            out.print(_table(rows))
        out.print()
    _show_explanations(out, checks)
    out.print(f"Total: {_counted(result.counts())}", style="bold", markup=False)


def _table(checks: Sequence[Check]) -> Table:
    """One row per number."""
    from mptune.cli._tables import table

    plain = table("verdict", "where", "quantity", "| published", "| recomputed", "unit", "rounding allows")
    for column in plain.columns[2:]:
        column.no_wrap = False
    plain.columns[2].min_width = _QUANTITY_WIDTH
    for check in checks:
        plain.add_row(
            check.verdict,
            check.where,
            check.quantity,
            check.published,
            _formatted(check.recomputed, check.published),
            check.unit,
            _allowed(check),
        )
    return plain


def _show_explanations(out: Console, checks: Sequence[Check]) -> None:
    """Explain the numbers shown that differ from the printed ones."""
    from mptune.papers.reproduce import DOCUMENTED

    rounding = [
        f"{each_check.quantity}: {each_check.explanation}"
        for each_check in checks
        if each_check.verdict == "within rounding"
    ]
    contradicting = {check.key for check in checks if check.verdict == "contradicts"}
    errata = [(documented, len(contradicting.intersection(documented.keys))) for documented in DOCUMENTED]
    contradictions = [
        f"{erratum.erratum}: {erratum.explanation} ({'1 number' if count == 1 else f'{count} numbers'})"
        for erratum, count in errata
        if count
    ]
    for title, lines in (("Within rounding", rounding), ("Contradictions", contradictions)):
        if lines:
            out.print(title, style="bold")
            out.print("\n".join(lines), markup=False)
            out.print()


def _counted(counts: dict[Any, int]) -> str:
    """Counts as a sentence."""
    agree, rounding, contradict = counts.values()
    total = sum(counts.values())
    return f"{total} numbers, {agree} agree, {rounding} within rounding, {contradict} contradict"


def _formatted(value: float | str, published: str) -> str:
    """Recomputed number, with more digits than the printed one beside it."""
    if isinstance(value, str):
        return value
    digits = re.search(r"(?:\.(\d+))?(e[+-]?\d+)?$", published)
    assert digits is not None, "the pattern matches the empty string"
    if digits[2]:
        return f"{value:.{len(digits[1] or '') + _MORE_DIGITS}e}"
    least = len(digits[1] or "")
    magnitude = int(f"{value:e}".partition("e")[2])
    text = f"{value:.{max(least + _MORE_DIGITS, _LEAST_DIGITS - 1 - magnitude)}f}"
    whole, _, decimals = text.partition(".")
    decimals = decimals[:least] + decimals[least:].rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


def _allowed(check: Check) -> str:
    """Range that the rounding of the inputs allows, where it matters."""
    if check.verdict == "agrees" or check.low is None or check.high is None or check.low == check.high:
        return ""
    return f"{_formatted(check.low, check.published)} to {_formatted(check.high, check.published)}"
