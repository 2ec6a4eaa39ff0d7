"""How `mptune optimise` tells its result: the answer in a sentence, then what it rests on.

It formats a `Result` and computes nothing. Tables of the decision itself are in `_decision_answer`.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from mptune._text import digits
from mptune.campaign.grid import MIB
from mptune.cli import _decision_answer
from mptune.cli._decision_answer import ends
from mptune.cli._tables import section, table
from mptune.confirm import Confirmation
from mptune.impact import Impact
from mptune.optimise import Result
from mptune.statistics import Summary


def show(out: Console, result: Result, directory: Path) -> None:
    """Print the answer, the evidence, what to be wary of, and where the files are."""
    out.print(_sentence(result), style="bold", markup=False)
    out.print(_expectation(result), markup=False)
    for sentence in _decision_answer.sureness(result.decision.uncertainty):
        out.print(sentence, markup=False)
    if result.confirmation is not None:
        _confirmation(out, result.confirmation)
    if result.traditional:
        _traditional(out, result)
    if result.impacts:
        _impacts(out, result.impacts)
    _decision_answer.show(out, result.decision)
    if result.warnings:
        out.print("\nTake into account", style="bold")
        for warning in result.warnings:
            out.print(f"! {warning}", markup=False)
    held = "Observations, result and figures" if result.records else "Result and figures"
    out.print(f"\n{held}: {directory}", markup=False)


def _sentence(result: Result) -> str:
    """What to set."""
    optimum, size = result.optimum, result.buffer_bytes
    order = () if result.confirmation is None else result.confirmation.recommended.standby_order
    standby = f" (standby: {', '.join(order)})" if order else ""
    send = f", send on {', '.join(result.subflows)}{standby}," if result.subflows else ""
    return (
        f"{result.name}: use path manager {optimum.pm} with {optimum.cc}{send} and set the buffer to "
        f"{size / MIB:.2f} MiB ({size // 1024} KiB)."
    )


def _expectation(result: Result) -> str:
    """What to expect from it, from fresh trials if there are any."""
    predicted = result.optimum.throughput_mbps
    interval = "" if result.predicted is None else f" ({ends(*result.predicted)})"
    confirmation, model = result.confirmation, result.response.model
    if confirmation is None:
        return f"The {model} model predicts {digits(predicted)} Mbit/s{interval}; nothing confirms it."
    confirmed = confirmation.confirmed
    if confirmed is None:
        return f"The {model} model predicts {digits(predicted)} Mbit/s; no confirmation trial succeeded."
    return (
        f"Expect {digits(confirmed.mean)} Mbit/s{_range(confirmed)}, the mean of {confirmed.n} fresh runs; "
        f"the {model} model predicts {digits(predicted)}{interval}.{_comparison(confirmation)}"
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
    shown = table("", "path manager", "CC", "| buffer (MiB)", "| mean (Mbit/s)", "95 % interval", "| runs")
    for name, configuration, summary in (
        ("recommended", confirmation.recommended, confirmation.confirmed),
        ("default", confirmation.default, confirmation.baseline),
    ):
        shown.add_row(
            name,
            configuration.pm,
            configuration.cc,
            f"{configuration.buffer_bytes / MIB:.2f}",
            "-" if summary is None else digits(summary.mean),
            "-" if summary is None else _range(summary).strip(" ()") or "-",
            "0" if summary is None else str(summary.n),
        )
    section(out, "Measured afresh", shown)


def _traditional(out: Console, result: Result) -> None:
    """Theoretical buffers, and the recommended one as a share of each."""
    names = {
        "eq1": "max RTT * sum of rates (Eq. 1)",
        "eq2": "with a fast retransmission (Eq. 2)",
        "eq3": "with a timer retransmission (Eq. 3)",
        "table5": "3 (max RTT + max RTO) * sum of access rates (MPCOA Table 5)",
    }
    size = result.buffer_bytes
    shown = table("traditional buffer", "| MiB", "| recommended is")
    for name, traditional in result.traditional.items():
        shown.add_row(names[name], digits(traditional / MIB), f"{digits(100 * size / traditional, 3)} %")
    section(out, "Theory", shown)


def _impacts(out: Console, impacts: Sequence[Impact]) -> None:
    """Mean impact factors, a star at those in the optional set."""
    shown = table("path", *(f"| {impact.cc}" for impact in impacts))
    for index, first in enumerate(impacts[0].paths):
        cells = []
        for impact in impacts:
            omega = impact.paths[index].omega
            star = "*" if first.path in impact.sets.optional else " "
            cells.append(f"{'-' if omega is None else f'{omega.mean:.3f}'}{star}")
        shown.add_row(first.path, *cells)
    section(out, "Impact factors (mean; * carries data under pcdc)", shown)


def _range(summary: Summary, count: int = 4, sign: str = "") -> str:
    """95 % interval in brackets; nothing for a single run."""
    if summary.low is None or summary.high is None:
        return ""
    return f" ({ends(summary.low, summary.high, count, sign)})"
