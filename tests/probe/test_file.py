"""The topology file of a probe loads, and says where its values come from."""

import itertools

import msgspec
import pytest

from mptune.errors import InputError
from mptune.probe import file
from mptune.probe.estimates import Estimate, Loss, Queue, RoundTrip
from mptune.probe.interfaces import Leaving, Nic
from mptune.probe.result import InterfaceFound, PathFound, Probed, SiteFound, Way
from mptune.probe.routes import SharedHop
from mptune.probe.verdicts import Verdict
from mptune.topology import load

MBIT = 1_000_000


def estimate(mbit, *, at_least=False):
    return Estimate(
        value=mbit * MBIT + 0.3, low=0.98 * mbit * MBIT, high=1.02 * mbit * MBIT, samples=4, at_least=at_least
    )


def interface(device, ip, up, down):
    nic = Nic(device=device, abbr=device, ip=ip, ipv4=ip, ipv6=None, mtu=1500)
    queue = Queue(bytes=70_123, at_least=True, delay_ns=14_000_000)
    return InterfaceFound(nic=nic, up=up, down=down, queue_up=queue)


def path(label, local, remote, kind="full"):
    return PathFound(
        label=label,
        local=local,
        remote=remote,
        udp=True,
        rtt=RoundTrip(min_ns=20_123_456, median_ns=20_323_456, p95_ns=21_000_000, samples=1000),
        base_rtt_ns=20_023_456,
        loaded_rtt_ns=40_000_000,
        source="203.0.113.9",
        translated=True,
        up=Way(rate=estimate(40), how="4 trains", loss=Loss(sent=16_000, lost=12), mtu=1492, mtu_next=1493),
        down=Way(rate=estimate(9), how="4 trains", loss=Loss(sent=16_000, lost=0)),
        mptcp=Verdict(kind=kind, because="data both ways"),
    )


@pytest.fixture
def found():
    return Probed(
        when="2026-11-22",
        sender=SiteFound(
            name="me@laptop.example",
            ssh="me@laptop.example",
            kernel="6.18",
            interfaces=[
                interface("eth0", "10.64.0.1", estimate(40), estimate(9)),
                interface("wlan0", "10.64.1.1", estimate(20), estimate(5, at_least=True)),
            ],
        ),
        receiver=SiteFound(
            name="192.0.2.1",
            ssh="192.0.2.1",
            kernel="6.18",
            interfaces=[interface("ens3", "192.0.2.1", estimate(90), estimate(90))],
        ),
        paths=[path("eth0-ens3", 0, 0, "blocked"), path("wlan0-ens3", 1, 0)],
        leaving=[
            Leaving(host="laptop", device="wlan0", ip="10.64.1.1", by="eth0", remedy=("ip rule add ...",))
        ],
        notes=["joins were not tried:\nno root"],
        seconds=38.2,
        bytes=15_000_000,
    )


def test_routers_on_paths_of_several_interfaces_are_a_shared_segment_without_a_rate(found, tmp_path):
    found.receiver.interfaces.append(interface("ens4", "198.51.100.1", estimate(90), estimate(90)))
    found.paths[1] = path("eth0-ens4", 0, 1)
    found.paths += [path("wlan0-ens3", 1, 0), path("wlan0-ens4", 1, 1)]
    both = ("eth0-ens3", "wlan0-ens4")
    found.shared_hops = [
        SharedHop(address="203.0.113.7", end="sender", paths=both),
        SharedHop(address="203.0.113.8", end="receiver", paths=both),
        SharedHop(address="203.0.113.9", end="sender", paths=("eth0-ens3", "eth0-ens4")),
    ]
    text = file.text(found, "x")
    assert "203.0.113.7 to the receiver and 203.0.113.8 to the sender" in text and "# rate: not known" in text
    topology = loaded(found, tmp_path)
    assert [one.label for one in topology.paths if one.shared] == list(both)
    assert topology.shared["shared1"].rate_bps is None
    found.shared_hops = [
        SharedHop(address=f"203.0.113.{n}", end="sender", paths=paths)
        for n, paths in enumerate(tuple(sorted({"eth0-ens3", *more})) for more in subsets())
    ]
    loaded(found, tmp_path)


def subsets():
    """Some sets of the other three paths."""
    others = ("eth0-ens4", "wlan0-ens3", "wlan0-ens4")
    return [some for n in (1, 2, 3) for some in itertools.combinations(others, n)]


def loaded(found, tmp_path):
    target = tmp_path / "my-sites.toml"
    target.write_text(file.text(found, 'my "sites"'))
    return load(target)


def test_it_loads_with_every_value(found, tmp_path):
    topology = loaded(found, tmp_path)
    assert topology.name == 'my "sites"'
    assert (topology.sender.ssh, topology.receiver.ssh) == ("me@laptop.example", "192.0.2.1")
    assert (topology.sender.abbr, topology.receiver.abbr) == ("LAPTOP", "192-0-2-1")
    first = topology.path("eth0-ens3", "")
    assert first.base_rtt_ns == 20_020_000
    assert first.rate_bps == 40 * MBIT
    assert first.loss_ppb == 750_000
    assert topology.sender.interfaces[0].queue_up_bytes == 70_100
    # A connection should begin where MPTCP gets through.
    assert topology.initial_path == "wlan0-ens3"
    assert not topology.missing


def test_everything_says_that_it_was_measured(found, tmp_path):
    topology = loaded(found, tmp_path)
    measured = {key for key, origin in topology.provenance.items() if origin.measured}
    assert {"sites.LAPTOP.interfaces.eth0.up", "core.segments.eth0-ens3.rtt", "initial_path"} <= measured
    text = topology.provenance["sites.LAPTOP.interfaces.wlan0.down"].measured
    assert text is not None and text.startswith("2026-11-22, 4 probes") and "at least" in text
    assert not [origin for origin in topology.provenance.values() if origin.source]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("full", None),
        ("joins refused", "first"),
        ("stripped on SYN", "none"),
        ("stripped later", "none"),
        ("mirrored", "none"),
        ("blocked", "none"),
        ("unreachable", "none"),
        ("unsupported", None),
    ],
)
def test_what_becomes_of_mptcp_is_a_value_of_the_path(found, tmp_path, kind, word):
    found.paths[0].mptcp = Verdict(kind=kind, because="both ends can")
    topology = loaded(found, tmp_path)
    assert topology.path("eth0-ens3", "").core.mptcp == word
    assert topology.path("wlan0-ens3", "").core.mptcp is None
    if word is not None:
        how = topology.provenance["core.segments.eth0-ens3.mptcp"].measured
        assert how == f"2026-11-22, {kind}: both ends can"


def test_comments_say_what_has_no_key(found):
    text = file.text(found, "x")
    for said in (
        "# joins were not tried: no root\n",
        "#   ip rule add ...\n",
        "# eth0-ens3: MPTCP blocked: data both ways\n",
        "(NAT)",
        "packets of at most 1492 bytes to the receiver",
    ):
        assert said in text


def test_what_nothing_came_through_is_left_out_between_hosts_and_assumed_elsewhere(found, tmp_path):
    found.paths[1] = PathFound(label="wlan0-ens3", local=1, remote=0)
    found.sender.interfaces[1].up = found.sender.interfaces[1].down = None
    topology = loaded(found, tmp_path)
    assert set(topology.missing) >= {"sites.LAPTOP.interfaces.wlan0.up", "core.segments.wlan0-ens3.rtt"}
    found.sender.ssh = found.receiver.ssh = None
    elsewhere = loaded(found, tmp_path)
    assert not elsewhere.missing
    assert elsewhere.path("wlan0-ens3", "").loss_ppb == 990_000_000


def test_names_of_machines_cannot_break_the_file(found, tmp_path):
    found.sender.name = 'x"]\n[core]\ny = "\x7f'
    found.receiver.name = "x"
    sender, receiver = file.keys(found)
    assert sender != receiver
    assert loaded(found, tmp_path).sender.name == r'x"]\n[core]\ny = "\x7f'


def test_json_has_it_all(found):
    assert msgspec.json.decode(msgspec.json.encode(found), type=Probed) == found
    with pytest.raises(InputError):
        load("/nonexistent.toml")
