"""Contests of MPTCP with plain TCP flows, held by benchmarks/fidelity/kernel_rules.py."""

import json
import statistics
import subprocess
import sys

from tests.plugins.needs import ROOT


def rules(
    *ccs: str, seconds: int, runs: int = 1, workers: int | None = None, testbed: str = "namespaces"
) -> dict[str, dict[str, float]]:
    """Means over runs of the rules of RFC 6356 by congestion control: `share` and `on_contended`.

    Parameters
    ----------
    workers : contests at once; None is what the testbed has room for.
    """
    arguments = [
        "--runs",
        str(runs),
        "--json",
        "--without-gain",
        "--duration",
        str(seconds),
        "--testbed",
        testbed,
    ]
    arguments += ["--workers", str(workers)] if workers else []
    for cc in ccs:
        arguments += ["--cc", cc]
    command = [sys.executable, "-m", "benchmarks.fidelity.kernel_rules", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-500:]
    estimates = json.loads(done.stdout)
    return {cc: {rule: statistics.mean(values) for rule, values in estimates[cc].items()} for cc in ccs}
