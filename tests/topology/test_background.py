"""The traffic of others: what the core reads of it, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from mptune import _core
from mptune.errors import InputError
from mptune.topology import Topology

S = 1_000_000_000
FIRST_SITE = "[sites.A]"

Given = Callable[..., Topology]


@pytest.fixture
def beside(changed: Given) -> Callable[[str], Topology]:
    """Load the small file with background traffic."""
    return lambda tables: changed((FIRST_SITE, f"{tables}\n{FIRST_SITE}"))


def sources(topology: Topology) -> dict[str, list[dict[str, Any]]]:
    """Datagram sources of each link that has any."""
    return {link["name"]: link["udp"] for link in topology.network()["links"] if "udp" in link}


def test_a_tcp_flow_is_a_path_of_its_own(beside: Callable[[str], Topology]) -> None:
    topology = beside(
        '[[background]]\nkind = "tcp"\npath = "2-3"\ncc = "reno"\nstart = "5 s"\nstop = "20 s"\n'
        '[[background]]\nkind = "tcp"\npath = "1-3"\n'
    )
    first, second = topology.network()["background"]
    assert first == {"path": 1, "cc": "reno", "start_ns": 5 * S, "stop_ns": 20 * S}
    assert (second["path"], second["cc"]) == (0, "cubic")
    assert sources(topology) == {}
    assert topology.provenance["background[0].cc"].source == "a table"
    assert topology.provenance["background[1].cc"].default


def test_every_congestion_control_of_the_core_can_be_beside(beside: Callable[[str], Topology]) -> None:
    for cc in _core.congestion_controls():
        flows = beside(f'[[background]]\nkind = "tcp"\npath = "1-3"\ncc = "{cc}"').network()["background"]
        assert [flow["cc"] for flow in flows] == [cc]


@pytest.mark.parametrize("link", ["A 1 up", "A 2 down", "B 3 up", "1-3 forward", "1-3 back"])
def test_datagrams_are_a_source_of_one_link(beside: Callable[[str], Topology], link: str) -> None:
    topology = beside(
        f'[[background]]\nkind = "udp"\nlink = "{link}"\nrate = "2 Mbit/s"\npacket = "200 B"\n'
        'on = "10 ms"\noff = "30 ms"\nlengths = "fixed"\nstart = "1 s"\nstop = "9 s"\n'
        f'[[background]]\nkind = "udp"\nlink = "{link}"\nrate = "1 Mbit/s"\n'
    )
    first, second = sources(topology)[link]
    assert first == {
        "rate_bps": 2_000_000,
        "packet_bytes": 200,
        "on_off": {"on_ns": 10_000_000, "off_ns": 30_000_000, "lengths": "fixed"},
        "start_ns": S,
        "stop_ns": 9 * S,
    }
    assert second == {"rate_bps": 1_000_000, "packet_bytes": 1500}
    assert list(sources(topology)) == [link]
    assert "background" not in topology.network()


def test_periods_are_drawn_unless_given(beside: Callable[[str], Topology]) -> None:
    tables = '[[background]]\nkind = "udp"\nlink = "B 3 up"\nrate = "2 Mbit/s"\non = "1 s"\noff = "3 s"'
    [source] = sources(beside(tables))["B 3 up"]
    assert source["on_off"]["lengths"] == "exponential"


TCP = 'kind = "tcp"\npath = "1-3"'
UDP = 'kind = "udp"\nlink = "B 3 down"\nrate = "2 Mbit/s"'


@pytest.mark.parametrize(
    ("table", "key", "expected"),
    [
        ("", ".kind", "expected, but missing"),
        ('kind = "icmp"', ".kind", "one of tcp, udp, found 'icmp'"),
        ("kind = []", ".kind", "one of tcp, udp, found []"),
        ('kind = "tcp"', ".path", "expected, but missing"),
        (f'{TCP}\nrate = "1 Mbit/s"', ".rate", "unknown key, expected one of kind, path, cc, start, stop"),
        ('kind = "tcp"\npath = "3-1"', ".path", "one of 1-3, 2-3, found '3-1'"),
        (f'{TCP}\ncc = "newreno"', ".cc", "one of reno, cubic"),
        (f'{TCP}\nstart = "5 s"\nstop = "5 s"', ".stop", "more than the start at 5 s, found 5 s"),
        (f'{TCP}\nstart = "12 d"', ".start", "at most 1000000 s, found '12 d'"),
        (f'{TCP}\nassumed = "a"\nsource = "b"', "", "either assumed or source, found both"),
        ('kind = "udp"\nlink = "B 3 down"', ".rate", "expected, but missing"),
        (
            UDP.replace("B 3 down", "B 3"),
            ".link",
            'such as "A 1 up", "A 1 down", "2-3 forward" or "2-3 back"',
        ),
        (UDP.replace("B 3 down", "2-3 forward"), ".link", "a link that limits the rate"),
        (UDP.replace("2 Mbit", "2000 Gbit"), ".rate", "at most 1000 Gbit/s, found 2000 Gbit/s"),
        (f'{UDP}\npacket = "1501 B"', ".packet", "28 to 1500 bytes, found '1501 B'"),
        (f'{UDP}\npacket = "27 B"', ".packet", "28 to 1500 bytes"),
        (f'{UDP}\non = "1 s"', ".off", "beside on, but missing"),
        (f'{UDP}\nlengths = "fixed"', ".on", "beside lengths, but missing"),
        (f'{UDP}\non = "0 s"\noff = "1 s"', ".on", "more than 0"),
        (f'{UDP}\non = "5999 us"\noff = "1 s"', ".on", "at least the 6 ms of one packet, found 5.999 ms"),
        (f'{UDP}\non = "1 s"\noff = "1 s"\nlengths = "pareto"', ".lengths", "one of fixed, exponential"),
    ],
)
def test_impossible_flows(beside: Callable[[str], Topology], table: str, key: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        beside(f"[[background]]\n{table}")
    assert f"small.toml: background[0]{key}: " in str(error.value)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_list_of_flows(changed: Given) -> None:
    with pytest.raises(InputError, match="background: expected a list of tables, found text"):
        changed(('sender = "A"', 'sender = "A"\nbackground = "much"'))
    with pytest.raises(InputError, match=r"background\[0\]: expected a table, found 'much'"):
        changed(('sender = "A"', 'sender = "A"\nbackground = ["much"]'))
    flows = ", ".join(['{ kind = "tcp", path = "1-3" }'] * 257)
    with pytest.raises(InputError, match="background: expected at most 256 flows, found 257"):
        changed(('sender = "A"', f'sender = "A"\nbackground = [{flows}]'))
