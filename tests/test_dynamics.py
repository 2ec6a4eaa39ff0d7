"""The dynamics of benchmarks/decision/dynamics.py: they fit a small machine, and how they are reported."""

import importlib

import pytest

SECOND = 10**9


@pytest.fixture(scope="module")
def dynamics():
    return importlib.import_module("benchmarks.decision.dynamics")


def test_dynamics_fit_a_small_machine_and_are_the_same_every_time(dynamics):
    drawn = list(dynamics.dynamics(30))
    assert [dynamic.seed for dynamic in dynamics.dynamics(30)] == [dynamic.seed for dynamic in drawn]
    for draw in drawn:
        rates = []
        for path in draw.topology.paths:
            schedule = path.core.forward_effects.schedule
            steps = [step for step in (schedule.steps if schedule else ()) if step.rate_bps is not None]
            rates.append(max([path.core.rate_bps, *(step.rate_bps for step in steps)]))
            assert all(step.at_ns < draw.duration_ns for step in steps)
        assert 2 <= len(rates) <= 3 and sum(rates) <= 80_000_000
        assert 40 * SECOND <= draw.duration_ns <= 60 * SECOND
        times = [event.at_ns for event in draw.events]
        assert times and times == sorted(times) and times[-1] < draw.duration_ns
        downs = [action.at_ns for action in draw.script if action.action == "down"]
        assert set(downs) <= set(times)


def test_a_demotion_counts_from_the_event_until_the_next_one(dynamics):
    drawn = next(dynamic for dynamic in dynamics.dynamics(200) if len(dynamic.events) == 2)
    (first, second), label = drawn.events, drawn.topology.paths[drawn.events[0].path].label

    def after(*changes):
        return [demotion.after_s for demotion in dynamics.demotions(drawn, changes, {0: 0.5}.get)]

    at_s, next_s = first.at_ns / SECOND, second.at_ns / SECOND
    middle_s = (at_s + next_s) / 2
    assert after((middle_s, label, "standby")) == [pytest.approx(middle_s - at_s)]
    assert after((next_s + 1, label, "standby")) == after() == [None]
    assert after((at_s - 1, label, "standby"), (middle_s, label, "active")) == []
    assert after((middle_s, "elsewhere", "standby")) == [None]


def test_guard_is_compared_with_the_best_path_of_each_dynamic(dynamics):
    def outcome(guard, fullmesh, alone):
        return dynamics.Outcome(
            seed=1,
            description="",
            minutes=1.0,
            mbps={"default": 2.0, "fullmesh": fullmesh, "guard": guard},
            alone=alone,
            changes=1,
            limited=0.5,
            demotions=[],
            failed={},
        )

    outcomes = [outcome(9.0, 3.0, {"A-X": 2.0, "B-X": 10.0}), outcome(9.0, 18.0, {"A-X": 9.0, "B-X": 1.0})]
    ratios = dynamics.ratios(outcomes)
    assert ratios["guard / fullmesh"] == pytest.approx([3.0, 0.5])
    assert ratios["guard / best single path"] == pytest.approx([0.9, 1.0])
    assert ratios["guard / better of fullmesh and best single path"] == pytest.approx([0.9, 0.5])
    assert "guard / mptcpd" not in ratios
    assert [row[-1] for row in dynamics.table(outcomes)[1:4]] == ["50 %", "0 %", "50 %"]
