"""Impact factors: the formulas on known series, the decisions, the sets, and the trials they come from."""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune import testbeds
from mptune.errors import InputError, TrialError
from mptune.impact import (
    Impact,
    ImpactOptions,
    PathImpact,
    SubflowSets,
    candidates,
    every_subflow_helps,
    impact_factor,
    measure_impact,
    partition,
    warnings_of,
)
from mptune.runner.runner import TrialRunner
from mptune.statistics import summarise
from mptune.store import Campaign, create
from mptune.topology import Topology, load
from mptune.trial import BIN_NS, Observation, Trial
from mptune.trial.stacks import STACKS

SECOND = 1_000_000_000
OPTIONS = ImpactOptions(design="eq5", runs=3, window_ns=2 * SECOND)


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


def test_without_a_positive_one_the_best_is_used_with_a_warning() -> None:
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
    means = {path.path: path.omega.mean for path in impact.paths if path.omega}
    assert means == pytest.approx({"A-X": 80 / 90, "B-X": 20 / 90, "C-X": -10 / 90}, abs=1e-6)
    assert (impact.sets.optional, impact.sets.standby) == (("A-X", "B-X"), ("C-X",))
    assert [path.rtt_ms for path in impact.paths] == [20.0] * 3
    assert impact.sets.rtt_ns == dict.fromkeys(["A-X", "B-X", "C-X"], 10_000_000)
    assert len(records) == 3 * 3 and not impact.warnings


def test_each_trial_withdraws_one_subflow_half_way(network: Topology, fake_testbed: Any) -> None:
    measure_impact(network, TrialRunner(fake_testbed), ["reno", "cubic"], OPTIONS)
    for trial in fake_testbed.trials:
        (action,) = trial.script
        assert (action.action, action.at_ns, trial.workload.limit_ns) == ("standby", 2 * SECOND, 4 * SECOND)
        assert trial.pm == "fullmesh" and not trial.pm_options
    withdrawn = {(trial.cc, trial.script[0].path) for trial in fake_testbed.trials}
    assert len(withdrawn) == 6
    assert len({trial.seed for trial in fake_testbed.trials}) == OPTIONS.runs


def test_failed_runs_are_left_out_and_reported(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.fails = lambda trial: "stalled" if trial.script[0].path == "B-X" else None
    (impact,), records = measure_impact(network, TrialRunner(fake_testbed), ["cubic"], OPTIONS)
    unknown = next(path for path in impact.paths if path.path == "B-X")
    assert unknown.omega is None
    assert "B-X" in impact.sets.optional  # in doubt as FullMesh does
    assert any("3 of 9" in text and "stalled" in text for text in impact.warnings)
    assert any("no impact factor for B-X" in text for text in impact.warnings)
    assert all((record.omega is None) == (record.withdrawn == "B-X") for record in records)


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
    assert all(path.omega is None for path in impact.paths)
    assert all(record.throughput_mbps is None and record.failed for record in records)


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


PAIRED = ImpactOptions(window_ns=2 * SECOND)


def measured(network: Topology, testbed: Any, options: ImpactOptions = PAIRED) -> Impact:
    (impact,), _ = measure_impact(network, TrialRunner(testbed, 1), ["cubic"], options)
    return impact


def withdrawals(testbed: Any) -> list[Trial]:
    """The trials of the factors; the others compare sets."""
    return [trial for trial in testbed.trials if trial.script]


def decisions(impact: Impact) -> dict[str, str]:
    return {path.path: path.decision for path in impact.paths}


def declining(noise: float) -> Callable[[Trial, float], float]:
    """Throughput that halves every 15 s, with a random level in every second."""

    @cache
    def level(seed: int, turns: int, second: int) -> float:
        return max(random.Random(f"{seed}/{turns}/{second}").gauss(1.0, noise), 0.0)

    def drift(trial: Trial, at_s: float) -> float:
        return float(0.5 ** (at_s / 15) * level(trial.seed, len(trial.script), int(at_s)))

    return drift


def test_a_paired_trial_withdraws_every_subflow_for_one_window(network: Topology, fake_testbed: Any) -> None:
    measured(network, fake_testbed)
    orders = set()
    for trial in withdrawals(fake_testbed):
        at = [event.at_ns // (2 * SECOND) for event in trial.script]
        assert at == list(range(at[0], at[0] + 6)) and at[0] >= 3  # slow start is in the windows before
        assert [event.action for event in trial.script] == ["standby", "active"] * 3
        assert [event.path for event in trial.script[::2]] == [event.path for event in trial.script[1::2]]
        assert trial.workload.limit_ns == (at[-1] + 1) * 2 * SECOND
        orders.add(tuple(event.path for event in trial.script[::2]))
    assert all(sorted(order) == ["A-X", "B-X", "C-X"] for order in orders)
    assert orders == {order[::-1] for order in orders}  # every second trial has it backwards


def test_paired_factors_are_shares_of_the_throughput(network: Topology, fake_testbed: Any) -> None:
    """Of 90 Mbit/s in total, A gives 80, B 20, and C takes 10."""
    impact = measured(network, fake_testbed)
    means = {path.path: path.omega.mean for path in impact.paths if path.omega}
    assert means == pytest.approx({"A-X": 80 / 90, "B-X": 20 / 90, "C-X": -10 / 90}, rel=0.03)
    assert (impact.sets.optional, impact.sets.standby) == (("A-X", "B-X"), ("C-X",))
    assert impact.plausible and not impact.warnings and not impact.homogeneous
    assert impact.sets.rtt_ns == dict.fromkeys(["A-X", "B-X", "C-X"], 10_000_000)
    assert impact.trials == len(fake_testbed.trials)
    assert impact.measured_ns == sum(trial.workload.limit_ns for trial in fake_testbed.trials)


def test_a_straight_drift_cancels_and_a_sudden_change_is_left_out(
    network: Topology, fake_testbed: Any
) -> None:
    """The level falls by a tenth of its beginning every 8 s; the first second of every window is noise."""
    fake_testbed.noise = 0.0
    fake_testbed.gives = {"A-X": 50.0, "B-X": 50.0, "C-X": 0.0}
    fake_testbed.drift = lambda trial, at_s: (1 - at_s / 80) * (9 if at_s % 2 < 1 else 1)
    impact = measured(network, fake_testbed, ImpactOptions(window_ns=2 * SECOND, settle_ns=SECOND))
    assert {path.path: path.omega.mean for path in impact.paths if path.omega} == pytest.approx(
        {"A-X": 0.5, "B-X": 0.5, "C-X": 0.0}, abs=1e-6
    )
    assert decisions(impact) == {"A-X": "helps", "B-X": "helps", "C-X": "does not matter"}


def test_decline_and_noise_mislead_the_formula_and_not_the_pairs(
    network: Topology, fake_testbed: Any
) -> None:
    """The stated error rate is 5 % for all subflows of a set: held against 100 seeds."""
    fake_testbed.gives = {"A-X": 80.0, "B-X": -10.0, "C-X": 0.0}
    fake_testbed.drift = declining(0.1)
    seeds = range(100)
    by_pairs = [
        decisions(measured(network, fake_testbed, ImpactOptions(window_ns=2 * SECOND, seed=seed)))
        for seed in seeds
    ]
    right = [
        (record["A-X"], record["B-X"]) == ("helps", "hurts")
        and record["C-X"] in ("unresolved", "does not matter")
        for record in by_pairs
    ]
    assert sum(right) >= 0.95 * len(seeds)
    by_formula = [
        measured(network, fake_testbed, ImpactOptions(design="eq5", window_ns=10 * SECOND, seed=seed))
        for seed in seeds[:20]
    ]
    assert all("B-X" in impact.sets.optional for impact in by_formula)


def test_what_is_decided_is_measured_no_more(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.gives = {"A-X": 90.0, "B-X": 10.0, "C-X": 0.5}
    fake_testbed.drift = lambda trial, at_s: 1 + random.Random(f"{trial.seed}/{int(at_s)}").gauss(0, 0.05)
    impact = measured(network, fake_testbed)
    withdrawn = {
        path: sum(any(event.path == path for event in trial.script) for trial in withdrawals(fake_testbed))
        for path in fake_testbed.gives
    }
    assert withdrawn["A-X"] < withdrawn["C-X"] <= 32 and withdrawn["A-X"] <= withdrawn["B-X"]
    assert {path.path: path.omega.n for path in impact.paths if path.omega} == withdrawn


def test_too_few_runs_leave_the_signs_unresolved_and_doubtful(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.drift = declining(0.3)
    impact = measured(network, fake_testbed, ImpactOptions(window_ns=2 * SECOND, runs=1))
    assert set(decisions(impact).values()) == {"unresolved"} and len(fake_testbed.trials) == 1
    assert not impact.plausible and "A-X, B-X, C-X help or hurt" in impact.doubts[0]
    assert any("do not show whether" in text for text in impact.warnings)


def test_failed_trials_make_the_factors_doubtful(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.fails = lambda trial: "stalled" if trial.seed % 3 == 0 else None
    impact = measured(network, fake_testbed)
    failed, done = (
        sum(trial.seed % 3 == 0 for trial in withdrawals(fake_testbed)),
        len(withdrawals(fake_testbed)),
    )
    assert failed and any(f"{failed} of {done} withdrawal" in text for text in impact.warnings)
    assert any("of the trials failed" in text for text in impact.doubts)
    assert impact.sets.standby == ("C-X",)


def test_a_paired_trial_that_delivers_nothing_is_a_failed_one(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.gives = dict.fromkeys(fake_testbed.gives, 0.0)
    (impact,), records = measure_impact(network, TrialRunner(fake_testbed), ["cubic"], PAIRED)
    assert all(path.omega is None for path in impact.paths) and not impact.plausible
    assert all(record.throughput_mbps is None and record.failed for record in records)
    assert impact.sets.optional == ("A-X", "B-X", "C-X")


@pytest.mark.parametrize(
    ("gives", "homogeneous"),
    [
        ((30.0, 30.0, 30.0), True),
        ((50.0, 30.0, 10.0), True),
        ((60.0, 30.0, -10.0), False),
        ((60.0, 30.0, 0.0), False),
    ],
)
def test_homogeneous_means_that_every_subflow_helps(
    gives: tuple[float, ...], homogeneous: bool, network: Topology, fake_testbed: Any
) -> None:
    """However unlike they are; and then no set can be better, so that none is tried (MPCOA 5.3)."""
    fake_testbed.gives = dict(zip(fake_testbed.gives, gives, strict=True))
    fake_testbed.drift = declining(0.02)
    impact = measured(network, fake_testbed)
    assert impact.homogeneous is homogeneous
    assert bool(impact.compared) is not homogeneous
    assert (impact.sets.optional == ("A-X", "B-X", "C-X")) or not homogeneous


def test_the_homogeneous_pair_of_the_paper_is_homogeneous() -> None:
    """Its ISPs differ by a factor of three, which a test for equal factors took for the contrary."""
    pair = load("UiT-HAW")
    (impact,), _ = measure_impact(
        pair, TrialRunner(testbeds.create("simulated")), ["cubic"], ImpactOptions(), stack=STACKS["v0.9x"]
    )
    assert impact.homogeneous and impact.sets.optional == ("P-D", "T-D")


def test_published_factors_are_homogeneous_by_the_same_rule() -> None:
    assert every_subflow_helps([0.4, 0.6]) and every_subflow_helps([0.9, 0.1])
    assert not (every_subflow_helps([0.4, 0.0]) or every_subflow_helps([0.4, -0.1]))
    assert not every_subflow_helps([0.4, None])


def test_equal_factors_of_a_decline_are_not_homogeneous(network: Topology, fake_testbed: Any) -> None:
    """By the papers' formula every subflow loses the same share when the throughput falls by itself."""
    fake_testbed.gives = {"A-X": 90.0, "B-X": 0.0, "C-X": 0.0}
    fake_testbed.drift = lambda trial, at_s: 1.0 if at_s < 2 else 0.1
    impact = measured(network, fake_testbed, OPTIONS)
    assert impact.sets.optional == ("A-X", "B-X", "C-X")
    assert not impact.plausible and not impact.homogeneous


def test_an_interrupted_measurement_continues_with_the_same_batches(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    fake_testbed.drift = declining(0.2)
    whole = measure_impact(network, TrialRunner(fake_testbed), ["cubic", "reno"], PAIRED)
    number = len(fake_testbed.trials)

    def stop(done: int, total: int, note: str = "") -> None:
        if done == 10:
            raise KeyboardInterrupt

    with create(tmp_path / "s", Campaign(name="x", settings={}, environment={})) as store:
        runner = TrialRunner(fake_testbed, 1, store)
        with pytest.raises(KeyboardInterrupt):
            measure_impact(network, runner, ["cubic", "reno"], PAIRED, progress=stop)
        store.flush()
        kept = len(store.finished())
        fake_testbed.trials.clear()
        assert measure_impact(network, runner, ["cubic", "reno"], PAIRED) == whole
        assert 8 <= kept < number and kept + len(fake_testbed.trials) == number
        phases = {phase.purpose: (phase.planned, phase.done) for phase in store.progress()}
        assert set(phases) == {"impact", "sets"}
        assert all(planned == done for planned, done in phases.values())
        assert sum(done for _, done in phases.values()) == number


def test_plausible_factors_leave_few_sets_to_compare(network: Topology, fake_testbed: Any) -> None:
    impact = measured(network, fake_testbed)
    assert impact.plausible
    by_name = {candidate.name: candidate.optional for candidate in candidates(impact, network)}
    assert by_name == {
        "sign": ("A-X", "B-X"),
        "all": ("A-X", "B-X", "C-X"),  # also the sign set with one more
        "single": ("A-X",),  # also the sign set with one fewer
    }


def test_factors_without_a_clear_sign_let_every_nested_set_compete(
    network: Topology, fake_testbed: Any
) -> None:
    impact = measured(network, fake_testbed, ImpactOptions(window_ns=2 * SECOND, runs=1))
    assert not impact.plausible
    paths = [msgspec.structs.replace(path, carried_mbps=9.0 * (path.path == "C-X")) for path in impact.paths]
    sets = candidates(msgspec.structs.replace(impact, paths=tuple(paths)), network)
    assert {candidate.name: candidate.optional for candidate in sets} == {
        "sign": ("A-X", "B-X"),  # also top 2
        "all": ("A-X", "B-X", "C-X"),
        "single": ("C-X",),
        "top 1": ("A-X",),
    }
    assert {candidate.name: candidate.standby for candidate in sets}["single"] == ("A-X", "B-X")
    assert all(candidate.rtt_ns == impact.sets.rtt_ns for candidate in sets)


@given(
    st.lists(st.none() | st.floats(-2, 1), min_size=3, max_size=3),
    st.lists(st.none() | st.floats(0, 100), min_size=3, max_size=3),
    st.booleans(),
)
def test_candidates_are_distinct_and_complete_partitions(
    means: list[float | None], carried: list[float | None], plausible: bool
) -> None:
    labels = ("A-X", "B-X", "C-X")
    topology: Any = SimpleNamespace(
        paths=[
            SimpleNamespace(label=label, local_index=index, remote_index=0)
            for index, label in enumerate(labels)
        ]
    )
    impact = Impact(
        cc="reno",
        paths=tuple(
            PathImpact(
                path=label,
                omega=None if mean is None else summarise([mean]),
                rtt_ms=None,
                carried_mbps=rate,
            )
            for label, mean, rate in zip(labels, means, carried, strict=True)
        ),
        sets=partition(dict(zip(labels, means, strict=True))),
        warnings=(),
        doubts=() if plausible else ("no",),
    )
    sets = candidates(impact, topology)
    assert all(
        candidate.optional and sorted((*candidate.optional, *candidate.standby)) == list(labels)
        for candidate in sets
    )
    assert (
        len({frozenset(candidate.optional) for candidate in sets})
        == len(sets)
        == len({candidate.name for candidate in sets})
    )
    assert sets[0].optional == impact.sets.optional and labels in {candidate.optional for candidate in sets}


@pytest.mark.parametrize(
    ("means", "disjoint"),
    [
        # By the factors alone A-C and A-D are best, and share A.
        ((0.9, 0.8, 0.3, 0.2), ("A-C", "B-D")),
        # The second best crosses the first: nothing shares an interface, all others do.
        ((0.1, 0.9, 0.8, 0.2), ("A-D", "B-C")),
    ],
)
def test_the_best_subflows_without_a_common_interface_compete(
    means: tuple[float, ...], disjoint: tuple[str, ...]
) -> None:
    labels = ("A-C", "A-D", "B-C", "B-D")
    topology: Any = SimpleNamespace(
        paths=[
            SimpleNamespace(label=label, local_index=index // 2, remote_index=index % 2)
            for index, label in enumerate(labels)
        ]
    )
    paths = tuple(
        PathImpact(path=label, omega=summarise([mean]), rtt_ms=None, carried_mbps=10 * mean)
        for label, mean in zip(labels, means, strict=True)
    )
    sets = partition(dict(zip(labels, means, strict=True)))
    impact = Impact(cc="reno", paths=paths, sets=sets, warnings=(), doubts=())
    named = {candidate.name: candidate.optional for candidate in candidates(impact, topology)}
    assert named["disjoint"] == disjoint


def test_two_equal_trials_are_no_certainty(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.noise = 0.0
    impact = measured(network, fake_testbed, ImpactOptions(window_ns=2 * SECOND, runs=3))
    assert set(decisions(impact).values()) == {"unresolved"} and not impact.plausible


def test_what_several_congestion_controls_warn_of_is_listed_once() -> None:
    def impact(cc: str, *texts: str) -> Impact:
        sets = SubflowSets(optional=("A-X",), standby=())
        return Impact(cc=cc, paths=(), sets=sets, warnings=tuple(f"{cc}: {text}" for text in texts))

    warnings = warnings_of([impact("reno", "one.", "two."), impact("cubic", "two."), impact("olia")])
    assert warnings == ["reno: one.", "reno, cubic: two."]
