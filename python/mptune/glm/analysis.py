"""The GLM procedure from a file of measurements to a formula (GLM study, section V).

    measurements -> forward inclusion in each form -> the best form -> what matters, equations,
    inverse, ranking -> validation on a second file

The form with the largest adjusted R-square is chosen: R-square alone, the study's first criterion, always
prefers more terms. It prints nothing: see `mptune.cli.fit` and `mptune.report.fit_document`.
"""

from collections.abc import Sequence

import msgspec

from mptune.errors import InputError
from mptune.glm.design import BUFFER, FORMS, Coding, check_design
from mptune.glm.equation import Equation
from mptune.glm.fit import FormFit, mean_relative_error
from mptune.glm.forward import FTest
from mptune.glm.ranking import Rank, rank_congestion_controls
from mptune.measurements import Measurements
from mptune.response import MAX_P, MIN_R_SQUARED, Combination


class AnalysisOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to analyse.

    Attributes
    ----------
    forms : names in `FORMS`.
    alpha : a term enters, and a factor matters, at a p of at most this.
    ignore : factor columns to leave out.
    target_mbps : throughput to find the buffer for; None for none.
    """

    forms: tuple[str, ...] = tuple(FORMS)
    alpha: float = MAX_P
    ignore: tuple[str, ...] = ()
    target_mbps: float | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the buffer or a factor matters.

    Attributes
    ----------
    test : all its terms together, on top of the others of the chosen model.
    robust_p : of the same hypothesis with HC3 errors; None where there are none.
    gain : by how much R-square grows with these terms: what is significant may still be small.
    """

    family: str
    in_model: bool
    test: FTest
    robust_p: float | None
    gain: float


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction of measurements that took no part in the fit.

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
    fits : every form tried, in the order asked for.
    best : the chosen one.
    constant : factors with a single level, which cannot matter.
    targets : for the wanted throughput: the buffer, MiB, or why there is none; empty without a target.
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
    """Carry out the procedure.

    Raises
    ------
    InputError : an impossible option, factors that cannot be told apart, a wanted throughput that no
        equation reaches, or a validation file with levels that the first one does not have.
    """
    _check_options(options, measurements)
    coding = Coding(measurements, options.ignore)
    check_design(measurements, coding)
    sizes = len({one.buffer_mib for one in measurements.rows})
    possible = [form for form in options.forms if FORMS[form].powers < sizes]
    if not possible:
        raise InputError(
            measurements.path, "buffer", f"expected three sizes at least for {options.forms[0]}, found two"
        )
    fits = tuple(FormFit(measurements, coding, form, options.alpha) for form in possible)
    best = max(fits, key=_adjusted)
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
        validation=None if validate is None else _validate(fits, measurements, validate),
        warnings=(*warnings, *_warnings(best, options.alpha), *_disagreements(verdicts, options.alpha)),
    )


def _check_options(options: AnalysisOptions, measurements: Measurements) -> None:
    """Refuse forms, factors and levels of significance that cannot be."""
    for form in options.forms or ("",):
        if form not in FORMS:
            raise InputError("--forms", "", f"expected one of {', '.join(FORMS)}, found {form!r}")
    for factor in options.ignore:
        if factor not in measurements.factors:
            known = ", ".join(measurements.factors)
            raise InputError("--ignore", "", f"expected a factor of the file ({known}), found {factor!r}")
    if not 0 < options.alpha < 1:
        raise InputError("--alpha", "", f"expected a probability between 0 and 1, found {options.alpha}")


def _adjusted(fit: FormFit) -> float:
    """Adjusted R-square, for comparison."""
    adjusted = fit.quality().adjusted
    return 0.0 if adjusted is None else adjusted


def _verdict(fit: FormFit, family: str) -> Verdict:
    """Whether one family matters."""
    test, robust_p, gain = fit.family_test(family)
    in_model = any(term.family == family or (family == BUFFER and term.power) for term in fit.terms)
    return Verdict(family=family, in_model=in_model, test=test, robust_p=robust_p, gain=gain)


def _targets(equations: dict[Combination, Equation], wanted_mbps: float) -> dict[Combination, float | str]:
    """Buffer for a throughput by each equation, or the reason why there is none."""
    found: dict[Combination, float | str] = {}
    for key, equation in equations.items():
        try:
            found[key] = equation.inverse(wanted_mbps, "--target")
        except InputError as error:
            found[key] = error.expected
    if not any(isinstance(buffer, float) for buffer in found.values()):
        best = max(equations.values(), key=lambda one: one.maximum(*(one.domain or (0.0, 0.0))).throughput)
        best.inverse(wanted_mbps, "--target")
    return found


def _validate(fits: Sequence[FormFit], fitted: Measurements, fresh: Measurements) -> Validation:
    """Error of every form on the rows of a second file that lie within the domain of the first."""
    low, high = (end(one.buffer_mib for one in fitted.rows) for end in (min, max))
    rows = tuple(one for one in fresh.rows if low <= one.buffer_mib <= high)
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
    """What to be wary of in the chosen model."""
    quality = best.quality()
    warnings = []
    if quality.r_squared is None:
        warnings.append("The throughput does not vary at all: there is nothing to explain.")
    elif quality.r_squared < MIN_R_SQUARED:
        warnings.append(
            f"R-square is {quality.r_squared:.2f}, below {MIN_R_SQUARED:.2f}: the {best.form} form explains "
            "the observations only in part."
        )
    if quality.lack_of_fit_p is not None and quality.lack_of_fit_p <= alpha:
        warnings.append(
            f"The {best.form} form misses the data's shape (lack of fit: p = {quality.lack_of_fit_p:.1g}): "
            "its p values and its inverse are approximate. mptune optimise --from follows the data closer."
        )
    return warnings


def _disagreements(verdicts: Sequence[Verdict], alpha: float) -> list[str]:
    """Verdicts that depend on whether the scatter is taken to be the same everywhere."""
    return [
        f"Whether {one.family} matters depends on the errors: p = {one.test.p:.2g} if the scatter is the "
        f"same everywhere, {one.robust_p:.2g} if it is not (HC3)."
        for one in verdicts
        if one.robust_p is not None and (one.robust_p <= alpha) != (one.test.p <= alpha)
    ]
