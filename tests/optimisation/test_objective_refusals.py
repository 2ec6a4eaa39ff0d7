"""Refusals of objectives, limits and workloads that contradict one another."""

from typing import Any

import pytest

from mptune.errors import InputError
from mptune.trial import (
    Pattern,
    Saturating,
)
from tests.optimisation.formulas import KIB, SECOND, VIDEO, changed


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sacrifice": 0.2}, "--sacrifice"),
        ({"model": "quadratic"}, "--model"),
        ({"off_by": 0.0}, "--off-by"),
        ({"learnt_prior": True}, "--learnt-prior"),
        ({"sets": "signs"}, "--sets"),
        ({"every_ns": SECOND, "for_ns": SECOND}, "--every"),
    ],
)
def test_what_concerns_throughput_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=f"^{named}: expected only without --workload"):
        changed(**changes).check()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload": None, "objective": "gap"}, "--objective: expected throughput with a saturated sender"),
        ({"workload": None, "at_most_gap_ns": SECOND}, "--at-most-gap: expected only with --workload"),
        (
            {"workload": None, "objective": "throughput:p5"},
            "--objective: expected throughput with a saturated sender, or --workload bulk, found",
        ),
        ({"objective": "throughput:p5"}, "--objective: expected a metric of messages, found throughput:p5"),
        ({"at_least_p5_bps": 1}, "--at-least-p5: expected only with bulk, found messages"),
        ({"workload": None, "at_least_p5_bps": 1}, "--at-least-p5: expected only with --workload"),
        (
            {"workload": Saturating(), "at_least_p5_bps": 1, "duration_ns": 19 * SECOND},
            "--duration: expected at least 20 s with throughput:p5, found 19 s",
        ),
        ({"workload": Saturating(), "at_most_delay_ns": 1}, "--at-most-delay: expected only with messages"),
        ({"transfers": (64 * KIB,)}, "--workload: expected either --workload or sizes of transfers"),
        (
            {"workload": None, "transfers": (64 * KIB,), "objective": "throughput"},
            "--objective: expected completion with sizes of transfers, or --workload, found throughput",
        ),
        ({"workload": None, "at_least_bps": 1}, "--at-least: expected only with --workload"),
        (
            {"objective": "gap,completion"},
            "--objective: expected two metrics of messages, or one and throughput, found gap,completion",
        ),
        ({"objective": "gap,gap"}, "--objective: expected two different metrics, found longest gap twice"),
        ({"objective": "gap,delay:p50,delay:p99"}, "--objective: expected one metric, or two with a comma"),
        ({"objective": "completion"}, "--objective: expected a metric of messages, found completion"),
        ({"objective": "throughput"}, "--objective: expected a metric of messages, found throughput"),
        ({"at_most_stalled": 0.01}, "--at-most-stalled: expected only with a video, found messages"),
        ({"objective": "video:quality"}, "--objective: expected a metric of messages, found video:quality"),
        ({"workload": VIDEO, "objective": "gap"}, "--objective: expected a metric of video, found gap"),
        ({"workload": VIDEO, "at_most_gap_ns": SECOND}, "--at-most-gap: expected only with messages"),
        ({"workload": Pattern(bytes=1, interval_ns=1000)}, "--workload: expected at most 1000000 messages"),
    ],
)
def test_contradictions_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        changed(**changes).check()
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": None, "objective": "throughput"},
        {"workload": None, "objective": "completion", "transfers": (64 * KIB,), "duration_ns": 30 * SECOND},
    ],
)
def test_an_objective_may_be_what_is_asked_for_anyway(changes: dict[str, Any]) -> None:
    changed(**changes).check()
