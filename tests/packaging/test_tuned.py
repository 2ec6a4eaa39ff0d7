"""The core is compiled by a profile of trials, where Rust has the tool for it."""

import importlib
import os
import subprocess
import sys

import pytest

from mptune import _core
from tests.plugins.needs import ROOT


@pytest.fixture
def tuned(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "shipping"))
    return importlib.import_module("tuned")


def test_the_trials_run_in_the_extension_that_is_named(tuned):
    program = [sys.executable, tuned.__file__, "--train"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    subprocess.run([*program, _core.__file__], env=environment, check=True)
    other = subprocess.run([*program, ROOT / "README.md"], env=environment, capture_output=True, text=True)
    assert other.returncode == 1
    assert "README.md: not an extension" in other.stderr


def test_a_wheel_is_built_without_a_profile_where_the_tool_is_missing(tuned, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tuned, "_rustc", lambda asked: str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["tuned.py", "--profile-only"])
    with pytest.raises(SystemExit) as ended:
        tuned.main()
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "rustup component add llvm-tools" in err


def test_a_profile_adds_to_the_flags_of_the_caller(tuned, monkeypatch):
    monkeypatch.setenv("RUSTFLAGS", "-Ctarget-cpu=native")
    flags = tuned.with_profile(tuned.PROFILE)["RUSTFLAGS"].split()
    assert flags[0] == "-Ctarget-cpu=native"
    assert f"-Cprofile-use={tuned.PROFILE}" in flags
