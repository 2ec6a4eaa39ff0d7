"""The decision on hand-made curves; the papers' own are in tests/papers/published."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.decision.selection import READINGS, BufferRange, Candidates, Optimum, select
from mptune.errors import MptuneError
from mptune.response import Curve
from mptune.response.quadratic import Parabola
from mptune.trial import Combination

GRID = tuple(0.5 * i for i in range(1, 61))
ANY = BufferRange(grid=GRID)


class Saturating(Curve):
    """A curve without closed forms: rises linearly and then stays level, as real throughput does."""

    def __init__(self, top: float, knee_mib: float) -> None:
        self.top, self.knee_mib = top, knee_mib

    def predict(self, buffer_mib: float) -> float:
        """Evaluate it."""
        return self.top * min(buffer_mib / self.knee_mib, 1.0)

    def interval(self, buffer_mib: float) -> tuple[float, float] | None:
        """Return nothing: it was not fitted."""
        return None

    def formula(self) -> str:
        """Name it."""
        return "min(bs / knee, 1) top"


def curves(**named: Curve) -> dict[Combination, Curve]:
    """Curves by `pm_cc` keywords."""
    pairs = {tuple(name.split("_", 1)): curve for name, curve in named.items()}
    return {Combination(pm, cc): curve for (pm, cc), curve in pairs.items()}


def test_any_model_will_do() -> None:
    got = select(curves(fullmesh_cubic=Saturating(100.0, 8.0)), ANY, sacrifice=0.07)
    assert (got.pm, got.cc) == ("fullmesh", "cubic")
    assert got.buffer_mib == pytest.approx(0.93 * 8.0)
    assert got.throughput_mbps == pytest.approx(93.0)


def test_global_sees_that_another_reaches_the_target_with_less() -> None:
    """Vegas never gets to reno's maximum, but close enough, and with a quarter of the buffer."""
    both = curves(fullmesh_reno=Saturating(100.0, 8.0), fullmesh_vegas=Saturating(95.0, 2.0))
    got = select(both, ANY, sacrifice=0.07)
    assert (got.cc, got.buffer_mib) == ("vegas", pytest.approx(2.0 * 93 / 95))
    assert select(both, ANY, sacrifice=0.02).cc == "reno"


def test_literal_takes_the_soonest_satisfied_however_slow() -> None:
    both = curves(fullmesh_reno=Saturating(100.0, 8.0), fullmesh_vegas=Saturating(1.0, 2.0))
    assert select(both, ANY, reading="literal").cc == "vegas"
    assert select(both, ANY, reading="global").cc == "reno"


class Needle(Saturating):
    """As its base, but with a collapse between two buffers."""

    def __init__(self, top: float, knee_mib: float, collapse: tuple[float, float]) -> None:
        super().__init__(top, knee_mib)
        self.collapse = collapse

    def predict(self, buffer_mib: float) -> float:
        """Evaluate it."""
        low, high = self.collapse
        return super().predict(buffer_mib) * (0.5 if low <= buffer_mib <= high else 1.0)


def test_robust_wants_the_throughput_with_every_larger_buffer() -> None:
    """The needle needs less, but collapses with a little more; the other one holds."""
    both = curves(fullmesh_reno=Needle(100.0, 2.0, (3.0, 8.0)), pcdc_reno=Saturating(98.0, 4.0))
    assert select(both, ANY, reading="global").pm == "fullmesh"
    got = select(both, ANY, reading="robust")
    assert (got.pm, got.buffer_mib) == ("pcdc", pytest.approx(4.0 * 93 / 98))
    alone = select(curves(fullmesh_reno=Needle(100.0, 2.0, (3.0, 8.0))), ANY, reading="robust")
    assert 8.0 < alone.buffer_mib <= 8.5


def test_robust_settles_for_twice_the_size_if_nobody_holds_to_the_end() -> None:
    falling = curves(fullmesh_reno=Needle(100.0, 2.0, (20.0, 30.0)))
    got = select(falling, ANY, reading="robust")
    assert got.buffer_mib == pytest.approx(0.93 * 2.0)
    narrow = curves(fullmesh_reno=Needle(100.0, 2.0, (3.0, 30.0)))
    got = select(narrow, ANY, reading="robust")  # 1.5 MiB holds 75 up to 3; beyond it is 50
    assert got.throughput_mbps < 80.0 and got.buffer_mib < 3.0


def test_where_runs_stalled_or_were_slower_the_curve_is_not_believed() -> None:
    only = curves(fullmesh_reno=Saturating(100.0, 2.0))
    (combination,) = only
    ceilings = {combination: {5.0: 0.0}}
    got = Candidates(only, ANY, ceilings=ceilings).best(0.07, "robust")
    assert 5.0 < got.buffer_mib <= 5.5
    assert Candidates(only, ANY, ceilings=ceilings).best(0.07, "global").buffer_mib < 2.0


def test_where_every_stretch_has_a_stall_the_curve_is_all_there_is() -> None:
    only = curves(fullmesh_reno=Saturating(100.0, 10.0))
    (combination,) = only
    ceilings = {combination: dict.fromkeys((1.0, 2.0, 4.0, 8.0, 16.0, 30.0), 0.0)}
    got = Candidates(only, ANY, ceilings=ceilings).best(0.07, "robust")
    assert got.buffer_mib == pytest.approx(9.3) and got.throughput_mbps == pytest.approx(93.0)


def test_on_the_grid_the_buffer_is_rounded_up() -> None:
    only = curves(fullmesh_cubic=Saturating(100.0, 8.0))
    got = select(only, BufferRange(grid=GRID, on_grid=True), sacrifice=0.07)
    assert got.buffer_mib == 7.5  # off the grid 7.44
    assert got.throughput_mbps >= 93.0


def test_without_sacrifice_the_maximum_itself_is_chosen() -> None:
    only = curves(fullmesh_cubic=Parabola((3.0, 4.0, -0.1)))
    got = select(only, ANY, sacrifice=0.0)
    assert (got.buffer_mib, got.throughput_mbps) == (pytest.approx(20.0), pytest.approx(43.0))


def test_a_falling_curve_is_bounded_by_the_smallest_swept_buffer() -> None:
    got = select(curves(fullmesh_reno=Parabola((5.0, -0.1, 0.0))), ANY)
    assert got.buffer_mib == 0.5


@pytest.mark.parametrize("reading", list(READINGS))
def test_a_homogeneous_network_gets_fullmesh(reading: str) -> None:
    """Two noisy estimates of the same thing: the one that looks better is no reason for PCDC."""
    noisy = curves(fullmesh_reno=Saturating(99.0, 8.0), pcdc_reno=Saturating(101.0, 7.0))
    assert select(noisy, ANY, reading=reading, homogeneous={"reno"}).pm == "fullmesh"
    assert select(noisy, ANY, reading=reading, homogeneous={"cubic"}).pm == "pcdc"


def test_a_homogeneous_network_swept_with_pcdc_alone_still_has_an_answer() -> None:
    assert select(curves(pcdc_reno=Saturating(99.0, 8.0)), ANY, homogeneous={"reno"}).pm == "pcdc"


def test_equal_within_rounding_prefers_the_simpler_path_manager() -> None:
    nearly = curves(pcdc_reno=Parabola((0.808, 0.002, 0.0)), fullmesh_reno=Parabola((0.807, 0.002, 0.0)))
    assert select(nearly, ANY).pm == "fullmesh"


def test_a_model_without_throughput_has_no_answer() -> None:
    with pytest.raises(MptuneError, match="predicts no throughput"):
        select(curves(fullmesh_reno=Parabola((0.0, -1.0, 0.0))), ANY)


parabolas = st.builds(lambda *c: Parabola(c), st.floats(1, 300), st.floats(0, 20), st.floats(-0.5, 0))


@given(st.lists(parabolas, min_size=1, max_size=6), st.floats(0, 0.9), st.booleans())
def test_global_answers_reach_the_target(drawn: list[Parabola], sacrifice: float, on_grid: bool) -> None:
    """No combination falls short of the target, or reaches it with a smaller buffer."""
    all_curves = {Combination("fullmesh", str(i)): curve for i, curve in enumerate(drawn)}
    buffers = BufferRange(grid=GRID, on_grid=on_grid)
    got: Optimum = select(all_curves, buffers, sacrifice=sacrifice)
    target = (1 - sacrifice) * max(buffers.maximum(curve) for curve in drawn)
    assert got.throughput_mbps >= target - 1e-6 * (1 + abs(target))
    for curve in drawn:
        smallest = buffers.smallest(curve, target)
        assert smallest is None or got.buffer_mib <= smallest + 0.005 + 1e-9


def test_robust_believes_what_was_surely_observed_above_a_curve() -> None:
    """Reno's curve ends at 100 Mbit/s, but 120 were measured: what gives 95 falls short of that."""
    both = curves(
        fullmesh_reno=Saturating(100.0, 8.0),
        pcdc_reno=Saturating(95.0, 1.0),
        pcdc_cubic=Saturating(115.0, 4.0),
    )
    floors = {curve: 120.0 for curve in both if curve.pm == "fullmesh"}
    assert Candidates(both, ANY, floors={}).best(0.20, "robust").cc == "reno"
    got = Candidates(both, ANY, floors=floors).best(0.20, "robust")
    assert got.cc == "cubic" and got.throughput_mbps == pytest.approx(0.8 * 120, rel=0.01)
    assert Candidates(both, ANY, floors=floors).best(0.20, "global").cc == "reno"
