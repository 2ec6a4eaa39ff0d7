"""The papers' results, and the gains of PCDC: which they are, and how they are judged."""

from collections.abc import Iterator

import pytest

from mptune.papers.measure import Claim, Judgement, Values, claims, judge
from mptune.papers.measure.results import gains, is_result, results
from mptune.papers.measure.running import Again, Number
from mptune.statistics import summarise


def as_printed(claim: Claim, factor: float = 1.0) -> Again:
    """A claim whose points give the printed numbers, those of PCDC times a factor."""
    values = {
        point.name: point.printed * (factor if point.configuration.pm == "pcdc" else 1.0)
        for point in claim.points
        if point.printed is not None
    }
    judgement = judge(claim, Values(runs={name: [value] for name, value in values.items()}))
    return Again(
        judgement=judgement,
        numbers=tuple(
            Number(
                point=point,
                measured=summarise([values[point.name]]) if point.name in values else None,
            )
            for point in claim.points
        ),
        factors={},
    )


def measured(factor: float = 1.0) -> Iterator[Again]:
    return (as_printed(claim, factor) for claim in claims())


def test_a_result_is_a_figure_or_table_and_a_pair() -> None:
    found = results(tuple(measured()))
    assert len(found) == 28
    assert len({(one.paper, one.figure, one.scenario) for one in found}) == 28
    by_paper = {one.paper: sum(other.paper == one.paper for other in found) for one in found}
    assert by_paper == {"mpcoa": 9, "buffersizes": 5, "pcdc": 6, "pathmgmt": 6, "glm": 2}
    of_claims = [claim.id for claim in claims() if is_result(claim)]
    assert sorted(of_claims) == sorted(name for one in found for name in one.claims)
    assert all(claim.part == "judge" for claim in claims() if claim.id in of_claims)
    (glm,) = (one for one in found if (one.paper, one.figure) == ("glm", "table-4"))
    assert glm.claims == ("glm-table-4-uio-uit", "glm-table-4-uio-uit-cc", "glm-fig-3-uio-uit")


def test_the_statements_of_all_claims_of_a_result_count_alike() -> None:
    table = [again for again in measured() if again.claim.id.startswith("mpcoa-table-4-uit-haw")]
    pcdc = next(again for again in table if again.claim.id.endswith("pcdc"))
    (result,) = results(table)
    assert len(result.statements) == len(pcdc.claim.statements) + 1
    nothing = Judgement(
        claim=pcdc.claim,
        statements=judge(pcdc.claim, Values(runs={})).statements,
    )
    without = [
        Again(judgement=nothing, numbers=(), factors={}) if again is pcdc else again for again in table
    ]
    assert result.verdict == "agrees" and results(without)[0].verdict == "disagrees"


def test_every_printed_gain_of_pcdc_is_there() -> None:
    found = gains(tuple(measured()))
    counted = {(one.scenario, one.cc): one.printed for one in found if one.counts}
    assert counted[("UiB-UNIS", "olia")] == pytest.approx(2.33, abs=0.01)
    assert len(found) == 12 and len(counted) == 11
    assert all(one.has_sign and one.measured == pytest.approx(one.printed) for one in found)


def test_a_loss_has_not_the_sign_of_a_gain() -> None:
    lost = {(one.scenario, one.cc): one for one in gains(tuple(measured(0.5)))}
    assert {key for key, one in lost.items() if one.has_sign} == {("UiB-UNIS", "olia"), ("UiB-HU", "cubic")}
