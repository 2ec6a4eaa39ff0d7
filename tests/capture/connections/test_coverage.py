"""Ranges of bytes: who was first, what is in order, and numbers that go around."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mptune.capture.connections._coverage import coverage, in_order, unwrapped

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=25)
TILES = st.lists(st.integers(0, 6), max_size=25)


def byte_by_byte(ranges):
    """Fresh bytes of each range, and the first to have its first byte."""
    first: dict[int, int] = {}
    fresh = []
    for number, (start, length) in enumerate(ranges):
        new = [place for place in range(start, start + length) if place not in first]
        first.update(dict.fromkeys(new, number))
        fresh.append(len(new))
    return fresh, first


@given(RANGES)
def test_every_byte_belongs_to_the_first_that_has_it(ranges):
    starts = np.array([start for start, _ in ranges], "i8")
    ends = starts + np.array([length for _, length in ranges], "i8")
    found = coverage(starts, ends)
    fresh, first = byte_by_byte(ranges)
    assert found.fresh.tolist() == fresh and found.total == len(first)
    for number, (start, length) in enumerate(ranges):
        if length:
            assert found.owner[number] == first[start]
    contiguous = 0
    while contiguous in first:
        contiguous += 1
    assert in_order(starts, ends) == contiguous


@given(TILES)
def test_segments_that_are_sent_again_as_they_were(numbers):
    starts = np.array(numbers, "i8") * 10
    found = coverage(starts, starts + 10)
    assert found.fresh.tolist() == [
        10 if number not in numbers[:place] else 0 for place, number in enumerate(numbers)
    ]
    assert found.owner.tolist() == [numbers.index(number) for number in numbers]


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=50))
def test_numbers_of_32_bits_go_on_where_they_go_around(base, steps):
    positions = np.cumsum(np.array(steps, "i8"))
    numbers = ((positions + base) % 2**32).astype("u4")
    assert unwrapped(numbers, base).tolist() == positions.tolist()
