"""The benchmark of claims: the truth beside them, and which of them count as wrong."""

import msgspec
import pytest

from benchmarks.decision._claimed import Claim, Judge, Mean, Outcome
from benchmarks.decision.claims import is_narrow, misses, row, wrong
from mptune.optimisation.points import Choice, Point
from mptune.statistics import summarise
from mptune.trial import Combination
from mptune.trial.objectives import metric_named

KIB = 1024


def point(size: int, values: list[float]) -> Point:
    """A configuration with these delays, run by run."""
    return Point(
        combination=Combination("fullmesh", "cubic"),
        buffer_bytes=size * KIB,
        by_run=dict(enumerate(values)),
        kept=True,
        excess=0,
        failed=0,
    )


def outcome(regret: float, room: float, *, error: float = 0.1) -> Outcome:
    """An answer of 100 ms that misses this of the best."""
    return Outcome(
        workload="messages",
        strategy="adaptive",
        network="random-1",
        objective="delay p99",
        unit="ms",
        floor=0.5,
        answer="fullmesh/cubic 64 KiB",
        best=("A-T/cubic 64 KiB",),
        value=100.0,
        regret=regret,
        error=error,
        room=room,
        claims={"best": Claim(beyond=regret - room, error=error)},
        trials=10,
        simulated_s=3600.0,
    )


def regret(points: list[Point]) -> Mean:
    choice = Choice(metric_named("delay:p99"))
    # Nothing is measured here.
    found, _ = Judge(None, choice).regret(points)  # type: ignore[arg-type]
    return found


def test_what_was_lucky_in_one_half_is_measured_by_the_other() -> None:
    """All are the same; each is 10 ms better in one run of its own, and taken for the best for that."""
    answer = point(1, [100.0] * 8)
    lucky = [point(2 + run, [90.0 if run == number else 100.0 for number in range(8)]) for run in range(8)]
    assert regret([answer, *lucky]).value == 0
    better = point(20, [95.0, 94.0] * 4)
    found = regret([answer, *lucky, better])
    assert found.value == pytest.approx(5.5) and found.error == pytest.approx(0.5 * (8 / 7) ** 0.5 / 8**0.5)


def test_a_claim_is_wrong_by_more_than_the_error_of_the_truth() -> None:
    for beyond, is_missed, is_wrong in ((-1.0, False, False), (0.1, True, False), (0.3, True, True)):
        claim = Claim(beyond=beyond, error=0.1)
        assert (claim.is_missed, claim.is_wrong) == (is_missed, is_wrong)
    assert not Claim(beyond=1e-12, error=0.0).is_missed


def test_an_interval_is_missed_on_either_side() -> None:
    claimed = summarise([99.0, 101.0, 99.0, 101.0])
    assert claimed.low is not None and claimed.high is not None
    for value, beyond in ((claimed.low - 2, 2), (claimed.high + 3, 3), (100, claimed.low - 100)):
        claim = Mean(value, 0.1).against(claimed)
        assert claim is not None and claim.beyond == pytest.approx(beyond)
    assert Mean(1.0, 0.1).against(summarise([1.0])) is None


def test_a_row_counts_claims_and_narrow_ones() -> None:
    ones = [outcome(0.0, 1.0), outcome(3.0, 2.0), outcome(5.1, 5.0), outcome(-1.0, 9.0)]
    assert [is_narrow(one) for one in ones] == [True, True, False, False]
    assert wrong("best", ones) == "1 (2), 25%" and wrong("best", []) == "-"
    cells = row("messages, delay p99", ones)
    assert cells[7:11] == ["4", "1 (2), 25%", "2", "1 (1), 50%"]
    assert cells[11:] == ["3.0 ms, 3.0%", "5.1 ms, 5.1%", "10", "1.0 h"]
    (line,) = misses(ones)
    assert line.startswith("messages, adaptive, random-1, best: 1.0 ms beyond (standard error 0.10)")
    unseen = msgspec.structs.replace(ones[1], floor=2.0)
    assert ones[1].is_noticed("best") and not unseen.is_noticed("best")
