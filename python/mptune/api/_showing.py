"""Display of records: as frames, charts, notebook output, and lines of a console."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mptune._text import escaped
from mptune.report.charts.style import Key, Spec
from mptune.report.files import printed
from mptune.report.sections import Panel, Section

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a frame; pandas is loaded at its first use."""
    import pandas as pd

    return pd.DataFrame(rows)


def chart_of(section: Section) -> alt.ConcatChart:
    """All panels of a section as one figure with its legend, as `mptune report` writes it."""
    import altair as alt

    chart: alt.ConcatChart = alt.ConcatChart.from_dict(printed(section))
    return chart


def figure_of(name: str, title: str, lead: str, spec: Spec, colours: Key) -> alt.ConcatChart:
    """A chart with its title, its explanation and its key, as one figure."""
    return chart_of(Section(name=name, title=title, lead=lead, panels=[Panel(chart=spec)], key=colours))


def html_of(
    headline: str, frame: pd.DataFrame, notes: Iterable[str] = (), *, warnings: Iterable[str] = ()
) -> str:
    """A sentence, a table, more sentences, and what to take into account."""
    below = "".join(
        f"<p>{escaped(note)}</p>" for note in (*notes, *(f"\u26a0 {warning}" for warning in warnings))
    )
    filled = frame.where(frame.notna(), float("nan"))  # a column of None would print it in every row
    table = filled.to_html(index=False, border=0, na_rep="", float_format=lambda value: f"{value:.4g}")
    return f"<p><b>{escaped(headline)}</b></p>{table}{below}"


def line_of(record: object, headline: str) -> str:
    """A short `repr` for consoles: all fields would fill pages."""
    return f"<{type(record).__name__}: {headline}>"
