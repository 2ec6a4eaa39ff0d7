"""The main job for other workloads than messages: programs, bulk by its seconds, a video."""

import json
from typing import Any

import msgspec
import pytest

from mptune.errors import Failure, MptuneError
from mptune.result.making_by_objective import objective_document
from mptune.testbeds import Testbed
from mptune.topology import Topology
from mptune.trial import (
    Bulk,
    Commands,
    Observation,
    Piece,
    Programs,
    Saturating,
    Trial,
    Video,
    Workload,
)
from tests.optimisation.formulas import MS, OPTIONS, SECOND, VIDEO, Calls, changed, run


class Downloads(Calls):
    """A client that ends when it has read 4 MB, and has a second of its own to begin with."""

    def check_workload(self, workload: Workload) -> None:
        """It has them."""

    def run(self, trial: Trial) -> Observation:
        if not isinstance(trial.workload, Programs):
            return super().run(trial)
        self.trials.append(trial)
        like: Observation = self._saturated.run(
            msgspec.structs.replace(trial, workload=Bulk(duration_ns=SECOND))
        )
        took_ns = SECOND + round(32e6 / like.throughput_bps * SECOND)
        failed = self.fails(trial)
        return msgspec.structs.replace(
            like,
            duration_ns=took_ns,
            in_order_bytes=4_000_000,
            completion_ns=None if failed else took_ns,
            failed=failed,
        )


@pytest.mark.parametrize("objective", [None, "throughput"])
def test_programs_are_judged_by_their_end_or_their_throughput(
    network: Topology, fake_testbed: Any, objective: str | None
) -> None:
    programs = Commands(client=("./client",), server=("./server", "-x"))
    result = run(network, Downloads(fake_testbed), workload=programs, objective=objective)
    names = [figure.name for figure in result.figures]
    assert names == (["throughput", "completion time"] if objective else ["completion time", "throughput"])
    assert (result.throughput.name, result.outage) == ("throughput of one alone", None)
    # What programs send is not known: every buffer is swept.
    assert {point.buffer_bytes for point in result.points} == set(OPTIONS.buffers)
    means = [point.mean for point in result.points]
    best = max(means) if objective else min(means)
    assert result.best.mean == best
    assert result.chosen.mean == pytest.approx(best, rel=0.01)
    document = json.loads(json.dumps(objective_document(result)))
    assert document["workload"]["server"] == ["./server", "-x"]
    assert "the program ./client" in document["answer"][0]


def test_programs_that_fail_are_no_answer(network: Topology, fake_testbed: Any) -> None:
    testbed = Downloads(fake_testbed)
    testbed.fails = lambda trial: Failure("died", "client: ended with status 1")
    programs = Commands(client=("a",), server=("b",))
    with pytest.raises(MptuneError, match="no configuration completed a trial"):
        run(network, testbed, workload=programs)


class Uneven(Testbed):
    """More throughput with cubic, which stands still in every third second; reno is steady."""

    name = "fake"
    parallel: int | None = 1

    def __init__(self, saturated: Any) -> None:
        self._saturated = saturated
        self.trials: list[Trial] = []

    def run(self, trial: Trial) -> Observation:
        self.trials.append(trial)
        like: Observation = self._saturated.run(trial)
        rates = [0, 6_000_000, 6_000_000] if trial.cc == "cubic" else [3_000_000] * 3
        sizes = [rate // 80 for rate in rates * 7 for _ in range(10)]
        return msgspec.structs.replace(
            like, duration_ns=21 * SECOND, in_order_bytes=sum(sizes), bins=sizes, failed=None
        )


@pytest.mark.parametrize(
    ("changes", "cc", "objective"),
    [
        ({}, "cubic", "throughput"),
        ({"objective": "throughput:p5"}, "reno", "throughput p5"),
        ({"at_least_p5_bps": 2_000_000}, "reno", "throughput"),
    ],
)
def test_bad_seconds_of_a_saturated_sender_are_an_objective_and_a_limit(
    network: Topology, fake_testbed: Any, changes: dict[str, Any], cc: str, objective: str
) -> None:
    testbed = Uneven(fake_testbed)
    result = run(network, testbed, workload=Saturating(), **changes)
    assert (result.chosen.combination.cc, result.objective) == (cc, objective)
    assert result.chosen.kept
    values = {figure.name: figure.ours.mean for figure in result.table if figure.ours is not None}
    assert values.pop("round trips under load") > 0
    expected = {"cubic": (4.0, 0.0), "reno": (3.0, 3.0)}[cc]
    assert (values["throughput"], values["throughput p5"]) == expected
    assert len(result.table) == 3 and result.figures[0].name == objective
    # No trial of a saturated sender beside those of the workload, and none twice in the records.
    assert {trial.workload for trial in testbed.trials} == {Bulk(duration_ns=20 * SECOND)}
    keys = [
        (kept.purpose, kept.run, kept.pm, kept.cc, kept.buffer_bytes, str(kept.settings))
        for kept in result.records
    ]
    assert len(set(keys)) == len(keys)
    document = objective_document(result)
    assert document["workload"] == {"kind": "bulk", "duration_ns": 20 * SECOND}


class Watched(Testbed):
    """Plays 4 Mbit/s with cubic and 1 Mbit/s with reno; on one subflow alone it stalls for a tenth."""

    name = "fake"
    parallel: int | None = 1

    def __init__(self, saturated: Any) -> None:
        self._saturated = saturated

    def run(self, trial: Trial) -> Observation:
        like: Observation = self._saturated.run(
            msgspec.structs.replace(trial, workload=Bulk(duration_ns=SECOND), script=())
        )
        if not isinstance(trial.workload, Video):
            return like
        alone = trial.protocol == "tcp" or len(trial.pm_options.get("active", "ABC")) == 1
        piece = Piece(
            at_ns=0,
            bytes=500_000 if trial.cc == "cubic" or alone else 125_000,
            stalled_ns=SECOND // 10 if alone else 0,
        )
        pieces = [msgspec.structs.replace(piece, at_ns=number * SECOND) for number in range(10)]
        return msgspec.structs.replace(like, delays_ns=[100 * MS] * 10, pieces=pieces)


@pytest.mark.parametrize("objective", [None, "video:bitrate", "video:stalled"])
def test_more_quality_is_better_and_fewer_stalls_are(
    network: Topology, fake_testbed: Any, objective: str | None
) -> None:
    limited = changed(workload=VIDEO, at_most_stalled=0.01, objective=objective)
    assert [(limit.metric.name, limit.limit) for limit in limited.limits] == [("stalled share", 1.0)]
    result = run(network, Watched(fake_testbed), workload=VIDEO, at_most_stalled=0.01, objective=objective)
    assert result.objective == {None: "quality", "video:bitrate": "bitrate"}.get(objective, "stalled share")
    assert result.chosen.combination.cc == "cubic" and result.chosen.kept
    assert all(point.kept != (len(point.combination.subflows) == 1) for point in result.points)
    first = result.figures[0]
    assert first.ours is not None and first.default is not None and first.ours.mean == first.default.mean
    assert result.outage is not None and result.outage[1].name == "stalled share"
