"""Tables of a decision: the models compared, the chosen one, the trade-off.

It formats a `Decision` and computes nothing.
"""

from rich.console import Console

from mptune._text import digits
from mptune.cli._tables import section, table
from mptune.decision import Decision
from mptune.response import BELIEF, Response
from mptune.result.wording import ends

#: Sacrifices of the front that are printed, if they are on it; pareto.csv has all of them.
_PRINTED = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)

#: Curves of a belief that are printed; curves.csv has all of them.
_CURVES = 10


def show(out: Console, decision: Decision) -> None:
    """Print comparison, models and trade-off."""
    if decision.response.comparison:
        _comparison(out, decision.response)
    _models(out, decision)
    _front(out, decision)


def _comparison(out: Console, response: Response) -> None:
    """Cross-validated error of every model, the chosen one marked."""
    pms = [quality.pm for quality in response.qualities]
    listing = table("", "model", "| error (Mbit/s)", *(f"| {pm}" for pm in pms))
    for error in response.comparison:
        listing.add_row(
            "*" if error.model == response.model else "",
            error.model,
            "-" if error.rms_mbps is None else digits(error.rms_mbps),
            *("-" if pm not in error.by_pm else digits(error.by_pm[pm]) for pm in pms),
        )
    section(out, "Models by their error at buffers and runs held out of the fit (* chosen)", listing)


def _models(out: Console, decision: Decision) -> None:
    """Curves with their maxima and how well they fit; of a belief, which has many, the best."""
    response, columns = decision.response, ("path manager", "CC", "model (bs in MiB)")
    listing = table(*columns, "| max (Mbit/s)", "| at (MiB)")
    rows = [
        (curve.maximum(decision.buffers[0], decision.buffers[-1]), each_curve, curve)
        for each_curve, curve in response.curves.items()
    ]
    if response.model == BELIEF:
        rows = sorted(rows, key=lambda row: -row[0][1])[:_CURVES]
    for (buffer, maximum), combination, curve in rows:
        name = combination.manager, combination.cc
        listing.add_row(*name, curve.formula(), digits(maximum), f"{buffer:.2f}")
    quality = "the best first" if response.model == BELIEF else _r_squares(response)
    section(out, f"Response model ({response.model}); {quality}", listing)
    if left := len(response.curves) - len(rows):
        out.print(f"and {left} {'other' if left == 1 else 'others'} (curves.csv)", markup=False)


def _front(out: Console, decision: Decision) -> None:
    """Some points of the trade-off, and always the chosen sacrifice."""
    # Without resamples there are no intervals.
    intervals = any(point.buffer_interval or point.throughput_interval for point in decision.front)
    share = ("95 %",) if intervals else ()
    listing = table(
        "| sacrifice", "path manager", "CC", "| buffer (MiB)", *share, "| throughput (Mbit/s)", *share
    )
    for point in decision.front:
        if point.sacrifice in (*_PRINTED, decision.options.sacrifice):
            optimum = point.optimum
            buffer, throughput = point.buffer_interval, point.throughput_interval
            listing.add_row(
                f"{100 * point.sacrifice:g} %",
                optimum.combination.manager,
                optimum.cc,
                f"{optimum.buffer_mib:.2f}",
                *(["-" if buffer is None else ends(*buffer, 3)] if intervals else ()),
                digits(optimum.throughput_mbps),
                *(["-" if throughput is None else ends(*throughput)] if intervals else ()),
            )
    section(out, "Trade-off: the smallest buffer for each sacrifice of throughput", listing)


def _r_squares(response: Response) -> str:
    """R-square of each fit."""
    each = [
        f"{quality.pm} {'-' if quality.r_squared is None else f'{quality.r_squared:.3f}'}"
        for quality in response.qualities
    ]
    return f"R-square: {', '.join(each)}"
