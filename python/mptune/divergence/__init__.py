"""Where two recordings of the same trial part: a model and the kernel, or two kernels.

`_bands` has what runs of one side have in common, `_finding` looks for the first time at which the other
side leaves that, `_kinds` says what kind of difference it looks like, `_words` says it. `recording` makes
recordings on testbeds.
"""

from mptune.divergence._bands import Side, side
from mptune.divergence._finding import Departure, Divergence, Limits, find
from mptune.divergence._kinds import Kind
from mptune.divergence._words import Moment, paragraph, table_around, unit_of
from mptune.divergence.options import DivergeOptions
from mptune.divergence.recording import record

__all__ = [
    "Departure",
    "DivergeOptions",
    "Divergence",
    "Kind",
    "Limits",
    "Moment",
    "Side",
    "find",
    "paragraph",
    "record",
    "side",
    "table_around",
    "unit_of",
]
