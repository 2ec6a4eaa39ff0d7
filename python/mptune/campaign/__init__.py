"""Campaigns: their file, their rounds over time, and their directory.

`mptune.optimisation` is the main job of a round, `mptune.runner` runs the trials.
"""
