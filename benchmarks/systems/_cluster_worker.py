"""The worker plug-in of `cluster.py`: trials of a given length, counted as they begin.

Not a benchmark. A sleeping trial costs no processor, so that two cores can hold as many workers as there are.
"""

import os
import time
from pathlib import Path

from mptune import testbeds
from mptune.testbeds import Testbed
from mptune.testbeds import create as testbed
from mptune.trial import Observation, Trial

#: Name in the environment of the file of beginnings.
BEGINNINGS = "MPTUNE_BENCHMARK_BEGINNINGS"

_simulated = testbed("simulated")


class _Lasting(Testbed):
    """The simulator, but a trial lasts as long as what it simulates."""

    name = "simulated"
    parallel: int | None = None
    anywhere = True

    def run(self, trial: Trial) -> Observation:
        if file := os.environ.get(BEGINNINGS):
            with Path(file).open("a", encoding="utf-8") as lines:
                lines.write(f"{trial.seed}\n")
        time.sleep(trial.workload.limit_ns / 1e9)
        return _simulated.run(trial)


def dask_setup(_: object) -> None:
    """Called by the worker that loads this module."""
    testbeds.TESTBEDS["simulated"] = _Lasting
