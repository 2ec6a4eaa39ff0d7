"""What tests of guests' kernels share: a cache directory of their own."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Kernels are kept below the test's directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache/mptune/kernels"
    folder.mkdir(parents=True)
    return folder
