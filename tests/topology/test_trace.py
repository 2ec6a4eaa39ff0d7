"""Rate traces: mahimahi's files beside a topology file, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mptune.errors import InputError
from mptune.topology import Topology

Given = Callable[..., Topology]


@pytest.fixture
def traced(given: Given, tmp_path: Path) -> Callable[[bytes], Topology]:
    """Load the small file with a trace as the down link of interface 3."""

    def load_traced(content: bytes) -> Topology:
        (tmp_path / "lte.trace").write_bytes(content)
        return given('trace_down = "lte.trace"', 'isp = "Three"', 'down = "20 Mbit/s"')

    return load_traced


def test_a_trace_takes_the_place_of_the_rate_and_its_mean_stands_for_it(
    traced: Callable[[bytes], Topology],
) -> None:
    topology = traced(b"1\n1\n3\n10\n")
    link = next(link for link in topology.network()["links"] if link["name"] == "B 3 down")
    assert link["rate_bps"] is None
    assert link["trace_ms"] == [1, 1, 3, 10]
    assert topology.receiver.interfaces[0].down_bps == 4 * 12_000 * 100
    assert topology.path("1-3", "").rate_bps == 4_800_000
    noted = topology.provenance["sites.B.interfaces.3.trace_down"]
    assert noted.source == "a web page"
    assert "lte.trace" in noted.value and "4.8 Mbit/s" in noted.value and "10 ms" in noted.value


def test_lines_may_end_as_on_any_system(traced: Callable[[bytes], Topology]) -> None:
    whole = traced(b"1\n5\n")
    assert traced(b"1\r\n5\r\n") == traced(b"1\n5") == whole


def test_a_segment_has_the_trace_either_way_instead_of_the_rate_of_core(
    given: Given, changed: Given, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "core.trace").write_text("2\n4\n", encoding="ascii")
    topology = changed(
        ("[core]", '[core]\nrate = "1 Mbit/s"'), ('rate = "10 Mbit/s"', 'trace = "sub/core.trace"')
    )
    links = {link["name"]: link for link in topology.network()["links"]}
    assert links["1-3 forward"]["trace_ms"] == links["1-3 back"]["trace_ms"] == [2, 4]
    assert (links["2-3 forward"]["rate_bps"], "trace_ms" in links["2-3 forward"]) == (1_000_000, False)
    assert topology.path("1-3", "").rate_bps == 6_000_000


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "at least one time in lte.trace, found an empty file"),
        (b"0\n", "a last time above 0"),
        (b"0\n0\n", "a last time above 0"),
        (b"1\n3\n2\n", "do not decrease in lte.trace, found 2 after 3 in line 3"),
        (b"1\n\n2\n", "in line 2 of lte.trace, found ''"),
        (b"1\nfive\n", "a whole number of milliseconds below 2^32 in line 2 of lte.trace, found 'five'"),
        (b"1.5\n", "found '1.5'"),
        (b"-1\n", "found '-1'"),
        (b"1_0\n", "found '1_0'"),
        (b" 1\n", "found ' 1'"),
        (b"4294967296\n", "found '4294967296'"),
        (b"9" * 5000, "found '99999999999999999999'"),
        (b"# time\n1\n", "found '# time'"),
        (b"\xff\xfe\x00", "whole numbers of milliseconds, one per line, in lte.trace"),
        (b"120000000\n", "at least 100 bit/s on average in lte.trace"),
    ],
)
def test_impossible_traces(traced: Callable[[bytes], Topology], content: bytes, expected: str) -> None:
    with pytest.raises(InputError) as error:
        traced(content)
    assert "small.toml: sites.B.interfaces.3.trace_down: expected " in str(error.value)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("absent.trace", "a trace beside the topology file, found no file absent.trace"),
        (".", "a readable file: .: a directory, not a file"),
        ("/dev/zero", "a readable file: /dev/zero: a device, not a file"),
        ("x" * 5000, "expected the name of a file, found"),
        ("nul\\u0000", r"the name of a file, found 'nul\x00'"),
        ("two\\nlines", r"the name of a file, found 'two\nlines'"),
        ("", "a readable file: : a directory, not a file"),
    ],
)
def test_what_is_no_file(given: Given, name: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        given(f'trace_down = "{name}"', 'isp = "Three"', 'down = "20 Mbit/s"')
    assert expected in str(error.value)


def test_a_huge_file_is_not_read(given: Given, tmp_path: Path) -> None:
    with (tmp_path / "lte.trace").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(InputError, match=r"expected a readable file: lte\.trace: larger than 64 MiB"):
        given('trace_down = "lte.trace"', 'isp = "Three"', 'down = "20 Mbit/s"')
