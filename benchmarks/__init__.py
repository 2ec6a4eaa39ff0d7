"""Benchmarks by question; `python -m benchmarks.speed.simulator` runs one."""

import os

# As `mptune._threads` has it; before numpy is loaded, and for the processes that are started too.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
