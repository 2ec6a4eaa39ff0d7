"""Campaigns: their file, the main job, sweeps, measurements made elsewhere, and the result files.

Trials are run by `mptune.runner`; `mptune.decision` interprets the numbers.
"""
