"""Shared by tests on the running kernel. Where they cannot run they are skipped; in CI they fail."""

import base64
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mptune.errors import MptuneError
from mptune.linux import bpf, doctor
from mptune.linux.awake import Awake
from mptune.linux.sandbox.namespaces import Sites
from mptune.runner.running import run_trials
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.topology import Topology, load
from mptune.trial import Observation, Trial
from tests.kernel.settings_world import Machine, Setting
from tests.plugins import trials, two_paths, waiting
from tests.plugins.needs import Thing, lack
from tests.plugins.reruns import spoiled
from tests.plugins.worlds import accepting, daemon, joined, may_manage_paths, server, world

__all__ = ["accepting", "daemon", "joined", "may_manage_paths", "server", "world"]

collect_ignore_glob = [] if sys.platform == "linux" else ["*"]

#: A trial on an overloaded machine is run this often.
ATTEMPTS = 3


@pytest.fixture(scope="module", autouse=True)
def _awake() -> Iterator[None]:
    """Processors that do not sleep, also where a test does without the testbed that sees to it.

    Not for the session, which lasts until the end of all tests: a busy processor may slow its neighbour down.
    """
    with Awake():
        yield


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], Any], str], Any]:
    """Wait for something that is bound to happen."""
    return waiting.until


@pytest.fixture(scope="session")
def marked() -> Callable[[str], dict[int, str]]:
    """Processes with a text in their environment: number and command line."""

    def find(mark: str) -> dict[int, str]:
        processes = {}
        for directory in Path("/proc").iterdir():
            if directory.name.isdecimal() and int(directory.name) != os.getpid():
                with suppress(OSError):
                    if mark.encode() in (directory / "environ").read_bytes():
                        processes[int(directory.name)] = (directory / "cmdline").read_bytes().decode()
        return {pid: command for pid, command in processes.items() if command}

    return find


@pytest.fixture(scope="session")
def testbed() -> NamespacesTestbed:
    try:
        return NamespacesTestbed()
    except (MptuneError, OSError) as error:
        reason = str(error).removesuffix(" (see mptune doctor)")
        lack("trials on the kernel", Thing(reason, "elsewhere"))


@pytest.fixture(scope="session")
def may_enter(testbed: NamespacesTestbed) -> None:
    """The tests enter the namespaces themselves, as a trial does not."""
    with Sites() as sites:
        if sites.user is not None:
            lack("what enters the namespaces of a trial", Thing("root", "root"))


@pytest.fixture(scope="session")
def side_by_side(testbed: NamespacesTestbed) -> Callable[[Mapping[Any, Trial]], dict[Any, Observation]]:
    """Runs trials, as many at once as there is room for; overloaded ones again, a few times."""

    def run(trials: Mapping[Any, Trial]) -> dict[Any, Observation]:
        observations: dict[Any, Observation] = {}
        for _ in range(ATTEMPTS):
            missing = [
                key for key in trials if key not in observations or "overloaded" in observations[key].metadata
            ]
            observations |= zip(missing, run_trials(testbed, [trials[key] for key in missing]), strict=True)
        if busy := [
            str(observation.metadata["overloaded"])
            for observation in observations.values()
            if "overloaded" in observation.metadata
        ]:
            spoiled(busy[0])
        failed = {
            key: observation.failed
            for key, observation in observations.items()
            if observation.failed is not None
        }
        assert not failed, failed
        return observations

    return run


@pytest.fixture(scope="session")
def two_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("topology") / "two.toml"
    path.write_text(two_paths.WIDE_AND_NARROW)
    return path


@pytest.fixture(scope="session")
def two(two_file: Path) -> Topology:
    return load(two_file)


@pytest.fixture
def trial(two: Topology) -> Callable[..., Trial]:
    """A trial of a second, with changes."""
    return partial(trials.trial, two)


@pytest.fixture
def observed(testbed: NamespacesTestbed) -> Callable[[Trial], Observation]:
    """Runs a trial. A machine too busy for real time says nothing about the code."""

    def run(trial: Trial) -> Observation:
        for _ in range(ATTEMPTS):
            observation = testbed.run(trial)
            if "overloaded" not in observation.metadata:
                break
        else:
            busy = str(observation.metadata["overloaded"])
            spoiled(busy)
        return observation

    return run


@pytest.fixture
def measured(
    observed: Callable[[Trial], Observation], trial: Callable[..., Trial]
) -> Callable[..., Observation]:
    """The observation of a trial of a second, with changes."""

    def run(**changes: Any) -> Observation:
        return observed(trial(**changes))

    return run


@pytest.fixture
def ipv6() -> None:
    """Skips where the kernel has no MPTCP over IPv6."""
    if reason := doctor.obstacle_of_ipv6():
        lack("trials over IPv6", Thing("MPTCP over IPv6", "elsewhere"), detail=reason)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine whose settings are its own."""
    made = Machine(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def program(machine: Machine) -> Setting:
    """A congestion control that this machine's kernel lacks, under a name that nobody else has."""
    name, content = bpf.private("scalable")
    machine.programs.add(name)
    return {"kind": "congestion", "name": name, "object": base64.b64encode(content).decode()}
