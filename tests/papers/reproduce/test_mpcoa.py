"""MPCOA's models and readings, against constructions of another kind."""

import itertools

import numpy as np
import pytest

from mptune.papers.published import rows
from mptune.papers.reproduce import Check, reproduce
from mptune.papers.reproduce._mpcoa_models import CCS, minimum_norm


@pytest.fixture(scope="module")
def checks() -> dict[str, Check]:
    return {check.key: check for check in reproduce(["mpcoa"]).checks}


def polynomial(cc: int, bs: float) -> list[float]:
    """Constant, the buffer and six dummies, and all their products of two: a design of rank 13."""
    first = [1.0, bs, *(float(cc == k) for k in range(len(CCS)))]
    return [a * b for a, b in itertools.combinations_with_replacement(first, 2)]


@pytest.mark.parametrize("scenario", ["SRL-HU", "UNIS-HiN"])
def test_the_closed_form_is_the_minimum_norm_solution(scenario: str) -> None:
    curves = [
        [float(row[column]) for column in list(row)[3:]]
        for row in rows("mpcoa_table4_models")
        if row["scenario"] == scenario and row["pm"] == "PCDC"
    ]
    grid = np.arange(0.5, 30.5, 0.5)
    design = np.array([polynomial(cc, bs) for cc in range(len(CCS)) for bs in grid])
    observed = np.array([c0 + c1 * bs + c2 * bs * bs for c0, c1, c2 in curves for bs in grid])
    solution, _, rank, _ = np.linalg.lstsq(design, observed, rcond=1e-10)
    assert rank == 13
    names = ["1", "bs", *(f"CC{k}" for k in range(1, 7))]
    products = list(itertools.combinations_with_replacement(names, 2))
    by_term = dict(zip(products, solution, strict=True))
    terms = minimum_norm([c[0] for c in curves], [c[1] for c in curves], curves[0][2])
    assert terms["intercept"] == pytest.approx(by_term["1", "1"], abs=1e-8)
    assert terms["bs"] == pytest.approx(by_term["1", "bs"], abs=1e-8)
    assert terms["bs^2"] == pytest.approx(by_term["bs", "bs"], abs=1e-8)
    for name in names[2:]:
        assert terms[name] == pytest.approx(by_term["1", name], abs=1e-8)
        assert terms[f"{name}^2"] == pytest.approx(by_term[name, name], abs=1e-8)
        assert terms[f"bs*{name}"] == pytest.approx(by_term["bs", name], abs=1e-8)


#: What each reading gives (an independent computation; published/README.md, E1 and E8).
READINGS = {
    ("SRL-HU", "literal"): ("FullMesh/Reno", 11.00, 36.81),
    ("SRL-HU", "best-pm"): ("PCDC/Reno", 11.29, 41.66),
    ("SRL-HU", "indented"): ("FullMesh/Reno", 11.00, 36.81),
    ("SRL-HU", "global"): ("PCDC/Hybla", 12.37, 74.67),
    ("UNIS-HiN", "literal"): ("PCDC/Vegas", 8.75, 114.11),
    ("UNIS-HiN", "best-pm"): ("PCDC/Cubic", 9.21, 266.62),
    ("UNIS-HiN", "indented"): ("FullMesh/Cubic", 10.92, 258.03),
    ("UNIS-HiN", "global"): ("PCDC/Cubic", 9.21, 266.62),
    ("UiT-HAW", "global"): ("FullMesh/Scalable", 0.50, 0.81),
    ("UiT-HAW", "indented"): ("FullMesh/Scalable", 0.50, 0.81),
}


@pytest.mark.parametrize(("scenario", "reading"), list(READINGS))
def test_the_readings_of_the_algorithm(checks: dict[str, Check], scenario: str, reading: str) -> None:
    combination, obs, otp = READINGS[scenario, reading]
    key = f"mpcoa/table5/{scenario}/{reading}"
    assert checks[f"{key}/combination"].recomputed == combination
    assert checks[f"{key}/obs"].recomputed == pytest.approx(obs, abs=0.006)
    assert checks[f"{key}/otp"].recomputed == pytest.approx(otp, abs=0.006)


@pytest.mark.parametrize(
    ("scenario", "recovered", "as_printed"),
    [("SRL-HU", 328.94, 213.52), ("UNIS-HiN", 53.99, 18.70), ("UiT-HAW", 1.2177, 0.79)],
)
def test_traditional_buffers(
    checks: dict[str, Check], scenario: str, recovered: float, as_printed: float
) -> None:
    key = f"mpcoa/traditional/{scenario}"
    assert checks[f"{key}/recovered"].verdict == "agrees"
    assert checks[f"{key}/recovered"].recomputed == pytest.approx(recovered, abs=0.005)
    assert checks[f"{key}/eq1"].recomputed == pytest.approx(as_printed, abs=0.005)


def test_both_directions_between_equations_and_table_4_agree_everywhere(checks: dict[str, Check]) -> None:
    both = [c for key, c in checks.items() if key.startswith(("mpcoa/table4/", "mpcoa/equation/"))]
    assert {check.verdict for check in both} == {"agrees"}
