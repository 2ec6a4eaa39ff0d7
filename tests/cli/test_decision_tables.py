"""Tables of a decision: of a belief the best curves, and intervals only where there are some."""

import io

import msgspec
from rich.console import Console

from mptune.cli import _decision_tables
from mptune.decision import Decision, DecisionOptions, decide
from mptune.response import BELIEF, Sample
from mptune.trial import Combination

CCS = 14


def decided(model: str, resamples: int = 0) -> Decision:
    """The later a congestion control, the faster."""
    samples = [
        Sample(
            Combination("fullmesh", f"cc{number:02}"), float(size), (10.0 + number) * min(size, 3) + run, run
        )
        for number in range(CCS)
        for size in range(1, 7)
        for run in range(2)
    ]
    return decide(samples, msgspec.structs.replace(DecisionOptions(), model=model, resamples=resamples))


def printed(decision: Decision) -> str:
    out = Console(file=io.StringIO(), width=200)
    _decision_tables.show(out, decision)
    text: str = out.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_of_a_belief_the_best_curves_are_printed() -> None:
    curves = printed(decided(BELIEF)).split("Trade-off")[0]
    named = [f"cc{number:02}" for number in range(CCS) if f"cc{number:02}" in curves]
    assert named == [f"cc{number:02}" for number in range(CCS - 10, CCS)]
    assert "and 4 others" in curves and "R-square" not in curves


def test_of_other_models_all_are_printed() -> None:
    curves = printed(decided("monotone")).split("Trade-off")[0]
    assert all(f"cc{number:02}" in curves for number in range(CCS))
    assert "others" not in curves and "R-square" in curves


def test_without_resamples_there_is_no_column_for_intervals() -> None:
    assert "95 %" not in printed(decided("monotone"))
    assert "95 %" in printed(decided("monotone", resamples=10))
