"""The GLM procedure from a file of measurements to a formula (GLM study, section V).

    measurements -> forward inclusion in each form -> the best form -> what matters, equations,
    inverse, ranking -> validation on a second file

"The model with highest R-square value and lowest prediction error is the model that fits the data best"
(section V-B, step 4). If the two disagree, the prediction of new measurements decides and a warning names
both; without a second file, R-square alone decides. Terms enter by their significance, so that a form is
not preferred for having more of them. It prints nothing: see `mptune.cli.fit` and
`mptune.cli._fit_document`.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from mptune._text import quoted
from mptune.errors import InputError
from mptune.options import Option, Options, names, probability, rate_mbps, texts
from mptune.papers.glm.design import BUFFER, FORMS, Coding, check_design
from mptune.papers.glm.fit import FormFit, mean_relative_error
from mptune.papers.glm.linear import FTest
from mptune.papers.glm.ranking import Rank, rank_congestion_controls
from mptune.response import MAX_P, MIN_R_SQUARED
from mptune.response.equation import Equation
from mptune.table import Measurements, pooled
from mptune.trial import Combination

#: Differences of R-square below this are rounding: the same terms in two forms.
_SAME = 1e-9

#: Observations of each variable that the study requires (section V-B, step 1).
POINTS = 40


class AnalysisOptions(Options, frozen=True, kw_only=True):
    """Options of the analysis.

    Attributes
    ----------
    forms : names in `FORMS`.
    alpha : a term enters, and a factor matters, if its p is at most this.
    ignore : factor columns to leave out.
    target_mbps : throughput to find the buffer for, or None.
    """

    forms: Annotated[
        tuple[str, ...], Option(names(lambda: FORMS), "Forms of the formula to try.", flag="--forms")
    ] = tuple(FORMS)
    alpha: Annotated[
        float, Option(probability(), "Largest p that counts as significant.", flag="--alpha")
    ] = MAX_P
    ignore: Annotated[
        tuple[str, ...],
        Option(texts("NAME,..."), "Factors to leave out; repeat, or use commas.", flag="--ignore"),
    ] = ()
    target_mbps: Annotated[
        float | None, Option(rate_mbps(), "Throughput to find the buffer for.", flag="--target")
    ] = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Significance of the buffer or a factor.

    Attributes
    ----------
    test : all its terms together, added to the other terms of the chosen model.
    robust_p : of the same hypothesis with HC3 errors; None if there are none.
    gain : increase of R-square by these terms: a significant effect may still be small.
    """

    family: str
    in_model: bool
    test: FTest
    robust_p: float | None
    gain: float


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction of measurements that were not used for the fit.

    Attributes
    ----------
    errors : form -> mean relative error.
    n : rows compared.
    outside : rows left out because their buffer is outside the domain.
    """

    path: str
    errors: dict[str, float]
    n: int
    outside: int


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the procedure.

    Attributes
    ----------
    fits : every form tried, in the order of the option.
    best : the chosen one.
    constant : factors with a single level, which cannot matter.
    targets : buffer for the target throughput, MiB, or why there is none; empty without a target.
    """

    measurements: Measurements
    options: AnalysisOptions
    fits: tuple[FormFit, ...]
    best: FormFit
    constant: dict[str, str]
    verdicts: tuple[Verdict, ...]
    equations: dict[Combination, Equation]
    targets: dict[Combination, float | str]
    ranking: tuple[Rank, ...]
    validation: Validation | None
    warnings: tuple[str, ...]


def analyse(
    measurements: Measurements, options: AnalysisOptions, validate: Measurements | None = None
) -> Analysis:
    """Run the procedure.

    Raises
    ------
    InputError : an invalid option, factors that cannot be distinguished, a target throughput that no
        equation reaches, or a validation file with levels that the first file does not have.
    """
    _check_options(options, measurements)
    coding = Coding(measurements, options.ignore)
    check_design(measurements, coding)
    sizes = len({row.buffer_mib for row in measurements.rows})
    possible = [form for form in options.forms if FORMS[form].powers < sizes]
    if not possible:
        raise InputError(
            measurements.path, "buffer", f"expected at least three sizes for {options.forms[0]}, found two"
        )
    fits = tuple(FormFit(measurements, coding, form, options.alpha) for form in possible)
    validation = None if validate is None else _validate(fits, measurements, validate)
    best = _best(fits, validation)
    equations = best.equations()
    verdicts = tuple(_verdict(best, family) for family in (BUFFER, *coding.levels))
    warnings = [
        f"The {form} form needs three buffer sizes and was left out."
        for form in options.forms
        if form not in possible
    ]
    return Analysis(
        measurements=measurements,
        options=options,
        fits=fits,
        best=best,
        constant={
            factor: measurements.levels(factor)[0]
            for factor in measurements.factors
            if factor not in coding.levels and factor not in options.ignore
        },
        verdicts=verdicts,
        equations=equations,
        targets={} if options.target_mbps is None else _targets(equations, options.target_mbps),
        ranking=tuple(rank_congestion_controls(best)),
        validation=validation,
        warnings=(
            *warnings,
            *pooled(measurements),
            *_few(measurements, coding),
            *_rivals(fits, best, validation),
            *_warnings(best, options.alpha),
            *_disagreements(verdicts, options.alpha),
        ),
    )


def _check_options(options: AnalysisOptions, measurements: Measurements) -> None:
    """Refuse invalid options, and factors that the file does not have."""
    options.check()
    for factor in options.ignore:
        if factor not in measurements.factors:
            known = ", ".join(measurements.factors)
            raise InputError(
                "--ignore", "", f"expected a factor of the file ({known}), found {quoted(factor)}"
            )


def _r_squared(fit: FormFit) -> float:
    """R-square, for comparison."""
    return fit.quality().r_squared or 0.0


def _best(fits: Sequence[FormFit], validation: Validation | None) -> FormFit:
    """The form with the lowest prediction error, or without validation the highest R-square."""
    if validation is None:
        return max(fits, key=_r_squared)
    errors = validation.errors
    return min(fits, key=lambda fit: (errors[fit.form], -_r_squared(fit)))


def _rivals(fits: Sequence[FormFit], best: FormFit, validation: Validation | None) -> list[str]:
    """Another form with a higher R-square than the one that predicts best."""
    highest = max(fits, key=_r_squared)
    if validation is None or _r_squared(highest) - _r_squared(best) < _SAME:
        return []
    errors = validation.errors
    return [
        f"The {highest.form} form has a higher R-square ({_r_squared(highest):.4f}, against "
        f"{_r_squared(best):.4f}), but the {best.form} form was chosen because it predicts {validation.path} "
        f"better (mean relative error {errors[best.form]:.1%}, against {errors[highest.form]:.1%})."
    ]


def _few(measurements: Measurements, coding: Coding) -> list[str]:
    """Warning if there are fewer observations than the study requires."""
    variables = {BUFFER: 1, **{factor: len(levels) - 1 for factor, levels in coding.levels.items()}}
    needed, observed = POINTS * sum(variables.values()), len(measurements.rows)
    if observed >= needed:
        return []
    counted = ", ".join(f"{number} of {name}" for name, number in variables.items())
    return [
        f"{observed} observations of {sum(variables.values())} variables ({counted}): the study requires "
        f"{POINTS} of each, that is {needed}; factors that do not matter here may matter with more."
    ]


def _verdict(fit: FormFit, family: str) -> Verdict:
    """Significance of one family of terms."""
    test, robust_p, gain = fit.family_test(family)
    in_model = any(term.family == family or (family == BUFFER and term.power) for term in fit.terms)
    return Verdict(family=family, in_model=in_model, test=test, robust_p=robust_p, gain=gain)


def _targets(equations: dict[Combination, Equation], wanted_mbps: float) -> dict[Combination, float | str]:
    """Buffer for a throughput by each equation, or why there is none."""
    buffers: dict[Combination, float | str] = {}
    for key, equation in equations.items():
        try:
            buffers[key] = equation.inverse(wanted_mbps, "--target")
        except InputError as error:
            buffers[key] = error.expected
    if not any(isinstance(buffer, float) for buffer in buffers.values()):
        best = max(equations.values(), key=lambda one: one.maximum(*(one.domain or (0.0, 0.0))).throughput)
        best.inverse(wanted_mbps, "--target")
    return buffers


def _validate(fits: Sequence[FormFit], fitted: Measurements, fresh: Measurements) -> Validation:
    """Error of every form on the rows of a second file that lie within the domain of the first."""
    low, high = (end(row.buffer_mib for row in fitted.rows) for end in (min, max))
    rows = tuple(row for row in fresh.rows if low <= row.buffer_mib <= high)
    if not rows:
        raise InputError(fresh.path, "buffer", f"expected sizes of {low:.6g} to {high:.6g} MiB, found none")
    inside = msgspec.structs.replace(fresh, rows=rows)
    return Validation(
        path=fresh.path,
        errors={fit.form: mean_relative_error(fit, inside) for fit in fits},
        n=len(rows),
        outside=len(fresh.rows) - len(rows),
    )


def _warnings(best: FormFit, alpha: float) -> list[str]:
    """Warnings about the chosen model."""
    quality = best.quality()
    warnings = []
    if quality.r_squared is None:
        warnings.append("The throughput does not vary at all: there is nothing to explain.")
    elif quality.r_squared < MIN_R_SQUARED:
        warnings.append(
            f"R-square is {quality.r_squared:.2f}, below {MIN_R_SQUARED:.2f}: the {best.form} form explains "
            "only part of the observations."
        )
    if quality.lack_of_fit_p is not None and quality.lack_of_fit_p <= alpha:
        warnings.append(
            f"The {best.form} form misses the data's shape (lack of fit: p = {quality.lack_of_fit_p:.1g}): "
            "its p values and its inverse are approximate. mptune optimise --from fits the data more closely."
        )
    return warnings


def _disagreements(verdicts: Sequence[Verdict], alpha: float) -> list[str]:
    """Verdicts that depend on whether the scatter is assumed to be the same everywhere."""
    return [
        f"Whether {verdict.family} matters depends on the errors: p = {verdict.test.p:.2g} if the scatter is "
        f"the same everywhere, {verdict.robust_p:.2g} if it is not (HC3)."
        for verdict in verdicts
        if verdict.robust_p is not None and (verdict.robust_p <= alpha) != (verdict.test.p <= alpha)
    ]
