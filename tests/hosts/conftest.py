"""Shared by tests with two machines. Where there cannot be any they are skipped; in CI they fail."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from mptune.errors import TrialError
from mptune.linux.awake import Awake
from mptune.machines.ssh import VARIABLE
from mptune.testbeds import hosts as hosts_testbed
from mptune.topology import Topology, load
from tests.hosts.world import Side, World
from tests.plugins.needs import Thing, lack, require

collect_ignore_glob = [] if sys.platform == "linux" else ["*"]

#: What every world takes.
NEEDS = ("root", "sshd", "nft", "sudo", "namespaces")


@pytest.fixture(scope="module", autouse=True)
def _awake() -> Iterator[None]:
    """Processors that do not sleep: the emulator delivers in time."""
    with Awake():
        yield


@pytest.fixture(scope="module")
def make_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., World]]:
    """Makes worlds, which end with the module; for one that ends earlier, use `with World(tmp_path)`."""
    require(*NEEDS, tested="machines reached over ssh")
    with ExitStack() as stack:

        def make(sides: Sequence[Side] | None = None) -> World:
            directory = tmp_path_factory.mktemp("world")
            try:
                made = World(directory) if sides is None else World(directory, sides)
                return stack.enter_context(made)
            except (TrialError, OSError) as error:
                lack("two machines on this one", Thing(str(error), "elsewhere"))

        yield make


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    """Two plain machines: alice has two uplinks, bob has one."""
    return make_world()


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Topology]:
    """The topology of a world that this process reaches from now on; names of ssh in it may be replaced."""

    def use(world: World, **names: str) -> Topology:
        # Both machines have this machine's processors, whoever else uses them.
        monkeypatch.setattr(hosts_testbed, "_BUSY", 2.0)
        monkeypatch.setenv(VARIABLE, str(world.bin / "ssh"))
        text = world.topology()
        for name, other in names.items():
            text = text.replace(f'ssh = "{name}"', f'ssh = "{other}"')
        file = tmp_path / "world.toml"
        file.write_text(text)
        return load(file)

    return use


@pytest.fixture
def topology(world: World, at: Callable[..., Topology]) -> Topology:
    """The two plain machines as a topology, which this process reaches."""
    return at(world)


@pytest.fixture
def file(topology: Topology, tmp_path: Path) -> Path:
    """The file of `topology`."""
    return tmp_path / topology.file
