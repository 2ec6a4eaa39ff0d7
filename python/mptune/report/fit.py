"""The figure of a stated model: the fitted curve with its limits, and its residuals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mptune.report.charts.fit import curve, quantiles, residuals
from mptune.report.charts.style import Key, Spec
from mptune.report.figures import panels

if TYPE_CHECKING:
    from mptune.papers.glm.stated import Stated

_WIDTH = 420

#: Points of a curve, and most observations drawn: evenly spaced rows of more.
_POINTS, _DRAWN = 101, 3000

#: Most levels with a colour of their own.
_LEVELS = 24


def figure(stated: Stated) -> Spec:
    """Vega-Lite of all panels: the response over the first number column, then the residuals."""
    fit, data = stated.fit, stated.fit.data
    factor = next((name for name, levels in data.levels.items() if len(levels) <= _LEVELS), None)
    names = sorted(data.levels[factor]) if factor else ["all"]
    colours = Key(field="level", title=factor or "", names=tuple(names), marks=False)
    rows = _rows(stated, factor)
    charts: list[tuple[str, Spec]] = []
    variable = next(iter(data.numbers), None)
    if variable is not None:
        lines = _lines(stated, factor, names, variable)
        points = [{"level": row["level"], "x": row[variable], "y": row["observed"]} for row in rows]
        axes = _title(stated, variable), _title(stated, stated.formula.response)
        charts.append(("Response, its mean and limits", curve(points, lines, colours, *axes)))
    if fit.scatter:
        predicted = f"predicted {_title(stated, stated.formula.response)}"
        charts.append(("Residuals", residuals(rows, "predicted", predicted, colours)))
        charts.append(("Residuals, ordered", quantiles(rows, colours)))
        if variable is not None:
            title = _title(stated, variable)
            charts.append((f"Residuals over {variable}", residuals(rows, variable, title, colours)))
    lead = (
        f"{stated.columns.path}: {stated.formula}. Shaded: confidence limits of the mean "
        f"({100 * (1 - fit.alpha):.4g} %), and paler the prediction limits of one observation."
    )
    return panels(charts, "Fitted model", lead, columns=2, width=_WIDTH)


def _title(stated: Stated, name: str) -> str:
    """Name of a column with its unit."""
    unit = stated.unit(name)
    return f"{name} ({unit})" if unit else name


def _rows(stated: Stated, factor: str | None) -> list[dict[str, Any]]:
    """Observations with their residuals divided by their standard errors."""
    import numpy as np
    from scipy.special import ndtri

    fit, data = stated.fit, stated.fit.data
    n = len(data.y)
    left = np.sqrt(fit.mean_square * np.maximum(1 - fit.leverage, 1e-12)) if fit.scatter else np.ones(n)
    studentised = fit.residuals / left
    ranks = np.empty(n)
    ranks[np.argsort(studentised, kind="stable")] = np.arange(1, n + 1)
    # Blom's plotting positions.
    quantile = ndtri((ranks - 0.375) / (n + 0.25))
    drawn = np.unique(np.linspace(0, n - 1, min(n, _DRAWN)).astype(int))
    fitted = fit.fitted
    return [
        {
            "level": data.levels[factor][data.codes[factor][i]] if factor else "all",
            "observed": float(data.y[i]),
            "predicted": float(fitted[i]),
            "residual": float(studentised[i]),
            "quantile": float(quantile[i]),
            **{name: float(values[i]) for name, values in data.numbers.items()},
        }
        for i in drawn
    ]


def _lines(stated: Stated, factor: str | None, names: list[str], variable: str) -> list[dict[str, Any]]:
    """Mean response over a number column for each level, other numbers and factors at their means."""
    import numpy as np

    fit, data = stated.fit, stated.fit.data
    others = {name: float(values.mean()) for name, values in data.numbers.items() if name != variable}
    lines: list[dict[str, Any]] = []
    for level in names:
        at = data.codes[factor] == data.levels[factor].index(level) if factor else data.y == data.y
        values = data.numbers[variable][at]
        for x in np.linspace(float(values.min()), float(values.max()), _POINTS):
            row = fit.row({**others, variable: float(x)}, {factor: level} if factor else {})
            mean = fit.mean(row)
            half = fit.t_value * math.sqrt(fit.mean_square + fit.error(row) ** 2)
            sure = mean.value is not None and fit.scatter > 0
            lines.append(
                {
                    "level": level,
                    "x": float(x),
                    "mean": mean.value,
                    "low": mean.low,
                    "high": mean.high,
                    "least": (mean.value or 0.0) - half if sure else None,
                    "most": (mean.value or 0.0) + half if sure else None,
                }
            )
    return lines
