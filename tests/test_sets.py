"""The benchmark of sets: shares, certainty, and effort of the rules."""

import pytest

from benchmarks.decision.sets import RULES, Case, effort, row, short, signs
from mptune.impact import Decision, Impact, PathImpact, SubflowSets
from mptune.statistics import summarise


def case(shipped: float, of_signs: float, eq5: float, *, spread: float = 0.0) -> Case:
    """A case of three rules with these mean throughputs, Mbit/s."""
    means = {"shipped": shipped, "signs": of_signs, "eq5": eq5, "all": of_signs}
    runs = (-1.0, 1.0, 0.5, -0.5)
    return Case(
        network="random-1",
        paths=2,
        stack="linux",
        cc="cubic",
        sets={"shipped": ("A-T",), "signs": ("A-T", "A-U"), "eq5": ("A-U",), "all": ("A-T", "A-U")},
        mbps={
            rule: tuple(means[rule] + spread * run * (rule == "shipped") for run in runs) for rule in RULES
        },
        factors=32,
        contest=20,
        eq5=20,
        factors_s=320.0,
        contest_s=60.0,
        eq5_s=1200.0,
    )


def test_a_share_is_of_the_better_of_the_other_rules() -> None:
    drawn = case(98.0, 50.0, 100.0)
    assert drawn.reached("shipped", "signs", "eq5") == pytest.approx(0.98)
    assert drawn.reached("signs", "eq5") == pytest.approx(0.5)
    assert case(0.0, 0.0, 0.0).reached("shipped", "eq5") == 1.0
    assert short([drawn]) == [] and "97" in short([case(97.0, 50.0, 100.0)])[0]


def test_a_difference_within_the_spread_is_not_clear() -> None:
    assert case(90.0, 50.0, 100.0, spread=1.0).is_clear("shipped", "eq5")
    assert not case(90.0, 50.0, 100.0, spread=40.0).is_clear("shipped", "eq5")
    assert not case(110.0, 50.0, 100.0).is_clear("shipped", "eq5")


def test_a_row_counts_cases_and_effort() -> None:
    cases = [case(98.0, 50.0, 100.0), case(90.0, 100.0, 80.0, spread=1.0)]
    assert row("linux", "shipped", cases)[2:5] == ["1 of 2", "2 of 2", "1"]
    assert (effort("shipped", cases), effort("signs", cases)) == ((52.0, 380.0), (32.0, 320.0))
    assert (effort("eq5", cases), effort("all", cases)) == ((20.0, 1200.0), (0.0, 0.0))


def test_the_signs_keep_what_does_not_matter() -> None:
    given: tuple[tuple[str, float, Decision], ...] = (
        ("A-T", 0.9, "helps"),
        ("A-U", -0.001, "does not matter"),
        ("B-T", -0.1, "hurts"),
    )
    paths = tuple(
        PathImpact(path=path, omega=summarise([mean, mean]), rtt_ms=1.0, decision=decision)
        for path, mean, decision in given
    )
    impact = Impact(cc="cubic", paths=paths, sets=SubflowSets(optional=("A-T",), standby=()), warnings=())
    assert signs(impact) == ("A-T", "A-U")
