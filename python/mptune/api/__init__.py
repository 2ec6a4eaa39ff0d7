"""The Python face: what `import mptune` offers, over the same rooms as the commands.

A function here has the name of a command, takes its options as keywords (`mptune.api._keywords`), and
returns a record that also knows itself as a pandas frame (`frame()`), as an Altair chart (`chart()`) and in a
notebook (`_repr_html_`). It measures and decides nothing itself. Only the names in `mptune.__all__` are
stable; every other module of the package is internal, and may change in any version.
"""

from mptune.api._functions import compare, fit, impact_factors, open_run, optimise, run, sweep
from mptune.api._records import Agreement, Fit, ImpactFactors, OneTrial, Run

__all__ = [
    "Agreement",
    "Fit",
    "ImpactFactors",
    "OneTrial",
    "Run",
    "compare",
    "fit",
    "impact_factors",
    "open_run",
    "optimise",
    "run",
    "sweep",
]
