"""The Pareto front: no point is beaten, and it holds the answer to every sacrifice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.decision.selection import BufferRange, Candidates
from mptune.decision.tradeoff import pareto_front
from mptune.response import Curve
from mptune.response.quadratic import Parabola
from mptune.trial import Combination

GRID = tuple(0.5 * i for i in range(1, 61))


def candidates(*curves: Curve) -> Candidates:
    named = {Combination("fullmesh", str(i)): curve for i, curve in enumerate(curves)}
    return Candidates(named, BufferRange(grid=GRID))


def test_a_front_by_hand() -> None:
    """The small and slow one (50 at once) takes over where the fast one has given up half."""
    front = pareto_front(
        candidates(Parabola((0.0, 10.0, 0.0)), Parabola((160.0, 0.0, 0.0))), (0.0, 0.2, 0.4, 0.5)
    )
    points = [(p.sacrifice, p.optimum.cc, p.optimum.buffer_mib, p.optimum.throughput_mbps) for p in front]
    assert points == [
        (0.0, "0", 30.0, 300.0),
        (0.2, "0", 24.0, 240.0),
        (0.4, "0", 18.0, 180.0),
        (0.5, "1", 0.5, 160.0),
    ]


def test_it_ends_where_the_smallest_buffer_suffices() -> None:
    front = pareto_front(candidates(Parabola((95.0, 1.0, 0.0))))
    assert front[-1].optimum.buffer_mib == 0.5
    assert len([point for point in front if point.optimum.buffer_mib == 0.5]) == 1


parabolas = st.builds(lambda *c: Parabola(c), st.floats(1, 300), st.floats(0, 20), st.floats(-0.5, 0))


@given(st.lists(parabolas, min_size=1, max_size=5))
def test_no_point_of_the_front_is_beaten(drawn: list[Parabola]) -> None:
    """By another point of it, or by any curve at a smaller buffer (within the ties of the selection)."""
    all_of_them = candidates(*drawn)
    front = pareto_front(all_of_them)
    buffers = [point.optimum.buffer_mib for point in front]
    throughputs = [point.optimum.throughput_mbps for point in front]
    assert buffers == sorted(buffers, reverse=True) and throughputs == sorted(throughputs, reverse=True)
    best = max(all_of_them.maxima.values())
    for point in front:
        target = (1 - point.sacrifice) * best
        assert point.optimum.throughput_mbps >= target - 1e-6 * best
        reached = [curve.smallest_buffer(target, GRID[0], GRID[-1]) for curve in drawn]
        assert point.optimum.buffer_mib <= min(b for b in reached if b is not None) + 0.005 + 1e-9


@given(st.lists(parabolas, min_size=1, max_size=5), st.floats(0, 0.5))
def test_the_answer_to_a_sacrifice_lies_on_the_front(drawn: list[Parabola], sacrifice: float) -> None:
    """Or a smaller sacrifice has an answer as small: then that one is on it."""
    all_of_them = candidates(*drawn)
    answer = all_of_them.best(sacrifice)
    front = pareto_front(all_of_them, (0.0, 0.1, 0.2, sacrifice))
    assert any(
        point.optimum.buffer_mib <= answer.buffer_mib + 1e-9
        and point.optimum.throughput_mbps >= answer.throughput_mbps - 1e-9
        for point in front
    )


def test_measured_limits_are_kept() -> None:
    """A combination that failed below 5 MiB is no answer there, whatever its curve predicts."""
    named: dict[Combination, Curve] = {Combination("fullmesh", "a"): Parabola((100.0, 0.1, 0.0))}
    limited = Candidates(named, BufferRange(grid=GRID), measured={Combination("fullmesh", "a"): (5.0, 20.0)})
    assert limited.best(0.5).buffer_mib == 5.0
    assert limited.maxima[Combination("fullmesh", "a")] == pytest.approx(102.0)
