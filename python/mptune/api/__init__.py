"""The Python face: what `import mptune` offers, over the same rooms as the commands.

A function here has the name of a command, takes its options as keywords (`mptune.api._keywords`), and
returns a record that also knows itself as a pandas frame (`frame()`), as an Altair chart (`chart()`) and in a
notebook (`_repr_html_`). It measures and decides nothing itself. Only the names in `mptune.__all__` are
stable; every other module of the package is internal, and may change in any version.
"""

from mptune.api._fitted import Calibrated, Fit, StatedFit
from mptune.api._functions import calibrate, compare, fit, impact_factors, open_run, optimise, run, sweep
from mptune.api._records import Agreement, ImpactFactors, OneTrial, Run

__all__ = [
    "Agreement",
    "Calibrated",
    "Fit",
    "ImpactFactors",
    "OneTrial",
    "Run",
    "StatedFit",
    "calibrate",
    "compare",
    "fit",
    "impact_factors",
    "open_run",
    "optimise",
    "run",
    "sweep",
]
