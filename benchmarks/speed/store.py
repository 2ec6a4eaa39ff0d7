"""Cost of the campaign store: observations per second while simulating, and the time to resume a campaign.

Trials are short (UiT-HAW, 8 subflow-seconds of series each), so the load on the store is the highest
possible; they are measured with and without it in turns. Then a store of many finished trials is opened and
the time to the first missing trial is measured.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import machine, spread, write
from mptune.runner.planning import plan_trials
from mptune.runner.runner import TrialRunner
from mptune.store import Campaign, Store, create, open_store
from mptune.testbeds import Testbed
from mptune.testbeds import create as testbed
from mptune.topology import load
from mptune.trial import Bulk, Configuration, Observation, PlannedTrial, Trial

CAMPAIGN = Campaign(name="benchmark", settings={}, environment={})
SECOND = 10**9


class _Remembered(Testbed):
    """A testbed with the same observation for every trial, to fill a store quickly."""

    name = "simulated"
    parallel: int | None = None

    def __init__(self, observation: Observation) -> None:
        self.observation, self.first_at = observation, 0.0

    def run(self, trial: Trial) -> Observation:
        self.first_at = self.first_at or time.perf_counter()
        return self.observation


def trials(count: int, runs: int) -> list[PlannedTrial]:
    """A sweep of short trials."""
    workload = Bulk(duration_ns=2 * SECOND)
    configurations = [
        Configuration(pm="fullmesh", cc="reno", buffer_bytes=100_000 + size, workload=workload)
        for size in range(count // runs)
    ]
    return plan_trials(load("UiT-HAW"), configurations, purpose="sweep", runs=runs, base_seed=1)


@contextmanager
def fresh_store() -> Iterator[Store]:
    """A temporary store."""
    with tempfile.TemporaryDirectory() as folder, create(Path(folder) / "store", CAMPAIGN) as store:
        yield store


def rate(bed: Testbed, planned: Sequence[PlannedTrial], store: Store | None) -> float:
    """Trials per second."""
    begin = time.perf_counter()
    TrialRunner(bed, None, store).measure(planned)
    return len(planned) / (time.perf_counter() - begin)


def resume_s(finished: int) -> tuple[float, float]:
    """Seconds from opening a store of this many trials to the first missing one, and bytes per trial."""
    planned = trials(finished + 50, 50)
    observation = testbed("simulated").run(planned[0].trial)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with create(path, CAMPAIGN) as store:
            TrialRunner(_Remembered(observation), None, store).measure(planned[:finished])
        size = path.stat().st_size / finished
        waiting = _Remembered(observation)
        begin = time.perf_counter()
        with open_store(path) as store:
            TrialRunner(waiting, None, store).measure(planned)
        return waiting.first_at - begin, size


def main() -> None:
    """Print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--finished", type=int, default=100_000)
    asked = parser.parse_args()
    planned = trials(asked.trials, 50)
    simulated = testbed("simulated")
    plain, stored, alone = [], [], []
    for _ in range(asked.repeat):
        plain.append(rate(simulated, planned, None))
        with fresh_store() as store:
            stored.append(rate(simulated, planned, store))
        with fresh_store() as store:
            alone.append(rate(_Remembered(simulated.run(planned[0].trial)), planned, store))
    resumed = [resume_s(asked.finished) for _ in range(min(3, asked.repeat))]
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    table = Table("what", "median (range)")
    table.add_row("simulating without a store, trials/s", spread(plain, 0))
    table.add_row("simulating with the store, trials/s", spread(stored, 0))
    table.add_row("the store alone, observations/s", spread(alone, 0))
    table.add_row(f"resume of {asked.finished} trials, s", spread([seconds for seconds, _ in resumed]))
    table.add_row("size of an observation, bytes", f"{resumed[0][1]:.0f}")
    Console(width=140).print(table)
    write(
        "store",
        {
            "without": statistics.median(plain),
            "with": statistics.median(stored),
            "alone": statistics.median(alone),
            "resume_s": statistics.median(seconds for seconds, _ in resumed),
            "finished": asked.finished,
        },
    )


if __name__ == "__main__":
    main()
