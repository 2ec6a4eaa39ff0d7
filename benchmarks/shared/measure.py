"""Parts of every benchmark: the machine's description, repeated runs in fresh processes, a table, JSON.

Not a benchmark. Times are medians with their range: machines of this kind are shared and noisy.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mptune

RESULTS = Path("target") / "benchmarks"


def machine() -> dict[str, str | int]:
    """The machine and the versions behind a measurement."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "processor": model,
        "cores": os.cpu_count() or 1,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "mptune": mptune.__version__,
    }


def in_fresh_process(module: str, argument: object) -> dict[str, Any]:
    """Run a module with a JSON argument; it prints JSON.

    Only a process of its own has a peak memory that belongs to one case.
    """
    command = [sys.executable, "-m", module, "--case", json.dumps(argument)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and range."""
    middle = statistics.median(values)
    return f"{middle:.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def write(name: str, result: object) -> None:
    """Write the result beside the others, with the machine's description."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), "result": result}, indent=2) + "\n", encoding="utf-8")
    print(f"written to {path}")
