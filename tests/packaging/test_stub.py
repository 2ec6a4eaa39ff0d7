"""The stub of the compiled core declares what the core has."""

import subprocess
import sys

from tests.plugins.needs import ROOT


def test_the_stub_agrees_with_the_extension():
    command = [sys.executable, "-m", "mypy.stubtest", "mptune._core"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
