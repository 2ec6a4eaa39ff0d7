"""The sections of runs, made once: drawing and checking charts takes most of the time of these tests."""

from collections.abc import Sequence

from mptune.report import sections as original
from mptune.report.sections import Section
from mptune.result.run_data import RunData

#: Sections by the runs they are of, which live as long as the sections: their identity is the key.
_MADE: dict[tuple[int, ...], tuple[list[RunData], list[Section]]] = {}


def sections(run: RunData, others: Sequence[RunData] = ()) -> list[Section]:
    """As `mptune.report.sections.sections`; what it made for the same runs before is not made again."""
    runs = [run, *others]
    key = tuple(id(run) for run in runs)
    if key not in _MADE:
        _MADE[key] = runs, original.sections(run, others)
    return list(_MADE[key][1])
