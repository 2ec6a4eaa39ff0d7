"""First divergence of two recordings of the same trial: a model and the kernel, or two kernels.

`_bands` has what runs of one side have in common, `_finding` looks for the first time at which the other
side leaves that, `_kinds` names the kind of difference, `_words` describes it. Recordings are made by
`mptune.runner.recording`.
"""

from mptune.capture.divergence._bands import Side, side
from mptune.capture.divergence._finding import Departure, Divergence, Limits, find
from mptune.capture.divergence._kinds import Kind
from mptune.capture.divergence._words import Moment, paragraph, table_around, unit_of

__all__ = [
    "Departure",
    "Divergence",
    "Kind",
    "Limits",
    "Moment",
    "Side",
    "find",
    "paragraph",
    "side",
    "table_around",
    "unit_of",
]
