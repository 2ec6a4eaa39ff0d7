"""Output of `mptune fit --model`: what was asked for first, then the tables that PROC GLM prints.

It formats a `Stated` and computes nothing.
"""

from collections.abc import Mapping, Sequence

from rich.console import Console

from mptune.cli._tables import section, table
from mptune.papers.glm.linear import FTest, Mean
from mptune.papers.glm.stated import Stated

#: Most coefficients, means, predictions and inverses printed of each; `--json` has them all.
_MOST = 40


def show(out: Console, stated: Stated) -> None:
    """Print the answer, the tables and the notes."""
    out.print(_summary(stated), style="bold", markup=False)
    out.print(_meaning(stated), markup=False)
    _predictions(out, stated)
    _inverses(out, stated)
    _variance(out, stated)
    _terms(out, stated)
    _coefficients(out, stated)
    _means(out, stated)
    notes = list(stated.warnings)
    if stated.columns.failed:
        notes.append(f"{stated.columns.failed} failed observations are left out.")
    if notes:
        out.print("\nTake into account", style="bold")
        for note in notes:
            out.print(f"! {note}", markup=False)


def _summary(stated: Stated) -> str:
    """The model and how well it fits."""
    fit = stated.fit
    share = "-" if fit.r_squared is None else f"{fit.r_squared:.6f}"
    return (
        f"{stated.columns.path}: {stated.formula} explains {len(fit.data.y)} observations with R-square "
        f"{share} ({len(fit.kept)} coefficients)."
    )


def _meaning(stated: Stated) -> str:
    """Units and reference levels."""
    names = (stated.formula.response, *stated.formula.names())
    units = [f"{name} in {stated.unit(name)}" for name in names if stated.unit(name)]
    levels = [f"{factor} {known[-1]}" for factor, known in stated.fit.data.levels.items()]
    parts = [*units, *([f"reference level: {', '.join(levels)}"] if levels else [])]
    limits = f"limits hold with {1 - stated.fit.alpha:.6g}"
    text = "; ".join([*parts, limits])
    return f"{text[0].upper()}{text[1:]}." if not units else f"{text}."


def _predictions(out: Console, stated: Stated) -> None:
    """Predictions with both kinds of limits."""
    if not stated.predictions:
        return
    response = _with_unit(stated, stated.formula.response)
    listing = table("at", f"| {response}", "| mean, low", "| mean, high", "| one, low", "| one, high")
    for prediction in stated.predictions[:_MOST]:
        listing.add_row(
            _at(prediction.numbers, prediction.levels),
            _value(prediction.mean),
            _digits(prediction.mean.low),
            _digits(prediction.mean.high),
            _digits(prediction.low),
            _digits(prediction.high),
        )
    section(
        out, f"Predictions: limits of the mean and of one observation{_left(stated.predictions)}", listing
    )


def _inverses(out: Console, stated: Stated) -> None:
    """Values that give a wanted response."""
    if not stated.inverses:
        return
    first = stated.inverses[0]
    response, variable = stated.formula.response, _with_unit(stated, first.variable)
    listing = table("for", f"| {variable}", "| low", "| high", "")
    for inverse in stated.inverses[:_MOST]:
        at_end = "even the smallest in the data reaches it" if inverse.at_end else ""
        listing.add_row(
            _at({response: inverse.wanted, **inverse.numbers}, inverse.levels),
            f"{'<= ' if inverse.at_end else ''}{_digits(inverse.value)}",
            _digits(inverse.low),
            _digits(inverse.high),
            inverse.reason or at_end,
        )
    title = f"Smallest {first.variable} for a mean {response}: limits by inversion of the confidence band"
    section(out, f"{title}{_left(stated.inverses)}", listing)


def _variance(out: Console, stated: Stated) -> None:
    """Analysis of variance of the whole model."""
    fit = stated.fit
    whole = fit.whole()
    listing = table("source", "| DF", "| sum of squares", "| mean square", "| F", "| p")
    model = max(fit.total - fit.squares, 0.0)
    mean = model / whole.df if whole.df else None
    listing.add_row("model", str(whole.df), _digits(model), _digits(mean), *_f(whole))
    listing.add_row("error", str(fit.df_resid), _digits(fit.squares), _digits(fit.mean_square), "", "")
    total = "total about the mean" if fit.intercept else "total about 0"
    listing.add_row(total, str(whole.df + fit.df_resid), _digits(fit.total), "", "", "")
    mean_y = float(fit.data.y.mean())
    section(
        out,
        f"Variance (root MSE {_digits(fit.root_mse)}, mean {_digits(mean_y)}, coefficient of variation "
        f"{_digits(fit.cv_percent)} %)",
        listing,
    )


def _terms(out: Console, stated: Stated) -> None:
    """Type I and Type III tests."""
    if not stated.terms:
        return
    listing = table(
        *("term", "| DF", "| Type I SS", "| F", "| p"),
        *("| DF", "| Type III SS", "| F", "| p"),
    )
    for row in stated.terms:
        listing.add_row(
            row.name,
            str(row.type_one.df),
            _digits(row.squares_one),
            *_f(row.type_one),
            str(row.type_three.df),
            _digits(row.squares_three),
            *_f(row.type_three),
        )
    section(out, "Terms: added in this order (Type I), and given all others (Type III)", listing)


def _coefficients(out: Console, stated: Stated) -> None:
    """Coefficients, the reference levels with 0."""
    listing = table("parameter", "| estimate", "| error", "| t", "| p", "| low", "| high", "| robust p")
    estimates = stated.fit.estimates()
    for estimate in estimates[:_MOST]:
        listing.add_row(
            estimate.name,
            f"{estimate.value:.10g}",
            _digits(estimate.error),
            "-" if estimate.t is None else f"{estimate.t:.2f}",
            _p(estimate.p),
            _digits(estimate.low),
            _digits(estimate.high),
            _p(estimate.robust_p),
        )
    section(out, f"Coefficients; robust: HC3{_left(estimates)}", listing)


def _means(out: Console, stated: Stated) -> None:
    """Least-squares means."""
    if not stated.means:
        return
    response = _with_unit(stated, stated.formula.response)
    listing = table("level", f"| {response}", "| error", "| low", "| high", "| behind", "| p (Holm)")
    for row in stated.means[:_MOST]:
        listing.add_row(
            _at({}, row.levels),
            _value(row.mean),
            _digits(row.mean.error),
            _digits(row.mean.low),
            _digits(row.mean.high),
            _digits(row.behind) if row.behind else "-",
            _p(row.p),
        )
    title = "Least-squares means: other factors balanced, numbers at their means"
    section(out, f"{title}{_left(stated.means)}", listing)


def _left(rows: Sequence[object]) -> str:
    """Number of rows that are not printed."""
    return f"; {len(rows) - _MOST} more with --json" if len(rows) > _MOST else ""


def _at(numbers: Mapping[str, float], levels: Mapping[str, str]) -> str:
    """Values as a user writes them."""
    values = [*(f"{name}={value:.10g}" for name, value in numbers.items())]
    return ",".join([*values, *(f"{name}={level}" for name, level in levels.items())]) or "mean"


def _with_unit(stated: Stated, name: str) -> str:
    unit = stated.unit(name)
    return f"{name} ({unit})" if unit else name


def _value(mean: Mean) -> str:
    return "Non-est" if mean.value is None else f"{mean.value:.10g}"


def _f(test: FTest) -> tuple[str, str]:
    """F and p of a test; dashes without a degree of freedom."""
    if not test.df or not test.df_resid:
        return "-", "-"
    return _digits(test.f), _p(test.p)


def _p(p: float | None) -> str:
    """P value; below 0.0001 its size means nothing."""
    return "-" if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def _digits(value: float | None) -> str:
    """Number with the digits that published tables have."""
    return "-" if value is None else f"{value:.8g}"
