"""Charts of a video: what is left to play, and the bitrate of what is played."""

from mptune.report.charts.style import Key, Rows, Spec, base, horizontal, layered, tips, vertical


def over_time(rows: Rows, colours: Key, *, column: str, title: str, steps: bool = False) -> Spec:
    """A quantity of the player over time.

    Parameters
    ----------
    rows : column of `colours`, t_s, `column`.
    title : of the vertical axis, with its unit.
    steps : it stays as it is until the next row.
    """
    x = horizontal("time since the first request (s)", nice=False)("t_s")
    y = vertical(title, zero=True)(column)
    line = base("rows").encode(x=x, y=y, color=colours.colour())
    layers = [
        line.mark_line(strokeWidth=2, interpolate="step-after" if steps else "linear").encode(
            strokeDash=colours.dash(), opacity=colours.opacity()
        ),
        # Wider than the line, for those who point at it.
        line.mark_point(filled=True, size=60, opacity=0).encode(
            tooltip=tips(rows, colours.field, "t_s", column)
        ),
    ]
    return layered(*layers, data={"rows": rows})
