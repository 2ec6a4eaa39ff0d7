"""The main job for messages on a testbed of formulas, where the right answer is known."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mptune.errors import Failure
from mptune.optimisation.by_objective import (
    ObjectiveResult,
    optimise_by_objective,
)
from mptune.optimisation.options import OptimiseOptions
from mptune.runner.runner import TrialRunner
from mptune.testbeds import Testbed
from mptune.topology import Topology
from mptune.trial import (
    Bulk,
    Messages,
    Observation,
    Pattern,
    Trial,
    Watching,
)

MS, SECOND = 10**6, 10**9
KIB, MIB = 2**10, 2**20
VIDEO = Watching(ladder_bps=(1_000_000, 4_000_000), segment_ns=SECOND, buffer_ns=4 * SECOND)
OPTIONS = OptimiseOptions(
    pms=("fullmesh", "pcdc"),
    ccs=("cubic", "reno"),
    buffers=(64 * KIB, 256 * KIB, MIB),
    # 20 KB/s in messages of 2 KB: a standstill of 2 s is more than 64 KiB, and less than 256 KiB.
    workload=Pattern(bytes=2000, interval_ns=100 * MS),
    duration_ns=20 * SECOND,
    runs=4,
    confirm_runs=6,
)


def changed(**changes: Any) -> OptimiseOptions:
    return msgspec.structs.replace(OPTIONS, **changes)


class Calls(Testbed):
    """Delays of a formula: every tenth message goes over the slowest path, the others over the quickest.

    Attributes
    ----------
    slow_ms : delay by path.
    scatter : trial -> factor of every delay.
    """

    name = "fake"
    parallel: int | None = 1

    def __init__(self, saturated: Any) -> None:
        self._saturated = saturated
        self.trials: list[Trial] = []
        self.slow_ms = {"A-X": 20.0, "B-X": 90.0, "C-X": 50.0}
        self.scatter: Callable[[Trial], float] = lambda trial: 1.0
        self.fails: Callable[[Trial], Failure | None] = lambda trial: None
        saturated.gives = {"A-X": 8.0, "B-X": 40.0, "C-X": 20.0}
        saturated.noise = 0.0

    def run(self, trial: Trial) -> Observation:
        self.trials.append(trial)
        sent = trial.workload
        if not isinstance(sent, Messages):
            done: Observation = self._saturated.run(trial)
            return done
        carried = [self._path(trial, number) for number in range(sent.count)]
        delays = [self._delay(trial, path, number) for number, path in enumerate(carried)]
        failed = self.fails(trial)
        like = self._saturated.run(msgspec.structs.replace(trial, workload=Bulk(duration_ns=SECOND)))
        ended: Observation = msgspec.structs.replace(
            like,
            subflows=[
                msgspec.structs.replace(one, bytes=sum(path == one.path for path in carried))
                for one in like.subflows
            ],
            duration_ns=sent.duration_ns,
            in_order_bytes=sent.count * sent.bytes,
            delays_ns=[] if failed else [round(ms * MS) for ms in delays],
            failed=failed,
        )
        return ended

    def _carrying(self, trial: Trial) -> list[str]:
        if trial.protocol == "tcp":
            assert trial.initial_path is not None
            return [trial.initial_path]
        return list(trial.pm_options.get("active", self.slow_ms))

    def _path(self, trial: Trial, number: int) -> str:
        """The path of a message."""
        best, *_, worst = sorted(self._carrying(trial) * 2, key=lambda path: self.slow_ms[path])
        return worst if number % 10 == 9 else best

    def _delay(self, trial: Trial, path: str, number: int) -> float:
        ms, several = self.slow_ms[path], len(self._carrying(trial)) > 1
        if trial.cc == "reno":
            ms *= 1.3
        if trial.buffer_bytes < 256 * KIB and several:
            ms *= 2
        if trial.script and number == 105:
            ms += 200 if several else 700
        return ms * self.scatter(trial)


@pytest.fixture
def testbed(fake_testbed: Any) -> Calls:
    return Calls(fake_testbed)


def run(network: Topology, testbed: Testbed, **changes: Any) -> ObjectiveResult:
    return optimise_by_objective(network, TrialRunner(testbed, 1), changed(**changes))
