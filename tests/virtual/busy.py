"""The first process of a guest on another machine: before the trial it does more, and needs longer."""

import os
import select
import subprocess
import sys
import time

from mptune.guest import inside
from mptune.testbeds import _virtual_inside


def work(order):
    """Take time and random numbers, and processors from others; then run the trial."""
    for _ in range(20_000):
        time.monotonic_ns()
    os.getrandom(1000)
    subprocess.run([sys.executable, "-c", "import random, uuid"], check=True)
    select.select([], [], [], 0.1234567)
    return _virtual_inside.run(order)


if __name__ == "__main__":
    inside.serve(work)
