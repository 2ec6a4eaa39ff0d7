"""The report of one paper's measurements, measured again: a page with a section per claim.

It draws and words what `mptune.papers.measure` found; it judges nothing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mptune._text import escaped
from mptune.errors import MptuneError
from mptune.files import write
from mptune.papers.measure import VERDICTS
from mptune.papers.measure.document import figure_title, settings_of
from mptune.papers.measure.running import Again, Number
from mptune.report.charts.published import MEASURED, PRINTED, SOURCES, in_rows, over_buffer
from mptune.report.markup import facts
from mptune.report.page import contents, section_of, whole
from mptune.report.sections import Panel, Section, Table
from mptune.units import MIB

#: Least number of buffers that make a curve.
_CURVE = 3

#: Sentence above the figures.
_HOW = "Printed numbers, and the means of the runs here with their range."


def write_pages(
    directory: Path, titles: Mapping[str, str], measured: Sequence[Again], settings: Mapping[str, object]
) -> list[Path]:
    """Write a page per paper, PAPER.html, and return their paths.

    Parameters
    ----------
    titles : of papers, by their names.
    settings : how it was measured.

    Raises
    ------
    MptuneError : a file cannot be written.
    """
    written = []
    for paper in dict.fromkeys(again.claim.paper for again in measured):
        path = directory / f"{paper}.html"
        mine = [again for again in measured if again.claim.paper == paper]
        try:
            write(path, page(titles[paper], mine, settings))
        except OSError as error:
            raise MptuneError(f"{path}: {error.strerror}") from None
        written.append(path)
    return written


def page(title: str, measured: Sequence[Again], settings: Mapping[str, object]) -> str:
    """HTML text of a paper's page."""
    drawn: set[tuple[str, ...]] = set()
    sections = [_section(again, drawn) for again in measured]
    verdicts = [again.judgement.verdict for again in measured]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)
    body = [
        '<a class="skip" href="#claims">Skip to the claims</a>',
        f"<header><p>mptune reproduce</p><h1>{escaped(title)}, measured again</h1>"
        f"<p>{len(measured)} claims: {escaped(counts)}</p></header>",
        '<main id="claims">',
        contents(sections, {"measured": "How it was measured"}),
        *(section_of(section) for section in sections),
        f'<section id="measured"><h2>How it was measured</h2>{facts(settings)}</section>',
        "</main>",
    ]
    return whole(f"{title}: mptune reproduce", body, sections)


def _section(again: Again, drawn: set[tuple[str, ...]]) -> Section:
    """A claim: its verdict, its figure unless an earlier claim has drawn it, its statements, its numbers."""
    claim = again.claim
    key = (
        *(f"{point.scenario}/{point.name}" for point in claim.points),
        *(f"{factors.scenario}/{factors.name}" for factors in claim.factors),
    )
    panels = [] if key in drawn else _panels(again)
    drawn.add(key)
    statements = Table(
        title="Statements",
        rows=[
            {
                "statement": statement.words,
                "printed": statement.printed,
                "measured": statement.measured,
                "verdict": statement.verdict,
            }
            for statement in again.judgement.statements
        ],
    )
    numbers = Table(title="Trials", rows=[_row(number) for number in again.numbers])
    return Section(
        name=claim.id,
        title=f"{figure_title(claim.figures[0])}, {' and '.join(claim.scenarios)}: {again.judgement.verdict}",
        lead=f"{claim.words} (section {claim.section}). {_HOW if panels else ''}".strip(),
        panels=panels,
        key=SOURCES if panels else None,
        open=[statements],
        tables=[numbers] if again.numbers else [],
    )


def _panels(again: Again) -> list[Panel]:
    if again.factors:
        return [Panel(chart=in_rows(_factor_rows(again), "impact factor"))]
    curves: dict[str, list[Number]] = {}
    for number in again.numbers:
        configuration = number.point.configuration
        tcp = configuration.protocol == "tcp"
        name = f"TCP on {configuration.initial_path}" if tcp else f"{configuration.pm}, {configuration.cc}"
        curves.setdefault(name, []).append(number)
    if all(len({_mib(number) for number in numbers}) >= _CURVE for numbers in curves.values()):
        return [
            Panel(chart=over_buffer(_rows(numbers, over=True)), title=name)
            for name, numbers in curves.items()
        ]
    rows = _rows(again.numbers, over=False)
    if not rows:
        return []
    unit = again.numbers[0].point.unit
    return [Panel(chart=in_rows(rows, "throughput (Mbit/s)" if unit == "Mbit/s" else f"completion ({unit})"))]


def _mib(number: Number) -> float:
    return number.point.configuration.buffer_bytes / MIB


def _rows(numbers: Sequence[Number], *, over: bool) -> list[dict[str, Any]]:
    """Printed and measured values of points, by buffer if `over`, otherwise by name."""
    rows = []
    unit = "_mbps" if over else ""
    for number in numbers:
        place = {"buffer_mib": _mib(number)} if over else {"name": number.point.name}
        printed, found = number.point.printed, number.measured
        if printed is not None:
            rows.append({**place, "source": PRINTED, **_values(unit, printed, printed, printed)})
        if found is not None:
            rows.append({**place, "source": MEASURED, **_values(unit, found.mean, found.min, found.max)})
    return rows


def _factor_rows(again: Again) -> list[dict[str, Any]]:
    """Printed and measured impact factors."""
    rows = []
    for factor in again.claim.factors:
        for path, printed in factor.printed.items():
            place = {"name": f"{factor.cc} {path}"}
            rows.append({**place, "source": PRINTED, **_values("", printed, printed, printed)})
            if (omega := again.factors[factor.name].get(path)) is not None:
                rows.append({**place, "source": MEASURED, **_values("", omega, omega, omega)})
    return rows


def _values(unit: str, value: float, low: float, high: float) -> dict[str, float]:
    return {f"value{unit}": value, f"low{unit}": low, f"high{unit}": high}


def _row(number: Number) -> dict[str, Any]:
    """A row of the numbers behind a figure."""
    found = number.measured
    return {
        "name": number.point.name,
        **settings_of(number.point),
        "unit": number.point.unit,
        "printed": number.point.printed,
        "mean": None if found is None else found.mean,
        "least": None if found is None else found.min,
        "most": None if found is None else found.max,
        "runs": 0 if found is None else found.n,
        "failed because": number.reason,
    }
