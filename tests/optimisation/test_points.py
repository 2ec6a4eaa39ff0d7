"""Points of an objective, or of two: limits, the choice, and what no other point beats."""

import pytest

from mptune.optimisation.limits import Limit
from mptune.optimisation.points import Choice, Point
from mptune.trial import Combination, Messages
from mptune.trial.metrics import THROUGHPUT

KIB = 2**10
DELAYS = Messages.judged_by.by_word
BOTH = Choice(DELAYS["p99"], second=THROUGHPUT, saturated=True)


def point(
    name: str, ms: float, mbps: float, *, buffer_kib: int = 512, failed: int = 0, scatter: float = 0.0
) -> Point:
    """Four runs, whose values are `scatter` (a share) apart."""
    factors = [1 + scatter * step for step in (-1.5, -0.5, 0.5, 1.5)]
    one = Combination.plain_tcp("A-X", name) if name == "tcp" else Combination("pcdc", "cubic", (name,))
    return Point(
        combination=one,
        buffer_bytes=buffer_kib * KIB,
        by_run={run: ms * factor for run, factor in enumerate(factors)},
        kept=True,
        excess=0.0,
        failed=failed,
        second={run: mbps * factor for run, factor in enumerate(reversed(factors))},
    )


def names(points: tuple[Point, ...]) -> list[str]:
    return [one.combination.subflows[0] for one in points]


def test_a_point_that_is_beaten_in_both_is_not_on_the_front() -> None:
    quick, fast = point("quick", 20, 8), point("fast", 90, 60)
    beaten, also = point("beaten", 95, 50), point("also", 30, 8)
    assert names(BOTH.front([beaten, fast, also, quick], quick)) == ["quick", "fast"]


def test_a_point_between_the_others_stays() -> None:
    points = [point("quick", 20, 8), point("middle", 50, 30), point("fast", 90, 60)]
    assert names(BOTH.front(points, points[0])) == ["quick", "middle", "fast"]


def test_of_points_that_cannot_be_told_apart_the_smallest_buffer_stays() -> None:
    small, large = point("small", 20, 8), point("large", 20.1, 8.01, buffer_kib=1024)
    assert names(BOTH.front([large, small], small)) == ["small"]
    # The chosen one stays, whatever its buffer.
    assert names(BOTH.front([large, small], large)) == ["large"]


def test_points_that_failed_or_lack_a_value_are_not_on_the_front() -> None:
    chosen, broken = point("chosen", 20, 8), point("broken", 90, 60, failed=1)
    assert names(BOTH.front([chosen, broken], chosen)) == ["chosen"]
    assert BOTH.front([broken], broken) == (broken,)
    assert Choice(DELAYS["p99"]).front([chosen], chosen) == ()


def test_the_second_decides_between_those_that_the_first_cannot_tell_apart() -> None:
    """Without it the smaller buffer is taken."""
    small, fast = point("small", 20, 8), point("fast", 20.2, 30, buffer_kib=1024)
    assert BOTH.choose([small, fast])[1] == fast
    assert Choice(DELAYS["p99"]).choose([small, fast])[1] == small


def test_plain_tcp_is_not_preferred_for_the_second() -> None:
    multipath, tcp = point("multipath", 20, 8), point("tcp", 20, 8.3)
    assert BOTH.choose([multipath, tcp])[1] == multipath
    assert len(BOTH.front([multipath, tcp], multipath)) == 2


@pytest.mark.parametrize(("mbps", "violation"), [(25.0, 0.0), (20.0, 0.0), (15.0, 0.25), (0.0, 1.0)])
def test_throughput_has_a_least(mbps: float, violation: float) -> None:
    limit = Limit(THROUGHPUT, 20)
    assert limit.violation(mbps) == pytest.approx(violation)
    assert limit.text == "throughput of at least 20 Mbit/s"


def test_a_delay_has_a_most() -> None:
    limit = Limit(DELAYS["p99"], 80)
    assert (limit.violation(80), limit.violation(100)) == (0, pytest.approx(0.25))
    assert limit.text == "delay p99 of at most 80 ms"
