"""Sections of the network over time: what each path carries at one time, which a slider chooses.

Two clocks: that of a trial, in steps of its series, and that of a campaign that is repeated, in rounds.
"""

import itertools
from collections.abc import Iterator, Sequence

from mptune._text import number_of
from mptune.report.choices import Choices
from mptune.report.drawing import NARROW, WIDE, Flow, Moment, moving, positions
from mptune.report.sections._base import Rows, Section, Slider, Table
from mptune.report.sections.series import SERIES, by_configuration, seconds, step_width, steps
from mptune.result.run_data import RoundFlow, RunData
from mptune.topology import Topology
from mptune.trial import Observation

#: Configurations that are drawn below one another: the answer and what it is compared with.
_MOST = 2
_HOUR_S = 3600


def over_time(run: RunData, choices: Choices) -> Iterator[Section]:
    """The network at each step of the first run of the answer and the default, or of a sweep's best."""
    first = {
        _short(name): run.observations[trials[0].key]
        for name, trials in list(by_configuration(run, run.shown).items())[:_MOST]
    }
    width = step_width(max((len(seen.bins) for seen in first.values()), default=0))
    rates = {name: _by_path(seen, width) for name, seen in first.items()}
    lasting = max((len(series) for mine in rates.values() for series in mine.values()), default=0)
    if run.topology is None or lasting < 2:
        return
    whole = [Flow(title=name, mbps=_means(mine)) for name, mine in rates.items()]
    times = [seconds(width) * number for number in range(lasting + 1)]
    moments = [
        Moment(when="the whole run", flows=tuple(whole)),
        *(
            Moment(
                when=f"{times[number]:g} to {times[number + 1]:g} s",
                flows=tuple(Flow(title=name, mbps=_at(mine, number)) for name, mine in rates.items()),
            )
            for number in range(lasting)
        ),
    ]
    rows: Rows = [
        {"name": flow.title, "path": path, "carries_mbps": mbps}
        for flow in whole
        for path, mbps in flow.mbps.items()
    ]
    yield _section(
        run.topology,
        moments,
        name="network-over-time",
        title="The network over time",
        lead="What each path delivered in the first run of each configuration, per "
        f"{seconds(width):g} s; lines are as thick as that. The slider chooses the time; at its left end is "
        "the whole run.",
        slider="Time in the run",
        table=Table(title="Mean of the whole run", rows=rows, source=SERIES),
    )


def over_rounds(run: RunData, choices: Choices) -> Iterator[Section]:
    """The network in each round of a repeated campaign, with the answer of that round."""
    rounds = run.by_round
    if run.topology is None or len(rounds) < 2:
        return
    moments = [
        Moment(when="all rounds", flows=(Flow(title="All rounds", mbps=_mean_of(rounds)),)),
        *(Moment(when=_when(flow), flows=(Flow(title="The round", mbps=flow.mbps),)) for flow in rounds),
    ]
    rows: Rows = [
        {"round": flow.round + 1, "when": f"{flow.at_s / _HOUR_S:.4g} h", "path": path, "carries_mbps": mbps}
        for flow in rounds
        for path, mbps in flow.mbps.items()
    ]
    whose = "each round's answer" if run.answer is not None else "the best configuration of the first round"
    yield _section(
        run.topology,
        moments,
        name="network-over-rounds",
        title="The network over the campaign",
        lead=f"What each path delivered with {whose}: means of the round's trials; lines are as thick as "
        f"that. The slider chooses one of {number_of(len(rounds), 'round')}; at its left end is their mean.",
        slider="Round of the campaign",
        table=Table(title="Round by round", rows=rows),
    )


def _section(
    topology: Topology,
    moments: Sequence[Moment],
    *,
    name: str,
    title: str,
    lead: str,
    slider: str,
    table: Table,
) -> Section:
    drawing = moving(topology, WIDE, moments), moving(topology, NARROW, moments)
    return Section(
        name=name,
        title=title,
        lead=lead,
        drawing=drawing,
        slider=Slider(label=slider, positions=positions(topology, moments)),
        tables=[table],
    )


def _short(name: str) -> str:
    """Role in which a configuration was confirmed; the whole name if it has none."""
    role, _, configuration = name.partition(": ")
    return role.capitalize() if configuration else name


def _when(flow: RoundFlow) -> str:
    return f"round {flow.round + 1}, after {flow.at_s / _HOUR_S:.4g} h: {flow.manager}, {flow.cc}"


def _by_path(seen: Observation, width: int) -> dict[str, list[float]]:
    """Mbit/s of each path that delivered data, step by step; subflows on one path together."""
    rates: dict[str, list[float]] = {}
    for subflow in seen.subflows:
        if any(subflow.bins):
            series = [rate for _, rate in steps(subflow.bins, width)]
            both = itertools.zip_longest(rates.get(subflow.path, []), series, fillvalue=0.0)
            rates[subflow.path] = [sum(pair) for pair in both]
    return rates


def _step(series: Sequence[float], number: int) -> float:
    return series[number] if number < len(series) else 0.0


def _at(rates: dict[str, list[float]], number: int) -> dict[str, float]:
    return {path: _step(series, number) for path, series in rates.items()}


def _means(rates: dict[str, list[float]]) -> dict[str, float]:
    lasting = max((len(series) for series in rates.values()), default=0)
    return {path: sum(series) / lasting for path, series in rates.items()}


def _mean_of(rounds: Sequence[RoundFlow]) -> dict[str, float]:
    paths = dict.fromkeys(path for flow in rounds for path in flow.mbps)
    return {path: sum(flow.mbps.get(path, 0.0) for flow in rounds) / len(rounds) for path in paths}
