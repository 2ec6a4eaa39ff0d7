"""Sections of a sweep: throughput over buffer with fits, and bars at two buffers."""

from collections.abc import Iterator, Sequence
from statistics import quantiles

from mptune.report.charts.style import Key, distinct, key, short
from mptune.report.charts.sweep import bars as bars_chart
from mptune.report.charts.sweep import response
from mptune.report.charts.sweep import single_runs as runs_chart
from mptune.report.choices import Choices, logarithmic
from mptune.report.sections._base import (
    SPREAD,
    Panel,
    Rows,
    Section,
    Table,
    grouped,
    throughput,
    with_path,
    without,
    worth_showing,
)
from mptune.result.answer import Answer
from mptune.result.run_data import RunData

#: Room above the largest value, as a factor.
HEADROOM = 1.06

#: With fewer runs of a configuration there is no distribution to show.
_FEW = 3

#: Runs of a configuration that are drawn one by one; a page of 100,000 trials stays small.
_MOST_RUNS = 150

#: Start of the path managers in the palette: away from the congestion controls' first colours.
MANAGERS = 4


def cc_key(run: RunData) -> Key:
    """Colours and marks of the congestion controls, the same in all figures."""
    named = [
        *(trial.cc for trial in run.trials),
        *(curve.cc for curve in run.curves),
        *(impact.cc for impact in run.impact),
    ]
    return Key(field="cc", title="congestion control", names=distinct(named), marks=True)


def manager_key(rows: Rows) -> Key:
    """Colours of the path managers."""
    return key("manager", "path manager", rows, first=MANAGERS)


def responses(run: RunData, choices: Choices) -> Iterator[Section]:
    """Throughput over buffer, a panel per path manager: data, fitted curves, intervals (MPCOA Fig. 5)."""
    columns = "manager", "cc", "buffer_mib"
    best = worth_showing(run)
    swept = [with_path(run, trial) for trial in run.swept]
    # Without curves a section of its own compares the initial paths.
    points = [] if run.many_paths and run.answer is None else grouped(swept, columns, throughput, "mbps")
    points, curves = (_of_best(rows, best) for rows in (points, _curve_rows(run)))
    sizes = {row["buffer_mib"] for row in (*points, *curves)}
    if len(sizes) < 2:
        return
    tops = [row["max_mbps"] for row in points] or [row["predicted_mbps"] for row in curves]
    colours, panels = cc_key(run), []
    # The buffers of a belief are a constant factor apart.
    ends = [] if best is None else [min(sizes), max(sizes)]
    along = logarithmic(ends) if ends else lambda size: size / max(sizes)
    for manager in distinct(row["manager"] for row in (*points, *curves)):
        marks = choices.marks(along, manager)
        chart = response(
            [row for row in points if row["manager"] == manager],
            [row for row in curves if row["manager"] == manager],
            colours,
            top=HEADROOM * max(tops),
            choices=marks,
            choice=choices.answer if marks else None,
            sizes=ends,
        )
        panels.append(Panel(title=manager, chart=chart, zoom=("x", "y")))
    sentences = ["Marks: mean of the runs, with minimum and maximum."] if points else []
    if run.answer is not None:
        sentences.append(
            f"Lines: the {run.answer.model} model, with its 95 % interval where it has one. Ring: the choice."
        )
        if best is not None and len(best) < len(run.answer.models):
            sentences.append(f"Shown: the best {len(best)} of {len(run.answer.models)} combinations.")
    yield Section(
        name="response",
        title="Throughput over buffer",
        lead=" ".join(sentences),
        panels=panels,
        key=colours,
        tables=[
            *([Table(title="Means of the runs", rows=points)] if points else ()),
            *([] if run.answer is None else _models(run.answer, best)),
        ],
    )


def _curve_rows(run: RunData) -> Rows:
    return [
        {
            "manager": curve.pm,
            "cc": curve.cc,
            "buffer_mib": curve.buffer_mib,
            "predicted_mbps": curve.predicted_mbps,
            "predicted_low_mbps": curve.low_mbps,
            "predicted_high_mbps": curve.high_mbps,
        }
        for curve in run.curves
    ]


def _of_best(rows: Rows, best: Sequence[tuple[str, str]] | None) -> Rows:
    """Rows of the combinations that are shown, in their order; all for None."""
    if best is None:
        return rows
    places = {name: place for place, name in enumerate(best)}
    best_rows = [row for row in rows if (row["manager"], row["cc"]) in places]
    return sorted(best_rows, key=lambda row: places[row["manager"], row["cc"]])


def _models(answer: Answer, best: Sequence[tuple[str, str]] | None) -> Iterator[Table]:
    """Formulas, how well they fit, and how the models compare (MPCOA Table 4)."""
    columns = "formula", "max_mbps", "buffer_at_max_mib"
    rows = []
    for row in answer.models:
        manager, cc = row.name
        rows.append({"manager": manager, "cc": cc, **{name: getattr(row, name) for name in columns}})
    selected = _of_best(rows, best)
    more = f"; {len(rows) - len(selected)} more in result.json" if len(selected) < len(rows) else ""
    title = f"The {answer.model} model (bs: buffer in MiB{more})"
    yield Table(title=title, rows=selected, source="result.json")
    fits = []
    # A belief is not fitted to have small residuals.
    for fit in () if answer.is_belief else answer.fits:
        largest = max((p for p in fit.p_values.values() if p is not None), default=None)
        fits.append({"pm": fit.pm, "r_squared": fit.r_squared, "largest_p_value": largest, "n": fit.n})
    if fits:
        yield Table(title="Quality of the fit", rows=fits, source="result.json")
    if answer.comparison:
        errors = [
            {"model": row.model, "error_mbps": row.rms_mbps, "chosen": row.model == answer.model}
            for row in answer.comparison
        ]
        title = "Models by their error at buffers and runs held out of the fit"
        yield Table(title=title, rows=errors, source="result.json")


def bars(run: RunData, choices: Choices) -> Iterator[Section]:
    """Path managers and congestion controls side by side, for two buffers (MPCOA Figs. 6-8)."""
    swept = run.swept
    rows = _of_best(grouped(swept, ("manager", "cc", "buffer_mib"), throughput, "mbps"), worth_showing(run))
    if len({(row["manager"], row["cc"]) for row in rows}) < 2:
        return
    sizes = _two_sizes(run, sorted({row["buffer_mib"] for row in rows}))
    picked: Rows = [{**row, "label": short(row["mean_mbps"])} for row in rows if row["buffer_mib"] in sizes]
    top = HEADROOM * max(row["max_mbps"] for row in picked)
    colours = manager_key(picked)
    over = " over all initial paths" if run.many_paths else ""
    yield Section(
        name="bars",
        title="Path managers and congestion controls",
        lead=f"Bar: mean of the runs{over}; {SPREAD}",
        panels=[
            Panel(
                title=f"{size:.4g} MiB, {what}",
                chart=bars_chart([row for row in picked if row["buffer_mib"] == size], colours, top=top),
            )
            for size, what in sizes.items()
        ],
        key=colours,
        tables=[Table(title="Means and spread", rows=without(picked, "label"))],
    )


def single_runs(run: RunData, choices: Choices) -> Iterator[Section]:
    """Distribution of the runs of each configuration, with the two buffers of `bars`."""
    best = worth_showing(run)
    swept = [
        each_trial for each_trial in run.swept if best is None or (each_trial.manager, each_trial.cc) in best
    ]
    sizes = _two_sizes(run, sorted({each_trial.buffer_mib for each_trial in swept})) if swept else {}
    groups: dict[tuple[float, str, str], Rows] = {}
    for trial in swept:
        if trial.buffer_mib in sizes:
            row = {"run": trial.run, "throughput_mbps": trial.throughput_mbps}
            groups.setdefault((trial.buffer_mib, trial.manager, trial.cc), []).append(row)
    if max((len(rows) for rows in groups.values()), default=0) < _FEW:
        return
    rows = [
        {"manager": pm, "cc": cc, "buffer_mib": size, **row}
        for (size, pm, cc), mine in groups.items()
        for row in _spread_over(mine)
    ]
    boxes = [
        {"manager": pm, "cc": cc, "buffer_mib": size, **_quartiles([row["throughput_mbps"] for row in mine])}
        for (size, pm, cc), mine in groups.items()
    ]
    # In the order of the bars, so that a name has the same colour in both.
    colours = manager_key(_of_best(boxes, best))
    over = ", over all initial paths" if run.many_paths else ""
    many = max(map(len, groups.values()))
    picked = f" ({_MOST_RUNS} of up to {many}, from the smallest to the largest)" if many > _MOST_RUNS else ""
    yield Section(
        name="single-runs",
        title="Spread of the runs",
        lead=f"Each mark is a run{over}{picked}; box: from quartile to quartile, vertical line: median. The "
        "throughput axes do not start at 0, and each has its own range.",
        panels=[
            Panel(
                title=f"{size:.4g} MiB, {what}",
                chart=runs_chart(_of_size(rows, size), _of_size(boxes, size), colours),
            )
            for size, what in sizes.items()
        ],
        key=colours,
        tables=[Table(title="Quartiles", rows=boxes), Table(title="Every run", rows=rows)],
    )


def _spread_over(runs: Rows) -> Rows:
    """The runs, or so many of them that a figure can show: by rank, evenly, with both ends."""
    if len(runs) <= _MOST_RUNS:
        return runs
    ranked = sorted(runs, key=lambda row: row["throughput_mbps"])
    return [ranked[round(i * (len(ranked) - 1) / (_MOST_RUNS - 1))] for i in range(_MOST_RUNS)]


def _of_size(rows: Rows, size: float) -> Rows:
    return [row for row in rows if row["buffer_mib"] == size]


def _quartiles(values: list[float]) -> dict[str, float | int]:
    """Quartiles of a sample, by linear interpolation between its values."""
    q25, median, q75 = quantiles(values, method="inclusive") if len(values) > 1 else 3 * values
    return {"q25_mbps": q25, "median_mbps": median, "q75_mbps": q75, "runs": len(values)}


def _two_sizes(run: RunData, sizes: list[float]) -> dict[float, str]:
    """The measured buffer nearest to the recommended one, and the largest."""
    chosen = {}
    if run.answer is not None:
        obs = run.answer.obs_mib
        chosen[min(sizes, key=lambda size: abs(size - obs))] = "nearest to the recommended buffer"
    chosen.setdefault(sizes[-1], "the largest buffer")
    return chosen
