"""The steps of a probe in order, on a network of formulas: two links of the sender, one of the receiver."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path as File
from types import SimpleNamespace
from typing import Any

import pytest

from mptune.errors import InputError, TrialError
from mptune.probe import file, preparation
from mptune.probe.course import probe
from mptune.probe.ends import Arrived, Asked, Connected, End, Flow, Hop, Path, Result, Route, Sent, View
from mptune.probe.estimates import UNIT_NS
from mptune.probe.preparation import Wish
from mptune.probe.result import Probed
from mptune.topology import load

MBIT = 1e6
#: Rate and queue of the sender's links, which limit both directions, and of the receiver's.
RATES, QUEUE, FAR = (20 * MBIT, 8 * MBIT), 60_000, 200 * MBIT
DELAYS_NS = 10_000_000, 25_000_000
MTU = 1400


class Link:
    """A FIFO with a limit, drop-tail."""

    def __init__(self, rate_bps: float) -> None:
        self.rate_bps, self.free_ns = rate_bps, 0.0

    def leaves(self, at_ns: float, size: int) -> float | None:
        """Time at which a packet has left; None if the queue is full."""
        backlog = max(0.0, self.free_ns - at_ns) * self.rate_bps / 8e9
        if backlog + size > QUEUE:
            return None
        self.free_ns = max(at_ns, self.free_ns) + 8e9 * size / self.rate_bps
        return self.free_ns


class Network:
    """Both agents, and the network between them."""

    plain_because = None
    udp = True
    tcp = True
    no_ipv6 = False

    def __init__(self, talkers: object, addresses: Mapping[End, Sequence[str]], **_: object) -> None:
        self.addresses, self.bytes, self.pings = addresses, 0, 0

    def join(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def carries(self, path: int) -> bool:
        """Something passes on a path."""
        return not self.no_ipv6 or ":" not in (self.paths[path].addresses or ("",))[0]

    def send(
        self, end: End, flows: Sequence[Flow], *, wait_ns: int = 0, quiet_ns: int
    ) -> tuple[list[Result], list[str | None]]:
        near, far = [Link(rate) for rate in RATES], Link(FAR)
        packets = sorted(
            (flow.start_ns + number * max(flow.interval_ns, 10_000), place, number)
            for place, flow in enumerate(flows)
            for number in range(flow.packets)
        )
        seen: list[list[tuple[int, float, float]]] = [[] for _ in flows]
        for at_ns, place, number in packets:
            flow = flows[place]
            own = near[self.paths[flow.path].local]
            links = (own, far) if end == "sender" else (far, own)
            passes = self.udp and flow.bytes <= MTU and self.carries(flow.path)
            time_ns: float | None = at_ns if passes else None
            for link in links:
                time_ns = None if time_ns is None else link.leaves(time_ns, flow.bytes)
            if time_ns is not None:
                seen[place].append((number, at_ns, time_ns + DELAYS_NS[self.paths[flow.path].local]))
        self.bytes += sum(flow.packets * flow.bytes for flow in flows)
        sources: list[str | None] = [path.addresses and _end(path.addresses[0]) for path in self.paths]
        return [self._result(flow, rows) for flow, rows in zip(flows, seen, strict=True)], sources

    def _result(self, flow: Flow, rows: Sequence[tuple[int, float, float]]) -> Result:
        rtts = [round(2 * DELAYS_NS[self.paths[flow.path].local] + 50_000) for _ in rows if flow.answer]
        sent = Sent(
            sent=flow.packets, refused=0, because=None, span_ns=0, answered=len(rtts),
            min_rtt_ns=min(rtts, default=None), rtt_ns=rtts,
        )  # fmt: skip
        arrived = Arrived(
            received=len(rows),
            duplicates=0,
            seq=[number for number, _, _ in rows],
            sent=[round(at / UNIT_NS) for _, at, _ in rows],
            arrived=[round(at / UNIT_NS) for _, _, at in rows],
        )
        return Result(flow, sent, arrived)

    def connect(self, paths: Sequence[int], *, mptcp: bool, limit_ns: int) -> list[Connected]:
        view = View(mptcp=mptcp)
        failed = {path: None if self.tcp and self.carries(path) else "refused" for path in paths}
        return [
            Connected(id=2 * path + mptcp, failed=failed[path], took_ns=1, syn_ack=None, view=view)
            for path in paths
        ]

    def ask(self, ids: Sequence[int], steps: Sequence[Mapping[str, int]], *, limit_ns: int) -> list[Asked]:
        return [self._asked(number) for number in ids]

    def _asked(self, number: int) -> Asked:
        """Ten bytes per millisecond and kbit/s of the path."""
        path, mptcp = divmod(number, 2)
        rate = RATES[self.paths[path].local]
        view = View(
            mptcp=bool(mptcp), arrived=[(at, round(rate / 8e3 * 1448 / 1500)) for at in range(1, 101)]
        )
        own, _ = self.paths[path].addresses or ("", "")
        return Asked(failed=None, pings_ns=[3_000_000], view=view, served=view, source=_end(own))

    def trace(self, end: End, paths: Sequence[int], *, wait_ns: int) -> dict[int, Route]:
        """A router of each of the sender's links, a silent one, and one that they share."""
        routes = {}
        for path in paths:
            own, far = self.paths[path].addresses or ("", "")
            way = [f"10.0.{self.paths[path].local}.1", None, "10.0.9.1"]
            addresses = [*way, far] if end == "sender" else [*reversed(way), own]
            routes[path] = Route(hops=[Hop(address=address, rtt_ns=1) for address in addresses], reached=True)
        return routes

    def end(self, connections: Sequence[int]) -> None:
        pass


def _end(ip: str) -> str:
    return f"[{ip}]:9" if ":" in ip else f"{ip}:9"


def machine(name: str, *addresses: str) -> Any:
    """A machine with these interfaces, each with one address or more, between spaces."""
    interfaces = [
        {
            "device": f"eth{number}", "up": True, "mtu": 1500, "rp_filter": 0,
            "addresses": [{"ip": ip, "prefix": 24} for ip in ips.split()],
            "default_routes": [{"table": "main", "via": None, "metric": 0}],
        }
        for number, ips in enumerate(addresses)
    ]  # fmt: skip
    facts = {"interfaces": interfaces, "rp_filter_all": 0, "rules": [], "kernel": "7.0"}

    def look(pairs: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        number = {ip: number for number, ips in enumerate(addresses) for ip in ips.split()}
        by = [{"device": f"eth{number[own]}", "reason": None} for own, _ in pairs]
        return {**facts, "leaves": by}

    return SimpleNamespace(name=name, look=look, start=lambda role: nullcontext())


#: Interfaces of the sender and of the receiver, over IPv4 and over both families.
FOUR = ("192.0.2.1", "198.51.100.1"), ("203.0.113.1",)
BOTH = ("192.0.2.1 2001:db8:2::1", "198.51.100.1 2001:db8:51::1"), ("203.0.113.1 2001:db8:113::1",)


def probed(
    monkeypatch: pytest.MonkeyPatch,
    stages: list[str] | None = None,
    interfaces: tuple[tuple[str, ...], tuple[str, ...]] = FOUR,
    wish: Wish = Wish(),  # noqa: B008 - it never changes
    **kind: bool,
) -> Probed:
    monkeypatch.setattr(preparation, "Ends", type("Kind", (Network,), kind))
    machines: Any = {"sender": machine("alice", *interfaces[0]), "receiver": machine("bob", *interfaces[1])}
    reached = [] if stages is None else stages
    return probe(machines, wish, advance=lambda done, of, stage: reached.append(stage))


def test_the_network_is_measured_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[str] = []
    measured = probed(monkeypatch, stages)
    assert stages[0] == "machines" and stages[-2:] == ["losses", ""]
    assert [path.udp for path in measured.paths] == [True, True]
    for path, rate, delay_ns in zip(measured.paths, RATES, DELAYS_NS, strict=True):
        for way in (path.up, path.down):
            assert way.rate is not None and way.rate.value == pytest.approx(rate, rel=0.02)
            assert way.mtu == MTU and way.mtu_next == MTU + 1
            assert way.loss is not None and way.loss.lost == 0
        assert path.rtt is not None and path.rtt.min_ns == 2 * delay_ns + 50_000
        assert path.up.queue is not None and path.up.queue.bytes == pytest.approx(QUEUE, rel=0.1)
        assert path.mptcp is not None and path.mptcp.kind == "full"
        assert path.source is not None and not path.translated
    assert measured.paths[0].up.route is not None
    assert [hop.address for hop in measured.paths[0].up.route.hops] == [
        "10.0.0.1",
        None,
        "10.0.9.1",
        "203.0.113.1",
    ]
    shared = [(hop.address, hop.end, hop.paths) for hop in measured.shared_hops]
    labels = tuple(path.label for path in measured.paths)
    assert shared == [("10.0.9.1", "sender", labels), ("10.0.9.1", "receiver", labels)]
    assert measured.notes == ["joins were not tried: alice: needs root (or sudo without a password)"]
    assert measured.bytes <= Wish().data_bytes


def test_without_datagrams_transfers_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = probed(monkeypatch, udp=False)
    for path, rate in zip(measured.paths, RATES, strict=True):
        assert not path.udp and path.up.mtu is None and path.up.loss is None
        assert path.up.how == "a TCP transfer" and path.up.rate is not None and path.up.rate.at_least
        assert path.up.rate.value == pytest.approx(rate, rel=0.01)
        assert path.rtt is not None and path.rtt.min_ns == 3_000_000
        assert path.source is not None


def test_where_nothing_gets_through_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrialError, match=r"nothing gets through to bob \(203\.0\.113\.1\).*TCP .*: refused"):
        probed(monkeypatch, udp=False, tcp=False)


DUAL = Wish(both_families=True)


def test_each_pair_is_measured_over_both_families_and_is_one_in_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: File
) -> None:
    measured = probed(monkeypatch, interfaces=BOTH, wish=DUAL)
    assert [(path.label, path.family) for path in measured.paths] == [
        ("eth0-eth0", "ipv4"),
        ("eth1-eth0", "ipv4"),
        ("eth0-eth0/6", "ipv6"),
        ("eth1-eth0/6", "ipv6"),
    ]
    for path, rate in zip(measured.paths, 2 * RATES, strict=True):
        for way in (path.up, path.down):
            assert way.rate is not None and way.rate.value == pytest.approx(rate, rel=0.02)
        assert path.rtt is not None and path.mptcp is not None and path.mptcp.kind == "full"
        assert not path.translated
    # Both families have the same links, so that the second tells nothing on them.
    assert [interface.up and interface.up.value for interface in measured.sender.interfaces] == [
        pytest.approx(rate, rel=0.02) for rate in RATES
    ]
    assert not any("IPv4" in note or "IPv6" in note for note in measured.notes)
    assert measured.bytes <= Wish().data_bytes
    written = tmp_path / "found.toml"
    written.write_text(file.text(measured, "found"))
    network = load(written)
    assert [path.label for path in network.paths] == ["eth0-eth0", "eth1-eth0"]
    assert [path.label for path in network.over("both").for_mptcp().paths] == [
        path.label for path in measured.paths
    ]


def test_a_family_in_which_nothing_passes_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: File
) -> None:
    measured = probed(monkeypatch, interfaces=BOTH, wish=DUAL, no_ipv6=True)
    kinds = [path.mptcp and path.mptcp.kind for path in measured.paths]
    assert kinds == ["full", "full", "unreachable", "unreachable"]
    note = "nothing gets through over IPv6: trials with --family both do without it"
    assert measured.notes[-1] == note
    written = tmp_path / "found.toml"
    written.write_text(file.text(measured, "found"))
    network = load(written)
    assert [path.label for path in network.for_mptcp().paths] == ["eth0-eth0", "eth1-eth0"]
    assert [path.label for path in network.over("both").for_mptcp().paths] == ["eth0-eth0", "eth1-eth0"]


def test_an_interface_of_one_family_has_paths_in_that_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    interfaces = ("192.0.2.1", "2001:db8:51::1"), ("203.0.113.1 2001:db8:113::1",)
    measured = probed(monkeypatch, interfaces=interfaces, wish=DUAL)
    assert [path.label for path in measured.paths] == ["eth0-eth0", "eth1-eth0/6"]


def test_a_pair_without_a_common_family_is_unreachable_for_that_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interfaces = ("192.0.2.1", "198.51.100.1 2001:db8:51::1"), ("2001:db8:113::1", "203.0.113.1")
    measured = probed(monkeypatch, interfaces=interfaces, wish=DUAL)
    assert [path.label for path in measured.paths] == ["eth0-eth1", "eth1-eth1", "eth1-eth0/6", "eth0-eth0"]
    last = measured.paths[-1].mptcp
    assert last is not None and last.kind == "unreachable" and "eth0 has only IPv4" in last.because


@pytest.mark.parametrize(
    ("interfaces", "lacking"),
    [
        ((FOUR[0], BOTH[1]), "alice: .*none with IPv6"),
        ((BOTH[0], ("2001:db8:113::1",)), "bob: .*none with IPv4"),
    ],
)
def test_a_machine_that_has_one_family_alone_is_refused(
    monkeypatch: pytest.MonkeyPatch, interfaces: tuple[tuple[str, ...], tuple[str, ...]], lacking: str
) -> None:
    with pytest.raises(InputError, match=lacking):
        probed(monkeypatch, interfaces=interfaces, wish=DUAL)
