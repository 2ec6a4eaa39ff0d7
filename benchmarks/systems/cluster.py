"""A cluster's efficiency with many workers, and its campaigns whose processes are killed.

Scheduler, workers and clients are processes of this machine, and the client is the command as a user runs it.
Workers run trials that sleep (`_cluster_worker`), so that two cores can hold 64 of them, as threads of a few
processes: what is measured is what mptune and dask add. Kills come at random moments; every campaign must
end with the files that one process gives, byte for byte, and trials that were begun more than once are
counted.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import machine, write
from benchmarks.speed.store import fresh_store
from benchmarks.systems._cluster_worker import BEGINNINGS
from mptune.runner.executors import ExecutorOptions
from mptune.runner.planning import plan_trials
from mptune.runner.runner import TrialRunner
from mptune.testbeds import create as testbed
from mptune.topology import load
from mptune.trial import Bulk, Configuration, PlannedTrial
from tests.plugins.waiting import until
from tests.runner.cluster import scheduler, worker

#: Trials of a campaign under fire: short ones, so that nearly all of their time is sleep.
CAMPAIGN = """
name = "cluster"
topology = "UiT-HAW"
kind = "sweep"
[factors]
pm = ["fullmesh"]
cc = ["reno", "cubic", "olia"]
buffers = "0.125:2.5:0.125"
[trials]
runs = {runs}
duration = "250ms"
"""
FACTORS = 3 * 20
FILES = ("observations.csv", "subflows.csv")
#: Time limit of a worker's trial of them, seconds.
TIMEOUT_S = 3.0

#: Length of trials, seconds, and their number per worker.
LENGTHS = ((0.1, 100), (0.5, 60), (2.0, 30))

#: Processes of the workers whose efficiency is measured: 64 of them would keep two cores busy being idle.
PROCESSES = 8


class Cluster(NamedTuple):
    """A scheduler and its workers, each a process with this many threads."""

    threads: int
    stack: ExitStack
    place: Path
    address: str
    head: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]
    environment: dict[str, str]

    def join(self, count: int) -> None:
        """Start workers and wait until they are known."""
        here = str(Path(__file__).parent)
        words = ("--preload", "_cluster_worker", "--nthreads", str(self.threads))
        python = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.workers.extend(
            self.stack.enter_context(worker(self.address, *words, PYTHONPATH=python, **self.environment))
            for _ in range(count)
        )
        known(self.address, sum(worker.poll() is None for worker in self.workers))


def known(address: str, count: int) -> None:
    """Wait until the scheduler has this many workers."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        client.wait_for_workers(count, timeout=600)


@contextmanager
def cluster(workers: int, threads: int = 1, **environment: str) -> Iterator[Cluster]:
    """A cluster on loopback; every process of it is killed at the end."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        address, head = stack.enter_context(scheduler(Path(place)))
        started = Cluster(threads, stack, Path(place), address, head, [], environment)
        started.join(workers)
        yield started


# ---- efficiency ---------------------------------------------------------------------------------------


def real_s() -> float:
    """Seconds of one core that a trial of the papers takes: UNIS-HiN, 30 s, with a large buffer."""
    lasting = Bulk(duration_ns=30 * 10**9)
    whole = [Configuration(pm="fullmesh", cc="cubic", buffer_bytes=16 * 2**20, workload=lasting)]
    (planned,) = plan_trials(load("UNIS-HiN"), whole, purpose="sweep", runs=1, base_seed=1)
    begin = time.process_time()
    testbed("simulated").run(planned.trial)
    return time.process_time() - begin


def efficiency(cluster: Cluster, lasting_s: float, each: int) -> tuple[float, float]:
    """Share of the workers' time that trials have, from the first to the last; and trials per second."""
    workers = len(cluster.workers) * cluster.threads
    planned = planned_of(workers * each, lasting_s)
    executor = ExecutorOptions(executor="dask", scheduler=cluster.address).create()
    with fresh_store() as store:
        begin = time.perf_counter()
        TrialRunner(testbed("simulated"), None, store, executor).measure(planned)
        took = time.perf_counter() - begin
    return each * lasting_s / took, len(planned) / took


def planned_of(count: int, lasting_s: float) -> list[PlannedTrial]:
    """Different trials of this length."""
    workload = Bulk(duration_ns=round(lasting_s * 1e9))
    sizes = [
        Configuration(pm="fullmesh", cc="reno", buffer_bytes=100_000 + n, workload=workload)
        for n in range(count)
    ]
    return plan_trials(load("UiT-HAW"), sizes, purpose="sweep", runs=1, base_seed=1)


# ---- kills --------------------------------------------------------------------------------------------


def client(cluster: Cluster, *words: object) -> subprocess.Popen[bytes]:
    """The command with the cluster's address."""
    where = ("--executor", "dask", "--dask-scheduler", cluster.address, "--trial-timeout", f"{TIMEOUT_S}s")
    return subprocess.Popen(
        [sys.executable, "-m", "mptune.cli", "campaign", *map(str, words), *where, "--quiet"],
        stdout=subprocess.DEVNULL,
    )


class Outcome(NamedTuple):
    """The result of a scenario: trials, kills, trials begun again, and equality of all files."""

    trials: int
    kills: int
    again: int
    same: bool


#: Does its harm to a running campaign, and returns the number of kills and the client that ends it.
Harm = Callable[[Cluster, subprocess.Popen[bytes], Path, random.Random], tuple[int, subprocess.Popen[bytes]]]


def begun(cluster: Cluster) -> int:
    """Trials that workers have begun."""
    file = Path(cluster.environment[BEGINNINGS])
    return file.read_text(encoding="utf-8").count("\n") if file.exists() else 0


def at(cluster: Cluster, running: subprocess.Popen[bytes], number: float) -> None:
    """Wait until this many trials have begun."""
    until(lambda: begun(cluster) >= number or running.poll() is not None, "trials")


def kill_workers(share: float) -> Harm:
    """Kill this share of the workers, each at a moment of its own."""

    def harm(
        cluster: Cluster, running: subprocess.Popen[bytes], out: Path, dice: random.Random
    ) -> tuple[int, subprocess.Popen[bytes]]:
        victims = dice.sample(cluster.workers, round(share * len(cluster.workers)))
        total = total_of(out)
        for moment, victim in zip(sorted(dice.uniform(0.02, 0.9) for _ in victims), victims, strict=True):
            at(cluster, running, moment * total)
            victim.kill()
        return len(victims), running

    return harm


def stall(
    cluster: Cluster, running: subprocess.Popen[bytes], out: Path, dice: random.Random
) -> tuple[int, subprocess.Popen[bytes]]:
    """Stop two workers for good, without ending them."""
    for victim in dice.sample(cluster.workers, 2):
        at(cluster, running, dice.uniform(0.1, 0.5) * total_of(out))
        victim.send_signal(signal.SIGSTOP)
    return 2, running


def restart(
    cluster: Cluster, running: subprocess.Popen[bytes], out: Path, dice: random.Random
) -> tuple[int, subprocess.Popen[bytes]]:
    """Kill the scheduler with all of its workers, and start both again at the same address."""
    at(cluster, running, dice.uniform(0.2, 0.7) * total_of(out))
    for victim in (cluster.head, *cluster.workers):
        victim.kill()
        victim.wait()
    cluster.stack.enter_context(scheduler(cluster.place, int(cluster.address.rpartition(":")[2])))
    cluster.join(len(cluster.workers))
    return 1, running


def kill_client(
    cluster: Cluster, running: subprocess.Popen[bytes], out: Path, dice: random.Random
) -> tuple[int, subprocess.Popen[bytes]]:
    """Kill the client three times, and resume."""
    for moment in sorted(dice.uniform(0.1, 0.9) for _ in range(3)):
        at(cluster, running, moment * total_of(out))
        running.kill()
        running.wait()
        running = client(cluster, "resume", out)
    return 3, running


def total_of(out: Path) -> int:
    """Trials of the campaign of a run directory, which its name ends with."""
    return int(out.name.rpartition("-")[2])


def under(harm: Harm, workers: int, runs: int, seed: int, expected: dict[str, bytes]) -> Outcome:
    """Run the campaign under harm."""
    total = runs * FACTORS
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        file, out = place / "campaign.toml", place / f"out-{total}"
        file.write_text(CAMPAIGN.format(runs=runs), encoding="utf-8")
        beginnings = place / "beginnings"
        with cluster(workers, 1, **{BEGINNINGS: f"{beginnings}"}) as running_cluster:
            running = client(running_cluster, "run", file, "--out", out)
            kills, running = harm(running_cluster, running, out, random.Random(seed))
            if running.wait() != 0:
                raise SystemExit(f"the campaign ended with {running.returncode}")
            same = all((out / name).read_bytes() == content for name, content in expected.items())
            return Outcome(total, kills, begun(running_cluster) - total, same)


def alone(runs: int) -> dict[str, bytes]:
    """The files of one process without a cluster."""
    with tempfile.TemporaryDirectory() as name:
        file, out = Path(name) / "campaign.toml", Path(name) / "out"
        file.write_text(CAMPAIGN.format(runs=runs), encoding="utf-8")
        words = ("campaign", "run", str(file), "--out", str(out), "--quiet")
        subprocess.run([sys.executable, "-m", "mptune.cli", *words], check=True, stdout=subprocess.DEVNULL)
        return {name: (out / name).read_bytes() for name in FILES}


def main() -> None:
    """Print both tables and write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=64, help="of the efficiency")
    parser.add_argument("--under-fire", type=int, default=20, help="workers of the campaigns that are harmed")
    parser.add_argument("--runs", type=int, default=20, help=f"of {FACTORS} configurations that are harmed")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--repeat", type=int, default=3, help="campaigns for each kind of harm")
    parser.add_argument("--only", choices=("efficiency", "kills"))
    asked = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    result: dict[str, object] = {}
    if asked.only != "kills":
        table = Table("a trial lasts (s)", "trials/s", "efficiency")
        rows = []
        with cluster(PROCESSES, -(-asked.workers // PROCESSES)) as started:
            for lasting_s, each in LENGTHS:
                share, rate = efficiency(started, lasting_s, each)
                table.add_row(f"{lasting_s:g}", f"{rate:.0f}", f"{100 * share:.1f} %")
                rows.append({"lasting_s": lasting_s, "efficiency": share, "trials_per_s": rate})
        print(f"a trial of the papers takes {real_s():.3f} s of a core here; {asked.workers} workers:")
        Console(width=100).print(table)
        result["efficiency"] = rows
    if asked.only != "efficiency":
        expected = alone(asked.runs)
        table = Table("harm", "campaigns", "trials", "kills", "begun again", "same files")
        harmed = {}
        harms = {
            "30 % of the workers killed": kill_workers(0.3),
            "two workers stopped": stall,
            "scheduler restarted, with its workers": restart,
            "client killed three times": kill_client,
        }
        for name, harm in harms.items():
            ones = [
                under(harm, asked.under_fire, asked.runs, asked.seed + number, expected)
                for number in range(asked.repeat)
            ]
            trials_, kills, again = (sum(row[place] for row in ones) for place in range(3))
            same = sum(row.same for row in ones)
            numbers = (len(ones), trials_, kills, again)
            table.add_row(name, *map(str, numbers), f"{same} of {len(ones)}")
            harmed[name] = {"trials": trials_, "kills": kills, "again": again, "same": same}
        Console(width=120).print(table)
        result["kills"] = harmed
    write("cluster", result)


if __name__ == "__main__":
    main()
