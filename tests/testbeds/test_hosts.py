"""Facts of hosts, refusals before a trial, and BPF programs between trials; trials are in tests/hosts."""

import base64
import copy

import msgspec
import pytest

from mptune.errors import InputError
from mptune.linux import bpf
from mptune.linux.talker import Talker
from mptune.testbeds._host_facts import HostFacts, managed
from mptune.testbeds._hosts_programs import Programs
from mptune.testbeds.hosts import HostsTestbed
from mptune.topology import load
from mptune.trial import Requests, ScriptedAction
from tests.plugins import two_hosts

SECOND = 1_000_000_000


@pytest.fixture
def facts(topology):
    def make(side="local", privileged=True, change=lambda looked: None, of=topology):
        looked = copy.deepcopy(two_hosts.LOOKED)
        change(looked)
        return HostFacts(of, side, "alice", looked, privileged=privileged)

    return make


@pytest.fixture
def built(monkeypatch, tmp_path):
    """Compiled programs of olia and vegas, as far as nobody looks inside."""
    for cc in ("olia", "vegas"):
        (tmp_path / f"{cc}.bpf.o").write_bytes(b"the name mptune_%b of it" % cc.encode())
    monkeypatch.setattr(bpf, "OBJECTS", tmp_path)


# interfaces


def test_interfaces_have_the_addresses_of_their_devices(facts):
    """An address of the link alone, which no other site reaches, is none."""
    fibre, cable, mobile = facts().named()
    assert (fibre.device, fibre.ipv4, fibre.ipv6) == ("eth0", "10.0.0.2", "fd00::2")
    assert (cable.device, cable.ipv4, cable.ipv6) == ("eth1", "10.1.0.2", None)
    assert (mobile.device, mobile.ipv4) == ("wwan0", "100.64.0.9")


def test_an_address_that_is_given_finds_its_device(facts):
    (transit,) = facts("remote").named()
    assert (transit.device, transit.ipv4, transit.public) == ("ens3", "192.0.2.1", {})


def changed(topology, **changes):
    """The receiver's only interface is another one."""
    interface = msgspec.structs.replace(topology.receiver.interfaces[0], **changes)
    receiver = msgspec.structs.replace(topology.receiver, interfaces=(interface,))
    return msgspec.structs.replace(topology, receiver=receiver)


def test_behind_nat_the_public_address_is_another_one_than_the_devices(facts, topology):
    behind = changed(topology, device="eth1", ipv4="203.0.113.7")
    (transit,) = facts("remote", of=behind).named()
    assert (transit.ipv4, transit.reached_at("ipv4")) == ("10.1.0.2", "203.0.113.7")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "eth9"}, r"sites\.R\.interfaces\.X\.device: expected one of lo, eth0.*'eth9' on alice"),
        ({"ipv4": "203.0.113.7"}, r"interfaces\.X\.ipv4: .*found 203\.0\.113\.7; behind NAT, write the dev"),
        (
            {"device": "eth1", "ipv4": None, "ipv6": "2001:db8::1"},
            r"interfaces\.X\.ipv6: expected a device with such an address: eth1 has none",
        ),
    ],
)
def test_an_interface_that_is_not_there_is_refused_with_its_key(facts, topology, changes, words):
    with pytest.raises(InputError, match=words):
        facts("remote", of=changed(topology, **changes)).named()


# what hosts can do


def test_only_privilege_or_the_kernels_own_path_manager_will_do(facts, trial):
    user = facts(privileged=False)
    user.check(trial(pm="default", cc="reno"))
    user.check(trial(pm="default", protocol="tcp", cc="reno"))
    facts().check(trial())
    with pytest.raises(InputError, match=r"--pm: expected default, or --protocol tcp: .* CAP_NET_ADMIN on"):
        user.check(trial(cc="reno"))
    assert managed(trial(), privileged=True) and managed(trial(pm="default"), privileged=True)
    assert not managed(trial(pm="default"), privileged=False)
    assert not managed(trial(pm="default", protocol="tcp"), privileged=True)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda looked: looked.update(mptcp="no such protocol"), {}, "S.ssh: expected a host with MPTCP"),
        (
            lambda looked: looked.update(path_manager="too old"),
            {},
            "path manager on alice: too old",
        ),
        (
            lambda looked: None,
            {"cc": "vegas"},
            r"--cc: .*reno, cubic, .*found vegas: its kernel lacks it, and .*: no libbpf.so.1: .*; or",
        ),
        (
            lambda looked: looked.update(bpf=None),
            {"cc": "bbr"},
            "there is no BPF program for it; or modprobe",
        ),
        (
            lambda looked: looked["sysctls"].update({"net.ipv4.tcp_rto_min_us": None}),
            {"rto_min_us": 20_000},
            "--rto-min-us: expected none: alice has no net.ipv4.tcp_rto_min_us",
        ),
    ],
)
def test_what_a_host_lacks_is_an_error_of_the_input(facts, trial, built, change, options, words):
    with pytest.raises(InputError, match=words):
        facts(change=change).check(trial(**options))


def test_settings_of_a_stack_are_made_where_a_host_has_others(facts, trial):
    def change(looked):
        looked["sysctls"].update({"net.ipv4.tcp_ecn": "1", "net.mptcp.stale_loss_cnt": "1"})

    asked = trial(ecn=False, stale_loss_cnt=1)
    facts(change=change).check(asked)
    assert facts(change=change).told(asked) == {"net.ipv4.tcp_ecn": "0"}
    user = facts(privileged=False, change=change)
    expected = "--ecn: expected none: net.ipv4.tcp_ecn = 0 needs CAP_NET_ADMIN on alice, which has 1"
    with pytest.raises(InputError, match=expected):
        user.check(trial(cc="reno", ecn=False, pm="default", protocol="tcp"))


def test_without_privilege_buffers_and_congestion_controls_are_limited(facts, trial):
    user = facts(privileged=False)
    plain = {"pm": "default", "protocol": "tcp"}
    with pytest.raises(InputError, match=r"--buffer: expected at most 212992 bytes, .*found 1048576"):
        user.check(trial(cc="reno", buffer_bytes=2**20, **plain))
    with pytest.raises(InputError, match="--buffer-mode: expected fixed"):
        user.check(trial(cc="reno", buffer_mode="auto", **plain))
    with pytest.raises(
        InputError, match=r"--cc: expected one that alice can run \(reno\), found cubic: only root"
    ):
        user.check(trial(**plain))
    facts("remote", privileged=False).check(trial(**plain))  # the receiver needs none


def test_the_kernels_names_of_things_are_used(facts, built):
    assert facts().kernel_cc("cubic") == "cubic" and facts().kernel_cc("olia") == "mptune_olia"
    able = facts(change=lambda looked: looked.update(bpf=None))
    # Its own is sure to stay, and to be this version's.
    assert able.kernel_cc("olia") is None and able.kernel_cc("reno") == "reno"
    assert facts().userspace == {"net.mptcp.path_manager": "userspace"}
    older = facts(change=lambda looked: looked["sysctls"].pop("net.mptcp.path_manager"))
    assert older.userspace == {"net.mptcp.pm_type": "1"}


def test_a_path_without_mptcp_does_not_switch_it_off_for_all_others(facts):
    def change(looked):
        looked["sysctls"]["net.mptcp.blackhole_timeout"] = "3600"

    pm = {"net.mptcp.path_manager": "userspace"}
    assert facts(change=change).while_connecting == {**pm, "net.mptcp.blackhole_timeout": "0"}
    assert facts("remote", change=change).while_connecting == facts().while_connecting == pm


# what is refused without a connection


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"script": (ScriptedAction(at_ns=1, path="A-X", action="down"),)},
            "script: expected standby, ",
        ),
        ({"scheduler": "minrtt"}, "the only one of the testbed hosts"),
        ({"duration_ns": SECOND}, r"interfaces\.C\.up: expected a rate, needed by .*C\.max_data"),
        (
            {"workload": Requests(request_bytes=1, response_bytes=1, duration_ns=SECOND)},
            r"interfaces\.C\.up: expected a rate, needed by .*C\.max_data",
        ),
        ({"transfer_bytes": 2 * 10**9}, r"interfaces\.C\.max_data: 2 GB do not suffice: 0 MB sent, .* 2\.3"),
    ],
)
def test_what_no_hosts_can_do_needs_no_host(trial, changes, words):
    with pytest.raises(InputError, match=words):
        HostsTestbed().check(trial(**changes))


def test_a_topology_without_hosts_is_refused(trial):
    with pytest.raises(InputError, match=r"UNIS-HiN\.toml: sites\.UNIS\.ssh: expected .*needed by the testb"):
        HostsTestbed().check(trial(topology=load("UNIS-HiN")))


# BPF programs


class Holder(Talker):
    """A role that registers what it is given, or `refuses`."""

    killed = False

    def __init__(self, name, refuses=None):
        super().__init__(name)
        self.refuses, self.told, self.over = refuses, [], False

    def fileno(self):
        raise AssertionError("nobody waits")

    def tell(self, message):
        self.told.append(message)
        event = {"event": "error", "reason": self.refuses} if self.refuses else {"event": "registered"}
        self._messages.append(event)

    def close(self):
        self.over = True

    def end(self, grace_s=0.0):
        self.over = self._ended = True

    def death(self):
        return f"{self.name} was killed by signal 9"

    def _receive(self):
        self._ended = self._ended or self.over


class Holding:
    """A machine whose roles are `Holder`s."""

    name = "alice"

    def __init__(self, refuses=None):
        self.refuses, self.made = refuses, []

    def start(self, role, name):
        assert role == "congestion"
        self.made.append(Holder(f"{name} on alice", self.refuses))
        return self.made[-1]


def test_trials_of_a_session_share_a_program_under_a_name_of_its_own(built):
    alice = Holding()
    programs = Programs(alice.start)
    name = programs.name("olia")
    assert programs.name("olia") == name and len(alice.made) == 1
    (order,) = alice.made[0].told
    assert order["name"] == name and name.startswith("olia_") and len(name) == len("mptune_olia")
    assert base64.b64decode(order["object"]) == f"the name {name} of it".encode()
    assert programs.name("vegas").startswith("vegas_") and Programs(Holding().start).name("olia") != name
    programs.close()
    assert all(role.over for role in alice.made)


def test_a_program_whose_holder_was_killed_is_registered_again(built):
    alice = Holding()
    programs = Programs(alice.start)
    name = programs.name("olia")
    alice.made[0].over = True
    assert programs.name("olia") != name and len(alice.made) == 2


def test_a_program_that_the_kernel_refuses_is_an_error_of_the_input(built, facts):
    alice = Holding(refuses="the kernel refuses it: loading: Invalid argument")
    bed = HostsTestbed()
    bed._programs["me@laptop.example"] = Programs(alice.start)
    able = facts(change=lambda looked: looked.update(bpf=None))
    with pytest.raises(InputError, match=r"^--cc: expected one that alice can run .*: Invalid argument$"):
        bed._kernel_cc("olia", able)
    assert alice.made[0].over
