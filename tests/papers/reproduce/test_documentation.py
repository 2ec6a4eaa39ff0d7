"""The documentation of the reproduction, held against the reproduction itself."""

import re
from pathlib import Path

import pytest

import mptune.papers.published
from mptune.papers.published import rows
from mptune.papers.reproduce import DOCUMENTED, PAPERS, VERDICTS, Documented, reproduce
from mptune.response.equation import Equation

ROOT = Path(__file__).parents[3]
REFERENCE = (ROOT / "docs/reference/reproduce.md").read_text(encoding="utf-8")
ERRATA = Path(mptune.papers.published.__file__).with_name("README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("documented", DOCUMENTED, ids=lambda documented: documented.erratum)
def test_the_reference_lists_every_documented_contradiction(documented: Documented) -> None:
    assert (
        f"| {documented.erratum} | {len(documented.keys)} | {documented.explanation} |"
        in REFERENCE.splitlines()
    )


def test_the_reference_has_the_counts() -> None:
    result = reproduce()
    for paper, title in [*((name, paper.title) for name, paper in PAPERS.items()), (None, "all")]:
        counts = result.counts(paper)
        cells = [title, sum(counts.values()), *(counts[verdict] for verdict in VERDICTS)]
        assert f"| {' | '.join(map(str, cells))} |" in REFERENCE.splitlines()


def test_the_errata_mark_what_is_documented() -> None:
    """In the README an asterisk marks the errata that are contradictions of numbers."""
    marked = [
        erratum for line in re.findall(r"^\| (E\d+.*?) \|", ERRATA, re.M) for erratum in line.split(", ")
    ]
    assert sorted(e.rstrip("*") for e in marked if e.endswith("*")) == sorted(o.erratum for o in DOCUMENTED)
    assert sorted(int(e.strip("E*")) for e in marked) == list(range(1, 43))


def test_the_numbers_in_the_explanations_of_the_glm_study() -> None:
    """E34: nine times the setting fits Table II, the setting alone does not; E35: the buffer by Eq. 5."""
    intercept, linear, quadratic = (float(r["coefficient"]) for r in rows("glm_eq4_eq5")[-3:])
    equation = Equation(intercept=intercept, linear=linear, quadratic=quadratic)
    measured = [float(row["throughput_bit_s"]) for row in rows("glm_table2_initial_path")]
    assert sum(measured) / len(measured) == pytest.approx(16.4e6, abs=5e4)
    assert equation.predict(256_000) == pytest.approx(7.9e6, abs=5e4)
    assert equation.predict(9 * 256_000) == pytest.approx(18.1e6, abs=5e4)
    assert equation.inverse(104.12e6) == pytest.approx(22.8e6, abs=5e4)
    assert (9 * 204_800, 9 * 10_240_000) == (1_843_200, 92_160_000)
