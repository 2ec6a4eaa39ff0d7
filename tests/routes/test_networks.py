"""Networks from a file: the longest prefix decides, and what is no such file ends in one line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.errors import InputError
from mptune.probe.ends import Hop, Route
from mptune.routes.networks import Network, Networks, read_networks

FILE = """prefix,asn,name,site,lat,lon
0.0.0.0/0,AS64496,Everything,,,
192.0.2.0/24,64500,"Example, Inc.",Bergen,60.39,5.32
192.0.2.128/25,64501,,,,

2001:db8::/32,64502,Six,,,
2001:db8:1::/48,,,Haikou,20.04,110.34
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "as.csv"


def test_the_longest_prefix_decides(file: Path) -> None:
    file.write_text(FILE, encoding="utf-8-sig")
    networks = read_networks(file)

    def words(address: str) -> str:
        network = networks.of(address)
        return "" if network is None else network.words

    assert words("192.0.2.1") == "AS64500 Example, Inc." and words("192.0.2.129") == "AS64501"
    assert words("8.8.8.8") == "AS64496 Everything" and words("2001:db8:2::1") == "AS64502 Six"
    assert words("2001:db8:1::1") == "?" and words("2001:db9::1") == "" == words("not an address")
    there = networks.of("2001:db8:1::1")
    assert there is not None and (there.site, there.lat, there.lon) == ("Haikou", 20.04, 110.34)


@given(st.lists(st.integers(0, 32), min_size=1, max_size=8, unique=True), st.integers(0, 2**32 - 1))
def test_of_nested_prefixes_the_longest_is_found(lengths: list[int], address: int) -> None:
    from ipaddress import IPv4Address, ip_network

    prefixes = [str(ip_network((address, length), strict=False)) for length in lengths]
    networks = Networks(
        [Network(prefix=one, asn=length) for one, length in zip(prefixes, lengths, strict=True)]
    )
    found = networks.of(str(IPv4Address(address)))
    assert found is not None and found.asn == max(lengths)


def test_a_route_crosses_systems_each_once_in_a_row_and_unknown_ones_are_marked(file: Path) -> None:
    file.write_text("prefix,asn\n10.0.0.0/8,1\n10.1.0.0/16,2\n")
    networks = read_networks(file)
    hops = ["10.0.0.1", None, "10.0.0.2", "10.1.0.1", "192.0.2.1", "198.51.100.1", "10.0.0.3"]
    route = Route(hops=[Hop(address=one, rtt_ns=None) for one in hops], reached=True)
    assert networks.systems(route) == ["AS1", "AS2", "?", "AS1"]
    loop = Route(hops=[Hop(address=one, rtt_ns=None) for one in ["10.0.0.1", "10.1.0.1"] * 9], reached=False)
    assert networks.systems(loop) == ["AS1", "AS2", "AS1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a header such as prefix,asn,name, found an empty file"),
        ("\n\n", "found an empty file"),
        ("asn,name\n1,x\n", "line 1: expected a column prefix, found asn, name"),
        ("prefix,asn,colour\n", "line 1: column 3: expected one of prefix, asn"),
        ("prefix,asn,asn\n", "line 1: expected each column once, found asn twice"),
        ("prefix,asn\n10.0.0.0/8\n", "line 2: expected 2 cells, found 1"),
        ("prefix,asn\nten,1\n", "line 2: prefix: expected a prefix such as 192.0.2.0/24"),
        ("prefix,asn\n10.0.0.1/8,1\n", "line 2: prefix: expected a prefix such as 192.0.2.0/24"),
        (
            "prefix,asn\n10.0.0.0/8,1\n10.0.0.0/8,2\n",
            "line 3: expected each prefix once, found 10.0.0.0/8 in line 2",
        ),
        ("prefix,asn\n10.0.0.0/8,one\n", "line 2: asn: expected the number of an autonomous system"),
        ("prefix,asn\n10.0.0.0/8,4294967296\n", "line 2: asn: expected the number"),
        ("prefix,asn\n10.0.0.0/8,\u0663\n", "line 2: asn: expected the number"),
        ("prefix,asn\n10.0.0.0/8,\n", "line 2: expected asn or site, found neither"),
        ("prefix,asn,lat,lon\n10.0.0.0/8,1,60,5\n", "line 2: expected a site beside lat and lon"),
        ("prefix,site,lat,lon\n10.0.0.0/8,B,60,\n", "line 2: expected both of lat and lon or none"),
        (
            "prefix,site,lat,lon\n10.0.0.0/8,B,91,5\n",
            "line 2: lat: expected -90 to 90 degrees north, found 91",
        ),
        ("prefix,site,lat,lon\n10.0.0.0/8,B,60,nan\n", "line 2: lon: expected -180 to 180 degrees east"),
        ("prefix,site,lat,lon\n10.0.0.0/8,B,north,5\n", "line 2: lat: expected degrees, found 'north'"),
        (
            'prefix,asn,name\n10.0.0.0/8,1,"\x1b[2J"\n',
            "line 2: name: expected text without control characters",
        ),
        ('prefix,asn\n"10.0.0.0/8,1\n', "expected CSV"),
    ],
)
def test_what_is_no_file_of_networks_ends_in_one_line(file: Path, text: str, expected: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_networks(file)
    assert expected in str(caught.value) and str(caught.value).startswith(f"{file}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_or_no_text_is_one_line_too(file: Path) -> None:
    with pytest.raises(InputError, match="expected a CSV file: No such file"):
        read_networks(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="expected a CSV file"):
        read_networks(file)
