"""Random dynamics: what is drawn, that small ones fit a small machine, and how benchmarks report them."""

import importlib

import pytest

SECOND = 10**9


@pytest.fixture(scope="module")
def dynamics():
    return importlib.import_module("benchmarks.decision.dynamics")


def test_dynamics_fit_a_small_machine_and_are_the_same_every_time(dynamics):
    drawn = dynamics.dynamics(30)
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


@pytest.fixture(scope="module")
def draws():
    return importlib.import_module("benchmarks.decision._dynamics")


def test_dynamics_of_hosts_have_up_to_six_paths_and_buffers_that_grow(draws):
    of_hosts = draws.drawn("hosts", 1, 40)
    assert {len(draw.topology.paths) for draw in of_hosts} == {2, 3, 4, 5, 6}
    assert {(draw.buffer_mode, draw.buffer_bytes) for draw in of_hosts} == {("auto", 4 << 20)}
    assert {draw.trial("fullmesh").buffer_mode for draw in of_hosts} == {"auto"}
    others = draws.drawn("any", 1, 40)
    assert {len(draw.topology.paths) for draw in others} == {2, 3, 4}
    assert {draw.buffer_mode for draw in others} == {"fixed"}


def test_a_trial_of_a_dynamic_has_its_network_and_its_seed(draws):
    (draw,) = draws.drawn("any", 7, 1)
    trial = draw.trial("default", draw.topology.paths[1].label)
    assert (trial.topology, trial.script, trial.seed) == (draw.topology, draw.script, 7)
    assert (trial.pm, trial.initial_path) == ("default", draw.topology.paths[1].label)
    assert draw.mbps(trial.workload.duration_ns // 8000) == pytest.approx(1.0, rel=1e-3)


def test_contenders_are_compared_with_the_better_of_both_and_with_the_best_of_all():
    policies = importlib.import_module("benchmarks.decision.path_policies")

    def dynamic(fullmesh, best, **mbps):
        return policies.Dynamic(
            seed=1, cc="cubic", description="", policies=mbps, fullmesh=fullmesh, best=best
        )

    ratios = policies.ratios([dynamic(10, 20, hold=19, guard=25)])
    assert ratios["hold / better of both"] == [0.95] and ratios["hold / best of all"] == [0.76]
    assert ratios["guard / best of all"] == [1.0] and ratios["fullmesh / better of both"] == [0.5]
    assert "hold / better of both, cubic" not in ratios
    alone = policies.ratios([dynamic(10, 20, hold=19)])
    assert alone["hold / better of both, cubic"] == [0.95] and "hold / best of all" not in alone


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
