"""Chart of a captured connection: a quantity of each subflow over time."""

from mptune.report.charts.style import Key, Rows, Spec, base, horizontal, layered, vertical

_TIME = "time (s)"
_HEIGHT = 200


def over_time(rows: Rows, colours: Key, title: str, *, zero: bool) -> Spec:
    """A line for each subflow.

    Parameters
    ----------
    rows : column of `colours`, t_s, value.
    title : of the vertical axis.
    zero : the axis begins at 0.
    """
    x = horizontal(_TIME, domainMin=0, nice=False)
    y = vertical(title, zero=zero)
    line = base("rows").mark_line(strokeWidth=1.6).encode(x=x("t_s"), y=y("value"), color=colours.colour())
    return layered(line, data={"rows": rows}, height=_HEIGHT)
