"""Forward inclusion: known models are found, and what does nothing stays out."""

import numpy as np
import pytest
from scipy import stats

from mptune.papers.glm.design import FORMS, Coding, Design, Term
from mptune.papers.glm.forward import f_test, forward_inclusion

B, B2, CC, B_CC = Term(None, 1), Term(None, 2), Term("cc", 0), Term("cc", 1)
OFFSETS = {"cubic": 10.0, "olia": 25.0, "vegas": 0.0}
SLOPES = {"cubic": 0.7, "olia": 1.4, "vegas": 0.0}

KNOWN = {
    "nothing": (lambda b, cc, path: 50.0, set()),
    "quadratic": (lambda b, cc, path: 7 + 5 * b - 0.1 * b**2, {B, B2}),
    "main effect only": (lambda b, cc, path: 40 + OFFSETS[cc], {CC}),
    "main effect and slope": (lambda b, cc, path: 7 + 2 * b + OFFSETS[cc], {B, CC}),
    "interaction only": (lambda b, cc, path: 7 + (3 + SLOPES[cc]) * b, {B, B_CC}),
    "interaction that cancels": (lambda b, cc, path: 60 + (SLOPES[cc] - 0.7) * b, {B, B_CC}),
    "all of the study": (lambda b, cc, path: 7 + (5 + SLOPES[cc]) * b - 0.1 * b**2, {B, B2, B_CC}),
}


@pytest.mark.parametrize("name", list(KNOWN))
@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_known_models_are_recovered(simulate, name: str, noise: float) -> None:
    model, expected = KNOWN[name]
    data = simulate(model, noise=noise, seed=3, runs=2)
    terms, steps = forward_inclusion(Design(data, Coding(data), FORMS["quadratic"]), alpha=0.001)
    assert set(terms) == expected
    entered = {term for step in steps if not step.removed for term in step.terms}
    assert entered - {term for step in steps if step.removed for term in step.terms} == expected


def test_at_each_step_the_smallest_p_enters(simulate) -> None:
    model, _ = KNOWN["all of the study"]
    data = simulate(model, noise=5.0, seed=3)
    design = Design(data, Coding(data), FORMS["quadratic"])
    _, steps = forward_inclusion(design, alpha=0.05)
    chosen: list[Term] = []
    for step in [step for step in steps if not step.removed]:
        rivals = [
            f_test(design, chosen, [t]).p
            for t in (B, CC, *([B2, B_CC] if B in chosen else []))
            if t not in chosen
        ]
        assert step.test.p <= min(rivals)
        chosen += step.terms


def test_a_partial_f_test_by_hand(simulate) -> None:
    data = simulate(lambda b, cc, path: 5 + b + OFFSETS[cc] / 10, noise=2.0, seed=5)
    design = Design(data, Coding(data), FORMS["linear"])
    small, large = design.matrix([B]), design.matrix([B, CC])
    ssr = [float(np.linalg.lstsq(x, design.y, rcond=None)[1][0]) for x in (small, large)]
    n = len(design.y)
    f = (ssr[0] - ssr[1]) / 2 / (ssr[1] / (n - 4))
    test = f_test(design, [B], [CC])
    assert (test.df, test.df_resid) == (2, n - 4)
    assert test.f == pytest.approx(f)
    assert test.p == pytest.approx(stats.f.sf(f, 2, n - 4))


def test_an_irrelevant_factor_enters_at_the_nominal_rate(simulate) -> None:
    """Of 500 data sets in which the initial path does nothing, 5 % admit it (99.9 % bounds)."""
    model, _ = KNOWN["all of the study"]
    entered = 0
    for seed in range(500):
        data = simulate(model, noise=8.0, seed=seed)
        terms, _ = forward_inclusion(Design(data, Coding(data), FORMS["quadratic"]), alpha=0.05)
        entered += any(term.factor == "initial_path" for term in terms)
    low, high = stats.binom.interval(0.999, 500, 0.05)
    assert low <= entered <= high
