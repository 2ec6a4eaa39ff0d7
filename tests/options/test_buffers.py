"""Sizes of buffers: every way to write them, and every way to get it wrong."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.options.buffers import BUFFER, BUFFERS, parse_buffers
from mptune.units import MIB


def test_the_grid_of_the_paper() -> None:
    """MPCOA: 0.5 to 30 MiB in steps of 0.5, 60 points."""
    sizes = parse_buffers("0.5:30:0.5")
    assert (len(sizes), sizes[0], sizes[-1]) == (60, MIB // 2, 30 * MIB)
    assert {b - a for a, b in itertools.pairwise(sizes)} == {MIB // 2}


@given(st.integers(1, 20), st.integers(1, 300), st.sampled_from(["0.1", "0.3", "0.7"]))
def test_the_high_end_is_included_whatever_the_step(low: int, count: int, step: str) -> None:
    """Tenths do not add up in binary; they do here."""
    high = low + count * int(step[-1]) / 10
    assert len(parse_buffers(f"{low}:{high:.1f}:{step}")) == count + 1


def test_a_list_is_sorted() -> None:
    assert parse_buffers("4, 0.5,1") == (MIB // 2, MIB, 4 * MIB)


@pytest.mark.parametrize("text", ["1,1", "4, 0.5,1,4", "512KiB,0.5"])
def test_a_size_that_is_there_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected each value once, found (1MiB|4MiB|512KiB) twice"):
        BUFFERS.check(parse_buffers(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "low:high:step"),
        ("1:2", "low:high:step"),
        ("1:2:3:4", "low:high:step"),
        ("a:b:c", "low:high:step"),
        ("1,,2", "low:high:step"),
        ("nan", "low:high:step"),
        ("1:inf:1", "low:high:step"),
        ("2:1:0.5", "low <= high"),
        ("1:2:0", "step above 0"),
        ("1:2:-1", "step above 0"),
        ("0:4:1", "at least one segment"),
        ("-1", "at least one segment"),
        ("0.001,4", "at least one segment"),
        ("1e9", "at most 1048576 MiB"),
        ("1:1e6:1e-9", "at most 10000 sizes"),
    ],
)
def test_bad_grids_are_named_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        BUFFERS.check(BUFFERS.parse(text))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("256KiB,1MiB,4", (MIB // 4, MIB, 4 * MIB)),
        ("512 KiB : 2 : 0.5", (MIB // 2, MIB, 3 * MIB // 2, 2 * MIB)),
        ("1MB:2MB:500kB", (1_000_000, 1_500_000, 2_000_000)),
        ("1448B", (1448,)),
    ],
)
def test_units_are_taken_and_a_bare_number_is_mib(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_buffers(text) == sizes
    assert BUFFER.parse("4") == BUFFER.parse("4MiB") == BUFFER.parse("4096 KiB") == 4 * MIB


@pytest.mark.parametrize("text", ["4 m", "", "1:2:1", "MiB"])
def test_one_size_is_one_size(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size such as 512KiB"):
        BUFFER.parse(text)


@pytest.mark.parametrize(
    ("raw", "sizes"),
    [
        (2, (2 * MIB,)),
        (0.5, (MIB // 2,)),
        ([0.5, "1 MiB", 4], (MIB // 2, MIB, 4 * MIB)),
        ("1:3:1", (MIB, 2 * MIB, 3 * MIB)),
    ],
)
def test_a_campaign_file_may_have_numbers_and_lists(raw: object, sizes: tuple[int, ...]) -> None:
    assert BUFFERS.read(raw) == sizes


@given(st.integers(1500, 10**6), st.integers(0, 50), st.integers(1, 10**6))
def test_what_is_shown_is_read_again(low: int, count: int, step: int) -> None:
    sizes = tuple(low + i * step for i in range(count + 1))
    assert parse_buffers(BUFFERS.show(sizes)) == sizes
    assert len(BUFFERS.show(sizes)) < 60
