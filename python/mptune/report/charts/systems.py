"""Chart of autonomous systems: which of them each path crosses, one after another."""

from statistics import fmean

from mptune.report.charts.style import Key, Rows, Spec, base, layered, tips

#: Height of a system's row, pixels, and the distance of two paths there, steps.
_ROW, _ASIDE = 26, 0.07


def systems(rows: Rows, colours: Key) -> Spec:
    """Autonomous systems of each path, from the end that sends to the right.

    Parameters
    ----------
    rows : column of `colours`, step (from 1), system.
    """
    import altair as alt

    steps: dict[str, list[int]] = {}
    for row in rows:
        steps.setdefault(row["system"], []).append(row["step"])
    names = sorted(steps, key=lambda name: fmean(steps[name]))
    moved = [{**row, "place": row["step"] + _ASIDE * colours.names.index(row[colours.field])} for row in rows]
    x = alt.X("place:Q", title="system on the route", axis=alt.Axis(tickMinStep=1, format="d"))
    y = alt.Y("system:N", title=None, sort=names, axis=alt.Axis(labelLimit=220))
    drawn = base("rows").encode(
        x=x,
        y=y,
        color=colours.colour(),
        opacity=colours.opacity(0.9),
        tooltip=tips(rows, colours.field, "system"),
    )
    layers = [
        drawn.mark_line(strokeWidth=2).encode(strokeDash=colours.dash(), order=alt.Order("step:Q")),
        drawn.mark_point(filled=True, size=60),
    ]
    return layered(*layers, data={"rows": moved}, height=max(90, _ROW * (len(names) + 1)))
