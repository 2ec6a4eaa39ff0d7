"""Names and numbers of interfaces: every path has a pair of addresses of its own."""

import ipaddress
import itertools

import msgspec

from mptune.linux import addresses
from mptune.linux.addresses import NamedInterface
from mptune.linux.assignment import kernel_paths, labels
from mptune.topology import load


def test_addresses_are_the_agreed_ones():
    interface = addresses.interface("remote", 3)
    assert (interface.device, interface.ipv4, interface.table) == ("if3", "10.65.3.1", 103)
    assert ipaddress.ip_address(interface.ipv6) == ipaddress.ip_address("fd65:0:3::1")


def test_no_two_interfaces_share_an_address():
    """64 is the largest number of interfaces a site can have."""
    all_of_them = [addresses.interface(side, number) for side in addresses.SIDES for number in range(64)]
    for key in ("ipv4", "ipv6"):
        values = [getattr(interface, key) for interface in all_of_them]
        assert len(set(values)) == len(values)
        assert values == [str(ipaddress.ip_address(text)) for text in values]
    tables = {interface.table for interface in all_of_them}
    assert len(tables) == 64 and not tables & {0, 253, 254, 255}


def test_a_pair_of_addresses_is_a_path():
    topology = load("SRL-HU")
    named = addresses.interfaces(topology)
    paths = kernel_paths(topology, named)
    names = labels(paths)
    ends = itertools.product(named["local"], named["remote"])
    expected = [path.label for path in topology.paths]
    assert [names[local.ipv4, remote.ipv4] for local, remote in ends] == expected
    assert sorted(set(names.values())) == sorted(expected) and len(names) == 2 * len(expected)


def test_a_path_has_the_families_that_both_ends_have():
    """The address to connect to is the public one of an interface behind NAT, whose own is private."""
    both = addresses.interface("local", 0)
    only6 = NamedInterface(side="remote", index=0, device="eth0", ipv6="::2")
    assert addresses.pairs(both, only6) == ((both.ipv6, "::2"),)
    hidden = msgspec.structs.replace(only6, ipv4="192.168.0.2", public={"ipv4": "192.0.2.1"})
    assert addresses.pairs(both, hidden)[0] == (both.ipv4, "192.0.2.1")
    assert hidden.address("ipv4") == "192.168.0.2"
