"""Benchmarks by question; `python -m benchmarks.speed.simulator` runs one."""

import os

from mptune import _threads

# Before numpy is loaded, and for the processes that are started too.
_threads.limit()
os.environ.setdefault("OMP_NUM_THREADS", "1")
