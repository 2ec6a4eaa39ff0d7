"""Two runs, made once; the tests change copies of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.apply.worlds import altered, make_runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the run directories `grid` and `adaptive`."""
    place = tmp_path_factory.mktemp("answered")
    make_runs(place, "grid", "adaptive")
    return place


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Callable[..., Path]:
    """Make a copy of the grid's run with another network or answer (`altered`)."""

    def make(name: str = "run", **changes: object) -> Path:
        return altered(runs / "grid", tmp_path / name, **changes)  # type: ignore[arg-type]

    return make
