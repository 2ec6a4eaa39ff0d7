"""Units: what is read, what is refused and with which words, and that formatting loses nothing."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune import units

WHOLE = st.integers(min_value=0, max_value=units.LIMIT)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_rate, "100 Mbit/s", 100_000_000),
        (units.parse_rate, "0.3 kbit/s", 300),
        (units.parse_rate, " 1.5Gbit/s ", 1_500_000_000),
        (units.parse_time, "12.4 ms", 12_400_000),
        (units.parse_time, "30s", 30_000_000_000),
        (units.parse_time, "7 us", 7_000),
        (units.parse_time, "7 \u00b5s", 7_000),
        (units.parse_time, "7 \u03bcs", 7_000),
        (units.parse_size, "256 KiB", 262_144),
        (units.parse_size, "4MiB", 4_194_304),
        (units.parse_size, "1.5 kB", 1_500),
        (units.parse_size, "2 GB", 2_000_000_000),
        (units.parse_fraction, "0.1 %", 1_000_000),
        (units.parse_fraction, "7%", 70_000_000),
        (units.parse_fraction, "250 ppm", 250_000),
        (units.parse_fraction, "1e-6", 1_000),
        (units.parse_fraction, "0.001", 1_000_000),
    ],
)
def test_reads_what_people_write(parse: Callable[[str], int], text: str, value: int) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        (units.parse_rate, "100", ["'100' without a unit", "Mbit/s"]),
        (units.parse_rate, "100 MB/s", ["unit 'MB/s'", "kbit/s"]),
        (units.parse_rate, "100 mbit/s", ["unit 'mbit/s'"]),
        (units.parse_rate, "fast", ["'fast'"]),
        (units.parse_rate, "", ["found ''"]),
        (units.parse_rate, "-1 Mbit/s", ["not negative"]),
        (units.parse_rate, "0.5 bit/s", ["steps of 1 bit/s"]),
        (units.parse_rate, "1e999 Mbit/s", ["smaller"]),
        (units.parse_rate, "1e9999999999 Mbit/s", ["expected a rate"]),
        (units.parse_time, "12.4", ["without a unit", "ms"]),
        (units.parse_time, "1 ms 2 us", ["expected a time"]),
        (units.parse_time, "0.1 ns", ["steps of 1 ns"]),
        (units.parse_size, "256", ["without a unit", "KiB"]),
        (units.parse_size, "256 Kib", ["unit 'Kib'"]),
        (units.parse_fraction, "101 %", ["between 0 and 100 %"]),
        (units.parse_fraction, "-0.1", ["not negative"]),
        (units.parse_fraction, "nan", ["'nan'"]),
    ],
)
def test_refuses_with_a_sentence_on_what_was_expected(
    parse: Callable[[str], int], text: str, words: list[str]
) -> None:
    with pytest.raises(ValueError, match="expected a") as error:
        parse(text)
    message = str(error.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


@given(WHOLE)
def test_rates_times_and_sizes_survive_the_round_trip(value: int) -> None:
    assert units.parse_rate(units.format_rate(value)) == value
    assert units.parse_time(units.format_time(value)) == value
    assert units.parse_size(units.format_size(value)) == value


@given(st.integers(min_value=0, max_value=10**9))
def test_fractions_survive_the_round_trip(value: int) -> None:
    assert units.parse_fraction(units.format_fraction(value)) == value


@given(st.integers(min_value=1, max_value=units.LIMIT // 2), st.integers(min_value=1, max_value=6))
def test_rounding_keeps_the_asked_digits(value: int, digits: int) -> None:
    rounded = units.parse_rate(units.format_rate(value, digits=digits))
    assert abs(rounded - value) <= value * 10 ** (1 - digits)


def test_chooses_units_a_person_would() -> None:
    assert units.format_rate(512_000) == "512 kbit/s"
    assert units.format_time(12_400_000) == "12.4 ms"
    assert units.format_size(12 * 2**20 + 2**18) == "12.25 MiB"
    assert units.format_size(1_500) == "1.5 kB"
    assert units.format_size(1_501) == "1501 B"
    assert units.format_size(2_000_000) == "2 MB"
    assert units.format_size(2_000_000_000) == "2 GB"
    assert units.format_size(10_000_000) == "10 MB"
    assert units.format_size(2_000_000, digits=4) == "1.907 MiB"
    assert units.format_fraction(0) == "0 %"
    assert units.format_fraction(1_970_000) == "0.197 %"
    assert units.format_fraction(7_200) == "7.2 ppm"
