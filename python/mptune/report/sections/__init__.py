"""Sections of a report: figures, the tables behind them, and how to read them.

A section is one function of a run in one of the files here, and one line below; a section without data is
left out. Rows are prepared here and drawn by `mptune.report.charts`; `mptune.report.page` and
`mptune.report.files` turn sections into a page or files.
"""

from collections.abc import Callable, Iterator, Sequence

from mptune.report.charts.style import unchecked
from mptune.report.choices import Choices, choices
from mptune.report.sections._base import Panel, Section, Slider, Table
from mptune.report.sections.algorithm import algorithm
from mptune.report.sections.by_size import by_size
from mptune.report.sections.compared import (
    compared,
    compared_completions,
    compared_fronts,
    compared_responses,
)
from mptune.report.sections.delays import delays
from mptune.report.sections.differing import differing
from mptune.report.sections.factors import completion, initial_paths, time_of_day
from mptune.report.sections.front import front
from mptune.report.sections.map import map_
from mptune.report.sections.moving import over_rounds as network_over_rounds
from mptune.report.sections.moving import over_time as network_over_time
from mptune.report.sections.network import network
from mptune.report.sections.reached import reached
from mptune.report.sections.rounds import rounds
from mptune.report.sections.routes import routes
from mptune.report.sections.sensitivity import sensitivity
from mptune.report.sections.series import over_time, panorama, round_trips, stacked
from mptune.report.sections.subflows import sets, went_through
from mptune.report.sections.sweep import bars, responses, single_runs
from mptune.report.sections.trade_off import trade_off
from mptune.report.sections.video import video
from mptune.result.run_data import RunData

__all__ = ["Panel", "Section", "Slider", "Table", "choices", "sections"]

_Maker = Callable[[RunData, Choices], Iterator[Section]]

#: Sections of one run, the most useful first.
_OF_A_RUN: tuple[_Maker, ...] = (
    trade_off,
    algorithm,
    by_size,
    front,
    video,
    delays,
    sensitivity,
    rounds,
    reached,
    responses,
    bars,
    differing,
    single_runs,
    sets,
    over_time,
    stacked,
    round_trips,
    went_through,
    panorama,
    completion,
    initial_paths,
    time_of_day,
    routes,
    map_,
    network,
    network_over_time,
    network_over_rounds,
)

#: Sections of several runs, after the trade-off of the first, whose slider belongs to the answer.
_OF_SEVERAL = (compared, compared_responses, compared_fronts, compared_completions)


def sections(run: RunData, others: Sequence[RunData] = ()) -> list[Section]:
    """Every section with data; `others` are runs to compare with."""
    positions = choices(run)
    with unchecked():
        own = [section for maker in _OF_A_RUN for section in maker(run, positions)]
        against = [section for maker in _OF_SEVERAL for section in maker([run, *others])] if others else []
    # The drawing shows what an answer changes.
    drawn = [section for section in own if section.name == "topology" and run.answer is not None]
    first = [section for section in own if section.name == "trade-off"]
    rest = [section for section in own if section not in [*first, *drawn]]
    return [*first, *drawn, *against, *rest]
