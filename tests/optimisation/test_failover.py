"""Timeouts for a limit on what a dead path costs, on a testbed of formulas where the answer is known."""

import math
from typing import Any

import msgspec
import pytest

from mptune.errors import Failure, InputError
from mptune.optimisation.by_objective import ObjectiveResult
from mptune.result import wording
from mptune.result.answer import ObjectiveAnswer
from mptune.result.making_by_objective import objective_document
from mptune.topology import Topology
from mptune.trial import Observation, Trial
from tests.optimisation.formulas import MS, Calls, changed, run

#: The first message after a cut waits for this long, ms, by the timeouts of the hosts.
COST = {(4, 200_000): 900.0, (1, 200_000): 500.0, (1, 100_000): 300.0, (1, 50_000): 150.0, (1, 20_000): 60.0}


class Dying(Calls):
    """Every message of a path that was cut is late by what the timeouts cost."""

    def __init__(self, saturated: Any) -> None:
        super().__init__(saturated)
        #: Factors of all delays and rates by the least timeout, and of the cost by path.
        self.spoils: dict[int, float] = {}
        self.costs = {"A-X": 1.0, "B-X": 1.0, "C-X": 1.0}
        self.scatter = lambda trial: self.spoils.get(trial.rto_min_us, 1.0)

    def run(self, trial: Trial) -> Observation:
        done = super().run(msgspec.structs.replace(trial, script=()))
        if not trial.script or done.failed:
            return done
        (cut,) = trial.script
        cost = COST[trial.stale_loss_cnt, trial.rto_min_us] * self.costs[cut.path]
        number = cut.at_ns // (100 * MS) + 1
        late = [ns + round(cost * MS) * (at == number) for at, ns in enumerate(done.delays_ns)]
        return msgspec.structs.replace(done, delays_ns=late)


@pytest.fixture
def dying(fake_testbed: Any) -> Dying:
    return Dying(fake_testbed)


def answered(network: Topology, testbed: Calls, limit_ms: int, **changes: Any) -> ObjectiveResult:
    return run(network, testbed, at_most_failover_ns=limit_ms * MS, pms=("fullmesh",), tcp=False, **changes)


@pytest.mark.parametrize(
    ("limit_ms", "members"),
    [
        (1200, {}),
        (650, {"stale_loss_cnt": 1}),
        (450, {"stale_loss_cnt": 1, "rto_min_us": 100_000}),
        (300, {"stale_loss_cnt": 1, "rto_min_us": 50_000}),
    ],
)
def test_the_mildest_timeouts_that_keep_the_limit_are_taken(
    network: Topology, dying: Dying, limit_ms: int, members: dict[str, int]
) -> None:
    result = answered(network, dying, limit_ms)
    assert result.failover is not None and result.failover.kept
    assert result.failover.members == members
    told = msgspec.structs.asdict(result.recommended.stack)
    assert {name: told[name] for name in members} == members
    # The interval, and the lateness of the first message after the cut.
    expected = 100 + COST[told["stale_loss_cnt"], told["rto_min_us"]]
    assert result.failover.ours.ms == pytest.approx(expected)
    assert result.failover.default.ms == pytest.approx(1000)
    assert not result.warnings


def test_the_path_whose_death_costs_most_counts(network: Topology, dying: Dying) -> None:
    dying.costs = {"A-X": 1.0, "B-X": 1.5, "C-X": 0.5}
    result = answered(network, dying, 650)
    assert result.failover is not None and result.failover.ours.path == "B-X"
    assert result.failover.members == {"stale_loss_cnt": 1, "rto_min_us": 100_000}
    cut = {action.path for trial in dying.trials for action in trial.script}
    assert cut == set(), "the formula takes scripts off"


def test_where_nothing_keeps_the_limit_the_nearest_is_recommended(network: Topology, dying: Dying) -> None:
    # The slowest path's messages leave gaps of 170 ms anyway.
    result = answered(network, dying, 100)
    assert result.failover is not None and not result.failover.kept
    assert result.failover.members == {"stale_loss_cnt": 1, "rto_min_us": 20_000}
    (warning,) = result.warnings
    assert warning == "No timeouts keep a dead path within 100 ms: the nearest are recommended (170 ms, C-X)."


def test_timeouts_that_spoil_what_they_are_for_are_left_out(network: Topology, dying: Dying) -> None:
    dying.spoils = {50_000: 1.5, 20_000: 1.5}
    result = answered(network, dying, 200)
    assert result.failover is not None and result.failover.spoilt == 2
    assert result.failover.members == {"stale_loss_cnt": 1, "rto_min_us": 100_000}


def test_a_connection_that_a_dead_path_ends_costs_without_a_bound(network: Topology, dying: Dying) -> None:
    lost = Failure("stalled", "nobody took over")
    dying.fails = lambda trial: lost if trial.rto_min_us == 200_000 and trial.seed % 2 else None
    result = answered(network, dying, 500, runs=20, confirm_runs=20)
    assert result.failover is not None and math.isinf(result.failover.tried[0][1])
    assert math.isfinite(result.failover.ours.ms)
    document = objective_document(result)
    assert document["failover"]["tried"][0] == [{}, None]


def test_the_document_has_the_settings_and_what_was_tried(network: Topology, dying: Dying) -> None:
    result = answered(network, dying, 450)
    document = msgspec.convert(objective_document(result), ObjectiveAnswer)
    both = {"net.mptcp.stale_loss_cnt": "1", "net.ipv4.tcp_rto_min_us": "100000"}
    assert document.recommended.sysctls == both and document.default.sysctls == {}
    assert document.failover is not None and document.failover.kept
    assert document.failover.tried == (
        ({}, 1000.0),
        ({"net.mptcp.stale_loss_cnt": "1"}, 600.0),
        (both, 400.0),
    )
    assert document.answer[-1] == (
        "With net.mptcp.stale_loss_cnt = 1, net.ipv4.tcp_rto_min_us = 100000 on both hosts a dead path costs "
        "at most 400.0 ms (C-X) in 95 % of the cases; the default: at most 1000 ms (C-X)."
    )
    assert document.answer[-1:] == tuple(wording.failover_sentences(result.failover))  # type: ignore[arg-type]


def test_timeouts_are_either_searched_or_given() -> None:
    options = changed(at_most_failover_ns=500 * MS)
    given = msgspec.structs.replace(options.stack, rto_min_us=50_000)
    with pytest.raises(InputError, match="--at-most-failover: expected only without --rto-min-us"):
        msgspec.structs.replace(options, stack=given).check()
    with pytest.raises(InputError, match="--at-most-failover: expected only with --workload"):
        msgspec.structs.replace(options, workload=None).check()


def test_a_testbed_that_cuts_no_path_cannot_search_them(network: Topology, dying: Dying) -> None:
    dying.cuts = False
    with pytest.raises(
        InputError, match="--at-most-failover: expected a testbed that cuts paths, found fake"
    ):
        answered(network, dying, 500)
    assert not dying.trials


def test_where_the_choice_costs_too_much_another_set_of_subflows_is_taken(
    network: Topology, dying: Dying
) -> None:
    """The path with the quickest messages is the one whose death costs most."""
    dying.costs = {"A-X": 20.0, "B-X": 1.0, "C-X": 1.0}
    alone = run(network, dying)
    assert alone.chosen.combination.subflows == ("A-X",)
    result = run(network, dying, at_most_failover_ns=500 * MS)
    assert result.failover is not None and result.failover.kept
    assert "A-X" not in result.chosen.combination.subflows and result.chosen.combination.subflows
    assert not any("worse than the default" in warning for warning in result.warnings)


def test_plain_tcp_is_no_answer_where_a_path_may_die(network: Topology, dying: Dying) -> None:
    result = run(network, dying, at_most_failover_ns=1200 * MS, pms=("fullmesh",))
    assert run(network, dying, pms=("fullmesh",)).chosen.combination.is_tcp
    assert result.failover is not None and not result.chosen.combination.is_tcp
