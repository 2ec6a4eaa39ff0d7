"""`mptune reproduce --measure`: measures, keeps the trials, prints the verdicts, and writes the pages."""

from __future__ import annotations

from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptune._text import quoted
from mptune.cli._common import console, emit_json
from mptune.errors import InputError, MptuneError
from mptune.files import read_bytes, reason, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from mptune.papers.measure import Claim
    from mptune.papers.measure.running import Again, MeasureOptions
    from mptune.store import Store

#: Directory of the trials without --out.
DIRECTORY = "runs/reproduce"

#: Value of --measure that lists its values.
LIST = "list"

#: Beginning of the names of the files with trials, and the file with everything that was measured.
_TRIALS, DOCUMENT = "trials-", "measured.json"

#: Letters of a simulator's digest in a file's name.
_DIGEST = 4

_WIDTH = 24

#: Page on what a verdict leaves open.
_WHY = "docs/reference/measured.md"


def show_list(papers: Sequence[str], *, as_json: bool) -> None:
    """Print what can be measured."""
    from mptune.cli._tables import table
    from mptune.papers.measure import ALL, select
    from mptune.papers.measure.document import listed

    claims = select(papers, ALL)
    if as_json:
        emit_json(listed(claims))
        return
    plain = table("paper", "figure or table", "network", "claim")
    plain.columns[3].no_wrap = False
    for claim in claims:
        plain.add_row(claim.paper, ", ".join(claim.figures), ", ".join(claim.scenarios), claim.words)
    console().print(plain)


def measure_again(
    papers: Sequence[str],
    asked: str,
    options: MeasureOptions,
    *,
    out: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure a figure, a table or everything again, and print the verdicts.

    Raises
    ------
    InputError : no such figure; the directory cannot be used.
    """
    from mptune import testbeds
    from mptune.papers.measure import select
    from mptune.papers.measure.claims import on_calibrated
    from mptune.papers.measure.document import document
    from mptune.papers.measure.running import measure
    from mptune.papers.reproduce import PAPERS
    from mptune.runner.progress import Reporter
    from mptune.runner.runner import TrialRunner

    chosen = select(papers, asked)
    if options.calibrated:
        chosen = on_calibrated(chosen)
    directory = Path(DIRECTORY if out is None else out)
    with _kept(directory) as store:
        runner = TrialRunner(testbeds.create(options.testbed), options.jobs, store)
        try:
            measured = measure(chosen, runner, options, reporter=Reporter(quiet=quiet))
        except KeyboardInterrupt as error:
            error.add_note(f"finished trials are kept in {directory}; the same command continues")
            raise
    settings = _settings(options)
    content = document(measured, settings)
    pages = [] if out is None else _write(directory, content, measured, settings)
    if as_json:
        emit_json(content)
        return
    out_console = console()
    _show(out_console, measured, content["counts"])
    out_console.print()
    if any(again.judgement.verdict != "agrees" for again in measured):
        out_console.print(f"Why, and the rule of the verdicts: {_WHY}", markup=False)
    for page in pages:
        out_console.print(f"Figures: {page}", markup=False)
    if not pages:
        words = " ".join(["mptune reproduce", *(papers if len(papers) < len(PAPERS) else ())])
        out_console.print(f"Figures: {words} --measure {asked} --out DIR draws them", markup=False)


def _settings(options: MeasureOptions) -> dict[str, object]:
    """Settings of the measurement."""
    from mptune import testbeds
    from mptune.papers.measure import STACK
    from mptune.units import format_time

    length = options.duration_ns
    return {
        "testbed": options.testbed,
        "stack": testbeds.only_stack(options.testbed) or STACK,
        "runs": options.runs,
        "duration": "as in the papers" if length is None else format_time(length),
        "seed": options.seed,
        **({"scenarios": "calibrated where there are any"} if options.calibrated else {}),
    }


@contextmanager
def _kept(directory: Path) -> Iterator[Store]:
    """The trials so far, of this build of the simulator: those of another one are not comparable.

    Raises
    ------
    InputError : the directory cannot be used.
    """
    from mptune import _core
    from mptune.store import Campaign, create, open_store

    try:
        if directory.exists() and not directory.is_dir():
            raise InputError("--out", "", f"expected a directory, found the file {quoted(str(directory))}")
        directory.mkdir(parents=True, exist_ok=True)
        there = [entry.name for entry in directory.iterdir()]
    except (OSError, ValueError) as error:
        why = f"expected a writable directory, found {quoted(str(directory))}: {reason(error)}"
        raise InputError("--out", "", why) from None
    if there and not any(name.startswith(_TRIALS) for name in there):
        expected = "expected a new or empty directory, or that of an earlier --measure"
        raise InputError("--out", "", f"{expected}, found {quoted(str(directory))} with other files")
    build = blake2b(read_bytes(Path(str(_core.__file__))), digest_size=_DIGEST).hexdigest()
    path = directory / f"{_TRIALS}{build}.sqlite"
    about = Campaign(name="reproduce", settings={}, environment={})
    with open_store(path) if path.exists() else create(path, about) as store:
        yield store


def _write(
    directory: Path, content: dict[str, Any], measured: Sequence[Again], settings: dict[str, object]
) -> list[Path]:
    """The pages and everything as JSON."""
    import msgspec

    from mptune.papers.reproduce import PAPERS
    from mptune.report.published import write_pages

    path = directory / DOCUMENT
    try:
        write(path, msgspec.json.format(msgspec.json.encode(content), indent=2))
    except OSError as error:
        raise MptuneError(f"{path}: {error.strerror}") from None
    titles = {name: paper.title for name, paper in PAPERS.items()}
    return write_pages(directory, titles, measured, settings)


def _show(out: Console, measured: Sequence[Again], counts: dict[str, Any]) -> None:
    """Every claim with its statements, then the counts."""
    from mptune.cli._tables import table

    for again in measured:
        out.print(f"{again.judgement.verdict}: {_title(again.claim)}", style="bold", markup=False)
        plain = table("verdict", "statement", "printed", "measured")
        for column in plain.columns[1:]:
            column.no_wrap = False
        plain.columns[1].min_width = _WIDTH
        for statement in again.judgement.statements:
            plain.add_row(statement.verdict, statement.words, statement.printed, statement.measured)
        out.print(plain)
        out.print()
    if len(measured) > 1:
        plain = table("claims", *(f"| {verdict}" for verdict in counts["total"]))
        for name, some in counts.items():
            plain.add_row(_COUNTED.get(name, name), *(str(number) for number in some.values()))
        out.print(plain)
    _gains(out, measured)
    failed = [number for again in measured for number in again.numbers if number.reason]
    if failed:
        first = failed[0]
        out.print(
            f"! {len(failed)} numbers lack runs (first: {first.point.name}: {first.reason})", markup=False
        )


def _gains(out: Console, measured: Sequence[Again]) -> None:
    """The gains of PCDC over FullMesh."""
    from mptune.cli._tables import section, table
    from mptune.papers.measure.document import figure_title
    from mptune.papers.measure.results import gains
    from mptune.papers.measure.rule import change

    found = gains(measured)
    if not found:
        return
    plain = table("paper", "figure", "network", "cc", "| printed", "| measured", "sign")
    for one in found:
        shown = "-" if one.measured is None else change(one.measured)
        sign = "as printed" if one.has_sign else "not" if one.counts else "not, but no gain of 5 % in print"
        plain.add_row(
            one.paper, figure_title(one.figure), one.scenario, one.cc, change(one.printed), shown, sign
        )
    section(out, "PCDC against FullMesh", plain)


#: Rows of the counts beside the papers.
_COUNTED = {
    "fit": "part: fit",
    "judge": "part: judge",
    "total": "all",
    "results": "results (figure or table, and pair)",
}


def _title(claim: Claim) -> str:
    from mptune.papers.measure.document import figure_title

    figures = ", ".join(figure_title(name) for name in claim.figures)
    return f"{claim.paper}, {figures}, {', '.join(claim.scenarios)}: {claim.words}"
