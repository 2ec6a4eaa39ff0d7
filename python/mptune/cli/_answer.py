"""How `mptune optimise` tells its result: the answer in a sentence, then what it rests on.

It formats a `Result` and computes nothing.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mptune._text import digits
from mptune.campaign.grid import MIB
from mptune.confirm import Confirmation
from mptune.impact import Impact
from mptune.optimise import Result
from mptune.response import Response
from mptune.statistics import Summary


def show(out: Console, result: Result, directory: Path) -> None:
    """Print the answer, the evidence, what to be wary of, and where the files are."""
    out.print(_sentence(result), style="bold", markup=False)
    out.print(_expectation(result), markup=False)
    _confirmation(out, result.confirmation)
    _traditional(out, result)
    if result.impacts:
        _impacts(out, result.impacts)
    _models(out, result)
    if result.warnings:
        out.print("\nTake into account", style="bold")
        for warning in result.warnings:
            out.print(f"! {warning}", markup=False)
    out.print(f"\nObservations, result and figures: {directory}", markup=False)


def _sentence(result: Result) -> str:
    """What to set."""
    recommended = result.confirmation.recommended
    size = recommended.buffer_bytes
    standby = f" (standby: {', '.join(recommended.standby_order)})" if recommended.standby_order else ""
    return (
        f"{result.topology.name}: use path manager {recommended.pm} with {recommended.cc}, send on "
        f"{', '.join(result.subflows)}{standby}, and set the buffer to {size / MIB:.2f} MiB "
        f"({size // 1024} KiB)."
    )


def _expectation(result: Result) -> str:
    """What to expect from it, from fresh trials if there are any."""
    confirmed, predicted = result.confirmation.confirmed, result.optimum.throughput_mbps
    if confirmed is None:
        return f"The model predicts {digits(predicted)} Mbit/s; no confirmation trial succeeded."
    interval = "" if result.predicted is None else f" ({_ends(*result.predicted)})"
    return (
        f"Expect {digits(confirmed.mean)} Mbit/s{_range(confirmed)}, the mean of {confirmed.n} fresh runs; "
        f"the model predicts {digits(predicted)}{interval}.{_comparison(result.confirmation)}"
    )


def _comparison(confirmation: Confirmation) -> str:
    """Gain over the default, as a sentence."""
    gain, baseline, default = confirmation.gain, confirmation.baseline, confirmation.default
    if gain is None or baseline is None:
        return ""
    percent = f", {100 * gain.mean / baseline.mean:+.1f} %" if baseline.mean else ""
    smaller = confirmation.recommended.buffer_bytes / default.buffer_bytes
    return (
        f"\nAgainst {default.pm} with {default.cc} and {default.buffer_bytes / MIB:g} MiB: "
        f"{digits(gain.mean, 3, '+')} Mbit/s{_range(gain, 3, '+')}{percent}, "
        f"with {digits(100 * smaller, 3)} % of the buffer."
    )


def _confirmation(out: Console, confirmation: Confirmation) -> None:
    """Both configurations side by side."""
    table = _table("", "path manager", "CC", "| buffer (MiB)", "| mean (Mbit/s)", "95 % interval", "| runs")
    for name, configuration, summary in (
        ("recommended", confirmation.recommended, confirmation.confirmed),
        ("default", confirmation.default, confirmation.baseline),
    ):
        table.add_row(
            name,
            configuration.pm,
            configuration.cc,
            f"{configuration.buffer_bytes / MIB:.2f}",
            "-" if summary is None else digits(summary.mean),
            "-" if summary is None else _range(summary).strip(" ()") or "-",
            "0" if summary is None else str(summary.n),
        )
    _section(out, "Measured afresh", table)


def _traditional(out: Console, result: Result) -> None:
    """Theoretical buffers, and the recommended one as a share of each."""
    names = {
        "eq1": "max RTT * sum of rates (Eq. 1)",
        "eq2": "with a fast retransmission (Eq. 2)",
        "eq3": "with a timer retransmission (Eq. 3)",
        "table5": "3 (max RTT + max RTO) * sum of access rates (MPCOA Table 5)",
    }
    size = result.confirmation.recommended.buffer_bytes
    table = _table("traditional buffer", "| MiB", "| recommended is")
    for name, traditional in result.traditional.items():
        table.add_row(names[name], digits(traditional / MIB), f"{digits(100 * size / traditional, 3)} %")
    _section(out, "Theory", table)


def _impacts(out: Console, impacts: Sequence[Impact]) -> None:
    """Mean impact factors, a star at those in the optional set."""
    table = _table("path", *(f"| {impact.cc}" for impact in impacts))
    for index, first in enumerate(impacts[0].paths):
        cells = []
        for impact in impacts:
            omega = impact.paths[index].omega
            star = "*" if first.path in impact.sets.optional else " "
            cells.append(f"{'-' if omega is None else f'{omega.mean:.3f}'}{star}")
        table.add_row(first.path, *cells)
    _section(out, "Impact factors (mean; * carries data under pcdc)", table)


def _models(out: Console, result: Result) -> None:
    """Curves with their maxima, then how well they fit."""
    table = _table("path manager", "CC", "model (bs in MiB)", "| max (Mbit/s)", "| at (MiB)")
    low, high = result.options.buffers[0] / MIB, result.options.buffers[-1] / MIB
    for combination, curve in result.response.curves.items():
        buffer, maximum = curve.maximum(low, high)
        table.add_row(*combination, curve.formula(), digits(maximum), f"{buffer:.2f}")
    _section(out, f"Response model ({result.options.model}); {_r_squares(result.response)}", table)


def _r_squares(response: Response) -> str:
    """R-square of each fit."""
    each = [
        f"{one.pm} {'-' if one.r_squared is None else f'{one.r_squared:.3f}'}" for one in response.qualities
    ]
    return f"R-square: {', '.join(each)}"


def _table(*columns: str) -> Table:
    """Plain table; a column whose name begins with "|" holds numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        numbers = column.startswith("| ")
        table.add_column(column.removeprefix("| "), no_wrap=True, justify="right" if numbers else "left")
    return table


def _section(out: Console, title: str, table: Table) -> None:
    """Table under its title."""
    out.print(f"\n{title}", style="bold", markup=False)
    out.print(table)


def _range(summary: Summary, count: int = 4, sign: str = "") -> str:
    """95 % interval in brackets; nothing for a single run."""
    if summary.low is None or summary.high is None:
        return ""
    return f" ({_ends(summary.low, summary.high, count, sign)})"


def _ends(low: float, high: float, count: int = 4, sign: str = "") -> str:
    """Ends of an interval."""
    return f"{digits(low, count, sign)} to {digits(high, count, sign)}"
