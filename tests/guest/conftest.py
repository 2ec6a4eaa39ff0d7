"""Shared by tests of guests' kernels: a cache directory of their own."""

import pytest

from mptune.guest import kernels


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Kernels are kept below the test's directory."""
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache/mptune/kernels"
    folder.mkdir(parents=True)
    return folder
