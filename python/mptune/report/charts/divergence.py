"""Charts of two recordings around the time at which they part: one panel per subflow and quantity."""

from mptune.report.charts.style import Key, Rows, Spec, base, horizontal, layered, vertical

_TIME = "time (s)"
_HEIGHT = 150


def course(rows: Rows, colours: Key, title: str, at_s: float | None, *, dashed: str = "") -> Spec:
    """A quantity over time: the median of each side's runs with the band between them.

    Parameters
    ----------
    rows : column of `colours`, t_s, low, middle, high.
    title : of the vertical axis.
    at_s : where a line is drawn; None draws none.
    dashed : column of a second curve of each side; empty if there is none.
    """
    import altair as alt

    low, high = rows[0]["t_s"], rows[-1]["t_s"]
    x = horizontal(_TIME, domain=[low, high], nice=False)
    y = vertical(title, zero=False)
    place = base("rows")
    layers = [
        place.mark_area(opacity=0.25).encode(
            x=x("t_s"), y=y("low"), y2=alt.Y2("high:Q"), color=colours.colour()
        ),
        place.mark_line(strokeWidth=1.6).encode(x=x("t_s"), y=y("middle"), color=colours.colour()),
    ]
    if dashed:
        second = place.mark_line(strokeWidth=1.2, strokeDash=[4, 3])
        layers.append(second.encode(x=x("t_s"), y=y(dashed), color=colours.colour()))
    data = {"rows": rows}
    if at_s is not None:
        layers.append(base("here").mark_rule(strokeDash=[2, 2]).encode(x=x("at_s")))
        data["here"] = [{"at_s": at_s}]
    return layered(*layers, data=data, height=_HEIGHT)
