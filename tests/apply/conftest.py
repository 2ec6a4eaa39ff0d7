"""Two runs, made once; the tests change copies of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mptune.campaign.definition import read_definition
from mptune.campaign.execution import start
from tests.apply.worlds import CAMPAIGN, NETWORK, altered


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the run directories `grid` and `adaptive`."""
    place = tmp_path_factory.mktemp("answered")
    (place / "home.toml").write_text(NETWORK)
    for strategy, how in {"grid": "runs = 2", "adaptive": 'budget = "60s"'}.items():
        file = place / f"{strategy}.toml"
        file.write_text(CAMPAIGN.format(strategy=strategy, how=how))
        start(read_definition(file), place / strategy, wait=lambda time: None)
    return place


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Callable[..., Path]:
    """Make a copy of the grid's run with another network or answer (`altered`)."""

    def make(name: str = "run", **changes: object) -> Path:
        return altered(runs / "grid", tmp_path / name, **changes)  # type: ignore[arg-type]

    return make
