"""Charts of a fitted linear model: the curve with its limits, and what is left of the observations."""

from mptune.report.charts.style import Key, Rows, Spec, base, horizontal, layered, vertical

#: Opacity of the confidence band, of the limits of one observation, and of the observations.
_BAND, _LIMITS, _OBSERVED = 0.25, 0.08, 0.5


def curve(points: Rows, lines: Rows, colours: Key, x_title: str, y_title: str) -> Spec:
    """Observations, mean response, its confidence band, and the prediction limits.

    Parameters
    ----------
    points : column of `colours`, x, y.
    lines : column of `colours`, x, mean, low, high, least, most (prediction limits); all limits may be None.
    """
    import altair as alt

    x, y = horizontal(x_title, zero=False, nice=False)("x"), vertical(y_title, zero=False)
    colour = colours.colour()
    band = base("lines").mark_area()
    return layered(
        band.encode(x=x, y=y("least"), y2=alt.Y2("most:Q"), color=colour, opacity=colours.opacity(_LIMITS)),
        band.encode(x=x, y=y("low"), y2=alt.Y2("high:Q"), color=colour, opacity=colours.opacity(_BAND)),
        base("points")
        .mark_point(size=12, filled=True)
        .encode(x=x, y=y("y"), color=colour, opacity=colours.opacity(_OBSERVED)),
        base("lines")
        .mark_line(strokeWidth=2)
        .encode(x=x, y=y("mean"), color=colour, strokeDash=colours.dash(), opacity=colours.opacity()),
        data={"points": points, "lines": lines},
    )


def residuals(rows: Rows, column: str, title: str, colours: Key) -> Spec:
    """Studentised residuals over a column, with the line of none.

    Parameters
    ----------
    rows : column of `colours`, `column`, residual.
    """
    x = horizontal(title, zero=False, nice=False)(column)
    y = vertical("studentised residual", zero=False)
    return layered(
        base("rows")
        .mark_point(size=12, filled=True)
        .encode(x=x, y=y("residual"), color=colours.colour(), opacity=colours.opacity(_OBSERVED)),
        base("zero").mark_rule(strokeDash=[4, 3], style="soft").encode(y=y("residual")),
        data={"rows": rows, "zero": [{"residual": 0.0}]},
    )


def quantiles(rows: Rows, colours: Key) -> Spec:
    """Studentised residuals over normal quantiles: on the line if they are normal.

    Parameters
    ----------
    rows : column of `colours`, quantile, residual.
    """
    x = horizontal("normal quantile", zero=False, nice=False)("quantile")
    y = vertical("studentised residual", zero=False)
    ends = [min(row["quantile"] for row in rows), max(row["quantile"] for row in rows)]
    return layered(
        base("rows")
        .mark_point(size=12, filled=True)
        .encode(x=x, y=y("residual"), color=colours.colour(), opacity=colours.opacity(_OBSERVED)),
        base("line").mark_line(strokeDash=[4, 3], style="soft").encode(x=x, y=y("residual")),
        data={"rows": rows, "line": [{"quantile": end, "residual": end} for end in ends]},
    )
