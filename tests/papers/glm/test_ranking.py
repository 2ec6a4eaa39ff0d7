"""Ranking of congestion controls, and Holm's correction against a worked example."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.papers.glm.analysis import AnalysisOptions, analyse
from mptune.papers.glm.design import Coding
from mptune.papers.glm.fit import FormFit
from mptune.papers.glm.ranking import holm, rank_congestion_controls


def test_holm_by_hand() -> None:
    """Smallest p times 3, the next times 2, the last as it is, and none below the one before."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_no_correction_and_bonferroni(ps: list[float]) -> None:
    for p, corrected in zip(ps, holm(ps), strict=True):
        assert p <= corrected <= min(1.0, p * len(ps)) + 1e-12
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    in_order = [holm(ps)[i] for i in order]
    assert in_order == sorted(in_order)


def test_the_order_and_the_distances_are_those_of_the_model(simulate) -> None:
    """At the average buffer of 14.5 MiB: olia 14.5 Mbit/s before cubic, 29 before vegas."""
    slopes = {"cubic": 1.0, "olia": 2.0, "vegas": 0.0}
    data = simulate(lambda b, cc, path: 50 + (1 + slopes[cc]) * b, noise=1.0, seed=1)
    ranking = rank_congestion_controls(FormFit(data, Coding(data), "linear", 0.05))
    assert [place.cc for place in ranking] == ["olia", "cubic", "vegas"]
    assert [place.behind_mbps for place in ranking] == pytest.approx([0.0, 14.5, 29.0], abs=1.0)
    assert [place.throughput_mbps for place in ranking] == pytest.approx([93.5, 79.0, 64.5], abs=1.0)
    assert ranking[0].p is None
    assert all(place.p is not None and place.p < 1e-6 for place in ranking[1:])


def test_two_that_are_alike_are_not_separated(simulate) -> None:
    slopes = {"cubic": 2.0, "olia": 2.0, "vegas": 0.0}
    data = simulate(lambda b, cc, path: 50 + (1 + slopes[cc]) * b, noise=3.0, seed=2)
    _, second, third = rank_congestion_controls(FormFit(data, Coding(data), "linear", 0.05))
    assert second.p is not None and second.p > 0.05
    assert third.cc == "vegas" and third.p is not None and third.p < 1e-6


def test_without_an_effect_there_is_no_ranking(simulate) -> None:
    data = simulate(lambda b, cc, path: 50 + b, noise=1.0, seed=5)
    assert rank_congestion_controls(FormFit(data, Coding(data), "linear", 0.001)) == []


def test_runs_that_share_their_luck_are_compared_in_pairs(simulate) -> None:
    """OLIA is half a Mbit/s before Cubic in every run, while the runs differ by ten times as much."""
    luck = [5.0, -6.0, 2.0, -4.0, 3.0]
    data = simulate(lambda b, cc, path: 20 + b + (cc == "olia") / 2, noise=0.2, seed=4, runs=len(luck))
    rows = tuple(
        msgspec.structs.replace(row, run=str(i % 5), throughput_mbps=row.throughput_mbps + luck[i % 5])
        for i, row in enumerate(data.rows)
    )
    data = msgspec.structs.replace(data, rows=rows)
    apart = analyse(data, AnalysisOptions())
    assert (
        apart.ranking == ()
        and not next(verdict for verdict in apart.verdicts if verdict.family == "cc").in_model
    )
    analysis = analyse(msgspec.structs.replace(data, shared_runs=True), AnalysisOptions())
    best, *others = analysis.ranking
    assert best.cc == "olia" and all(place.p is not None and place.p < 1e-6 for place in others)
    assert all(place.behind_mbps == pytest.approx(0.5, abs=0.1) for place in others)
    quality = analysis.best.quality()
    assert quality.root_mse_mbps == pytest.approx(np.std(luck), rel=0.05)  # the luck is not explained
    assert analysis.best.linear.df_resid == len(rows) - quality.parameters - 4
    (cc,) = [estimate for estimate in analysis.best.estimates() if estimate.name == "cc=olia"]
    assert cc.value == pytest.approx(0.5, abs=0.1) and cc.p is not None and cc.p < 1e-6
    (test,) = [term_test.test for term_test in analysis.best.term_tests() if term_test.name == "cc"]
    assert test.df_resid == analysis.best.linear.df_resid
