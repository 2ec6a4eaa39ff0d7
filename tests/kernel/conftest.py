"""What the tests on the running kernel share. Where they cannot run they are skipped; in CI they fail."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mptune.campaign.running import run_trials
from mptune.testbeds import Observation, Trial
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.topology import Topology, load

collect_ignore_glob = [] if sys.platform == "linux" else ["*"]

#: Nothing takes so long unless it is broken, seconds.
PATIENCE_S = 20.0
#: A trial on an overloaded machine is run so often, and so is a test that measures until it passes.
ATTEMPTS = 3

#: Two unlike paths without random losses; the wide one is cut and withdrawn in tests.
TOPOLOGY = """
name = "two"
description = "one wide path and one narrow one"
source = "made up"
sender = "S"
receiver = "R"
[sites.S]
name = "sender"
location = "here"
[[sites.S.interfaces]]
isp = "Wide"
abbr = "W"
up = "40 Mbit/s"
down = "40 Mbit/s"
delay = "1 ms"
queue_up = "120 kB"
[[sites.S.interfaces]]
isp = "Narrow"
abbr = "N"
up = "20 Mbit/s"
down = "20 Mbit/s"
delay = "1 ms"
queue_up = "100 kB"
[sites.R]
name = "receiver"
location = "there"
[[sites.R.interfaces]]
isp = "Exchange"
abbr = "X"
up = "200 Mbit/s"
down = "200 Mbit/s"
delay = "1 ms"
[[core.segments]]
path = "W-X"
rtt = "20 ms"
loss = "0 %"
[[core.segments]]
path = "N-X"
rtt = "40 ms"
loss = "0 %"
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What measures is run again when it fails: a defect fails every time, an unlucky loss does not."""
    for item in items:
        if item.get_closest_marker("measures"):
            item.add_marker(pytest.mark.flaky(reruns=ATTEMPTS - 1))


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], object], str], None]:
    """Wait for something that is bound to happen."""

    def wait(condition: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, f"waited in vain for {what}"
            time.sleep(0.01)

    return wait


@pytest.fixture(scope="session")
def marked() -> Callable[[str], dict[int, str]]:
    """Processes with a text in their environment: number and command line."""

    def find(mark: str) -> dict[int, str]:
        found = {}
        for directory in Path("/proc").iterdir():
            if directory.name.isdecimal() and int(directory.name) != os.getpid():
                with suppress(OSError):
                    if mark.encode() in (directory / "environ").read_bytes():
                        found[int(directory.name)] = (directory / "cmdline").read_bytes().decode()
        return {pid: command for pid, command in found.items() if command}

    return find


@pytest.fixture(scope="session")
def testbed() -> NamespacesTestbed:
    try:
        return NamespacesTestbed()
    except Exception as error:
        if "CI" in os.environ:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def side_by_side(testbed: NamespacesTestbed) -> Callable[[Mapping[Any, Trial]], dict[Any, Observation]]:
    """Runs trials, as many at once as there is room for; overloaded ones again, a few times."""

    def run(wanted: Mapping[Any, Trial]) -> dict[Any, Observation]:
        found: dict[Any, Observation] = {}
        for _ in range(ATTEMPTS):
            missing = [key for key in wanted if key not in found or "overloaded" in found[key].metadata]
            found |= zip(missing, run_trials(testbed, [wanted[key] for key in missing]), strict=True)
        failed = {key: one.failed for key, one in found.items() if one.failed is not None}
        assert not failed, failed
        return found

    return run


@pytest.fixture(scope="session")
def two_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("topology") / "two.toml"
    path.write_text(TOPOLOGY)
    return path


@pytest.fixture(scope="session")
def two(two_file: Path) -> Topology:
    return load(two_file)
