"""MPCOA's Algorithm 1 on a testbed of formulas: its defaults, its stop rule, its steps and its buffer."""

import math
import random
from typing import Any

import msgspec
import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS

from mptune.errors import InputError
from mptune.impact import ImpactOptions
from mptune.optimisation import mpcoa
from mptune.optimisation.main_job import Result, optimise
from mptune.optimisation.mpcoa import Fit, Mpcoa, MpcoaOptions
from mptune.response import Sample
from mptune.result import algorithm
from mptune.result.making import result_document
from mptune.runner.runner import TrialRunner
from mptune.topology import Topology
from mptune.trial import Combination, Observation, Trial

SECOND, MIB = 10**9, 2**20
OPTIONS = MpcoaOptions(
    ccs=("cubic", "reno"),
    buffers=tuple(i * MIB for i in range(1, 9)),
    runs=2,
    duration_ns=SECOND,
    impact=ImpactOptions(design="eq5", runs=2, window_ns=SECOND, buffer_bytes=8 * MIB),
    confirm_runs=2,
    resamples=0,
)
CURVE = Combination("fullmesh", "cubic")


def run(network: Topology, testbed: Any, **changes: Any) -> tuple[Result, Mpcoa]:
    result = optimise(network, TrialRunner(testbed), msgspec.structs.replace(OPTIONS, **changes))
    assert result.mpcoa is not None
    return result, result.mpcoa


def scattered(testbed: Any, deviation: float) -> None:
    """Every trial has a factor of its own."""

    def factor(trial: Trial, at_s: float) -> float:
        own = f"{trial.seed} {trial.pm} {trial.cc} {trial.buffer_bytes}"
        return max(0.0, 1 + random.Random(own).gauss(0, deviation))

    testbed.drift = factor


def sweep(result: Result) -> int:
    return sum(record.purpose == "sweep" for record in result.records)


def test_the_defaults_are_those_of_the_paper() -> None:
    options = MpcoaOptions().completed()
    assert (options.impact.design, options.sets, options.model, options.selection) == (
        "eq5",
        "signs",
        "quadratic",
        "global",
    )
    assert len(options.buffers) == 60 and len(options.ccs) == 6 and options.runs_each == 9
    assert (options.chosen_strategy, options.sacrifice, options.most_runs) == ("grid", 0.07, 27)
    options.check()


def test_a_good_fit_ends_step_6_with_the_first_runs(network: Topology, fake_testbed: Any) -> None:
    """Throughput is proportional to the buffer, so the parabolas fit, and 93 % of it needs 93 % of 8 MiB."""
    result, own = run(network, fake_testbed)
    assert own.step_six.ended == "accepted" and {fit.runs for fit in own.step_six.fits} == {2}
    assert sweep(result) == 2 * 2 * 8 * 2
    assert result.optimum.pm == "pcdc" and result.subflows == ("A-X", "B-X")
    assert result.optimum.buffer_mib == pytest.approx(0.93 * 8, rel=0.02)


def test_step_6_measures_on_until_the_fit_is_accepted(network: Topology, fake_testbed: Any) -> None:
    """The runs scatter by a quarter of their mean: their means come nearer to the line with every run."""
    scattered(fake_testbed, 0.25)
    result, own = run(network, fake_testbed)
    runs = own.step_six.last[0].runs
    assert own.step_six.ended == "accepted" and 2 < runs <= 6
    assert sweep(result) == 2 * 2 * 8 * runs
    before = [fit for fit in own.step_six.fits if fit.runs < runs]
    assert len({fit.runs for fit in before}) == runs - 2
    for number in {fit.runs for fit in before}:
        assert not all(fit.accepted for fit in before if fit.runs == number)
    seeds = {record.seed for record in result.records if record.purpose == "sweep"}
    assert len(seeds) == runs


def test_step_6_ends_at_its_bound_and_the_answer_reports_it(network: Topology, fake_testbed: Any) -> None:
    scattered(fake_testbed, 0.9)
    result, own = run(network, fake_testbed)
    assert own.step_six.ended == "bound" and own.step_six.last[0].runs == own.step_six.most_runs == 6
    assert sweep(result) == 2 * 2 * 8 * 6
    (warning,) = algorithm.warnings(result)
    assert "not reached within the limit of 6 runs" in warning
    assert warning in result_document(result)["warnings"]


def test_a_shape_that_no_parabola_has_ends_step_6_at_once(network: Topology, fake_testbed: Any) -> None:
    """Every other buffer gives a tenth: runs without scatter show that more of them change nothing."""
    fake_testbed.drift = lambda trial, at_s: 0.1 if trial.buffer_bytes // MIB % 2 else 1.0
    _, own = run(network, fake_testbed)
    assert own.step_six.ended == "out of reach" and {fit.runs for fit in own.step_six.fits} == {2}
    assert all(fit.ceiling is not None and fit.ceiling < 0.9 for fit in own.step_six.last)


def test_the_steps_name_their_equations(network: Topology, fake_testbed: Any) -> None:
    result, _ = run(network, fake_testbed)
    rows = result_document(result)["algorithm"]
    assert [row["equation"] for row in rows] == ["3", "4", "5", "6", "7", "8", "9", "10", "11, 12"]
    assert "3 subflows, of 3 x 1 interfaces" in rows[0]["outcome"]
    assert "cubic A-X, B-X" in rows[3]["outcome"] and "64 trials" in rows[4]["outcome"]
    assert "pcdc" in rows[-1]["outcome"]


def test_fullmesh_where_every_subflow_helps(network: Topology, fake_testbed: Any) -> None:
    """SP* = SP: what PCDC does is what FullMesh does, however unlike the factors are (sections 5.3, 6)."""
    fake_testbed.gives = {"A-X": 80.0, "B-X": 20.0, "C-X": 10.0}
    result, _ = run(network, fake_testbed)
    assert result.optimum.pm == "fullmesh"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"transfers": (MIB,)}, "--transfer: expected only without --as-papers"),
        ({"strategy": "adaptive"}, "--strategy: expected grid with --as-papers, found adaptive"),
        ({"model": "auto"}, "--model: expected quadratic with --as-papers"),
        ({"budget_ns": SECOND}, "--budget: expected only with --strategy adaptive"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        msgspec.structs.replace(OPTIONS, **change).check()


def samples(count: int, scatter: float) -> list[Sample]:
    draw = random.Random(4)
    return [
        Sample(CURVE, float(mib), 10 * mib - 0.5 * mib**2 + draw.gauss(0, scatter), number)
        for mib in range(1, 11)
        for number in range(count)
    ]


def test_the_p_value_is_that_of_the_f_test() -> None:
    observed = samples(3, 8.0)
    (fit,) = mpcoa.fits(observed, 3)
    means = mpcoa.averaged(observed)
    design = np.array([[1.0, mean.buffer_mib, mean.buffer_mib**2] for mean in means])
    expected = OLS(np.array([mean.value for mean in means]), design).fit()
    assert fit.r_squared == pytest.approx(expected.rsquared)
    assert fit.p_value == pytest.approx(expected.f_pvalue)


def test_more_runs_come_nearer_to_the_ceiling() -> None:
    """The curve is a parabola, so that only scatter keeps R-square from 1."""
    few, many = (mpcoa.fits(samples(count, 10.0), count)[0] for count in (3, 300))
    assert few.r_squared is not None and many.r_squared is not None and few.ceiling is not None
    assert few.r_squared < many.r_squared < 1
    assert few.ceiling > few.r_squared and not few.out_of_reach


def test_a_fit_needs_both_criteria() -> None:
    good = Fit(pm="pcdc", runs=9, r_squared=0.9, p_value=0.05)
    assert good.accepted
    for name, value in (("r_squared", 0.899), ("p_value", 0.051), ("r_squared", None), ("p_value", None)):
        assert not msgspec.structs.replace(good, **{name: value}).accepted


def test_the_traditional_buffer_is_table_5_of_measured_medians(network: Topology, fake_testbed: Any) -> None:
    """RTTs of 20 ms on every path; timeouts of 1 s, but for one trial, which the median passes over."""
    plain = fake_testbed.run

    def timed(trial: Trial) -> Observation:
        observation: Observation = plain(trial)
        rto = 60 if len(fake_testbed.trials) == 30 else 1
        flows = [msgspec.structs.replace(flow, rto_ns=rto * SECOND) for flow in observation.subflows]
        return msgspec.structs.replace(observation, subflows=flows)

    fake_testbed.run = timed
    result, own = run(network, fake_testbed)
    assert own.traditional is not None
    assert (own.traditional.rtt_ns, own.traditional.rto_ns) == (20_000_000, SECOND)
    expected = math.ceil(3 * 1.02 * 3 * 100e6 / 8)
    assert own.traditional.size_bytes == result.traditional["table5"] == expected
    assert algorithm.steps(result)[-1].equation == "Table 5"
