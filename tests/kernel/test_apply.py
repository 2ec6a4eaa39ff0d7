"""Settings that stay, on the kernel: made, put back byte for byte, refused as a whole, changed by others."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from mptune.linux import agent
from tests.kernel.settings_world import OTHER, PLAIN, SYSCTL, TAKEN, WMEM
from tests.plugins.needs import Thing, lack
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("root")


# Each kind.


@pytest.mark.parametrize(
    ("setting", "words", "command"),
    [
        (PLAIN[0], "4096\t16384\t741376", f"cat {WMEM}"),
        (PLAIN[2], "add_addr_accepted 2 subflows 3", "ip mptcp limits"),
        (PLAIN[4], "10.0.1.2 id 1 subflow backup dev eth1", "ip mptcp endpoint | head -1"),
        (PLAIN[5], "fd00::2 id 3 signal", "ip mptcp endpoint | tail -1"),
        (
            {"kind": "endpoint", "address": "10.0.1.2", "flags": ["signal"]},
            "10.0.1.2 id 1 signal",
            "ip mptcp endpoint | head -1",
        ),
        (PLAIN[6], "mtu lock 1400 initcwnd 12 congctl reno", "ip route show 10.9.0.0/16"),
        (PLAIN[7], "10.10.0.0/16 congctl reno", "ip route show 10.10.0.0/16"),
        (PLAIN[8], "nhid 7 via 10.0.1.1 dev eth1 congctl reno", "ip route show 10.11.0.0/16"),
        (PLAIN[9], "default via 10.0.1.1 dev eth1 congctl reno", "ip route show table 100"),
        (PLAIN[10], "mtu 1300 congctl reno", "ip -6 route show fd01::/64"),
        (PLAIN[11], "congctl reno", "ip -6 route show fd02::/64"),
        (
            {"kind": "route", "to": "10.0.1.0/24", "congctl": "reno"},
            "congctl reno",
            "ip route show 10.0.1.0/24",
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_a_setting_is_made_and_put_back(machine, setting, words, command):
    before = machine.look()
    (made,) = machine.apply([setting])["settings"]
    assert made["changed"] and words in machine.sh(command)
    (standing,) = machine.order("status")["settings"]
    assert standing["state"] == "set" and standing["present"] == standing["setting"] == made["setting"]
    assert machine.roll_back()["kept"] == []
    assert machine.look() == before


def test_an_endpoint_goes_and_comes_back_with_its_number(machine):
    before = machine.look()
    machine.apply([PLAIN[3]])
    assert "10.0.1.77" not in machine.sh("ip mptcp endpoint")
    machine.roll_back()
    assert machine.look() == before and "10.0.1.77 id 2 signal" in before


def test_more_than_the_kernel_takes_is_refused_with_the_number_that_was_tried(machine):
    before = machine.look()
    limits = {"kind": "limits", "subflows": 65, "add_addr_accepted": 1}
    refused = machine.order("apply", settings=[limits], run="a run")
    assert refused["event"] == "refused"
    assert re.search(r"at most (8|64) \(the most that this kernel takes\), found 65", refused["reason"])
    assert machine.look() == before


def test_an_endpoint_laminar_is_made_and_put_back(machine):
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 18):
        lack("endpoints laminar", Thing("Linux 6.18", "elsewhere"))
    before = machine.look()
    setting = {"kind": "endpoint", "address": "10.0.1.2", "device": "eth1", "flags": ["laminar"]}
    machine.apply([setting])
    (standing,) = machine.order("status")["settings"]
    assert standing["state"] == "set" and standing["present"]["flags"] == ["laminar"]
    assert machine.roll_back()["kept"] == []
    assert machine.look() == before


@pytest.mark.needs("bpf")
def test_a_congestion_control_stays_until_the_rollback(machine, program):
    before = machine.look()
    route = {**PLAIN[6], "congctl": program["name"]}
    machine.apply([route, program])
    assert f"congctl {program['name']}" in machine.sh("ip route show 10.9.0.0/16")
    assert machine.sh("ls /sys/fs/bpf/mptune").split() == [program["name"]]
    # Not wanted any more: first the route, then the program.
    machine.apply([PLAIN[6]])
    assert "congctl reno" in machine.sh("ip route show 10.9.0.0/16")
    assert "mptune" not in machine.sh("ls /sys/fs/bpf")
    machine.roll_back()
    assert machine.look() == before


def test_everything_at_once_twice_and_something_else(machine):
    before = machine.look()
    first = machine.apply(PLAIN)
    # The directory of the file that is there already is not made.
    same = [setting["setting"] for setting in first["settings"] if not setting["changed"]]
    assert same == [{"kind": "directory", "path": "/etc/mptune"}]
    assert len(first["settings"]) == len(PLAIN) + TAKEN
    after = machine.look()
    again = machine.apply(PLAIN)
    assert not any(setting["changed"] for setting in again["settings"]) and machine.look() == after
    second = machine.apply(OTHER)
    assert {"limits", "endpoint fd00::2", "net.mptcp.path_manager"} <= {*second["dropped"]}
    befores = [made["before"] for made in second["settings"]]
    assert {"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "4096 16384 4194304"} in befores
    assert machine.roll_back()["kept"] == [] and machine.look() == before
    assert machine.roll_back() == {"event": "rolled-back", "restored": [], "kept": []}
    assert machine.look() == before


# Refusals, which change nothing.


@pytest.mark.parametrize(
    ("setting", "because", "words"),
    [
        ({"kind": "sysctl", "name": "net.ipv4.tcp_nothing", "value": "1"}, "input", "no such setting here"),
        ({"kind": "sysctl", "name": "kernel.panic", "value": "1"}, "input", "setting of the network"),
        ({"kind": "limit", "subflows": 1}, "input", "unknown variant limit"),
        ({"kind": "limits", "subflows": 1, "adresses": 1}, "input", "unknown field adresses"),
        ({"kind": "route", "to": "10.99.0.0/16", "congctl": "reno"}, "input", "there is no such route"),
        (
            {"kind": "endpoint", "address": "10.0.1.9", "device": "eth9", "flags": ["subflow"]},
            "kernel",
            "eth9",
        ),
        ({"kind": "route", "to": "10.0.1.0/24", "congctl": "nonsense"}, "kernel", "10.0.1.0/24"),
        ({"kind": "sysctl", "name": "net.mptcp.enabled", "value": "many"}, "kernel", "net.mptcp.enabled"),
        ({"kind": "congestion", "name": "nonsense", "object": ""}, "kernel", "expected a program"),
        (SYSCTL, "input", "expected once, found twice"),
    ],
)
def test_one_that_fails_takes_all_others_with_it(machine, setting, because, words):
    before = machine.look()
    answer = machine.order("apply", settings=[*PLAIN, setting], run="a run")
    assert (answer["event"], answer["because"]) == ("refused", because) and words in answer["reason"]
    assert machine.look() == before


def test_a_second_apply_that_fails_leaves_the_first(machine):
    before = machine.look()
    machine.apply(PLAIN)
    after = machine.look()
    bad = {"kind": "sysctl", "name": "net.mptcp.enabled", "value": "many"}
    assert machine.order("apply", settings=[*OTHER, bad], run="b")["because"] == "kernel"
    assert machine.look() == after and machine.order("status")["run"] == "a run"
    machine.roll_back()
    assert machine.look() == before


def test_ambiguous_routes_are_refused(machine):
    machine.sh("ip route append 10.9.0.0/16 via 10.0.1.3 dev eth1 metric 50")
    before = machine.look()
    answer = machine.order("apply", settings=[PLAIN[6]], run="")
    assert answer["because"] == "input" and "give via, device or metric" in answer["reason"]
    answer = machine.order("apply", settings=[{**PLAIN[6], "via": "10.0.1.3"}], run="")
    assert answer["because"] == "input" and "several with its metric" in answer["reason"]
    assert machine.look() == before


@pytest.mark.parametrize("options", ["ro", "size=4k,nr_inodes=2", "size=4k"])
def test_without_room_for_the_journal_nothing_is_applied(machine, options):
    machine.state.mkdir()
    machine.sh(f"mount -t tmpfs -o mode=755,{options} none {machine.state}")
    if options == "size=4k":
        machine.sh(f"head -c 4096 /dev/zero > {machine.state}/full")
    before = machine.look()
    answer = machine.order("apply", settings=PLAIN, run="a run")
    assert answer["because"] == "journal" and answer["reason"].startswith(str(machine.state))
    assert "Read-only" in answer["reason"] or "No space" in answer["reason"]
    assert machine.look() == before


def test_a_rollback_needs_no_room(machine):
    machine.state.mkdir()
    machine.sh(f"mount -t tmpfs -o mode=755,size=64k none {machine.state}")
    before = machine.sh("ip -d route; ip mptcp endpoint; ip mptcp limits; " + f"cat {WMEM}")
    machine.apply(PLAIN)
    machine.sh(f"cat /dev/zero > {machine.state}/full 2>/dev/null || true")
    assert machine.roll_back()["kept"] == []
    assert machine.sh("ip -d route; ip mptcp endpoint; ip mptcp limits; " + f"cat {WMEM}") == before
    assert machine.sh(f"ls {machine.state}").split() == ["full"]


def test_without_the_privilege_nothing_is_applied(machine):
    before = machine.look()
    command = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", str(agent.PROGRAM)]
    order = json.dumps({"action": "apply", "settings": [SYSCTL], "run": ""}) + "\n"
    done = subprocess.run(
        machine.inside([*command, "settings"]),
        input=order,
        capture_output=True,
        text=True,
        check=True,
        env=machine.environment(),
    )
    answer = json.loads(done.stdout)
    assert answer["because"] == "privilege" and "needs root" in answer["reason"]
    assert machine.look() == before


def test_two_at_once_are_one_after_the_other_or_one(machine):
    first = machine.start({"action": "apply", "settings": PLAIN, "run": "first"}, MPTUNE_STOP_AT="settings 8")
    assert first.stopped()
    answer = machine.order("apply", settings=OTHER, run="second")
    assert answer["because"] == "busy"
    assert machine.order("rollback")["because"] == "busy"
    os.kill(first.process.pid, signal.SIGCONT)
    assert first.answer()["event"] == "applied"
    assert machine.order("status")["run"] == "first"
    machine.apply(OTHER)


# Others who manage the same.


def test_what_somebody_else_has_changed_is_shown_and_left_alone(machine):
    before = machine.look()
    machine.apply(PLAIN)
    machine.sh(f"echo 1 2 3 > {WMEM}; ip mptcp limits set subflow 5")
    status = machine.order("status")
    changed = [setting["setting"]["kind"] for setting in status["settings"] if setting["state"] == "changed"]
    assert changed == ["sysctl", "limits"]
    answer = machine.order("apply", settings=OTHER, run="b")
    assert answer["because"] == "drift" and "somebody else has set it to" in answer["reason"]
    kept = machine.roll_back()["kept"]
    assert {setting["name"] for setting in kept} == {"net.ipv4.tcp_wmem", "limits"}
    assert machine.sh(f"cat {WMEM}").split() == ["1", "2", "3"]
    assert machine.roll_back(force=True)["kept"] == []
    assert machine.look() == before


def test_drift_can_be_overwritten_and_the_beginning_is_remembered(machine):
    before = machine.look()
    machine.apply([SYSCTL])
    machine.sh(f"echo 1 2 3 > {WMEM}")
    machine.apply([SYSCTL], force=True)
    machine.roll_back()
    assert machine.look() == before


def test_what_is_gone_is_no_reason_to_stop(machine):
    machine.apply(PLAIN)
    machine.sh("ip route del 10.9.0.0/16")
    states = {setting["state"] for setting in machine.order("status")["settings"]}
    assert states == {"set", "gone"}
    (kept,) = machine.roll_back()["kept"]
    assert kept["name"].startswith("route 10.9.0.0/16") and "gone" in kept["reason"]
    assert machine.order("status")["state"] == "nothing"


@pytest.mark.parametrize(
    ("command", "name", "concerned", "unconcerned"),
    [
        ("NetworkManager", "NetworkManager", PLAIN[4], PLAIN[0]),
        ("mptcpd", "mptcpd", PLAIN[1], PLAIN[0]),
        ("tuned", "TuneD", PLAIN[0], PLAIN[2]),
        ("bpftune", "bpftune", PLAIN[0], PLAIN[2]),
    ],
)
def test_who_manages_the_same_is_named(machine, tmp_path, command, name, concerned, unconcerned):
    before = machine.look()
    program = tmp_path / command
    program.symlink_to("/bin/cat")
    other = subprocess.Popen(machine.inside([str(program)]), stdin=subprocess.PIPE)
    try:
        comm = Path(f"/proc/{other.pid}/comm")
        until(lambda: comm.read_text().strip() == command, "the program")
        answer = machine.order("apply", settings=[concerned], run="")
        assert answer["because"] == "foreign" and name in answer["reason"]
        assert machine.order("read", settings=[concerned])["foreign"] == [name]
        assert machine.look() == before
        machine.apply([unconcerned])
        machine.apply([concerned], despite=[name])
        answer = machine.order("apply", settings=[concerned], run="", despite=["nobody"])
        assert answer["because"] == "input" and "expected one of NetworkManager" in answer["reason"]
    finally:
        other.kill()
        other.communicate()
    machine.roll_back()
    assert machine.look() == before


def test_after_a_restart_the_settings_are_the_systems(machine):
    machine.apply([SYSCTL])
    (journal,) = machine.state.glob("applied*.json")
    journal.write_text(json.dumps({**json.loads(journal.read_text()), "boot": "another"}))
    assert machine.order("status")["state"] == "rebooted"
    assert machine.order("status")["state"] == "nothing" and not machine.state.exists()
