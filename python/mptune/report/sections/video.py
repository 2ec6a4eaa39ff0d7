"""Section of a video: what was left to play, its bitrates, and when pictures stood still, in one run each."""

from collections.abc import Iterator

from mptune.report.charts import video as charts
from mptune.report.charts.style import key
from mptune.report.choices import Choices
from mptune.report.sections._base import Panel, Rows, Section, Table
from mptune.report.sections.delays import groups
from mptune.result.run_data import RunData, TrialRow
from mptune.trial import Observation

_SOURCE = "mptune campaign export --series"


def video(run: RunData, choices: Choices) -> Iterator[Section]:
    """Buffer and bitrate over time, of the first run of each configuration."""
    first = {
        name: (trials[0], run.observations[trials[0].key])
        for name, trials in groups(run).items()
        if run.observations[trials[0].key].pieces and (trials[0].workload or {}).get("kind") == "video"
    }
    if not first:
        return
    buffers = [row for name, (trial, seen) in first.items() for row in buffer(name, trial, seen)]
    bitrates = [row for name, (trial, seen) in first.items() for row in _bitrates(name, trial, seen)]
    stalls = [row for name, (_, seen) in first.items() for row in _stalls(name, seen)]
    colours = key("name", "configuration", buffers, marks=True)
    still = f"It stands still {len(stalls)} times here." if stalls else "It never stands still here."
    yield Section(
        name="video",
        title="Video",
        lead="The first run of each. Left: what the player has left to play; at 0 the picture stands still. "
        f"Right: the bitrate of the segment that is asked for. {still}",
        panels=[
            Panel(
                title="Left to play",
                chart=charts.over_time(buffers, colours, column="buffer_s", title="left to play (s)"),
                zoom=("x",),
            ),
            Panel(
                title="Bitrate",
                chart=charts.over_time(
                    bitrates, colours, column="bitrate_mbps", title="bitrate (Mbit/s)", steps=True
                ),
                zoom=("x",),
            ),
        ],
        key=colours,
        tables=[
            Table(title="Segments of the first run", rows=bitrates, source=_SOURCE),
            *([Table(title="Stalls of the first run", rows=stalls, source=_SOURCE)] if stalls else []),
        ],
    )


def _arrivals_s(seen: Observation) -> list[float]:
    times = zip(seen.pieces, seen.delays_ns, strict=True)
    return [(piece.at_ns + taken_ns) / 1e9 for piece, taken_ns in times]


def buffer(name: str, trial: TrialRow, seen: Observation) -> Rows:
    """Playback buffer, s, before and after the arrival of every segment, and when it runs empty."""
    length_s = (trial.workload or {})["segment_ns"] / 1e9
    rows: Rows = []
    left_s = before_s = 0.0
    for number, arrival_s in enumerate(_arrivals_s(seen)):
        if number and left_s < arrival_s - before_s:
            rows.append({"name": name, "t_s": before_s + left_s, "buffer_s": 0.0})
        left_s = max(left_s - (arrival_s - before_s), 0.0) if number else 0.0
        rows.append({"name": name, "t_s": arrival_s, "buffer_s": left_s})
        left_s, before_s = left_s + length_s, arrival_s
        rows.append({"name": name, "t_s": arrival_s, "buffer_s": left_s})
    return rows


def _bitrates(name: str, trial: TrialRow, seen: Observation) -> Rows:
    length_ns = (trial.workload or {})["segment_ns"]
    return [
        {
            "name": name,
            "number": number,
            "t_s": piece.at_ns / 1e9,
            "bitrate_mbps": piece.bytes * 8e3 / length_ns,
            "time_ms": taken_ns / 1e6,
        }
        for number, (piece, taken_ns) in enumerate(zip(seen.pieces, seen.delays_ns, strict=True))
    ]


def _stalls(name: str, seen: Observation) -> Rows:
    return [
        {"name": name, "until_s": arrival_s, "stalled_ms": piece.stalled_ns / 1e6}
        for piece, arrival_s in zip(seen.pieces, _arrivals_s(seen), strict=True)
        if piece.stalled_ns
    ]
