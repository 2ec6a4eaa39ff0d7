"""`mptune probe`: what is refused before anything is reached, and what is shown and written afterwards."""

import json

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.errors import TrialError
from mptune.probe.estimates import Estimate, Loss, RoundTrip
from mptune.probe.interfaces import Leaving, Nic
from mptune.probe.result import InterfaceFound, PathFound, Probed, SiteFound, Way
from mptune.probe.verdicts import Verdict
from mptune.topology import load

pytestmark = pytest.mark.needs("linux")


class FakeMachine:
    """A session that only remembers whether it was closed."""

    unheard = False

    def __init__(self, target):
        self.name, self.closed = target, False

    def hurry(self):
        """It answers nobody anyway."""

    def close(self):
        self.closed = True


def site(name, ip):
    rate = Estimate(value=4e7, low=39e6, high=41e6, samples=4)
    nic = Nic(device="eth0", abbr="eth0", ip=ip, ipv4=ip, ipv6=None, mtu=1500)
    link = InterfaceFound(nic=nic, up=rate, down=rate)
    return SiteFound(name=name, ssh=name, kernel="6.18", interfaces=[link])


def probed():
    rate = Estimate(value=4e7, low=39e6, high=41e6, samples=4)
    ways = [Way(rate=rate, how="4 trains", loss=Loss(sent=1000, lost=lost), mtu=1500) for lost in (3, 0)]
    path = PathFound(
        label="eth0-eth0",
        local=0,
        remote=0,
        udp=True,
        rtt=RoundTrip(min_ns=20_000_000, median_ns=20_100_000, p95_ns=21_000_000, samples=50),
        base_rtt_ns=19_900_000,
        loaded_rtt_ns=50_000_000,
        up=ways[0],
        down=ways[1],
        mptcp=Verdict(kind="full", because="data both ways"),
    )
    wrong = Leaving(host="alice", device="eth0", ip="192.0.2.1", by="eth1", remedy=("ip rule add ...",))
    return Probed(
        when="2026-11-22",
        sender=site("alice", "192.0.2.1"),
        receiver=site("bob", "192.0.2.9"),
        paths=[path],
        leaving=[wrong],
        notes=["joins were not tried"],
        seconds=30.0,
        bytes=12_000_000,
    )


@pytest.fixture
def machines(monkeypatch):
    """Sessions are fakes, and a probe finds the same each time."""
    from mptune.machines import ssh
    from mptune.probe import course

    opened, wishes = [], []

    def connect(target, name):
        opened.append(FakeMachine(target))
        return opened[-1]

    def probe(both, wish, *, advance=None, interrupted=lambda: False):
        wishes.append(wish)
        return probed()

    monkeypatch.setattr(ssh, "connect", connect)
    monkeypatch.setattr(course, "probe", probe)
    return opened, wishes


def run(*arguments):
    return CliRunner().invoke(app, ["probe", *map(str, arguments)])


def test_it_writes_a_file_that_loads_and_prints_the_paths(machines, tmp_path):
    out = tmp_path / "my-sites.toml"
    result = run("alice", "bob", "--out", out, "--quiet", "--max-data", "5MB", "--family", "ipv6")
    assert result.exit_code == 0, result.output
    topology = load(out)
    assert (topology.name, topology.sender.ssh, topology.receiver.ssh) == ("my-sites", "alice", "bob")
    assert list(tmp_path.iterdir()) == [out]
    for text in (
        "40 Mbit/s",
        "0.3 %",
        "full",
        "alice: packets from",
        "  ip rule add ...",
        "joins were not tried",
    ):
        assert text in result.stdout
    opened, (wish,) = machines
    assert [machine.name for machine in opened] == ["alice", "bob"] and all(
        machine.closed for machine in opened
    )
    assert (wish.data_bytes, wish.family, wish.ssh) == (5_000_000, 6, {"sender": "alice", "receiver": "bob"})
    measured = CliRunner().invoke(app, ["paths", str(out)])
    assert measured.exit_code == 0 and "2026-11-22" in measured.stdout


def test_json_is_all_of_it(machines, tmp_path):
    document = json.loads(run("alice", "bob", "--out", tmp_path / "x.toml", "--json", "--quiet").stdout)
    assert document["paths"][0]["mptcp"]["kind"] == "full"
    assert document["leaving"][0]["remedy"] == ["ip rule add ..."]


def test_a_file_is_replaced_only_by_force(machines, tmp_path):
    out = tmp_path / "x.toml"
    out.write_text("mine")
    refused = run("alice", "bob", "--out", out)
    assert refused.exit_code == 2 and "--force" in refused.stderr
    assert out.read_text() == "mine" and not machines[0]
    assert run("alice", "bob", "--out", out, "--force", "--quiet").exit_code == 0
    assert load(out).name == "x"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--max-data", "10kB"], "--max-data: expected at least"),
        (["--port", "70000"], "--port"),
        (["--family", "ipx"], "--family: expected one of ipv4, ipv6"),
        (["--max-time", "0s"], "--max-time: expected more than 0"),
    ],
)
def test_what_is_wrong_is_refused_first(machines, tmp_path, arguments, expected):
    refused = run("alice", "bob", "--out", tmp_path / "x.toml", *arguments)
    assert refused.exit_code == 2 and expected in refused.stderr
    assert not machines[0]


@pytest.mark.parametrize(
    ("error", "code"), [(TrialError("nothing gets through"), 1), (KeyboardInterrupt(), 130)]
)
def test_what_ends_a_probe_leaves_nothing(machines, monkeypatch, tmp_path, error, code):
    from mptune.probe import course

    def fail(*arguments, **more):
        raise error

    monkeypatch.setattr(course, "probe", fail)
    assert run("alice", "bob", "--out", tmp_path / "x.toml", "--quiet").exit_code == code
    assert not list(tmp_path.iterdir())
    assert all(machine.closed for machine in machines[0])
