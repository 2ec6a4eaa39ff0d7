"""The page of the docs that lists every requirement has those that are tested, no more and no fewer."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_docs_list_the_requirements_that_are_tested():
    command = [sys.executable, "-m", "benchmarks.fidelity.conformance", "--check-docs"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
