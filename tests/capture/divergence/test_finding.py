"""The first divergence of made-up recordings: found where it is, not found where there is only jitter."""

import pytest

from mptune.capture.divergence import Limits, find, paragraph, side, table_around
from mptune.errors import InputError
from tests.plugins.recordings import RTT_S, course, recording

JITTER_S = 0.002


def slow_start(exit_s, after=20):
    """A window that doubles each RTT up to a time, and is constant from then on."""

    def window(now_s):
        return min(10 * 2 ** round((now_s - RTT_S) / RTT_S), 640) if now_s < exit_s else after

    return window


def runs(window, count=1, jitter_s=JITTER_S, first_seed=1, **changes):
    made = [
        course(window, jitter_s=jitter_s, seed=first_seed + number, duration_s=0.6, **changes)
        for number in range(count)
    ]
    return recording(*made)


def compared(reference, other, limits=None):
    sides = side("kernel", reference, 0.6), side("model", other, 0.6)
    return find(*sides, limits), *sides


@pytest.mark.parametrize("count", [1, 4])
def test_jitter_is_no_divergence(count):
    reference = runs(slow_start(0.12), count)
    divergence, *sides = compared(reference, runs(slow_start(0.12), first_seed=90))
    assert (divergence.first, divergence.all, divergence.kind) == (None, (), None)
    assert "no divergence" in paragraph(divergence, *sides) and table_around(divergence, *sides) == []


@pytest.mark.parametrize(("exit_s", "other_s"), [(0.12, 0.16), (0.16, 0.12)])
def test_a_later_or_earlier_slow_start_exit_is_located(exit_s, other_s):
    reference = runs(slow_start(exit_s, 40), 3)
    divergence, *sides = compared(reference, runs(slow_start(other_s, 40)))
    assert divergence.first is not None and abs(divergence.first.at_s - min(exit_s, other_s)) <= 2 * RTT_S
    assert divergence.first.subflow == "A-X" and divergence.first.excess > 1
    assert divergence.alike_until_s is None
    assert f"first divergence at {divergence.first.at_s:.3f} s" in paragraph(divergence, *sides)


def test_losses_on_one_side_name_the_kind():
    lost = {300, 301, 302}
    reference = runs(slow_start(0.16, 40), 3, lost=lambda number: number in lost)
    divergence, *_ = compared(reference, runs(slow_start(0.12, 40)))
    assert divergence.kind is not None and divergence.kind.name == "slow start exit"
    assert "kernel at 0.1" in divergence.kind.evidence and "model none" in divergence.kind.evidence


def test_what_runs_of_the_reference_do_not_agree_on_is_chance():
    """Two of its runs leave slow start later than the others: a model between them is alike."""
    mixed = recording(
        *(
            course(slow_start(at_s, 40), jitter_s=JITTER_S, seed=seed, duration_s=0.6)
            for seed, at_s in enumerate((0.12, 0.12, 0.16, 0.16))
        )
    )
    divergence, *_ = compared(mixed, runs(slow_start(0.14, 40)))
    assert divergence.first is None
    alone, *_ = compared(runs(slow_start(0.12, 40), 2), runs(slow_start(0.14, 40)))
    assert alone.first is not None


def test_a_tolerance_and_a_span_hide_what_is_smaller_or_shorter():
    reference, other = runs(lambda _: 100, 2), runs(lambda _: 130)
    assert compared(reference, other)[0].first is not None
    assert compared(reference, other, Limits(tolerance=0.5))[0].first is None

    def dip(now_s):
        return 20 if 0.3 <= now_s < 0.36 else 100

    first = compared(reference, runs(dip), Limits(span_s=0.03))[0].first
    assert first is not None and 0.25 < first.at_s < 0.4
    longer = compared(reference, runs(dip), Limits(span_s=0.2))[0]
    assert all(place.quantity != "inflight" for place in longer.all)


def test_the_table_has_both_sides_at_each_moment():
    divergence, *sides = compared(runs(slow_start(0.12, 40), 2), runs(slow_start(0.16, 40)))
    moments = table_around(divergence, *sides)
    assert [moment.side for moment in moments[:4]] == ["kernel", "model", "kernel", "model"]
    assert len({moment.at_s for moment in moments}) == len(moments) / 2 == 9
    assert all(moment.inflight_kib is not None and moment.cwnd is None for moment in moments)


def test_recordings_of_other_paths_are_refused():
    other = recording(course(lambda _: 5, duration_s=0.6), paths=("B-Y",))
    with pytest.raises(InputError, match="expected recordings of the same paths"):
        compared(runs(lambda _: 5), other)
