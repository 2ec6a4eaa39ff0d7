"""Forward inclusion: terms enter the model one after another, by partial F tests.

The GLM study's "include one more and see" (section V-A) as a rule. A family is the buffer (its
powers) or a factor (its main effect and its product with the buffer). At each step

1. every incomplete family is tested as a whole: all its missing terms together;
2. in the families that are significant as a whole, each missing term is tested alone;
3. the term with the smallest p enters if it is significant; if no term of a family is significant alone,
   its terms together are one candidate.

Step 1 keeps the probability of admitting a factor without effect at alpha, regardless of its number of terms.
The square of the buffer can enter only after the buffer. So can a slope of a factor, unless the buffer has no
effect on average; then both enter together.

When no more terms enter, terms that later ones have made superfluous are removed, the largest p first: two
congestion controls with different slopes also differ in their means, and the main effect often enters before
the slope that explains it (Eq. 4 of the study has only slopes).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mptune.papers.glm.design import BUFFER, Design, Term
from mptune.papers.glm.linear import NOTHING, FTest

if TYPE_CHECKING:
    from mptune.papers.glm.design import Array

#: The buffer itself, which its square and every slope depend on.
_FIRST = Term(None, 1)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Terms that entered (or were removed) in one step, and their partial F test at that point."""

    terms: tuple[Term, ...]
    test: FTest
    removed: bool = False


def forward_inclusion(design: Design, alpha: float) -> tuple[list[Term], list[Step]]:
    """Terms of the model, in the order of `Design.matrix`, and the steps that led to them."""
    chosen: list[Term] = []
    steps: list[Step] = []
    while (step := _next(design, chosen, alpha)) is not None:
        chosen += step.terms
        steps.append(step)
    while (step := _superfluous(design, chosen, alpha)) is not None:
        chosen = [term for term in chosen if term not in step.terms]
        steps.append(step)
    order = [term for family in design.coding.families(design.form).values() for term in family]
    return sorted(chosen, key=lambda t: (t.factor is not None, t.power, order.index(t))), steps


def f_test(design: Design, without: Sequence[Term], added: Sequence[Term]) -> FTest:
    """Partial F test of the hypothesis that the added terms explain nothing, given the others."""
    return _f_test(design, *_project(design, without), added)


def _next(design: Design, chosen: Sequence[Term], alpha: float) -> Step | None:
    """Best significant candidate; None when there is none."""
    _, residuals = _project(design, chosen)
    if residuals @ residuals <= NOTHING * (design.y @ design.y):
        return None
    candidates: list[Step] = []
    families = design.coding.families(design.form)
    powers = [term for term in families.pop(BUFFER) if term not in chosen]
    tests = _candidates(design, chosen, powers, alpha)
    for terms in families.values():
        missing = [term for term in terms if term not in chosen]
        with_slopes = _FIRST in chosen or not tests
        candidates += _candidates(design, chosen, [t for t in missing if with_slopes or not t.power], alpha)
    # If several p are below the smallest float, the larger F has (nearly always) the smaller p.
    return min([*tests, *candidates], key=lambda step: (step.test.p, -step.test.f), default=None)


def _superfluous(design: Design, chosen: Sequence[Term], alpha: float) -> Step | None:
    """Least significant term that no other depends on; None if all are significant."""
    built_upon = any(_waits(term, []) for term in chosen)
    tests = [
        Step(terms=(term,), test=f_test(design, [t for t in chosen if t != term], [term]), removed=True)
        for term in chosen
        if not (term == _FIRST and built_upon)
    ]
    worst = max(tests, key=lambda step: step.test.p, default=None)
    return None if worst is None or worst.test.p <= alpha else worst


def _candidates(design: Design, chosen: Sequence[Term], missing: Sequence[Term], alpha: float) -> list[Step]:
    """Significant candidates among the missing terms of one family, if it is significant as a whole."""
    needs_buffer = _FIRST not in missing and _FIRST not in chosen and any(term.power for term in missing)
    base = [*chosen, _FIRST] if needs_buffer else list(chosen)
    projection = _project(design, base)
    if not missing or (together := _f_test(design, *projection, missing)).p > alpha:
        return []
    singles = {term: _f_test(design, *projection, [term]) for term in missing if not _waits(term, base)}
    tests: dict[tuple[Term, ...], FTest] = {
        (term,): test for term, test in singles.items() if test.p <= alpha
    }
    return [
        Step(terms=(_FIRST, *terms) if needs_buffer and any(t.power for t in terms) else terms, test=test)
        for terms, test in (tests or {tuple(missing): together}).items()
    ]


def _waits(term: Term, chosen: Sequence[Term]) -> bool:
    """True if a term needs the buffer in the model first."""
    return term.power > 0 and term != _FIRST and _FIRST not in chosen


def _project(design: Design, terms: Sequence[Term]) -> "tuple[Array, Array]":
    """Orthonormal basis of the terms' columns, and the residuals of y."""
    import numpy as np

    y = design.condensed.y
    basis = np.linalg.qr(design.condensed.matrix(terms))[0]
    return basis, y - basis @ (basis.T @ y)


def _f_test(design: Design, basis: "Array", residuals: "Array", added: Sequence[Term]) -> FTest:
    """F test of terms added to a basis."""
    import numpy as np
    from scipy.special import fdtrc

    columns = np.hstack([design.condensed.columns[term] for term in added])
    columns = columns - basis @ (basis.T @ columns)
    further = np.linalg.qr(columns)[0]
    shares = further.T @ residuals
    rest = residuals - further @ shares
    explained, left = float(shares @ shares), float(rest @ rest)
    df, df_resid = columns.shape[1], len(design.y) - basis.shape[1] - columns.shape[1]
    if df_resid < 1:
        return FTest(f=0.0, df=df, df_resid=0, p=1.0)
    if left <= NOTHING * float(design.y @ design.y):
        return FTest(f=float("inf") if explained > left else 0.0, df=df, df_resid=df_resid, p=0.0)
    f = explained / df / (left / df_resid)
    return FTest(f=f, df=df, df_resid=df_resid, p=float(fdtrc(df, df_resid, f)))
