"""Shared by all tests: hypothesis without a clock, and the same examples in every run.

And a testbed of formulas instead of packets, for tests of what is done with observations.
"""

import os

# As the program does (mptune.cli.main), and before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gc
import math
import random
import signal
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path as File

import msgspec
import pytest
import typer.main
import typer.testing
from hypothesis import settings

from mptune.decision import kinds, model_error
from mptune.errors import Failure, FailureKind
from mptune.testbeds import Testbed
from mptune.topology import CoreSegment, Interface, Path, Site, Topology
from mptune.trial import BIN_NS, Bulk, Observation, SubflowObservation, Transfer, Trial
from mptune.trial.stacks import LINUX_VERSION, STACKS

pytest_plugins = [f"tests.plugins.{name}" for name in ("lost_interrupts", "needs", "programs", "reruns")]

# No deadline: how long an example takes on a busy machine is no property of the code.
settings.register_profile("mptune", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("mptune")

# Thousands of command lines run in this process: the commands are made of their declarations once.
vars(typer.testing)["_get_command"] = cache(typer.main.get_command)

#: Folders whose tests wait more than they compute.
WAITING = {"kernel", "hosts"}
#: Where the files of a folder end, as a share of the suite: what comes last is short.
ENDS = {"kernel": 0.85, "hosts": 0.85, "virtual": 0.7}
#: The files that take longest, which begin: the first runs all other tests, with programs hidden.
LONGEST = (
    "tests/test_suite.py",
    "hosts/test_probe.py",
    "virtual/test_twins.py",
    "virtual/test_congestion.py",
)

# The name of a UNIX socket has at most 107 bytes, and a test's directory takes 60 of them.
if len(tempfile.gettempdir()) > 12:
    os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"

# A shell that runs the tests in the background lets them ignore Ctrl-C; the programs they start must not.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix files that wait for real networks with those that compute: together they take less time.

    Raises
    ------
    UsageError : a test that measures is where the Makefile does not look for any.
    """
    files: dict[float, dict[File, int]] = {}
    for item in items:
        if item.get_closest_marker("measures") is not None and WAITING.isdisjoint(item.path.parts):
            expected = " or ".join(f"tests/{name}" for name in sorted(WAITING))
            raise pytest.UsageError(f"{item.nodeid}: measures: expected it in {expected}")
        of_kind = files.setdefault(_end(item.path), {})
        of_kind.setdefault(item.path, len(of_kind))
    at = {
        path: (_longest(path), place / len(of_kind) * end)
        for end, of_kind in files.items()
        for path, place in of_kind.items()
    }
    items.sort(key=lambda item: at[item.path])


def _end(path: File) -> float:
    return next((end for folder, end in ENDS.items() if folder in path.parts), 1.0)


def _longest(path: File) -> int:
    """The place among the longest, or behind them."""
    return next((n for n, name in enumerate(LONGEST) if path.match(name)), len(LONGEST))


def pytest_collection_finish() -> None:
    """Leave the tests themselves out of every later collection of garbage: they live as long as pytest."""
    gc.collect()
    gc.freeze()


class FakeTestbed(Testbed):
    """Throughput of an instant: the sum of what each carrying subflow gives, up to a knee of the buffer.

    Attributes
    ----------
    gives : path -> Mbit/s it adds; negative for one that drags the others down.
    tcp_gives : path -> Mbit/s of plain TCP on it; what it adds to MPTCP if not named.
    knee_mib : congestion control -> buffer from which the throughput stays level (8 MiB if not named).
    noise : standard deviation of a factor drawn from the trial's seed.
    completes : when a transfer is complete, nanoseconds.
    drift : trial, seconds since its beginning -> factor of the throughput, whatever carries it.
    fails, kind : reason for which a trial fails, or None; and of which kind that is.
    trials : every trial it was given.
    """

    name = "fake"
    parallel: int | None = None

    def __init__(self) -> None:
        self.gives = {"A-X": 80.0, "B-X": 20.0, "C-X": -10.0}
        self.tcp_gives: dict[str, float] = {}
        self.knee_mib: dict[str, float] = {}
        self.noise = 0.01
        self.completes: int | None = None
        self.drift: Callable[[Trial, float], float] = lambda trial, at_s: 1.0
        self.fails: Callable[[Trial], str | None] = lambda trial: None
        self.kind: FailureKind = "stalled"
        self.trials: list[Trial] = []

    def run(self, trial: Trial) -> Observation:
        self.trials.append(trial)
        duration = trial.workload.duration_ns if isinstance(trial.workload, Bulk) else 0
        there = [path.label for path in trial.topology.paths if path.label in self.gives]
        gives, carrying = self.gives, set(trial.pm_options.get("active", there))
        if trial.protocol == "tcp":
            assert trial.pm == "default" and not trial.pm_options and trial.initial_path is not None
            carrying, gives = {trial.initial_path}, {**self.gives, **self.tcp_gives}
        level = min(1.0, trial.buffer_bytes / 2**20 / self.knee_mib.get(trial.cc, 8.0))
        level *= 1 + random.Random(trial.seed).gauss(0, self.noise)
        bins, active = [], carrying
        for index in range(duration // BIN_NS):
            active = carrying - _withdrawn(trial, index * BIN_NS)
            rate = level * self.drift(trial, index * BIN_NS / 1e9) * sum(gives[path] for path in active)
            bins.append(round(max(0.0, rate) * BIN_NS / 8e3))
        reason = self.fails(trial)
        return Observation(
            testbed=self.name,
            duration_ns=duration,
            in_order_bytes=sum(bins),
            bins=bins,
            subflows=[self._subflow(path, path in active) for path in there],
            completion_ns=self.completes if isinstance(trial.workload, Transfer) else None,
            failed=None if reason is None else Failure(self.kind, reason),
        )

    @staticmethod
    def _subflow(path: str, active: bool) -> SubflowObservation:
        return SubflowObservation(
            path=path,
            active=active,
            bytes=1000,
            srtt_ns=20_000_000,
            min_rtt_ns=10_000_000,
            retransmitted=0,
            timeouts=0,
            bins=[],
        )


def _withdrawn(trial: Trial, now_ns: int) -> set[str]:
    """Paths that are on standby by the script."""
    last = {
        event.path: event.action
        for event in sorted(trial.script, key=lambda event: event.at_ns)
        if event.at_ns <= now_ns
    }
    return {path for path, action in last.items() if action == "standby"}


@pytest.fixture
def fake_testbed() -> FakeTestbed:
    return FakeTestbed()


@pytest.fixture
def made_up_error() -> model_error.ModelError:
    """An error of the simulator with a spread of a tenth, which may stand in for the shipped one."""
    return model_error.ModelError(
        schema=model_error.SCHEMA,
        kernel="Linux 9.9",
        stack=msgspec.structs.asdict(STACKS["linux"]),
        release=LINUX_VERSION,
        mptune="0",
        simulated="",
        draw=1,
        networks=30,
        configurations=200,
        runs=5,
        scale=model_error.Scale(
            spread=0.1,
            effects={"subflows": {"1": -1.0, "2": 0.0}, "loss": {"heavy": math.log(3)}},
            centre=0.0,
            half=0.6,
            nine_tenths=1.6,
            ends=2.0,
        ),
        compared=kinds.Compared(
            congestion_controls=("cubic",),
            path_managers=("default", "fullmesh", "pcdc"),
            buffer_modes=("fixed",),
            paths=(2, 8),
            path_bps=(1e6, 150e6),
            total_bps=(1e6, 300e6),
            rtt_ns=(6e6, 160e6),
            loss_ppb=(0, 1e7),
            products=(0.1, 8),
            transfer_bytes=(2**16, 2**24),
            duration_ns=10 * 10**9,
        ),
        validated=model_error.Validated(coverage=0.95, width=0.5),
    )


@pytest.fixture
def network() -> Topology:
    """Three paths, A-X, B-X and C-X, over 100 Mbit/s links with an RTT of 20 ms."""
    core = CoreSegment(forward_ns=8_000_000, reverse_ns=8_000_000, jitter_ns=0, loss_ppb=0)
    senders = tuple(_interface(abbr) for abbr in "ABC")
    receiver = _interface("X")
    return Topology(
        name="toy",
        description="three paths",
        sender=Site(abbr="S", name="sender", location="", interfaces=senders),
        receiver=Site(abbr="R", name="receiver", location="", interfaces=(receiver,)),
        paths=tuple(
            Path(
                label=f"{local.abbr}-X",
                local_index=index,
                remote_index=0,
                local=local,
                remote=receiver,
                core=core,
            )
            for index, local in enumerate(senders)
        ),
        initial_path="A-X",
        lsrr_honoured=False,
        provenance={},
        file="toy.toml",
    )


def _interface(abbr: str) -> Interface:
    return Interface(
        isp=abbr,
        abbr=abbr,
        up_bps=100_000_000,
        down_bps=100_000_000,
        delay_ns=1_000_000,
        queue_up_bytes=100_000,
        queue_down_bytes=100_000,
        loss_ppb=0,
    )
