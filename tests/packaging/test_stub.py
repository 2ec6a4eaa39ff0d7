"""The stub of the compiled core declares what the core has."""

import os
import subprocess
import sys
from pathlib import Path

from mptune import _core
from tests.plugins.needs import ROOT


def test_the_stub_agrees_with_the_extension(tmp_path: Path):
    """Both by themselves: beside the package, all of it would be checked for types once more."""
    stub = ROOT / "python/mptune/_core.pyi"
    for file in (stub, Path(_core.__file__)):
        (tmp_path / file.name).symlink_to(file)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "_core"],
        env={**os.environ, "MYPYPATH": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
