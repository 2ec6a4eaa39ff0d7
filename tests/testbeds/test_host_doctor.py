"""Facts about two hosts, and the lines to paste where packets would leave by another device."""

import copy
import json

import pytest
from typer.testing import CliRunner

from mptune import __version__
from mptune.cli import app
from mptune.errors import InputError
from mptune.linux import bpf
from mptune.machines import MachineError
from mptune.testbeds import names
from mptune.testbeds.host_doctor import examine, ready
from mptune.topology import load
from tests.plugins import two_hosts

LAPTOP = {
    "interfaces": [
        {
            "device": device,
            "up": True,
            "addresses": [{"ip": f"10.{number}.0.2", "prefix": 24}],
            "default_routes": [{"table": 254, "via": f"10.{number}.0.1", "metric": 0}],
            "rp_filter": 0,
        }
        for number, device in enumerate(("eth0", "eth1", "wwan0"))
    ],
    "rp_filter_all": 0,
    "sysctls": {"net.mptcp.enabled": "1", "net.ipv4.tcp_rmem": "4096 131072 6291456"},
    "congestion_controls": {"available": names("congestion_controls"), "allowed": ["reno"]},
    "bpf": None,
    **two_hosts.FACTS,
    "processors": 4,
    "load": 0.5,
}


class Machine:
    """Has the looks it is given; packets leave by `leaves`, or by the right device."""

    delivered = True

    def __init__(self, target, name, looked, leaves=None, privileged=True):
        self.target, self.name, self._looked, self._leaves = target, name, looked, leaves or {}
        self.hello = {"version": __version__, "net_admin": privileged}
        self.closed = False

    def look(self, names, pairs=()):
        own = {
            has["ip"]: interface["device"]
            for interface in self._looked["interfaces"]
            for has in interface["addresses"]
        }
        # From any address packets leave by the first device.
        own |= dict.fromkeys(("0.0.0.0", "::"), self._looked["interfaces"][0]["device"])
        leaves = [
            {"from": source, "to": to, "device": self._leaves.get(source, own[source]), "reason": None}
            for source, to in pairs
        ]
        return {**self._looked, "leaves": leaves}

    def close(self):
        self.closed = True


@pytest.fixture
def file(tmp_path):
    return two_hosts.write(tmp_path)


@pytest.fixture
def hosts(monkeypatch):
    """Both hosts by their targets: what they see, and the rest of `Machine`."""
    server = copy.deepcopy(LAPTOP)
    server["interfaces"] = [
        {
            "device": "ens3",
            "up": True,
            "addresses": [{"ip": "192.0.2.1", "prefix": 24}],
            "default_routes": [],
            "rp_filter": 1,
        }
    ]
    machines = {"me@laptop.example": {"looked": copy.deepcopy(LAPTOP)}, "server": {"looked": server}}
    made = []

    def connect(target, name):
        if "refused" in machines[target]:
            raise MachineError(str(machines[target]["refused"]))
        made.append(Machine(target, name, **machines[target]))
        return made[-1]

    monkeypatch.setattr("mptune.testbeds.host_doctor.connect", connect)
    yield machines
    assert all(machine.closed for machine in made)


def by_name(host):
    return {finding.name: finding for finding in host.findings}


def test_hosts_that_can_have_nothing_to_paste(hosts, file):
    laptop, server = examine(load(file)).hosts
    assert ready([laptop, server])
    assert (laptop.site, laptop.ssh, server.name) == ("S", "me@laptop.example", "Server")
    assert not [finding.remedy for finding in (*laptop.findings, *server.findings) if finding.remedy]
    findings = by_name(laptop)
    assert findings["interface C"].found == "wwan0, 10.2.0.2"
    assert findings["agent"].found == f"{__version__}, delivered for the session"
    # A strict filter does no harm where there is one device.
    assert by_name(server)["reverse path filter"].found == "strict on ens3"


def test_packets_that_leave_by_another_device_need_a_rule(hosts, file):
    hosts["me@laptop.example"]["leaves"] = {"10.1.0.2": "eth0"}
    laptop, server = examine(load(file)).hosts
    cable = by_name(laptop)["interface B"]
    assert not ready([laptop, server])
    assert cable.found == "eth1, 10.1.0.2: 10.1.0.2 leaves by eth0"
    assert cable.remedy == (
        "ip route add default via 10.1.0.1 dev eth1 table 101\n"
        "ip rule add from 10.1.0.2 table 101 priority 101"
    )


def test_addresses_that_trials_do_not_use_by_themselves_keep_none_from_running(hosts, file):
    eth1 = next(
        host for host in hosts["me@laptop.example"]["looked"]["interfaces"] if host["device"] == "eth1"
    )
    eth1["addresses"].append({"ip": "2001:db8::2", "prefix": 64})
    hosts["server"]["looked"]["interfaces"][0]["addresses"].append({"ip": "2001:db8:1::1", "prefix": 64})
    hosts["me@laptop.example"]["leaves"] = {"2001:db8::2": "eth0"}
    laptop, server = examine(load(file)).hosts
    cable = by_name(laptop)["interface B"]
    assert ready([laptop, server])
    assert cable.state == "limited" and "2001:db8::2 leaves by eth0" in cable.found
    assert (cable.remedy or "").startswith("for trials with --family ipv6:\nip -6 route add default ")


def test_a_gateway_that_nobody_knows_is_left_to_the_reader(hosts, file):
    hosts["server"]["leaves"] = {"192.0.2.1": None}
    _, server = examine(load(file)).hosts
    transit = by_name(server)["interface X"]
    assert "192.0.2.1 leaves by no device" in transit.found
    assert (transit.remedy or "").startswith("ip route add default via GATEWAY dev ens3 table 100\n")


def test_a_strict_filter_beside_another_device_is_named_with_the_setting(hosts, file):
    hosts["me@laptop.example"]["looked"]["interfaces"][1]["rp_filter"] = 1
    laptop, _ = examine(load(file)).hosts
    finding = by_name(laptop)["reverse path filter"]
    assert (finding.state, finding.found) == ("limited", "strict on eth1")
    assert "net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.eth1.rp_filter=2" in (finding.remedy or "")


def test_a_user_without_privileges_sees_what_is_left(hosts, file):
    hosts["me@laptop.example"]["privileged"] = False
    laptop, server = examine(load(file)).hosts
    findings = by_name(laptop)
    assert not ready([laptop, server])
    assert "only --protocol tcp" in (findings["privileges"].remedy or "")
    assert findings["congestion control reno"].state == "ok"
    assert findings["congestion control cubic"].remedy == "only root may use it"
    assert "rmem_max=31457280" in (findings["buffers (bytes)"].remedy or "")


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        (
            lambda looked: looked["interfaces"].pop(1),
            "interface B",
            "one of eth0, wwan0, found 'eth1'",
        ),
        (lambda looked: looked["interfaces"][1].update(up=False), "interface B", "ip link set eth1 up"),
        (lambda looked: looked.update(mptcp="no such protocol"), "MPTCP", "CONFIG_MPTCP"),
    ],
)
def test_what_a_host_lacks_is_missing(hosts, file, change, name, words):
    change(hosts["me@laptop.example"]["looked"])
    examined = examine(load(file)).hosts
    finding = by_name(examined[0])[name]
    assert not ready(examined) and finding.state == "missing" and words in (finding.remedy or "")


def test_each_congestion_control_is_listed_with_its_origin(hosts, file, monkeypatch, tmp_path):
    (tmp_path / "olia.bpf.o").touch()
    monkeypatch.setattr(bpf, "OBJECTS", tmp_path)
    for target, lacks in (("me@laptop.example", None), ("server", "no libbpf.so.1: install libbpf1")):
        looked = hosts[target]["looked"]
        looked["congestion_controls"]["available"] = ["reno", "cubic"]
        looked["bpf"] = lacks
    examined = examine(load(file)).hosts
    assert ready(examined)
    laptop, server = (by_name(host) for host in examined)
    assert laptop["congestion control cubic"].found == "in the kernel"
    assert laptop["congestion control olia"].found == "as a BPF program"
    assert server["congestion control olia"].state == "missing"
    assert "no libbpf.so.1: install libbpf1; or modprobe" in (server["congestion control olia"].remedy or "")
    assert "there is no BPF program for it" in (laptop["congestion control bbr"].remedy or "")


def test_the_other_host_is_looked_at_although_one_is_away(hosts, file):
    hosts["me@laptop.example"]["refused"] = "Laptop (me@laptop.example): unreachable"
    laptop, server = examine(load(file)).hosts
    assert [finding.remedy for finding in laptop.findings] == ["Laptop (me@laptop.example): unreachable"]
    assert by_name(server)["interface X"].state == "ok"
    assert not ready([laptop, server])


def test_a_topology_without_hosts_is_refused():
    with pytest.raises(InputError, match="needed by the testbed hosts"):
        examine(load("UNIS-HiN"))


def test_the_command_shows_both_side_by_side_and_ends_with_1_if_they_cannot(hosts, file):
    result = CliRunner().invoke(app, ["doctor", "--hosts", str(file)])
    assert result.exit_code == 0
    assert result.stdout.startswith("Trials can run between Laptop and Server (--testbed hosts).")
    hosts["server"]["leaves"] = {"192.0.2.1": None}
    result = CliRunner().invoke(app, ["doctor", "--hosts", str(file)])
    assert result.exit_code == 1
    assert "    ip rule add from 192.0.2.1 table 100 priority 100" in result.stdout.splitlines()
    document = json.loads(CliRunner().invoke(app, ["doctor", "--hosts", str(file), "--json"]).stdout)
    assert document["ready"] is False
    assert [(host["site"], host["ssh"]) for host in document["hosts"]] == [
        ("S", "me@laptop.example"),
        ("R", "server"),
    ]
    assert {"name", "state", "found", "remedy", "required"} == set(document["hosts"][0]["checks"][0])


# Subflows that come up without trials.


@pytest.fixture
def managed(hosts):
    """The kernels of both hosts manage paths, as after a start: two subflows more, no endpoints."""
    for host in hosts.values():
        sysctls = {"net.mptcp.enabled": "1", "net.mptcp.path_manager": "kernel"}
        host["looked"] |= {
            "sysctls": {**host["looked"]["sysctls"], **sysctls},
            "endpoints": [],
            "limits": {"subflows": 2, "add_addr_accepted": 0},
            "most": {"endpoints": 8, "subflows": 8},
        }
    return hosts


def between_of(file):
    found = examine(load(file)).subflows
    assert found is not None
    return found


def endpoint(address, number, *flags, device=None):
    return {"address": address, "id": number, "port": 0, "flags": list(flags), "device": device}


def test_without_endpoints_there_is_one_subflow_and_the_lines_for_the_others(managed, file):
    between = between_of(file)
    assert (between.client, between.server) == ("Laptop", "Server")
    assert [(path.path, path.comes_up) for path in between.paths] == [
        ("A-X", True),
        ("B-X", False),
        ("C-X", False),
    ]
    assert between.paths[1].because == "the client has no endpoint subflow for 10.1.0.2"
    assert between.lines == {
        "Laptop": (
            "ip mptcp endpoint add 10.1.0.2 dev eth1 subflow",
            "ip mptcp endpoint add 10.2.0.2 dev wwan0 subflow",
        ),
        "Server": (),
    }
    assert between.with_lines == 3


def test_limits_of_either_end_are_named_and_raised(managed, file):
    managed["me@laptop.example"]["looked"]["endpoints"] = [
        endpoint("10.1.0.2", 1, "subflow", device="eth1"),
        endpoint("10.2.0.2", 2, "subflow", device="wwan0"),
    ]
    managed["server"]["looked"]["limits"] = {"subflows": 1, "add_addr_accepted": 0}
    between = between_of(file)
    assert between.numbers == (2,) and between.paths[1].comes_up
    assert between.paths[2].because == "its limit of 1 subflow is reached"
    assert between.lines == {"Laptop": (), "Server": ("ip mptcp limits set subflows 2 add_addr_accepted 0",)}


def test_packets_that_leave_by_another_device_are_the_reason_until_the_endpoint_names_its_own(managed, file):
    managed["me@laptop.example"]["leaves"] = {"10.1.0.2": "eth0"}
    looked = managed["me@laptop.example"]["looked"]
    looked["endpoints"] = [endpoint("10.1.0.2", 1, "subflow")]
    assert between_of(file).paths[1].because == "packets from 10.1.0.2 leave by eth0"
    looked["endpoints"] = [endpoint("10.1.0.2", 1, "subflow", device="eth1")]
    assert between_of(file).paths[1].comes_up


def test_settings_that_cannot_be_read_predict_nothing(hosts, file):
    assert examine(load(file)).subflows is None
    result = CliRunner().invoke(app, ["doctor", "--hosts", str(file)])
    assert result.exit_code == 0 and "Subflows without trials: unknown" in result.stdout


def test_the_command_shows_paths_reasons_and_lines(managed, file):
    text = CliRunner().invoke(app, ["doctor", "--hosts", str(file)]).stdout
    words = " ".join(text.split())
    assert (
        "Subflows of a connection that Laptop (client) opens to Server (server), without trials: 1 of"
        in words
    )
    assert "yes, the first one" in words and "no: the client has no endpoint subflow for 10.1.0.2" in words
    assert "    ip mptcp endpoint add 10.1.0.2 dev eth1 subflow" in text.splitlines()
    document = json.loads(CliRunner().invoke(app, ["doctor", "--hosts", str(file), "--json"]).stdout)
    assert document["subflows"]["numbers"] == [1]
    assert document["subflows"]["paths"][0] == {
        "path": "A-X",
        "client": "10.0.0.2",
        "server": "192.0.2.1",
        "comes_up": True,
        "standby": False,
        "first": True,
        "because": "",
    }
