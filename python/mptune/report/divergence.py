"""The figure of a divergence: data in flight, RTT and what was delivered, of every subflow on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mptune.capture.series import STEP_S
from mptune.report.charts.divergence import course
from mptune.report.charts.style import Key, Rows, Spec
from mptune.report.figures import panels

if TYPE_CHECKING:
    from mptune.capture.divergence import Divergence, Side

#: Time before and after the divergence, seconds; without one the figure begins at 0.
_AROUND_S = 0.5
_WIDTH = 330

#: Figures: quantity of a subflow, title of the axis, factor to its unit.
_PANELS = (
    ("inflight", "in flight, and window dashed (KiB)", 1 / 1024),
    ("rtt", "RTT (ms)", 1e3),
    ("delivered", "delivered, ahead of {reference} (KiB)", 1 / 1024),
)


def figure(divergence: Divergence, reference: Side, other: Side, lead: str) -> Spec:
    """Vega-Lite of all panels: a row per subflow."""
    colours = Key(field="side", title="", names=(reference.name, other.name))
    middle = 0.0 if divergence.first is None else divergence.first.at_s
    names = tuple(dict.fromkeys((*reference.subflows, *other.subflows)))
    charts: list[tuple[str, Spec]] = []
    for name in names:
        for quantity, title, factor in _PANELS:
            rows = _rows(reference, other, name, quantity, factor, middle)
            if not rows:
                continue
            chart = course(
                rows,
                colours,
                title.format(reference=reference.name),
                None if divergence.first is None else middle,
                dashed="window" if quantity == "inflight" else "",
            )
            charts.append((name, chart))
    return panels(charts, "First difference", lead, columns=len(_PANELS), width=_WIDTH)


def _rows(reference: Side, other: Side, name: str, quantity: str, factor: float, middle: float) -> Rows:
    """Rows of one panel; none if nothing is known there."""
    import numpy as np

    end = len(reference.runs[0].times) - 1
    low = max(0, int((middle - _AROUND_S) / STEP_S))
    high = min(end, int((middle + _AROUND_S) / STEP_S))
    base = np.zeros(end + 1)
    if quantity == "delivered":
        base = np.median(reference.values(name, quantity), axis=0)
    rows = []
    for side in (reference, other):
        values = (side.values(name, quantity) - base) * factor
        windows = _windows(side, name) / 1024
        for index in range(low, high + 1):
            column = values[:, index]
            if not np.isfinite(column).any():
                continue
            row = {
                "side": side.name,
                "t_s": round(index * STEP_S, 4),
                "low": float(np.nanmin(column)),
                "middle": float(np.nanmedian(column)),
                "high": float(np.nanmax(column)),
            }
            if quantity == "inflight":
                row["window"] = float(windows[index]) if np.isfinite(windows[index]) else None
            rows.append(row)
    return rows


def _windows(side: Side, name: str) -> Any:
    """Median congestion window of a side's runs, bytes; NaN where there is no sample."""
    import numpy as np

    windows = [run.subflows[name].cwnd * run.segment for run in side.runs if name in run.subflows]
    if not windows:
        return np.full(len(side.runs[0].times), np.nan)
    return np.median(np.stack(windows), axis=0)
