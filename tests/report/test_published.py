"""A paper's page of measurements made again: a section per claim, each figure once, and text stays text."""

import json
import re
from typing import Any

import pytest

from mptune.papers.measure import Claim, Judgement, claims
from mptune.papers.measure.rule import Values, judge
from mptune.papers.measure.running import Again, Number
from mptune.report.published import page
from mptune.statistics import summarise


def again(claim: Claim) -> Again:
    """A claim that was measured as printed, and where nothing is printed as 1."""
    runs = {point.name: [point.printed or 1.0] * 2 for point in claim.points}
    factors = {factor.name: factor.printed for factor in claim.factors}
    return Again(
        judgement=judge(claim, Values(runs=runs, factors=factors)),
        numbers=tuple(Number(point=point, measured=summarise(runs[point.name])) for point in claim.points),
        factors=factors,
    )


def every(again: Again) -> set[str]:
    """Names of what is measured for a claim."""
    return {point.name for point in again.claim.points} | {each.name for each in again.claim.factors}


def of(paper: str) -> list[Again]:
    return [again(claim) for claim in claims() if claim.paper == paper]


def charts(html: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="charts">(.*?)</script>', html, re.S)
    assert match is not None
    drawn: dict[str, Any] = json.loads(match[1])
    return drawn


@pytest.mark.parametrize("paper", ["mpcoa", "buffersizes", "pcdc", "pathmgmt", "glm"])
def test_every_claim_has_its_section_with_a_figure_of_its_own_numbers(paper: str) -> None:
    measured = of(paper)
    html = page("A paper", measured, {"runs": 2})
    assert re.findall(r'<section id="([^"]+)"', html) == [
        measurement.claim.id for measurement in measured
    ] + ["measured"]
    drawn = {name.rpartition("-")[0] for name in charts(html)}
    without = [measurement for measurement in measured if measurement.claim.id not in drawn]
    for measurement in without:  # an earlier section shows the same points
        names = every(measurement)
        assert any(
            names
            <= {point.name for point in other.claim.points} | {each.name for each in other.claim.factors}
            for other in measured
            if other.claim.id in drawn
        )
    assert f"{len(measured)} claims: " in html


def test_what_is_measured_as_printed_lies_on_it() -> None:
    (claim,) = (claim for claim in claims() if claim.id == "pcdc-fig-6-uib-unis")
    (chart,) = charts(page("A paper", [again(claim)], {})).values()
    (rows,) = chart["datasets"].values()
    assert [row["value"] for row in rows if row["source"] == "printed"] == [
        row["value"] for row in rows if row["source"] == "measured"
    ]
    assert {row["name"] for row in rows} == {point.name for point in claim.points}


def test_a_curve_is_drawn_over_the_buffer_by_combination() -> None:
    (claim,) = (claim for claim in claims() if claim.id == "glm-table-4-uio-uit")
    drawn = charts(page("A paper", [again(claim)], {}))
    assert len(drawn) == 6
    for chart in drawn.values():
        assert {row["source"] for row in chart["datasets"]["rows"]} == {"printed", "measured"}
        assert len({row["buffer_mib"] for row in chart["datasets"]["rows"]}) == 9


def test_what_failed_has_no_mark_but_its_reason() -> None:
    (claim,) = (claim for claim in claims() if claim.id == "pcdc-fig-6-uib-unis")
    number = Number(point=claim.points[0], measured=None, reason="stalled <b>")
    judgement = Judgement(claim=claim, statements=judge(claim, Values(runs={})).statements)
    html = page("A <paper>", [Again(judgement=judgement, numbers=(number,), factors={})], {})
    assert "stalled &lt;b&gt;" in html
    assert "A &lt;paper&gt;" in html
    ((chart),) = charts(html).values()
    assert {row["source"] for row in chart["datasets"]["rows"]} == {"printed"}
    assert judgement.verdict == "disagrees"
