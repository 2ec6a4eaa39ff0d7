"""Output of `mptune fit`: the formula and the factors that matter first, then the evidence.

It formats an `Analysis` and computes nothing.
"""

from contextlib import suppress

from rich.console import Console

from mptune._text import digits
from mptune.cli._tables import section, table
from mptune.errors import InputError
from mptune.papers.glm.analysis import Analysis
from mptune.papers.glm.formula import parse
from mptune.papers.glm.linear import FTest
from mptune.trial import Combination

#: Families as sentences name them.
_NAMES = {"cc": "congestion control", "pm": "path manager", "initial_path": "initial path"}

#: Largest number of equations printed; `--json` has them all.
_MOST = 24


def show(out: Console, analysis: Analysis) -> None:
    """Print the answer, the evidence and the warnings."""
    data = analysis.measurements
    out.print(_summary(analysis), style="bold", markup=False)
    for sentence in (*_factors(analysis), *_best_cc(analysis), *_validation(analysis)):
        out.print(sentence, markup=False)
    _forms(out, analysis)
    _steps(out, analysis)
    _estimates(out, analysis)
    _matters(out, analysis)
    _equations(out, analysis)
    _ranking(out, analysis)
    notes = list(analysis.warnings)
    if data.failed:
        notes.append(f"{data.failed} failed observations are left out.")
    unused = [name for name in data.unused if name not in data.varying]
    if unused:
        notes.append(f"Columns not used: {', '.join(unused)} (--factor tests one).")
    notes += [f"Every row has {factor} {level}." for factor, level in analysis.constant.items()]
    formula = str(analysis.best.formula)
    with suppress(InputError):  # a header that no model string can name
        parse(formula)
        out.print(
            f'\nType I and III tests, least-squares means and limits: --model "{formula}"', markup=False
        )
    if notes:
        out.print("\nTake into account", style="bold")
        for note in notes:
            out.print(f"! {note}", markup=False)


def _summary(analysis: Analysis) -> str:
    """The chosen form and how well it fits."""
    best, quality = analysis.best, analysis.best.quality()
    share = "-" if quality.r_squared is None else f"{quality.r_squared:.4f}"
    return (
        f"{analysis.measurements.path}: the {best.form} form explains {quality.n} observations best "
        f"(R-square {share}, {quality.parameters} coefficients)."
    )


def _factors(analysis: Analysis) -> list[str]:
    """The factors that matter, and those that do not."""
    sentences = []
    for verdict in analysis.verdicts:
        name = _NAMES.get(verdict.family, verdict.family)
        does = "matters" if verdict.in_model else "does not matter"
        gain = f"; it adds {_fixed(max(verdict.gain, 0.0))} to R-square" if verdict.in_model else ""
        sentences.append(f"The {name} {does}: {_test(verdict.test)}{gain}.")
    return sentences


def _best_cc(analysis: Analysis) -> list[str]:
    """The best congestion control, and those that are not distinguishable from it."""
    if not analysis.ranking:
        return []
    best, *others = analysis.ranking
    close = [rank.cc for rank in others if rank.p is not None and rank.p > analysis.options.alpha]
    tail = (
        f"; not distinguishable from it: {', '.join(close)}"
        if close
        else ", significantly better than the others"
    )
    return [f"Best congestion control: {best.cc}{tail}."]


def _validation(analysis: Analysis) -> list[str]:
    """Error on the second file."""
    validation = analysis.validation
    if validation is None:
        return []
    error = validation.errors[analysis.best.form]
    outside = f" ({validation.outside} rows outside the domain left out)" if validation.outside else ""
    return [
        f"On {validation.path} its mean relative error is {100 * error:.1f} % over "
        f"{validation.n} observations{outside}."
    ]


def _forms(out: Console, analysis: Analysis) -> None:
    """Table of the forms."""
    listing = table(
        "form",
        "terms",
        "| R-square",
        "| adjusted",
        "| CV (%)",
        "| root MSE (Mbit/s)",
        "| F",
        "| p",
        "| validation error",
    )
    for fit in analysis.fits:
        quality = fit.quality()
        error = None if analysis.validation is None else analysis.validation.errors[fit.form]
        listing.add_row(
            fit.form,
            ", ".join(term.label(fit.design.form.regressor) for term in fit.terms) or "-",
            _fixed(quality.r_squared),
            _fixed(quality.adjusted),
            _digits(quality.cv_percent),
            _digits(quality.root_mse_mbps),
            _digits(quality.f),
            _p(quality.p),
            "-" if error is None else f"{100 * error:.1f} %",
        )
    section(out, "Forms (throughput in Mbit/s over the buffer B in MiB)", listing)


def _steps(out: Console, analysis: Analysis) -> None:
    """Terms in the order in which they entered."""
    regressor = analysis.best.design.form.regressor
    listing = table("| step", "term", "| F", "| df", "| p")
    for number, step in enumerate(analysis.best.steps, start=1):
        names = ", ".join(term.label(regressor) for term in step.terms)
        listing.add_row(
            str(number),
            f"{names} removed" if step.removed else names,
            _digits(step.test.f),
            str(step.test.df),
            _p(step.test.p),
        )
    section(out, f"Forward inclusion, {analysis.best.form} form, alpha {analysis.options.alpha:g}", listing)


def _estimates(out: Console, analysis: Analysis) -> None:
    """Coefficients with both kinds of errors."""
    listing = table("term", "| estimate", "| error", "| t", "| p", "| robust error", "| robust p")
    for estimate in analysis.best.estimates():
        listing.add_row(
            estimate.name,
            f"{estimate.value:.5g}",
            "-" if estimate.error is None else f"{estimate.error:.3g}",
            "-" if estimate.t is None else f"{estimate.t:.2f}",
            _p(estimate.p),
            "-" if estimate.robust_error is None else f"{estimate.robust_error:.3g}",
            _p(estimate.robust_p),
        )
    references = [f"{factor} {levels[-1]}" for factor, levels in analysis.best.coding.levels.items()]
    against = f" (against {', '.join(references)})" if references else ""
    section(out, f"Coefficients{against}; robust: HC3", listing)


def _matters(out: Console, analysis: Analysis) -> None:
    """Each family as a whole."""
    listing = table("", "in the model", "| F", "| df", "| p", "| robust p", "| R-square gained")
    for verdict in analysis.verdicts:
        listing.add_row(
            verdict.family,
            "yes" if verdict.in_model else "no",
            _digits(verdict.test.f),
            f"{verdict.test.df}, {verdict.test.df_resid}",
            _p(verdict.test.p),
            _p(verdict.robust_p),
            _fixed(max(verdict.gain, 0.0)),
        )
    section(out, "What matters (all terms of each together)", listing)


def _equations(out: Console, analysis: Analysis) -> None:
    """Equations with domain, vertex and the buffer for the target."""
    target = analysis.options.target_mbps
    targeted = [] if target is None else [f"| buffer for {target:g} Mbit/s"]
    listing = table(
        "path manager", "CC", "equation", "domain (MiB)", "| vertex (MiB)", "| there (Mbit/s)", *targeted
    )
    for key, equation in list(analysis.equations.items())[:_MOST]:
        low, high = equation.domain or (0.0, 0.0)
        vertex = equation.vertex()
        listing.add_row(
            key.pm or "any",
            key.cc or "any",
            equation.formula(),
            f"{low:.4g} to {high:.4g}",
            "-" if vertex is None else f"{vertex.buffer:.4g}",
            "-" if vertex is None else _digits(vertex.throughput),
            *([] if target is None else [_buffer(analysis, key)]),
        )
    used = {term.factor for term in analysis.best.terms} - {"pm", "cc"}
    averaged = [factor for factor in analysis.best.coding.levels if factor in used]
    more = f"; at the mean of {', '.join(averaged)}" if averaged else ""
    left = len(analysis.equations) - _MOST
    section(out, f"Equations{more}{f'; {left} more with --json' if left > 0 else ''}", listing)


def _ranking(out: Console, analysis: Analysis) -> None:
    """Congestion controls from best to worst."""
    if not analysis.ranking:
        return
    listing = table("| rank", "CC", "| Mbit/s", "| behind", "| p (Holm)")
    for number, rank in enumerate(analysis.ranking, start=1):
        behind = "-" if not rank.behind_mbps else _digits(rank.behind_mbps)
        listing.add_row(str(number), rank.cc, _digits(rank.throughput_mbps), behind, _p(rank.p))
    section(out, "Congestion controls at the average buffer, against the best", listing)


def _buffer(analysis: Analysis, key: Combination) -> str:
    """Buffer for the target, or why there is none."""
    buffer, domain = analysis.targets[key], analysis.equations[key].domain
    if isinstance(buffer, str):
        return "above the maximum"
    return f"{buffer:.4g} MiB" if domain is None or buffer > domain[0] else f"<= {buffer:.4g} MiB"


def _test(test: FTest) -> str:
    """An F test in a sentence."""
    p = "p < 0.0001" if test.p < 1e-4 else f"p = {test.p:.2g}"
    return f"F({test.df}, {test.df_resid}) = {_digits(test.f)}, {p}"


def _p(p: float | None) -> str:
    """P value; below 0.0001 its size means nothing."""
    return "-" if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def _fixed(value: float | None) -> str:
    """Share with four decimals."""
    return "-" if value is None else f"{value:.4f}"


def _digits(value: float | None) -> str:
    """Number with four significant digits."""
    return "-" if value is None else digits(value) if abs(value) != float("inf") else "inf"
