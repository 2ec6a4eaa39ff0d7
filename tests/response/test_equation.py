"""The equation against the GLM study's own numbers and against a search."""

import pytest
from hypothesis import assume, given
from hypothesis import example as also
from hypothesis import strategies as st

from mptune.errors import InputError
from mptune.papers.published import rows
from mptune.response.equation import Equation

DOMAIN = (1_843_200.0, 92_160_000.0)


def published(number: str, cc: str) -> Equation:
    """Equation 4 (of a congestion control, as a difference to Vegas) or 5 of the GLM study."""
    terms = {
        (row["term"], row["cc"]): float(row["coefficient"])
        for row in rows("glm_eq4_eq5")
        if row["equation"] == number
    }
    of = cc if number == "5" else ""
    slope = terms["B", of] + sum(c for (term, k), c in terms.items() if term.startswith("B*E") and k == cc)
    return Equation(intercept=terms["intercept", of], linear=slope, quadratic=terms["B^2", of], domain=DOMAIN)


def example(item: str) -> float:
    return float(next(row["value"] for row in rows("glm_worked_examples") if row["item"] == item))


def test_the_worked_examples_of_the_study() -> None:
    scalable = published("5", "Scalable")
    assert scalable.predict(2e7) == pytest.approx(example("T(B=20,000,000), Scalable"), abs=0.5)
    assert scalable.inverse(2e7) == pytest.approx(example("B for T=20,000,000 bit/s, Scalable"), abs=0.5)
    vertex = scalable.vertex()
    assert vertex is not None
    assert int(vertex.buffer) == example("B at maximum, Scalable")  # printed truncated
    assert vertex.throughput == pytest.approx(example("T at maximum, Scalable"), abs=0.5)


def test_equation_5_is_equation_4_for_scalable() -> None:
    assert published("4", "Scalable") == published("5", "Scalable")


def test_more_than_the_vertex_is_refused_with_the_vertex() -> None:
    with pytest.raises(
        InputError, match=r"--target: expected at most 19818852\d.* the vertex .*76173886.*found 200000000"
    ):
        published("5", "Scalable").inverse(2e8, "--target")


def test_more_than_the_domain_gives_is_refused_with_its_end() -> None:
    rising = Equation(intercept=0.0, linear=2.0, domain=(1.0, 10.0))
    with pytest.raises(InputError, match=r"at most 20 bit/s, the most within the domain \(with 10 byte\)"):
        rising.inverse(21.0)


def test_what_the_smallest_buffer_reaches_needs_the_smallest_buffer() -> None:
    assert Equation(intercept=5.0, linear=1.0, domain=(2.0, 9.0)).inverse(6.0) == 2.0


def test_without_a_domain_the_inverse_is_unbounded_above() -> None:
    assert Equation(intercept=0.0, linear=1e-3).inverse(1e6) == pytest.approx(1e9)
    with pytest.raises(InputError, match="the vertex"):
        Equation(intercept=0.0, linear=2.0, quadratic=-1.0).inverse(1.01)


@pytest.mark.parametrize("buffer", [1_843_199.0, 92_160_001.0])
def test_a_buffer_outside_the_domain_is_named(buffer: float) -> None:
    equation = published("5", "Scalable")
    assert not equation.contains(buffer)
    with pytest.raises(InputError, match="--buffer: expected a buffer of 1843200 to 92160000 byte, found"):
        equation.check(buffer, "--buffer")


def test_roots_and_logarithms_need_a_domain() -> None:
    with pytest.raises(ValueError, match="domain"):
        Equation(intercept=0.0, linear=1.0, regressor="logarithm")


@given(st.sampled_from(["root", "logarithm"]), st.floats(-50, 50), st.floats(0.1, 50), st.floats(0.5, 30))
def test_transformed_equations_invert_themselves(
    regressor: str, intercept: float, slope: float, buffer: float
) -> None:
    equation = Equation(intercept=intercept, linear=slope, regressor=regressor, domain=(0.5, 30.0))  # type: ignore[arg-type]
    assert equation.inverse(equation.predict(buffer)) == pytest.approx(buffer, rel=1e-6)
    assert equation.vertex() is None


@given(st.floats(-100, 100), st.floats(0.01, 20), st.floats(-1, -1e-6), st.floats(0, 1))
@also(c0=0.0, c1=0.09765625, c2=-0.34375, share=1.0)  # the vertex, which rounding puts above the curve
def test_the_inverse_is_the_smaller_root(c0: float, c1: float, c2: float, share: float) -> None:
    equation = Equation(intercept=c0, linear=c1, quadratic=c2)
    vertex = equation.vertex()
    assert vertex is not None
    assume(vertex.throughput - c0 > 1e-6)
    target = c0 + share * (vertex.throughput - c0)
    size = equation.inverse(target)
    assert size <= vertex.buffer
    assert equation.predict(size) == pytest.approx(target, rel=1e-6, abs=1e-6)
