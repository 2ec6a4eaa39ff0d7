"""Impact factors: the formula on known series, the sets, and the trials they are measured with."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.errors import InputError, TrialError
from mptune.impact import ImpactOptions, impact_factor, measure_impact, partition
from mptune.measuring.runner import TrialRunner
from mptune.testbeds import BIN_NS, Observation, Trial
from mptune.topology import Topology

SECOND = 1_000_000_000
OPTIONS = ImpactOptions(runs=3, window_ns=2 * SECOND)


def series(*parts: tuple[int, int]) -> Observation:
    """Observation of (bins, bytes per bin) stretches."""
    bins = [value for count, value in parts for _ in range(count)]
    return Observation(
        testbed="", duration_ns=len(bins) * BIN_NS, in_order_bytes=sum(bins), bins=bins, subflows=[]
    )


def test_the_formula_compares_windows_of_equal_length() -> None:
    assert impact_factor(series((20, 100), (20, 25)), 2 * SECOND) == pytest.approx(0.75)
    assert impact_factor(series((20, 100), (20, 100)), 2 * SECOND) == 0  # not 1/21: errata E6
    assert impact_factor(series((20, 100), (20, 300)), 2 * SECOND) == pytest.approx(-2.0)


def test_slow_start_makes_an_inert_subflow_slightly_harmful_unless_it_is_left_out() -> None:
    ramp = series((5, 10), (15, 100), (20, 100))
    assert impact_factor(ramp, 2 * SECOND) < 0
    assert impact_factor(ramp, 2 * SECOND, settle_ns=SECOND // 2) == 0


def test_settling_leaves_out_the_start_of_the_second_window_too() -> None:
    draining = series((20, 100), (5, 100), (15, 50))
    assert impact_factor(draining, 2 * SECOND, settle_ns=SECOND // 2) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("observation", "reason"),
    [(series((20, 0), (20, 5)), "nothing was delivered"), (series((20, 5), (3, 5)), "ends after 23 of 40")],
)
def test_without_a_denominator_there_is_no_number(observation: Observation, reason: str) -> None:
    with pytest.raises(TrialError, match=reason):
        impact_factor(observation, 2 * SECOND)


def test_the_sign_of_the_mean_decides_and_standby_is_ordered() -> None:
    sets = partition({"a": 0.4, "b": -0.3, "c": 1e-9, "d": -0.1, "e": 0.0})
    assert sets.optional == ("a", "c")
    assert sets.standby == ("e", "d", "b")
    assert not sets.fallback


def test_zero_can_be_kept() -> None:
    assert partition({"a": 0.4, "e": 0.0}, zero="optional").optional == ("a", "e")


def test_without_a_positive_one_the_best_is_used_and_it_is_said() -> None:
    sets = partition({"a": -0.4, "b": -0.1, "c": -0.2})
    assert (sets.optional, sets.standby, sets.fallback) == (("b",), ("c", "a"), True)


@given(st.dictionaries(st.text(min_size=1), st.none() | st.floats(-50, 1), min_size=1))
def test_every_subflow_is_in_one_set_and_one_always_carries_data(means: dict[str, float | None]) -> None:
    sets = partition(means)
    assert sorted((*sets.optional, *sets.standby)) == sorted(means)
    assert sets.optional


def test_measured_impact_factors(network: Topology, fake_testbed: Any) -> None:
    """Of 90 Mbit/s in total, A gives 80, B 20, and C takes 10."""
    (impact,), records = measure_impact(network, TrialRunner(fake_testbed), ["cubic"], OPTIONS)
    means = {one.path: one.omega.mean for one in impact.paths if one.omega}
    assert means == pytest.approx({"A-X": 80 / 90, "B-X": 20 / 90, "C-X": -10 / 90}, abs=1e-6)
    assert (impact.sets.optional, impact.sets.standby) == (("A-X", "B-X"), ("C-X",))
    assert [one.rtt_ms for one in impact.paths] == [20.0] * 3
    assert impact.sets.rtt_ns == dict.fromkeys(["A-X", "B-X", "C-X"], 10_000_000)
    assert len(records) == 3 * 3 and not impact.warnings


def test_each_trial_withdraws_one_subflow_half_way(network: Topology, fake_testbed: Any) -> None:
    measure_impact(network, TrialRunner(fake_testbed), ["reno", "cubic"], OPTIONS)
    for trial in fake_testbed.trials:
        (action,) = trial.script
        assert (action.action, action.at_ns, trial.duration_ns) == ("standby", 2 * SECOND, 4 * SECOND)
        assert trial.pm == "fullmesh" and not trial.pm_options
    withdrawn = {(trial.cc, trial.script[0].path) for trial in fake_testbed.trials}
    assert len(withdrawn) == 6
    assert len({trial.seed for trial in fake_testbed.trials}) == OPTIONS.runs


def test_failed_runs_are_left_out_and_told(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.fails = lambda trial: "stalled" if trial.script[0].path == "B-X" else None
    (impact,), records = measure_impact(network, TrialRunner(fake_testbed), ["cubic"], OPTIONS)
    unknown = next(one for one in impact.paths if one.path == "B-X")
    assert unknown.omega is None
    assert "B-X" in impact.sets.optional  # in doubt as FullMesh does
    assert any("3 of 9" in text and "stalled" in text for text in impact.warnings)
    assert any("no impact factor for B-X" in text for text in impact.warnings)
    assert all((one.omega is None) == (one.withdrawn == "B-X") for one in records)


def test_throughput_that_falls_by_itself_is_called_out(network: Topology, fake_testbed: Any) -> None:
    """A tenth is left after T, whichever subflow is withdrawn."""
    whole = fake_testbed.run

    def tiring(trial: Trial) -> Observation:
        observation: Observation = whole(trial)
        half = len(observation.bins) // 2
        late = [value // 10 for value in observation.bins[half:]]
        return msgspec.structs.replace(observation, bins=observation.bins[:half] + late)

    fake_testbed.run = tiring
    (impact,), _ = measure_impact(network, TrialRunner(fake_testbed), ["cubic"], OPTIONS)
    assert any("add up to 2.8" in text for text in impact.warnings)


def test_a_run_that_delivers_nothing_is_a_failed_one(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.gives = dict.fromkeys(fake_testbed.gives, 0.0)
    (impact,), records = measure_impact(network, TrialRunner(fake_testbed), ["cubic"], OPTIONS)
    assert all(one.omega is None for one in impact.paths)
    assert all(one.throughput_mbps is None and one.failed for one in records)


@pytest.mark.parametrize("window_ns", [0, BIN_NS // 2, SECOND + 1])
def test_the_window_must_be_whole_bins(window_ns: int, network: Topology, fake_testbed: Any) -> None:
    with pytest.raises(InputError, match=r"multiple of 0\.1 s"):
        measure_impact(network, TrialRunner(fake_testbed), ["cubic"], ImpactOptions(window_ns=window_ns))
    assert not fake_testbed.trials


def test_settling_must_end_before_the_window(network: Topology, fake_testbed: Any) -> None:
    with pytest.raises(InputError, match="--settle"):
        measure_impact(
            network, TrialRunner(fake_testbed), ["cubic"], ImpactOptions(window_ns=SECOND, settle_ns=SECOND)
        )
