"""The decision on observations from formulas: answer, uncertainty and front belong together."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from mptune.decision import DecisionOptions, decide, too_few_sizes
from mptune.decision.revision import enlarged
from mptune.decision.sweep import sweep_points
from mptune.errors import InputError
from mptune.response import MODELS, Sample
from mptune.runner.progress import Reporter
from mptune.trial import Combination

BUFFERS = [0.5 + 1.5 * i for i in range(14)]
TRUE = {("fullmesh", "cubic"): (100.0, 2.0), ("pcdc", "cubic"): (110.0, 5.0), ("pcdc", "olia"): (60.0, 1.0)}


def observations(noise: float = 1.0, seed: int = 1, runs: int = 3) -> list[Sample]:
    rng = np.random.default_rng(seed)
    return [
        Sample(Combination(*key), bs, top * (1 - math.exp(-bs / b0)) + noise * float(rng.normal()), run)
        for (key, (top, b0)), bs, run in itertools.product(TRUE.items(), BUFFERS, range(runs))
    ]


def test_auto_decides_as_the_model_it_chose() -> None:
    auto = decide(observations(), DecisionOptions(resamples=50))
    assert auto.response.comparison and auto.response.model == "saturating"
    named = decide(observations(), DecisionOptions(model="saturating", resamples=50))
    assert not named.response.comparison
    assert named.optimum == auto.optimum
    assert (named.uncertainty.otp_mbps, named.uncertainty.wins) == (  # type: ignore[union-attr]
        auto.uncertainty.otp_mbps,  # type: ignore[union-attr]
        auto.uncertainty.wins,  # type: ignore[union-attr]
    )


def test_what_lies_between_two_measured_buffers_is_uncertain_unless_a_formula_is_named() -> None:
    """Without noise: where in the gap the curve reaches the target is an assumption of the model."""

    def calm(buffer: float) -> float:
        return 100 * (1 - math.exp(-buffer / 2))

    samples = [
        Sample(Combination("fullmesh", "cubic"), 1.5 * i, calm(1.5 * i), run)
        for i in range(1, 12)
        for run in range(3)
    ]
    true = -2 * math.log(0.07 + 0.93 * math.exp(-11 * 1.5 / 2))
    low, high = next((1.5 * i, 1.5 * (i + 1)) for i in range(1, 12) if 1.5 * (i + 1) > true)
    named = decide(samples, DecisionOptions(model="saturating", resamples=200)).uncertainty
    assert named is not None and named.obs_mib == pytest.approx((true, true), rel=0.01)
    for model in ("auto", "smooth"):
        uncertainty = decide(samples, DecisionOptions(model=model, resamples=200)).uncertainty
        assert uncertainty is not None
        assert low <= uncertainty.obs_mib[0] < low + 0.1 and high - 0.1 < uncertainty.obs_mib[1] <= high


def test_the_answer_is_near_the_truth_and_inside_its_intervals() -> None:
    """95 % of 110 * (1 - exp(-20 / 5)) is reached by pcdc with cubic alone."""
    decision = decide(observations(), DecisionOptions(sacrifice=0.05))
    target = 0.95 * 110 * (1 - math.exp(-20 / 5))
    assert (decision.optimum.pm, decision.optimum.cc) == ("pcdc", "cubic")
    assert decision.optimum.throughput_mbps == pytest.approx(target, rel=0.02)
    assert decision.optimum.buffer_mib == pytest.approx(-5 * math.log(1 - target / 110), rel=0.05)
    uncertainty = decision.uncertainty
    assert uncertainty is not None and uncertainty.resamples == 200 and not uncertainty.single_runs
    assert uncertainty.wins == {Combination("pcdc", "cubic"): 1.0}
    assert uncertainty.obs_mib[0] <= decision.optimum.buffer_mib <= uncertainty.obs_mib[1]


def test_more_noise_is_more_uncertain() -> None:
    widths = []
    for noise in (0.5, 5.0):
        uncertainty = decide(
            observations(noise), DecisionOptions(model="saturating", resamples=50)
        ).uncertainty
        assert uncertainty is not None
        widths.append(uncertainty.otp_mbps[1] - uncertainty.otp_mbps[0])
    assert widths[1] > 5 * widths[0]


def test_two_that_are_alike_share_the_wins() -> None:
    rng = np.random.default_rng(1)
    samples = [
        Sample(Combination("fullmesh", cc), bs, 100 * (1 - math.exp(-bs / 3)) + 3 * float(rng.normal()), run)
        for cc, bs, run in itertools.product(("cubic", "olia"), BUFFERS, range(3))
    ]
    uncertainty = decide(samples, DecisionOptions(model="saturating")).uncertainty
    assert uncertainty is not None and max(uncertainty.wins.values()) < 0.98
    assert sum(uncertainty.wins.values()) == pytest.approx(1.0)


def test_the_front_holds_the_answer_with_its_intervals() -> None:
    decision = decide(observations(), DecisionOptions(sacrifice=0.123, resamples=50))
    (point,) = [point for point in decision.front if point.sacrifice == 0.123]
    assert point.optimum == decision.optimum
    assert decision.uncertainty is not None
    assert point.buffer_interval == decision.uncertainty.obs_mib
    assert point.throughput_interval == decision.uncertainty.otp_mbps


def test_another_sacrifice_can_be_read_off_the_front() -> None:
    front = {
        point.sacrifice: point.optimum for point in decide(observations(), DecisionOptions(resamples=0)).front
    }
    for sacrifice in (0.0, 0.02, 0.2):
        asked = decide(observations(), DecisionOptions(sacrifice=sacrifice, resamples=0))
        assert front[sacrifice] == asked.optimum


def test_without_resamples_nothing_is_claimed() -> None:
    decision = decide(observations(), DecisionOptions(resamples=0))
    assert decision.uncertainty is None
    assert all(point.buffer_interval is None for point in decision.front)


def test_where_a_combination_failed_it_is_no_answer() -> None:
    """pcdc stalled below 10 MiB, so its curve there is a guess; fullmesh was measured."""
    usable = [s for s in observations() if s.combination.pm == "fullmesh" or s.buffer_mib > 10]
    decision = decide(usable, DecisionOptions(sacrifice=0.3, model="saturating", resamples=0))
    assert decision.optimum.pm == "fullmesh"
    pcdc = decide(
        [s for s in usable if s.combination.pm == "pcdc"], DecisionOptions(sacrifice=0.5, resamples=0)
    )
    assert pcdc.optimum.buffer_mib > 10


def test_a_buffer_with_which_every_run_stalled_is_avoided_as_one_where_some_did() -> None:
    only = Combination("fullmesh", "cubic")
    rates = {1.0: 40.0, 2.0: 99.0, 4.0: 99.5, 8.0: 100.0, 16.0: 100.0}
    samples = [Sample(only, size, rate + run, run) for size, rate in rates.items() for run in range(3)]
    options = DecisionOptions(model="monotone", resamples=0, selection="robust")
    answers = []
    for lost in (0, 2, 3):  # of the three runs with 4 MiB
        usable = [sample for sample in samples if sample.buffer_mib != 4.0 or sample.run >= lost]
        stalled = [(only, 4.0)] if lost else []
        answers.append(decide(usable, options, stalled=stalled).optimum.buffer_mib)
    assert answers[0] < 4.0 < answers[1] and answers[2] > 4.0


def test_an_enlarged_answer_expects_no_throughput_below_none() -> None:
    """Two runs of 20 and 180 Mbit/s: the interval of their mean reaches from -916 to 1116."""
    rates = {1.0: (100.0, 101.0), 2.0: (20.0, 180.0)}
    only = Combination("fullmesh", "cubic")
    samples = [Sample(only, size, rate, run) for size, each in rates.items() for run, rate in enumerate(each)]
    decision = decide(samples, DecisionOptions(model="monotone", resamples=20))
    uncertainty = enlarged(decision, 2.0, sweep_points(samples)).uncertainty
    assert uncertainty is not None and uncertainty.otp_mbps[0] == 0.0 < uncertainty.otp_mbps[1]


def test_progress_is_reported_in_resamples(capsys: pytest.CaptureFixture[str]) -> None:
    decide(observations(), DecisionOptions(model="smooth", resamples=5), reporter=Reporter())
    assert "resampling: 5/5 resamples" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "magic"}, f"--model: expected one of {', '.join(MODELS)}"),
        ({"selection": "best"}, "--selection: expected one of robust, global, literal"),
        ({"sacrifice": 1.0}, "--sacrifice"),
        ({"resamples": -1}, "--resamples: expected 0"),
        ({"resamples": 10**9}, "--resamples"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DecisionOptions(**options).check()


@pytest.mark.parametrize("model", ["auto", "quadratic"])
def test_a_model_needs_sizes_enough(model: str) -> None:
    assert too_few_sizes(model, 2) == f"expected 3 sizes at least for the {model} model, found 2"
    assert too_few_sizes(model, 3) is None
