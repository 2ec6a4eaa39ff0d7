"""Differences between congestion controls: compared run by run, where both were measured."""

import msgspec
import pytest

from mptune.report.choices import choices
from mptune.report.sections import Section
from mptune.report.sections.differing import differing
from mptune.result.run_data import RunData, TrialRow

#: What each run adds, whatever the congestion control: far more than what they differ by.
LUCK = (0.0, 40.0, -30.0, 10.0)
EFFECTS = {"cubic": 5.0, "reno": 3.0, "olia": 3.0}
NOISE = {"cubic": (0.1, -0.1, 0.05, 0.0), "reno": (0.0, 0.1, -0.1, 0.05), "olia": (0.05, -0.1, 0.1, 0.0)}


def of(run: RunData, trials: list[TrialRow]) -> list[Section]:
    changed = msgspec.structs.replace(run, trials=tuple(trials), answer=None)
    return list(differing(changed, choices(changed)))


def made(run: RunData, runs: int) -> list[TrialRow]:
    like = run.swept[0]
    return [
        msgspec.structs.replace(
            like,
            cc=cc,
            run=number,
            buffer_bytes=size,
            throughput_mbps=100 + size + LUCK[number] + effect + NOISE[cc][number],
        )
        for cc, effect in EFFECTS.items()
        for size in (1, 2)
        for number in range(runs)
    ]


def test_differences_are_seen_through_the_luck_that_runs_share(optimised: RunData) -> None:
    (section,) = of(optimised, made(optimised, 4))
    by_pair = {row["pair"]: row for row in section.tables[0].rows}
    assert {pair: row["differ"] for pair, row in by_pair.items() if "cubic" in pair} == {
        "cubic - reno": "yes",
        "cubic - olia": "yes",
    }
    (equal,) = [row for pair, row in by_pair.items() if "cubic" not in pair]
    assert equal["differ"] != "yes"
    for row in by_pair.values():
        assert row["low_mbps"] <= row["mean_mbps"] <= row["high_mbps"]
        assert (row["runs"], row["configurations"]) == (4, 2)
    assert by_pair["cubic - reno"]["mean_mbps"] == pytest.approx(2.0)


def test_only_what_both_were_measured_with_is_compared(optimised: RunData) -> None:
    """A buffer that one of them never had does not count for it."""
    trials = made(optimised, 4)
    alone = msgspec.structs.replace(trials[0], buffer_bytes=9, throughput_mbps=9000.0)
    assert of(optimised, [*trials, alone])[0].tables[0].rows == of(optimised, trials)[0].tables[0].rows


def test_too_few_runs_are_not_compared(optimised: RunData) -> None:
    assert of(optimised, made(optimised, 2)) == []


def test_the_order_of_the_trials_does_not_matter(optimised: RunData) -> None:
    trials = made(optimised, 4)
    shuffled = [trial for cc in EFFECTS for trial in reversed(trials) if trial.cc == cc]
    assert of(optimised, shuffled)[0].tables[0].rows == of(optimised, trials)[0].tables[0].rows
