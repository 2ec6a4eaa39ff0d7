"""Differences of the second address family of a probe from the first."""

import pytest

from mptune.probe import file
from mptune.probe.estimates import Estimate, RoundTrip
from mptune.probe.families import differences
from mptune.probe.interfaces import Nic
from mptune.probe.result import InterfaceFound, PathFound, Probed, SiteFound, Way
from mptune.probe.verdicts import Verdict
from mptune.topology import load

MS = 1_000_000


def rate(mbit: float, *, at_least: bool = False) -> Way:
    estimate = Estimate(value=mbit * 1e6, low=mbit * 1e6, high=mbit * 1e6, samples=4, at_least=at_least)
    return Way(rate=estimate, how="4 trains")


def path(family, rtt_ms=20, up=None, down=None, kind="full"):
    rtt = None
    if rtt_ms is not None:
        rtt = RoundTrip(min_ns=rtt_ms * MS, median_ns=rtt_ms * MS, p95_ns=rtt_ms * MS, samples=100)
    return PathFound(
        label="A-X" if family == "ipv4" else "A-X/6",
        local=0,
        remote=0,
        family=family,
        udp=True,
        rtt=rtt,
        base_rtt_ns=None if rtt is None else rtt.min_ns,
        up=up or rate(20),
        down=down or rate(20),
        mptcp=Verdict(kind=kind, because="seen"),
    )


def found(*paths: PathFound) -> Probed:
    nic = Nic(device="A", abbr="A", ip="192.0.2.1", ipv4="192.0.2.1", ipv6="2001:db8::1", mtu=1500)
    ends = [InterfaceFound(nic=nic, up=rate(20).rate, down=rate(20).rate)]
    far = Nic(device="X", abbr="X", ip="192.0.2.2", ipv4="192.0.2.2", ipv6="2001:db8::2", mtu=1500)
    other = [InterfaceFound(nic=far, up=rate(90).rate, down=rate(90).rate)]
    return Probed(
        when="2026-11-22",
        sender=SiteFound(name="alice", ssh="alice", kernel="", interfaces=ends),
        receiver=SiteFound(name="bob", ssh="bob", kernel="", interfaces=other),
        paths=list(paths),
        leaving=[],
        notes=[],
    )


def test_what_is_the_same_needs_no_word():
    assert not list(differences([path("ipv4"), path("ipv6", 21, up=rate(21))]))
    # A lower bound may be the same; of one family alone there is nothing to compare.
    assert not list(differences([path("ipv4", up=rate(5, at_least=True)), path("ipv6")]))
    assert not list(differences([path("ipv4")]))


def test_a_longer_way_and_a_slower_one_are_one_sentence():
    (said,) = differences([path("ipv4"), path("ipv6", 35, up=rate(8, at_least=False))])
    assert said == (
        "A-X/6: RTT 35 ms instead of 20 ms, 8 Mbit/s instead of 20 Mbit/s to the receiver; "
        "the file has what was measured over IPv4"
    )


def test_a_family_in_which_nothing_passes_is_named():
    (said,) = differences([path("ipv4", None), path("ipv6")])
    assert said.startswith("nothing gets through over IPv4")


@pytest.mark.parametrize(
    ("four", "six", "fates"),
    [
        ("full", "full", [None, None]),
        ("full", "stripped later", [None, "none"]),
        ("joins refused", "full", ["first", "full"]),
        ("blocked", "blocked", ["none", "none"]),
        ("unsupported", "unsupported", [None, None]),
    ],
)
def test_the_file_has_the_fate_of_mptcp_in_each_family_and_the_values_over_ipv4(tmp_path, four, six, fates):
    probed = found(path("ipv4", kind=four), path("ipv6", 35, kind=six))
    written = tmp_path / "found.toml"
    written.write_text(file.text(probed, "found"))
    network = load(written)
    assert network.paths[0].base_rtt_ns == 20 * MS
    assert [one.core.mptcp for one in network.over("both").paths] == fates
    assert "# A-X/6: RTT 35 ms\n" in written.read_text()


def test_where_ipv4_lets_nothing_through_the_file_has_the_values_over_ipv6(tmp_path):
    probed = found(path("ipv4", None, kind="unreachable"), path("ipv6", 35))
    written = tmp_path / "found.toml"
    written.write_text(file.text(probed, "found"))
    network = load(written)
    assert network.paths[0].base_rtt_ns == 35 * MS
    assert network.over("both").initial_path == "A-X/6"
    assert [one.label for one in network.over("both").for_mptcp().paths] == ["A-X/6"]
