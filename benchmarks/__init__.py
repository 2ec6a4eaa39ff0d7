"""Benchmarks by question; `python -m benchmarks.speed.simulator` runs one."""
