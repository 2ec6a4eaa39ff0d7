"""The table of answers on a kernel: rows in the docs that were not measured again stay."""

from benchmarks.decision import recommendations
from benchmarks.shared import docs


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
