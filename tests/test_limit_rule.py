"""The rule for limits of buffers from Python, in which benchmarks put simulated networks under it."""

import pytest

from mptune._core import LimitRule, SpecError

MIB = 2**20
CURVE = [(MIB // 4, 10.0), (MIB, 40.0), (16 * MIB, 40.0)]


def test_a_limit_rises_towards_what_the_curve_wants() -> None:
    rule = LimitRule(MIB // 16, 16 * MIB, 0.95, MIB // 4, CURVE)
    limit, why = rule.step(10.0, 1e5, 0.75)
    assert (limit, why) == (MIB // 2, "send buffer limited 75 % of the time, 10 Mbit/s of 38 Mbit/s")
    limit, _ = rule.step(20.0, 2e5, 0.5)
    assert MIB // 2 < limit < MIB
    assert rule.step(38.0, 4e5, 0.05)[0] == limit


def test_points_that_are_no_curve_are_refused() -> None:
    with pytest.raises(SpecError) as refused:
        LimitRule(MIB // 16, 16 * MIB, 0.95, MIB, [])
    assert refused.value.args == ("curve", "expected two points [bytes, Mbit/s] or more, found 0")
