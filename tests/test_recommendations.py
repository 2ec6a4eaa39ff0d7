"""The table of answers on a kernel: rows in the docs that were not measured again stay."""

import argparse
import contextlib

import pytest

from benchmarks.decision import recommendations
from benchmarks.shared import docs
from mptune.optimisation.options import OptimiseOptions
from mptune.runner.progress import Reporter
from mptune.topology import load


def row(scenario, answer, now, by_hand="-"):
    return recommendations.Row(
        (scenario, "fullmesh, cubic", "1 MiB", now, by_hand, "2", answer, "9", "-", "-")
    )


def test_rows_of_other_scenarios_stay_and_the_summary_counts_them():
    old = [row("A", "10, 3 ms", "5, 9 ms"), row("C", "0.7", "3.58", "7.36")]
    begin, end = docs.markers(recommendations.NAME)
    lines = docs.table([recommendations.head(), *(one.cells for one in old)])
    page = "\n".join(["| another | table |", begin, *lines, "", "About.", end, "| one | more |"])
    assert recommendations.kept(page) == old
    shown = recommendations.joined(old, [row("C", "44", "3.58"), row("B", "- (3 failed)", "3")])
    assert [(one.scenario, one.holds) for one in shown] == [("A", True), ("B", False), ("C", True)]
    text = recommendations.summary(shown, "virtual:7.3")
    assert "2 of 3 answers" in text and "not: B" in text and "2.00 to 12.29 times today" in text


def test_an_answer_holds_down_to_the_sacrifice():
    assert row("A", "9.3", "10", "1").holds and not row("A", "9.2", "10", "1").holds


def test_the_table_of_the_docs_is_read():
    rows = recommendations.kept(recommendations.DOCS.read_text(encoding="utf-8"))
    assert len(rows) >= 9 and all(one.over("now") for one in rows)


def test_an_answer_is_asked_for_with_the_default_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = argparse.Namespace(seed=1, jobs=1, fresh=True)
    given: list[OptimiseOptions] = []

    def optimise(*args: object, **members: object) -> None:
        given.extend(argument for argument in args if isinstance(argument, OptimiseOptions))

    monkeypatch.setattr(recommendations, "optimise", optimise)
    monkeypatch.setattr(recommendations, "stored_results", lambda *_, **__: contextlib.nullcontext())
    recommendations.recommend(load("UiT-HAW"), "linux-7.3", asked, Reporter())
    (options,) = given
    options.check()
    assert options.duration_ns == 30_000_000_000
