"""How a decision is shown: the models compared, the chosen one, the trade-off.

It formats a `Decision` and computes nothing.
"""

from rich.console import Console

from mptune._text import digits
from mptune.campaign.wording import ends
from mptune.cli._tables import section, table
from mptune.decision import Decision
from mptune.response import Response

#: Sacrifices of the front that are printed, if they are on it; pareto.csv has all of them.
_PRINTED = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


def show(out: Console, decision: Decision) -> None:
    """Print comparison, models and trade-off."""
    if decision.response.comparison:
        _comparison(out, decision.response)
    _models(out, decision)
    _front(out, decision)


def _comparison(out: Console, response: Response) -> None:
    """Cross-validated error of every model, the chosen one marked."""
    pms = [quality.pm for quality in response.qualities]
    shown = table("", "model", "| error (Mbit/s)", *(f"| {pm}" for pm in pms))
    for one in response.comparison:
        shown.add_row(
            "*" if one.model == response.model else "",
            one.model,
            "-" if one.rms_mbps is None else digits(one.rms_mbps),
            *("-" if pm not in one.by_pm else digits(one.by_pm[pm]) for pm in pms),
        )
    section(out, "Models by their error at buffers and runs held out of the fit (* chosen)", shown)


def _models(out: Console, decision: Decision) -> None:
    """Curves with their maxima and how well they fit."""
    shown = table("path manager", "CC", "model (bs in MiB)", "| max (Mbit/s)", "| at (MiB)")
    for combination, curve in decision.response.curves.items():
        buffer, maximum = curve.maximum(decision.buffers[0], decision.buffers[-1])
        name = combination.manager, combination.cc
        shown.add_row(*name, curve.formula(), digits(maximum), f"{buffer:.2f}")
    response = decision.response
    section(out, f"Response model ({response.model}); {_r_squares(response)}", shown)


def _front(out: Console, decision: Decision) -> None:
    """Some points of the trade-off, and always the chosen sacrifice."""
    shown = table(
        "| sacrifice", "path manager", "CC", "| buffer (MiB)", "95 %", "| throughput (Mbit/s)", "95 %"
    )
    for point in decision.front:
        if point.sacrifice in (*_PRINTED, decision.options.sacrifice):
            one = point.optimum
            buffer, throughput = point.buffer_interval, point.throughput_interval
            shown.add_row(
                f"{100 * point.sacrifice:g} %",
                one.combination.manager,
                one.cc,
                f"{one.buffer_mib:.2f}",
                "-" if buffer is None else ends(*buffer, 3),
                digits(one.throughput_mbps),
                "-" if throughput is None else ends(*throughput),
            )
    section(out, "Trade-off: the smallest buffer for each sacrifice of throughput", shown)


def _r_squares(response: Response) -> str:
    """R-square of each fit."""
    each = [
        f"{one.pm} {'-' if one.r_squared is None else f'{one.r_squared:.3f}'}" for one in response.qualities
    ]
    return f"R-square: {', '.join(each)}"
