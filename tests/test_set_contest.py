"""The contest of sets: what is asked, what wins, and what it costs."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mptune.impact import Impact, ImpactOptions, SubflowSets, measure_impact
from mptune.impact._result import PathImpact
from mptune.impact._set_contest import Contest
from mptune.runner.runner import TrialRunner
from mptune.statistics import summarise
from mptune.topology import Topology
from mptune.trial import Observation, Trial

SECOND = 1_000_000_000
OPTIONS = ImpactOptions(window_ns=2 * SECOND)

#: Throughput with a set of subflows, Mbit/s.
Gives = Callable[[frozenset[str]], float]


def contest(network: Topology, gives: Gives, *, trials: int = 32) -> Contest:
    """A contest that was given everything it asked for."""
    labels = [path.label for path in network.paths]
    paths = [
        PathImpact(
            path=label, omega=summarise([0.0, 0.01]), rtt_ms=1.0, decision="does not matter", carried_mbps=1.0
        )
        for label in labels
    ]
    course = Contest(network, paths, SubflowSets(optional=tuple(labels), standby=()), trials)
    while asked := course.ask():
        course.tell(asked, [gives(frozenset(active)) for active, _ in asked])
    return course


def measured(network: Topology, testbed: Any, gives: Gives, options: ImpactOptions = OPTIONS) -> Impact:
    """Impact factors of the fake testbed, and a throughput of their own for the sets."""
    whole = testbed.run

    def run(trial: Trial) -> Observation:
        seen: Observation = whole(trial)
        if trial.pm != "pcdc":
            return seen
        total = round(gives(frozenset(trial.pm_options["active"])) * 1e6 / 8 * seen.duration_ns / 1e9)
        return msgspec.structs.replace(seen, in_order_bytes=total)

    testbed.run = run
    (impact,), _ = measure_impact(network, TrialRunner(testbed, 1), ["cubic"], options)
    return impact


def test_what_does_not_matter_is_decided_by_what_is_at_stake(network: Topology, fake_testbed: Any) -> None:
    """B and C do nothing in the middle of a connection; C costs a third of the throughput from the start."""
    fake_testbed.gives = {"A-X": 90.0, "B-X": 0.0, "C-X": 0.0}

    def gives(active: frozenset[str]) -> float:
        return (90.0 if "A-X" in active else 10.0) * (0.67 if "C-X" in active else 1.0) + len(active)

    impact = measured(network, fake_testbed, gives)
    assert {path.decision for path in impact.paths} == {"helps", "does not matter"}
    assert (impact.sets.optional, impact.sets.standby) == (("A-X", "B-X"), ("C-X",))
    assert impact.compared[0].subflows == ("A-X", "B-X")
    assert impact.trials == len(fake_testbed.trials) <= 2 * 32


def test_subflows_that_take_over_from_each_other_do_not_both_go(network: Topology, fake_testbed: Any) -> None:
    """Neither B nor C matters beside the other: they share a link, which is lost without both."""
    fake_testbed.gives = {"A-X": 90.0, "B-X": 0.0, "C-X": 0.0}
    impact = measured(
        network, fake_testbed, lambda active: 50 * ("A-X" in active) + 50 * bool(active & {"B-X", "C-X"})
    )
    assert set(impact.sets.optional) >= {"A-X"} and len(impact.sets.optional) >= 2


def test_equal_sets_leave_the_sign_s(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.gives = {"A-X": 90.0, "B-X": 0.0, "C-X": 0.0}
    impact = measured(network, fake_testbed, lambda active: 50.0)
    assert impact.sets.optional == ("A-X", "B-X", "C-X")


@pytest.mark.parametrize("best", [{"A-X"}, {"C-X"}, {"A-X", "C-X"}, {"B-X", "C-X"}, {"A-X", "B-X", "C-X"}])
def test_the_fastest_set_wins_whatever_the_factors_favour(best: set[str], network: Topology) -> None:
    course = contest(network, lambda active: 100.0 - 20 * len(active ^ best))
    assert set(course.best or ()) == best
    assert course.compared[0].subflows == course.best


@pytest.mark.parametrize("trials", [4, 7, 16, 32])
def test_a_contest_never_takes_more_trials_than_it_may(trials: int, network: Topology) -> None:
    course = contest(network, lambda active: float(len(active)), trials=trials)
    assert sum(len(comparison.throughput_mbps) for comparison in course.compared) <= trials
    assert course.best == ("A-X", "B-X", "C-X")


def test_what_delivers_nothing_changes_nothing(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.gives = {"A-X": 90.0, "B-X": 0.0, "C-X": -10.0}
    impact = measured(network, fake_testbed, lambda active: 0.0)
    assert impact.sets.optional == ("A-X", "B-X") and impact.compared


def test_the_papers_design_has_no_contest(network: Topology, fake_testbed: Any) -> None:
    options = ImpactOptions(design="eq5", runs=3, window_ns=2 * SECOND)
    impact = measured(network, fake_testbed, lambda active: 1.0, options)
    assert not impact.compared and {trial.pm for trial in fake_testbed.trials} == {"fullmesh"}


def test_fewer_trials_than_two_of_two_sets_are_no_contest(network: Topology, fake_testbed: Any) -> None:
    impact = measured(network, fake_testbed, lambda active: 1.0, ImpactOptions(window_ns=2 * SECOND, runs=3))
    assert not impact.compared and any("sign of the mean decides" in text for text in impact.warnings)


def test_each_congestion_control_has_a_contest_of_its_own(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.gives = {"A-X": 90.0, "B-X": 0.0, "C-X": 0.0}
    whole = fake_testbed.run

    def run(trial: Trial) -> Observation:
        seen: Observation = whole(trial)
        if trial.pm != "pcdc":
            return seen
        good = {"A-X"} if trial.cc == "reno" else {"A-X", "B-X"}
        return msgspec.structs.replace(
            seen, in_order_bytes=1_000_000 * (10 - len(good ^ set(trial.pm_options["active"])))
        )

    fake_testbed.run = run
    impacts, records = measure_impact(network, TrialRunner(fake_testbed, 1), ["reno", "cubic"], OPTIONS)
    assert [impact.sets.optional for impact in impacts] == [("A-X",), ("A-X", "B-X")]
    assert sum(impact.trials for impact in impacts) == len(records) == len(fake_testbed.trials)
    contested = [trial for trial in fake_testbed.trials if trial.pm == "pcdc"]
    assert {trial.workload.limit_ns for trial in contested} == {3 * 2 * SECOND}
    assert not {trial.seed for trial in contested} & {
        trial.seed for trial in fake_testbed.trials if trial.script
    }
