"""The tables of the drawn set: on the terminal and, in Markdown, in the docs.

Not a benchmark.
"""

import math
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.fidelity._drawn_error import CANDIDATES, Learnt, by_regime, gains
from benchmarks.fidelity._drawn_report import Figures, Judged, Report, mean
from benchmarks.shared.measure import RESULTS
from mptune.decision.model_error import ModelError

#: Columns of the table by regime; each figure with the kernel's own, in parentheses.
COLUMNS = (
    *("", "regime", "n", "median", "90th", "bias", "in 95 %", "with the model's error", "its width"),
    "model error",
)


def show(report: Report, judged: Sequence[Judged], again: str) -> None:
    """Everything, on the terminal.

    Parameters
    ----------
    again : the options that repeat this draw.
    """
    console = Console(width=130)
    for name, value, floor in summary(report):
        console.print(f"{name}: {value} (the kernel against itself: {floor})", highlight=False)
    table = Table(*COLUMNS, title="By regime (the kernel against itself)", title_justify="left")
    before = ""
    for regime in report.regimes:
        if regime.factor != before and before:
            table.add_section()
        first, before = regime.factor if regime.factor != before else "", regime.factor
        table.add_row(first, regime.regime, *_row(regime.figures, regime.floor))
    console.print(table)
    worst = Table("configuration", "", "simulated (Mbit/s)", "kernel (Mbit/s)", "error", title="The worst")
    for bad in report.worst:
        worst.add_row(bad.name, bad.about, _runs(bad.simulated), _each(bad.kernel), f"{bad.error:+.0%}")
    console.print(worst)
    if report.worst:
        print(
            f"To repeat one: python -m benchmarks.fidelity.throughput {again} --only {report.worst[0].name}"
        )
        network = report.worst[0].network
        print(f"Its topology file: {RESULTS / network.rpartition('-')[0] / network}.toml")
    none = [case.name for case in judged if case.error is None]
    if none:
        print(f"Without a number on one side: {', '.join(none)}")


def summary(report: Report) -> Iterator[tuple[str, str, str]]:
    """Name, figure and floor of what is about all configurations."""
    whole, floor = report.whole, report.floor
    yield "configurations with numbers on both sides", str(whole.figures.n), str(floor.figures.n)
    perfect = share(report.perfect_median), share(report.perfect_q90)
    yield (
        "median error",
        share(whole.figures.median),
        f"{share(floor.figures.median)}; no error: {perfect[0]}",
    )
    yield "90th percentile", share(whole.figures.q90), f"{share(floor.figures.q90)}; no error: {perfect[1]}"
    yield "bias", signed(whole.figures), share(floor.figures.bias)
    yield "rank correlation", _number(whole.rank_correlation), _number(floor.rank_correlation)
    for name in ("median", "q90", "max"):
        field = f"regret_{name}"
        label = {"median": "regret, median", "q90": "regret, 90th percentile", "max": "regret, largest"}[name]
        yield label, share(getattr(whole, field)), share(getattr(floor, field))
    yield "kernel means inside the 95 % intervals", share(whole.figures.inside), share(floor.figures.inside)
    held = f"{share(whole.figures.as_expected)} of {whole.figures.expected}"
    yield "the same with the model's error, as shipped", held, "-"
    yield "median width of these, high / low - 1", share(whole.figures.width), "-"
    yield (
        "model error with which 95 % are inside",
        share(whole.figures.model_error),
        share(floor.figures.model_error),
    )
    stalls = [f"{stall:.1%}" for stall in whole.stalls]
    yield "runs that stall, simulated and kernel", " and ".join(stalls), share(floor.stalls[1])
    yield "stalls on both sides or on none", share(whole.stalls_agree), share(floor.stalls_agree)


def show_error(model: ModelError, learnt: Learnt) -> None:
    """The learnt error model, and its accuracy on networks left out, by regime."""
    console = Console(width=130)
    scale = model.scale
    console.print(
        f"The simulator's error, from {model.configurations} configurations of {model.networks} networks: "
        f"spread {scale.spread:.3g}, centre {scale.centre:g}, a half within {scale.half:g}, "
        f"90 % within {scale.nine_tenths:g}, 95 % within {scale.ends:g} spreads.",
        highlight=False,
    )
    for strengths, score in zip(CANDIDATES, learnt.scores, strict=True):
        factors = ", ".join(f"{name} ({strength:g})" for name, strength in strengths.items())
        taken = " (taken)" if strengths == learnt.strengths else ""
        console.print(
            f"  interval score {score:.3f}: {factors or 'one spread for all'}{taken}", highlight=False
        )
    for name, regimes in scale.effects.items():
        words = [f"{regime} {math.exp(value):.2f}" for regime, value in regimes.items()]
        console.print(f"  {name}: spread times {', '.join(words)}", highlight=False)
    table = Table(
        *("", "regime", "n", "inside", "median width"), title="Each network left out", title_justify="left"
    )
    for name, regime, number, inside, width in by_regime(learnt.checked):
        table.add_row(name, regime, str(number), share(inside), share(width))
    console.print(table)
    inside, number = gains(learnt.checked)
    console.print(
        f"Gains of one configuration over another of its network: {inside:.1%} of {number} inside.",
        highlight=False,
    )


def markdown(report: Report) -> str:
    """The tables of the docs."""
    lines = ["| over all | simulator | the kernel against itself |", "|---|---|---|"]
    lines += [f"| {name} | {value} | {floor} |" for name, value, floor in summary(report)]
    lines += ["", f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for regime in report.regimes:
        lines.append(f"| {' | '.join((regime.factor, regime.regime, *_row(regime.figures, regime.floor)))} |")
    lines += ["", "| the worst | | simulated (Mbit/s) | kernel (Mbit/s) | error |", "|---|---|---|---|---|"]
    for worst in report.worst:
        cells = worst.name, worst.about, _runs(worst.simulated), _each(worst.kernel), f"{worst.error:+.0%}"
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _row(figures: Figures, floor: Figures) -> tuple[str, ...]:
    both = [
        f"{share(mean)} ({share(other)})"
        for mean, other in (
            (figures.median, floor.median),
            (figures.q90, floor.q90),
            (figures.inside, floor.inside),
            (figures.model_error, floor.model_error),
        )
    ]
    known = share(figures.as_expected), share(figures.width)
    return (
        str(figures.n),
        both[0],
        both[1],
        f"{signed(figures)} ({share(floor.bias)})",
        both[2],
        *known,
        both[3],
    )


def share(value: float | None) -> str:
    """Per cent."""
    return "-" if value is None else f"{value:.1%}"


def signed(figures: Figures) -> str:
    """The bias with half of its interval."""
    if figures.bias is None:
        return "-"
    return f"{figures.bias:+.1%}" + ("" if figures.bias_half is None else f" ± {figures.bias_half:.1%}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _runs(runs: Sequence[float | None]) -> str:
    """Mean, smallest and largest; how many stalled."""
    completed = [run for run in runs if run is not None]
    if not completed:
        return "stalled"
    stalled = len(runs) - len(completed)
    middle = mean(tuple(runs)) or 0.0
    return f"{middle:.3g} ({min(completed):.3g}-{max(completed):.3g})" + (
        f", {stalled} stalled" if stalled else ""
    )


def _each(runs: Sequence[float | None]) -> str:
    return ", ".join("stalled" if run is None else f"{run:.3g}" for run in runs)
