"""Shared by tests in guests: two unlike paths, and a testbed on the kernel that is built.

They need no root and no quiet machine: a guest has a clock of its own.
"""

from functools import partial
from pathlib import Path

import pytest

from mptune.guest import machine
from mptune.runner.running import run_trials
from mptune.testbeds.virtual import VirtualTestbed
from mptune.topology import load
from tests.plugins import trials, two_paths
from tests.plugins.two_paths import Uplink


@pytest.fixture(scope="session")
def testbed():
    return VirtualTestbed()


@pytest.fixture(scope="session")
def topology(tmp_path_factory):
    file = tmp_path_factory.mktemp("topology") / "two.toml"
    uplinks = Uplink("Wide", "20 Mbit/s", "20 ms", "120 kB"), Uplink("Narrow", "10 Mbit/s", "40 ms")
    file.write_text(two_paths.text(*uplinks))
    return load(file)


@pytest.fixture
def trial(topology):
    """A trial of a second, with changes."""
    return partial(trials.trial, topology=topology)


@pytest.fixture(scope="session")
def side_by_side(testbed):
    """Runs trials; none fails."""

    def run(trials):
        observations = dict(zip(trials, run_trials(testbed, list(trials.values())), strict=True))
        failed = {key: str(one.failed) for key, one in observations.items() if one.failed is not None}
        assert not failed
        return observations

    return run


@pytest.fixture
def begun_by(monkeypatch):
    """Gives guests another first process: a module of these tests."""
    run, root = machine.run, Path(__file__).parents[2]

    def begin(module):
        first = module.__name__
        monkeypatch.setattr(
            machine, "run", lambda kernel, _, work, **rest: run(kernel, first, work, beside=[root], **rest)
        )

    return begin
