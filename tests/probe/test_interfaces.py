"""Interfaces that take part, and the warning about packets that leave by the wrong one."""

import pytest

from mptune.errors import InputError
from mptune.probe.interfaces import choose, endpoints, leaving, left_out, nothing_in_common


def interface(device, ip, *, via=None, routed=True, up=True, more=()):
    routes = [{"table": "main", "via": via, "metric": 0}] if routed else []
    addresses = [{"ip": address, "prefix": 24} for address in (ip, *more)]
    return {
        "device": device,
        "up": up,
        "mtu": 1500,
        "addresses": addresses,
        "default_routes": routes,
        "rp_filter": 0,
    }


def facts(*interfaces, leaves=(), **more):
    by = [{"device": device, "reason": None} for device in leaves]
    return {"interfaces": list(interfaces), "rp_filter_all": 0, "rules": [], "leaves": by, **more}


ETH = interface("eth0", "192.0.2.1", via="192.0.2.254", more=("fe80::1", "2001:db8::1"))
WIFI = interface("wl-0", "198.51.100.7", via="198.51.100.1")
BRIDGE = interface("br0", "10.0.0.1", routed=False)
DOWN = interface("eth9", "10.0.9.1", up=False)


def names(chosen):
    return [nic.device for nic in chosen]


def test_those_with_a_default_route_take_part():
    assert names(choose(facts(ETH, BRIDGE, WIFI, DOWN), (), None, "--x", "alice")) == ["eth0", "wl-0"]


def test_without_any_default_route_all_with_an_address_do():
    assert names(choose(facts(BRIDGE, DOWN), (), None, "--x", "alice")) == ["br0"]


def test_those_without_a_default_route_are_named():
    note = left_out(facts(ETH, BRIDGE, WIFI, DOWN), (), "--x", "alice")
    assert note == "alice: without a default route, and left out unless --x names them: br0 (10.0.0.1)"
    assert left_out(facts(ETH, BRIDGE), ("eth0",), "--x", "alice") == ""
    assert left_out(facts(BRIDGE, DOWN), (), "--x", "alice") == ""
    assert left_out(facts(ETH, WIFI), (), "--x", "alice") == ""


def test_the_wanted_ones_in_their_order():
    chosen = choose(facts(ETH, BRIDGE, WIFI), ("br0", "eth0"), None, "--x", "alice")
    assert names(chosen) == ["br0", "eth0"]


def test_addresses_are_of_one_family_and_global():
    (nic,) = choose(facts(ETH), (), None, "--x", "alice")
    assert (nic.ip, nic.ipv4, nic.ipv6) == ("192.0.2.1", "192.0.2.1", "2001:db8::1")
    (six,) = choose(facts(ETH, WIFI), (), 6, "--x", "alice")
    assert six.ip == "2001:db8::1"


SIX = interface("eth6", "2001:db8:6::1", via="fe80::6")


def test_each_path_has_a_family_that_both_ends_have():
    both, four, six = choose(facts(ETH, WIFI, SIX), (), None, "--x", "alice")
    assert endpoints(four, both, None) == ("198.51.100.7", "192.0.2.1")
    assert endpoints(six, both, None) == ("2001:db8:6::1", "2001:db8::1")
    assert endpoints(both, both, None) == ("192.0.2.1", "192.0.2.1")
    assert endpoints(both, both, 6) == ("2001:db8::1", "2001:db8::1")
    assert endpoints(four, six, None) is None
    reason = nothing_in_common("alice", [four], "bob", [six])
    assert "alice has only IPv4, bob has only IPv6" in reason and "\n" not in reason


def test_lines_to_paste_are_of_the_family_that_leaves_elsewhere():
    looked = facts(ETH, SIX, leaves=["eth0", "eth0"])
    nics = choose(looked, (), None, "--x", "alice")
    pairs = [("192.0.2.1", "203.0.113.1"), ("2001:db8:6::1", "2001:db8:9::1")]
    (wrong,) = leaving(looked, nics, pairs, "alice")
    assert (wrong.device, wrong.ip) == ("eth6", "2001:db8:6::1")
    assert wrong.remedy[0].startswith("ip -6 route add default via fe80::6 dev eth6 table ")


def test_labels_have_letters_and_digits_only_and_differ():
    chosen = choose(facts(interface("a.1", "10.0.0.1"), interface("a-1", "10.0.1.1")), (), 4, "--x", "alice")
    assert [nic.abbr for nic in chosen] == ["a1", "a1x1"]


def test_refusals_name_option_and_host():
    with pytest.raises(InputError, match=r"--x: alice: expected one of eth0, wl-0, found 'eth7'"):
        choose(facts(ETH, WIFI), ("eth7",), None, "--x", "alice")
    with pytest.raises(InputError, match="expected an interface with an IPv6 address"):
        choose(facts(WIFI), (), 6, "--x", "alice")


def test_packets_that_leave_elsewhere_get_lines_to_paste():
    looked = facts(
        ETH,
        WIFI,
        rules=[{"priority": 1, "from": None, "table": 101}],
        rp_filter_all=1,
        leaves=["eth0", "eth0", "eth0", None],
    )
    nics = choose(looked, (), None, "--x", "alice")
    pairs = [(nic.ip, far) for nic in nics for far in ("203.0.113.1", "203.0.113.2")]
    (wrong,) = leaving(looked, nics, pairs, "alice")
    assert str(wrong) == "alice: packets from 198.51.100.7 (wl-0) leave by eth0"
    assert wrong.remedy[:2] == (
        "ip route add default via 198.51.100.1 dev wl-0 table 102",
        "ip rule add from 198.51.100.7 lookup 102",
    )
    assert "rp_filter" in wrong.remedy[2]


def test_without_a_gateway_the_user_is_asked_for_it():
    looked = facts(ETH, BRIDGE, leaves=["eth0", None])
    nics = choose(looked, ("eth0", "br0"), None, "--x", "alice")
    (wrong,) = leaving(looked, nics, [(nic.ip, "203.0.113.1") for nic in nics], "alice")
    assert "do not leave at all" in str(wrong)
    assert any("GATEWAY" in line for line in wrong.remedy)
    assert not leaving(facts(ETH, leaves=["eth0"]), nics[:1], [(nics[0].ip, "203.0.113.1")], "alice")
