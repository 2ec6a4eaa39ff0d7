"""The section of messages: what it draws are the delays of the trials that it names."""

import csv
import itertools
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.campaign.definition import read_definition
from mptune.campaign.execution import start
from mptune.errors import InputError
from mptune.report.answer import answer
from mptune.report.choices import Choices
from mptune.report.sections import Section
from mptune.report.sections.delays import delays
from mptune.report.sections.video import buffer
from mptune.result.reading import read_run
from mptune.result.run_data import RunData
from mptune.statistics import quantile
from mptune.store import open_store
from mptune.store.directory import COMPARED, STORE
from mptune.store.export import export
from tests.report.conftest import CALLS
from tests.report.making import sections


def section(run: RunData) -> Section:
    return next(one for one in sections(run) if one.name == "delays")


def table(run: RunData, title: str) -> list[dict[str, Any]]:
    made = section(run)
    return next(each.rows for each in (*made.open, *made.tables) if each.title.startswith(title))


def pooled(run: RunData, role: str) -> list[float]:
    """Delays of the trials that confirm, ms, from the observations."""
    assert run.by_objective is not None
    setting = getattr(run.by_objective, role)
    return [
        ns / 1e6
        for trial in run.delayed
        if (trial.cc, trial.buffer_bytes, trial.subflows)
        == (setting.cc, setting.buffer_bytes, setting.subflows)
        for ns in run.observations[trial.key].delays_ns
    ]


def test_only_trials_that_confirm_are_loaded(messages: RunData) -> None:
    assert {trial.purpose for trial in messages.delayed} == {"confirm"}
    assert set(messages.observations) == {trial.key for trial in messages.delayed}
    assert messages.shown == messages.panorama == () and len(messages.delayed) in (3, 6)
    assert all(trial.workload and not trial.is_saturated for trial in messages.delayed)


def test_no_section_shows_the_throughput_of_messages(messages: RunData, calls: RunData) -> None:
    assert [one.name for one in sections(messages)] == ["delays", "reached", "topology"]
    assert [one.name for one in sections(calls)] == ["delays", "topology"]
    assert messages.swept == calls.swept == []


def test_the_course_of_the_search_is_told_in_the_objectives_unit(messages: RunData) -> None:
    course = messages.by_objective.reached if messages.by_objective is not None else None
    assert course is not None
    made = next(one for one in sections(messages) if one.name == "reached")
    assert [panel.title for panel in made.panels] == ["Candidates", "Certainty"]
    (beliefs,) = made.tables
    assert [row["value (ms)"] for row in beliefs.rows] == [step.value for step in course.steps]
    assert [row["trials"] for row in beliefs.rows] == [step.trials for step in course.steps]
    assert f"after {course.steps[-1].trials} trials" in made.lead and "full grid" not in made.lead


def test_two_objectives_have_a_section_with_every_point_of_the_front(front: RunData) -> None:
    assert [one.name for one in sections(front)] == ["front", "delays", "topology"]
    assert front.by_objective is not None and front.by_objective.front is not None
    drawn = next(one for one in sections(front) if one.name == "front")
    (shown,) = drawn.tables
    points = front.by_objective.front.points
    assert [row["second"] for row in shown.rows] == [point.second.mean for point in points]
    assert sum(row["recommended"] for row in shown.rows) == 1
    # Each is among what was compared, with both values.
    compared = {(row.buffer_bytes, row.mean, row.second_mean) for row in front.compared}
    assert all((one.buffer_bytes, one.value.mean, one.second.mean) in compared for one in points)


def test_the_share_that_is_later_is_that_of_all_runs_together(messages: RunData) -> None:
    rows = table(messages, "Share of messages")
    (default,) = {row["name"] for row in rows if row["name"].startswith("default: ")}
    mine = [row for row in rows if row["name"] == default]
    delays_ms = pooled(messages, "default")
    assert len(delays_ms) == 3 * 100
    for row in mine:
        later = sum(ms >= row["time_ms"] - 1e-9 for ms in delays_ms)
        assert row["share_percent"] == pytest.approx(100 * later / len(delays_ms), abs=100 / len(delays_ms))
    assert mine[0]["share_percent"] == 100 and mine[-1]["time_ms"] == pytest.approx(max(delays_ms))
    shares = [row["share_percent"] for row in mine]
    assert shares == sorted(shares, reverse=True) and len(set(shares)) == len(shares)


def test_every_message_of_the_first_run_is_drawn_when_it_was_due(messages: RunData) -> None:
    rows = table(messages, "Messages of the first run")
    for name in {row["name"] for row in rows}:
        mine = [row for row in rows if row["name"] == name]
        assert [row["due_s"] for row in mine] == pytest.approx([0.05 * number for number in range(100)])
    assert all(row["time_ms"] > 0 for row in rows)


def test_of_very_many_messages_the_latest_of_each_interval_is_drawn(messages: RunData) -> None:
    trial = messages.delayed[0]
    seen = messages.observations[trial.key]
    many = [10_000_000] * 5000
    many[4321] = 90_000_000
    observations = {key: msgspec.structs.replace(seen, delays_ns=many) for key in messages.observations}
    (made,) = delays(msgspec.structs.replace(messages, observations=observations), Choices())
    points = next(each.rows for each in made.tables if each.title.startswith("Messages"))
    assert len(points) <= 2 * 400
    spikes = [row for row in points if row["time_ms"] == 90]
    assert spikes and all(row["due_s"] == pytest.approx(4321 * 0.05) for row in spikes)


def test_the_figures_are_those_of_the_answer(messages: RunData) -> None:
    result = messages.by_objective
    assert result is not None
    rows = table(messages, "Answer and default")
    assert [row["metric"] for row in rows[:5]] == [
        *("delay p99", "delay p50", "delay p99.9", "longest gap", "throughput")
    ]
    assert rows[0]["recommended"] == result.figures[0].recommended.mean
    assert rows[0]["better_low"] == result.figures[0].gain.low
    assert (result.outage is None) == (len(rows) == 5)


def test_what_was_compared_is_that_of_its_table_the_best_first(messages: RunData, runs: Path) -> None:
    with (runs / "messages" / COMPARED).open(newline="") as file:
        written = list(csv.DictReader(file))
    rows = table(messages, "What was compared")
    assert len(messages.compared) == len(written) and len(rows) == min(20, len(written))
    # What had few runs may have been lucky: it comes last.
    most = max(int(row["runs"]) for row in written)
    ranks = [(2 * int(row["runs"]) < most, float(row["mean"])) for row in written]
    assert [(2 * row["runs"] < most, row["mean (ms)"]) for row in rows] == sorted(ranks)[: len(rows)]
    assert len({few for few, _ in ranks}) == 2
    assert sum(row.chosen for row in messages.compared) == 1
    made = section(messages)
    assert [each.source for each in made.open] == ["result.json", "compared.csv"]


def test_a_damaged_table_is_refused_in_one_line(runs: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(runs / "messages", tmp_path / "copy")
    text = (copy / COMPARED).read_text()
    for damaged in (
        text.replace("False", "perhaps"),
        text.replace("buffer_bytes", "size"),
        "a,b\n1,2\n",
    ):
        (copy / COMPARED).write_text(damaged)
        with pytest.raises(InputError, match=r"compared\.csv: expected the table of what was compared"):
            read_run(copy, "copy")
    (copy / COMPARED).unlink()
    run = read_run(copy, "copy")
    assert run.compared == () and [each.source for each in section(run).open] == ["result.json"]


def test_a_sweep_shows_its_best_combinations_and_names_the_quickest(calls: RunData, runs: Path) -> None:
    names = list(dict.fromkeys(row["name"] for row in table(calls, "Share of messages")))
    assert len(names) == 4 and all(name.endswith(" MiB") for name in names)
    rows = table(calls, "99th percentile")
    assert len(rows) == 2 * 2 * 2 and rows[0]["mean_ms"] == min(row["mean_ms"] for row in rows)
    with open_store(runs / "calls" / STORE, write=False) as store:
        stored = {
            trial.key: quantile(sorted(store.observation(trial.key).delays_ns), 0.99) / 1e6
            for trial in store.trials()
        }
    assert {trial.key: trial.p99_ms for trial in calls.trials} == pytest.approx(stored)
    text = answer(calls, Choices(), "")
    assert "Smallest mean delay p99: " in text and "(3 runs, " in text
    assert names[0].rpartition(",")[0] in text


def test_the_page_has_the_sentences_of_the_answer(messages: RunData) -> None:
    assert messages.by_objective is not None
    text = answer(messages, Choices(), "")
    assert text.count("<p") == len(messages.by_objective.answer)
    assert text.count("class=sentence") == 1


@pytest.mark.parametrize(
    ("workload", "title", "column"),
    [
        ("requests:400B/8KiB", "Time of responses", "number"),
        ("page:4KiB/3x4KiB", "Time of pages", "number"),
    ],
)
def test_responses_and_pages_have_words_of_their_own(
    runs: Path, tmp_path: Path, workload: str, title: str, column: str
) -> None:
    (tmp_path / "hostile.toml").write_text((runs / "hostile.toml").read_text())
    (tmp_path / "asking.toml").write_text(CALLS.replace("messages:200B/50ms", workload))
    start(read_definition(tmp_path / "asking.toml"), tmp_path / "run")
    run = read_run(tmp_path / "run", "run")
    (made,) = delays(run, Choices())
    assert made.title == title and made.lead.startswith("From ")
    (singly,) = (each.rows for each in made.tables if each.title.endswith("of the first run"))
    assert [row[column] for row in singly if row["name"] == singly[0]["name"]][:3] == [0, 1, 2]
    assert " p99" in answer(run, Choices(), "")


def test_a_video_is_drawn_with_what_is_left_to_play(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "hostile.toml").write_text((runs / "hostile.toml").read_text())
    text = CALLS.replace("messages:200B/50ms", "video:1M/8M,segment=1s,buffer=4s").replace('"5s"', '"20s"')
    (tmp_path / "watching.toml").write_text(text)
    start(read_definition(tmp_path / "watching.toml"), tmp_path / "run")
    run = read_run(tmp_path / "run", "run")
    found = {one.name: one for one in sections(run)}
    assert found["delays"].title == "Time of segments"
    made, trial = found["video"], run.delayed[0]
    seen = run.observations[trial.key]
    levels = [row["buffer_s"] for row in buffer("one", trial, seen)]
    assert min(levels) >= 0 and 1 <= max(levels) <= 4
    # It is empty where pictures stand still, and each segment adds a second.
    stalls = [row for each in made.tables if each.title.startswith("Stalls") for row in each.rows]
    mine = sum(piece.stalled_ns > 0 for piece in seen.pieces)
    assert mine and levels.count(0) >= mine and len(stalls) >= mine
    assert sum(after == before + 1 for before, after in itertools.pairwise(levels)) >= len(seen.pieces) - 1
    # All times and stalls are in the export.
    with open_store(tmp_path / "run" / STORE) as store:
        written = export(store, tmp_path / "out", "csv", series=True)
    (file,) = (each for each in written if each.name == "times.csv")
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert sum(float(row["stalled_ms"]) for row in rows) > 0 and all(row["bytes"] for row in rows)
