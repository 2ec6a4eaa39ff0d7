"""Probes between two namespaces, over networks that are known."""

import subprocess
from contextlib import ExitStack, contextmanager

import pytest

from mptune.errors import TrialError
from mptune.linux import addresses
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.machines.namespace import NamespaceMachine
from mptune.probe import file
from mptune.probe.course import probe
from mptune.probe.preparation import Wish
from mptune.topology import load
from tests.plugins.netlink import inside

pytestmark = [pytest.mark.usefixtures("testbed"), pytest.mark.usefixtures("may_enter")]

QUICK = Wish(data_bytes=6_000_000, time_s=25)


@contextmanager
def machines(topology):
    """Two machines with the network between them, and the sites they are."""
    with ExitStack() as stack:
        sites = stack.enter_context(Sites())
        emulator = stack.enter_context(sites.start_emulator())
        named = addresses.interfaces(topology)
        emulator.tell({"network": topology.network(), "seed": 1, "interfaces": sites.devices(named)})
        emulator.expect("ready", STEP_S)
        sites.configure(named)
        emulator.tell({"action": "start"})
        yield (
            {"sender": NamespaceMachine(sites, "local"), "receiver": NamespaceMachine(sites, "remote")},
            sites,
        )


def there(value):
    """Facts that may be missing, but are not."""
    assert value is not None
    return value


def run(namespace, *command, text=None):
    """A command inside a namespace."""
    inside(namespace, lambda: subprocess.run(command, check=True, capture_output=True, text=True, input=text))


def rules(sites, text):
    """Packet filter of the sender."""
    run(sites.local, "nft", "-f", "-", text=text)


@pytest.mark.measures("how late the emulator is")
def test_a_network_is_found_as_it_is(two, tmp_path):
    with machines(two) as (both, _):
        probed = probe(both, QUICK)
    for path, known in zip(two.paths, probed.paths, strict=True):
        assert there(known.up.rate).value == pytest.approx(path.rate_bps, rel=0.1)
        assert known.base_rtt_ns == pytest.approx(path.base_rtt_ns, rel=0.05)
        assert there(known.up.loss).lost <= 3 and there(known.down.loss).lost <= 3
        assert (known.up.mtu, known.up.mtu_next) == (1500, None)
        assert there(known.mptcp).kind == "full" and "joined" in there(known.mptcp).because
        assert not known.translated
    wide, narrow = (there(interface.queue_up) for interface in probed.sender.interfaces)
    assert wide.bytes == pytest.approx(120_000, rel=0.2) and narrow.bytes == pytest.approx(100_000, rel=0.2)
    assert probed.bytes <= QUICK.data_bytes
    assert not probed.leaving
    written = tmp_path / "found.toml"
    written.write_text(file.text(probed, "found"))
    assert [path.label for path in load(written).paths] == ["if0-if0", "if1-if0"]


@pytest.mark.measures("how late the emulator is")
@pytest.mark.needs("nft")
def test_without_udp_tcp_measures(two):
    """The packet filter of the sender discards all datagrams, and strips MPTCP from one of the paths."""
    with machines(two) as (both, sites):
        rules(
            sites,
            """
            table inet probe {
              chain out {
                type filter hook output priority 0;
                meta l4proto udp drop
                ip saddr 10.64.1.1 reset tcp option mptcp
              }
            }
            """,
        )
        probed = probe(both, QUICK)
    kinds = [there(path.mptcp).kind for path in probed.paths]
    assert kinds == ["full", "stripped on SYN"]
    for path, known in zip(two.paths, probed.paths, strict=True):
        assert not known.udp and known.rtt is not None
        assert known.base_rtt_ns == pytest.approx(path.base_rtt_ns, rel=0.2)
        assert there(known.up.rate).value == pytest.approx(path.rate_bps, rel=0.3)


@pytest.mark.needs("nft", "namespaces")
def test_what_the_middle_does_to_packets_is_named(two):
    """An address translation and a smaller MTU on one path, a block of MPTCP on the other."""
    with machines(two) as (both, sites):
        # The network knows the first interface by the address that it has behind the translation.
        # With its last address a device loses its routes.
        run(sites.local, "ip", "address", "add", "192.168.9.1/32", "dev", "if0")
        run(sites.local, "ip", "address", "del", "10.64.0.1/32", "dev", "if0")
        run(sites.local, "ip", "rule", "add", "from", "192.168.9.1", "lookup", "100")
        rules(
            sites,
            """
            table ip probe {
              chain out {
                type filter hook output priority 0;
                ip saddr 192.168.9.1 meta l4proto udp ip length > 1432 drop
                ip saddr 10.64.1.1 tcp option mptcp exists drop
              }
              chain nat {
                type nat hook postrouting priority 100;
                ip saddr 192.168.9.1 snat to 10.64.0.1
              }
            }
            """,
        )
        probed = probe(both, Wish(data_bytes=3_000_000, time_s=15))
    first, second = probed.paths
    assert (first.up.mtu, first.up.mtu_next, first.down.mtu) == (1432, 1433, 1500)
    assert first.translated and first.source == "10.64.0.1"
    assert there(first.mptcp).kind == "full"
    assert there(second.mptcp).kind == "blocked"
    assert (second.up.mtu, second.translated) == (1500, False)


@pytest.mark.needs("namespaces")
def test_packets_that_leave_by_the_wrong_interface_are_shown_with_the_remedy(two):
    with machines(two) as (both, sites):
        run(sites.local, "ip", "rule", "del", "from", "10.64.1.1")
        run(sites.local, "ip", "route", "add", "default", "dev", "if0")
        facts = both["sender"].look(pairs=[("10.64.1.1", "10.65.0.1"), ("10.64.0.1", "10.65.0.1")])
        assert [fact["device"] for fact in facts["leaves"]] == ["if0", "if0"]
        with pytest.raises(KeyboardInterrupt):
            probe(both, QUICK, interrupted=lambda: True)


@pytest.mark.needs("nft")
def test_a_path_that_nothing_gets_through_is_reported(two, marked):
    with machines(two) as (both, sites):
        rules(
            sites,
            """
            table ip probe {
              chain out {
                type filter hook output priority 0;
                meta l4proto udp drop
                meta l4proto tcp drop
              }
            }
            """,
        )
        with pytest.raises(TrialError, match="nothing gets through"):
            probe(both, QUICK)
        left = [command for command in marked(sites.run).values() if "\0probe" in command]
    assert not left
