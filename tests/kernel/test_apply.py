"""Settings that stay, on the kernel: made, put back byte for byte, and nothing lost whoever is killed."""

import base64
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mptune.linux import agent, bpf
from tests.kernel.settings_world import OTHER, PLAIN, TAKEN, Machine, Setting
from tests.plugins.kills import ending, everywhere
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("root")

WMEM = "/proc/sys/net/ipv4/tcp_wmem"
SYSCTL = PLAIN[0]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def program(machine: Machine) -> Setting:
    """A congestion control that this machine's kernel lacks, under a name that nobody else has."""
    name, content = bpf.private("scalable")
    machine.programs.add(name)
    return {"kind": "congestion", "name": name, "object": base64.b64encode(content).decode()}


def gone(machine: Machine) -> bool:
    return not machine.reverters()


# Each kind


@pytest.mark.parametrize(
    ("setting", "shown", "command"),
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
    ids=lambda one: one["kind"] if isinstance(one, dict) else "",
)
def test_a_setting_is_made_and_put_back(machine, setting, shown, command):
    before = machine.look()
    (made,) = machine.apply([setting])["settings"]
    assert made["changed"] and shown in machine.sh(command)
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
    same = [one["setting"] for one in first["settings"] if not one["changed"]]
    assert same == [{"kind": "directory", "path": "/etc/mptune"}]
    assert len(first["settings"]) == len(PLAIN) + TAKEN
    after = machine.look()
    again = machine.apply(PLAIN)
    assert not any(one["changed"] for one in again["settings"]) and machine.look() == after
    second = machine.apply(OTHER)
    assert {"limits", "endpoint fd00::2", "net.mptcp.path_manager"} <= {*second["dropped"]}
    befores = [made["before"] for made in second["settings"]]
    assert {"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "4096 16384 4194304"} in befores
    assert machine.roll_back()["kept"] == [] and machine.look() == before
    assert machine.roll_back() == {"event": "rolled-back", "restored": [], "kept": []}
    assert machine.look() == before


FILES = PLAIN[-2:]


def test_a_file_is_written_with_its_rights_and_comes_back_with_them(machine):
    before = machine.look()
    policy, answer = machine.apply(FILES)["settings"][-2:]
    assert policy["setting"]["content"] == "[[policy]]\n" and answer["before"]["absent"]
    assert policy["before"]["content"] == '[daemon]\nmode = "auto"\n'
    shown = machine.sh(
        "stat -c '%a %u %g' /etc/mptune/policy.toml /var/lib/mptune/policies/a-run/policy.json"
    )
    assert shown == "640 7 8\n644 0 0\n"
    machine.roll_back()
    assert machine.look() == before


#: Where other users may look for a journal, and an agent that they may start.
STATE, PROGRAM = "/var/lib/state", "/var/lib/agent"


def as_anybody(machine: Machine, *command: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    return subprocess.run(
        machine.inside([*user, *command]),
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=machine.environment(),
    )


def test_what_is_in_a_file_is_told_to_nobody_who_may_not_read_it(machine):
    """Neither before, nor as it was made, by no file that is there between the steps of an apply."""
    machine.state, machine.marks = Path(STATE), {"MPTUNE_STATE_DIRECTORY": STATE}
    machine.sh(f"cp {agent.PROGRAM} {PROGRAM}; chmod 755 {PROGRAM}; chown 0:0 /etc/mptune/policy.toml")
    machine.sh("printf 'the secret of root' > /etc/mptune/policy.toml; chmod 600 /etc/mptune/policy.toml")
    digits = b"the secret of root".hex()
    order = applying([{**FILES[0], "content": "the secret of tomorrow"}], confirm_within_s=600)
    for number in itertools.count(1):
        role = machine.start(order, MPTUNE_STOP_AT=f"settings {number}")
        stopped = role.stopped()
        look = (
            f"ls {STATE} 2> /dev/null; cat {STATE}/* 2> /dev/null | grep -a -e {digits[:24]} -e 'the secret'"
        )
        found = as_anybody(machine, "sh", "-c", look).stdout
        assert digits[:24] not in found and "the secret" not in found, number
        role.kill()
        if not stopped:
            break
    assert number > 10 and "applied" in machine.sh(f"ls {STATE}")
    status = json.dumps({"action": "status"}) + "\n"
    said = json.loads(as_anybody(machine, PROGRAM, "settings", text=status).stdout)
    words = "settings of mptune are applied here, with files: only root may see which"
    assert (said["because"], said["reason"]) == ("privilege", words)
    assert machine.order("status")["state"] == "applied"
    machine.roll_back()
    machine.apply([SYSCTL])
    assert json.loads(as_anybody(machine, PROGRAM, "settings", text=status).stdout)["state"] == "applied"
    machine.roll_back()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("ln -s /etc/passwd /etc/mptune/link", "expected a file, found a link"),
        ("mkfifo /etc/mptune/link", "expected a file, found a named pipe"),
        ("mkdir /etc/mptune/link", "expected a file, found a directory"),
        ("rm -r /etc/mptune; ln -s / /etc/mptune", "expected a directory"),
    ],
)
def test_what_is_no_file_is_left_alone(machine, made, words):
    machine.sh(made)
    before = machine.look()
    file = {"kind": "file", "path": "/etc/mptune/link", "content": "text"}
    said = machine.order("apply", settings=[SYSCTL, file], run="")
    assert said["event"] == "refused" and words in said["reason"]
    assert machine.look() == before


def test_what_somebody_else_wrote_into_a_file_stays(machine):
    machine.apply(FILES)
    machine.sh("echo 'mine' >> /etc/mptune/policy.toml; echo 'mine' > /var/lib/mptune/policies/a-run/notes")
    kept = {one["name"] for one in machine.roll_back()["kept"]}
    assert kept == {
        "file /etc/mptune/policy.toml",
        *(f"directory /var/lib/mptune{rest}" for rest in ("", "/policies", "/policies/a-run")),
    }
    assert machine.sh("cat /etc/mptune/policy.toml") == "[[policy]]\nmine\n"
    assert [one["name"] for one in machine.roll_back(force=True)["kept"]] == []
    assert machine.sh("cat /etc/mptune/policy.toml").startswith("[daemon]")


RUN = "/var/lib/mptune/policies/a-run/run"


def test_an_answer_that_the_daemon_measured_again_is_put_back(machine):
    before = machine.look()
    machine.apply(FILES)
    # As the measuring leaves it: the new answer, and the same in the new run.
    machine.sh(f"mkdir {RUN}; echo new | tee {RUN}/renewed.json > {RUN}/../policy.json")
    assert [one["state"] for one in machine.order("status")["settings"]][-2:] == ["set", "renewed"]
    machine.sh(f"mv {RUN} /var/lib/mptune/aside")
    assert machine.order("status")["settings"][-1]["state"] == "changed"
    machine.sh(f"mv /var/lib/mptune/aside {RUN}")
    kept = machine.roll_back()["kept"]
    assert {one["name"].split()[0] for one in kept} == {"directory"}  # the run is the user's
    machine.sh(f"rm -r {RUN}; rmdir -p /var/lib/mptune/policies/a-run || true")
    assert machine.look() == before


def test_a_renewed_answer_that_somebody_else_changed_stays(machine):
    machine.apply(FILES)
    machine.sh(f"mkdir {RUN}; echo new > {RUN}/renewed.json; echo newer > {RUN}/../policy.json")
    assert machine.order("status")["settings"][-1]["state"] == "changed"
    assert "file /var/lib/mptune/policies/a-run/policy.json" in {
        one["name"] for one in machine.roll_back()["kept"]
    }


def test_files_outlive_a_restart_and_so_does_what_is_known_of_them(machine):
    before = machine.look()
    machine.apply([SYSCTL, *FILES])
    (journal,) = machine.state.glob("applied*.json")
    machine.sh(f"echo 4096 16384 4194304 > {WMEM}")
    journal.write_text(json.dumps({**json.loads(journal.read_text()), "boot": "another"}))
    status = machine.order("status")
    assert status["state"] == "rebooted"
    assert {one["setting"]["kind"] for one in status["settings"]} == {"file", "directory"}
    machine.apply([SYSCTL])
    assert machine.roll_back()["kept"] == []
    assert machine.look() == before


DAEMON = """
import json, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("ready", flush=True)
for answer in sys.argv[2:]:
    one, _ = server.accept()
    order = json.loads(one.makefile().readline())
    with open("/etc/mptune/policy.toml") as file:
        print(order["action"], file.read().split()[0], flush=True)
    one.sendall(json.dumps({"event": "connections", "connections": []}).encode() + b"\\n")
    one.sendall(json.dumps({"event": answer, "reason": "policy.toml: to: expected"}).encode() + b"\\n")
"""


def daemon(machine: Machine, socket: Path, *answers: str) -> "subprocess.Popen[str]":
    """Stands in for the daemon: answers requests, one after the other, and prints them."""
    command = machine.inside([sys.executable, "-c", DAEMON, str(socket), *answers])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def heard(process: "subprocess.Popen[str]") -> list[str]:
    """What it printed."""
    said, _ = process.communicate(timeout=30)
    return said.splitlines()


def test_a_daemon_reads_its_files_again_after_an_apply_and_after_a_rollback(machine, tmp_path):
    socket = tmp_path / "daemon.sock"
    files = [{**FILES[0], "reload": str(socket)}, FILES[1]]
    before = machine.look()
    assert machine.apply(files)["daemon"] == {"state": "absent"}
    assert "daemon" not in machine.apply(files)  # nothing changed
    machine.roll_back()
    process = daemon(machine, socket, "reloaded", "reloaded")
    assert machine.apply(files)["daemon"] == {"state": "reloaded"}
    assert machine.roll_back()["daemon"] == {"state": "reloaded"}
    assert heard(process) == ["reload [[policy]]", "reload [daemon]"]
    assert machine.look() == before


def test_a_policy_that_the_daemon_refuses_is_not_applied(machine, tmp_path):
    socket = tmp_path / "daemon.sock"
    before = machine.look()
    process = daemon(machine, socket, "refused", "reloaded")
    said = machine.order("apply", settings=[SYSCTL, {**FILES[0], "reload": str(socket)}], run="")
    assert said["because"] == "daemon" and said["reason"] == "the daemon: policy.toml: to: expected"
    assert heard(process) == ["reload [[policy]]", "reload [daemon]"]
    assert machine.look() == before


# What is refused changes nothing


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
    said = machine.order("apply", settings=[*PLAIN, setting], run="a run")
    assert (said["event"], said["because"]) == ("refused", because) and words in said["reason"]
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


def test_routes_that_cannot_be_told_apart_are_refused(machine):
    machine.sh("ip route append 10.9.0.0/16 via 10.0.1.3 dev eth1 metric 50")
    before = machine.look()
    said = machine.order("apply", settings=[PLAIN[6]], run="")
    assert said["because"] == "input" and "give via, device or metric" in said["reason"]
    said = machine.order("apply", settings=[{**PLAIN[6], "via": "10.0.1.3"}], run="")
    assert said["because"] == "input" and "several with its metric" in said["reason"]
    assert machine.look() == before


@pytest.mark.parametrize("options", ["ro", "size=4k,nr_inodes=2", "size=4k"])
def test_without_room_for_the_journal_nothing_is_applied(machine, options):
    machine.state.mkdir()
    machine.sh(f"mount -t tmpfs -o mode=755,{options} none {machine.state}")
    if options == "size=4k":
        machine.sh(f"head -c 4096 /dev/zero > {machine.state}/full")
    before = machine.look()
    said = machine.order("apply", settings=PLAIN, run="a run")
    assert said["because"] == "journal" and said["reason"].startswith(str(machine.state))
    assert "Read-only" in said["reason"] or "No space" in said["reason"]
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
    said = json.loads(done.stdout)
    assert said["because"] == "privilege" and "needs root" in said["reason"]
    assert machine.look() == before


def test_two_at_once_are_one_after_the_other_or_one(machine):
    first = machine.start({"action": "apply", "settings": PLAIN, "run": "first"}, MPTUNE_STOP_AT="settings 8")
    assert first.stopped()
    said = machine.order("apply", settings=OTHER, run="second")
    assert said["because"] == "busy"
    assert machine.order("rollback")["because"] == "busy"
    os.kill(first.process.pid, signal.SIGCONT)
    assert first.answer()["event"] == "applied"
    assert machine.order("status")["run"] == "first"
    machine.apply(OTHER)


# Others


def test_what_somebody_else_has_changed_is_shown_and_left_alone(machine):
    before = machine.look()
    machine.apply(PLAIN)
    machine.sh(f"echo 1 2 3 > {WMEM}; ip mptcp limits set subflow 5")
    status = machine.order("status")
    changed = [one["setting"]["kind"] for one in status["settings"] if one["state"] == "changed"]
    assert changed == ["sysctl", "limits"]
    said = machine.order("apply", settings=OTHER, run="b")
    assert said["because"] == "drift" and "somebody else has set it to" in said["reason"]
    kept = machine.roll_back()["kept"]
    assert {one["name"] for one in kept} == {"net.ipv4.tcp_wmem", "limits"}
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
    states = {one["state"] for one in machine.order("status")["settings"]}
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
        said = machine.order("apply", settings=[concerned], run="")
        assert said["because"] == "foreign" and name in said["reason"]
        assert machine.order("read", settings=[concerned])["foreign"] == [name]
        assert machine.look() == before
        machine.apply([unconcerned])
        machine.apply([concerned], despite=[name])
        said = machine.order("apply", settings=[concerned], run="", despite=["nobody"])
        assert said["because"] == "input" and "expected one of NetworkManager" in said["reason"]
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


# Kills


def killed(machine: Machine, order: dict[str, Any], number: int, **environment: str) -> bool:
    """Kill the role after a changing system call of an order; false if the order has not that many."""
    role = machine.start(order, MPTUNE_STOP_AT=f"settings {number}", **environment)
    if role.stopped():
        role.kill()
        return True
    assert role.answer()["event"] != "refused"
    return False


def matrix(machine: Machine, name: str, earlier: list[dict[str, Any]], order: dict[str, Any]) -> int:
    """Kill after each changing system call of an order; after each, a rollback leaves nothing. How many."""
    before = machine.look()

    def kills_at(number: int) -> bool:
        for one in earlier:
            assert machine.start(one).answer()["event"] != "refused"
        if not killed(machine, order, number):
            return False
        left = machine.look()
        kept = machine.roll_back()["kept"]
        after = machine.look()
        assert kept == [] and after == before, (name, number, left)
        return True

    count = everywhere(name, kills_at)
    machine.roll_back()
    assert machine.look() == before
    until(lambda: gone(machine), "the end of those that wait for a confirmation")
    return count


ROLLBACK = {"action": "rollback"}
CONFIRM = {"action": "confirm"}


def applying(settings: list[Setting], **more: object) -> dict[str, Any]:
    return {"action": "apply", "settings": settings, "run": "a run", **more}


@pytest.mark.needs("bpf")
def test_a_kill_anywhere_in_an_apply_can_be_rolled_back(machine, program):
    settings = [*PLAIN, {**PLAIN[6], "to": "10.0.1.0/24", "congctl": program["name"]}, program]
    assert matrix(machine, "apply", [], applying(settings)) > len(settings)


@pytest.mark.needs("bpf")
def test_a_kill_anywhere_in_a_second_apply_can_be_rolled_back(machine, program):
    first = applying([*PLAIN, {**PLAIN[6], "to": "10.0.1.0/24", "congctl": program["name"]}, program])
    assert matrix(machine, "second apply", [first], applying(OTHER)) > len(PLAIN)


@pytest.mark.needs("bpf")
def test_a_kill_anywhere_in_a_rollback_can_be_rolled_back(machine, program):
    settings = [*PLAIN, {**PLAIN[6], "to": "10.0.1.0/24", "congctl": program["name"]}, program]
    assert matrix(machine, "rollback", [applying(settings)], ROLLBACK) > len(settings)


def test_a_kill_anywhere_in_an_apply_that_fails_can_be_rolled_back(machine):
    bad = {"kind": "route", "to": "10.0.1.0/24", "congctl": "nonsense"}
    before = machine.look()

    def kills_at(number: int) -> bool:
        role = machine.start(applying([*PLAIN, bad]), MPTUNE_STOP_AT=f"settings {number}")
        if not role.stopped():
            assert role.answer()["because"] == "kernel"
            return False
        role.kill()
        assert machine.roll_back()["kept"] == [] and machine.look() == before, number
        return True

    assert everywhere("an apply that fails", kills_at) > 2 * len(PLAIN)
    assert machine.look() == before


def test_a_kill_anywhere_around_a_confirmation_can_be_rolled_back(machine):
    order = applying(PLAIN[:3], confirm_within_s=600)
    assert matrix(machine, "apply that waits", [], order) > 8
    assert matrix(machine, "confirmation", [order], CONFIRM) > 3
    assert matrix(machine, "rollback of one that waits", [order], ROLLBACK) > 7


# Confirmations


def test_a_reverter_that_is_killed_anywhere_leaves_the_rest_to_a_rollback(machine):
    before = machine.look()
    order = applying(PLAIN, confirm_within_s=1)

    def kills_at(number: int) -> bool:
        assert machine.start(order, MPTUNE_STOP_AT=f"reverter {number}").answer()["event"] == "applied"
        (pid,) = until(lambda: machine.reverters(), "a process that waits")
        if ending(pid) == "Z":
            return False
        os.kill(pid, signal.SIGKILL)
        until(lambda: gone(machine), "its end")
        assert machine.roll_back()["kept"] == [] and machine.look() == before, number
        return True

    assert everywhere("reverter", kills_at) > len(PLAIN)
    assert machine.order("status")["reverted"]["kept"] == []
    machine.roll_back()
    assert machine.look() == before


@pytest.mark.needs("bpf")
def test_nobody_confirms_and_everything_returns_although_the_session_is_killed(machine, program):
    before = machine.look()
    order = json.dumps(applying([*PLAIN, program], confirm_within_s=2))
    shell = subprocess.Popen(
        machine.inside(["sh", "-c", f"{agent.PROGRAM} settings; cat"]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=machine.environment(MPTUNE_RUN="1-1-1"),
    )
    assert shell.stdin is not None and shell.stdout is not None
    shell.stdin.write(order + "\n")
    shell.stdin.flush()
    assert json.loads(shell.stdout.readline())["event"] == "applied"
    (reverter,) = machine.reverters()
    assert os.getsid(reverter) == reverter != os.getsid(shell.pid)
    # `mptune clean` does not take it for a leftover.
    assert b"MPTUNE_RUN" not in Path(f"/proc/{reverter}/environ").read_bytes()
    # The program may be removed meanwhile.
    assert Path(f"/proc/{reverter}/exe").readlink().parent == machine.state
    os.killpg(shell.pid, signal.SIGHUP)
    os.killpg(shell.pid, signal.SIGKILL)
    shell.communicate()
    os.kill(reverter, signal.SIGTERM)
    assert machine.order("status")["confirm"]["by"] == "process"
    until(lambda: gone(machine), "the return")
    status = machine.order("status")
    assert status["state"] == "nothing" and status["reverted"]["kept"] == []
    assert len(status["reverted"]["restored"]) == len(PLAIN) + TAKEN + 2
    machine.roll_back()  # forgets that it happened
    assert machine.look() == before


def test_what_is_confirmed_stays(machine):
    before = machine.look()
    machine.apply(PLAIN, confirm_within_s=600)
    assert len(machine.reverters()) == 1
    assert 0 < machine.order("status")["confirm"]["left_s"] <= 600
    assert machine.order("confirm") == {"event": "confirmed", "waited": True}
    until(lambda: gone(machine), "the end of what waits")
    status = machine.order("status")
    assert status["confirm"] is None and {one["state"] for one in status["settings"]} == {"set"}
    assert machine.order("confirm")["waited"] is False
    machine.roll_back()
    assert machine.look() == before
    assert machine.order("confirm")["because"] == "input"


def test_another_apply_and_a_rollback_end_the_waiting(machine):
    before = machine.look()
    machine.apply(PLAIN, confirm_within_s=600)
    (first,) = machine.reverters()
    machine.apply(OTHER, confirm_within_s=600)
    until(lambda: first not in machine.reverters(), "the end of the first")
    assert len(machine.reverters()) == 1
    machine.roll_back()
    until(lambda: gone(machine), "the end of the second")
    assert machine.look() == before


def test_what_could_not_be_put_back_by_itself_is_said(machine):
    machine.apply(PLAIN[:3], confirm_within_s=1)
    machine.sh(f"echo 1 2 3 > {WMEM}")
    until(lambda: gone(machine), "the return")
    status = machine.order("status")
    (kept,) = status["reverted"]["kept"]
    assert kept["name"] == "net.ipv4.tcp_wmem" and "1 2 3" in kept["reason"]
    (left,) = status["settings"]
    assert left["state"] == "changed"
    assert machine.roll_back(force=True)["kept"] == []


SYSTEMD_RUN = """#!/bin/sh
echo "$@" > {said}
while [ "${{1#--}}" != "$1" ]; do shift; done
setsid "$@" < /dev/null > /dev/null 2>&1 &
"""


def test_where_systemd_runs_a_unit_of_it_waits(machine, tmp_path):
    before = machine.look()
    programs, said, running = tmp_path / "bin", tmp_path / "said", tmp_path / "running"
    programs.mkdir()
    running.mkdir()
    (programs / "systemd-run").write_text(SYSTEMD_RUN.format(said=said))
    (programs / "systemd-run").chmod(0o755)
    there = {"PATH": f"{programs}:{os.environ['PATH']}", "MPTUNE_SYSTEMD_DIRECTORY": str(running)}
    role = machine.start(applying(PLAIN[:3], confirm_within_s=1), **there)
    assert role.answer()["confirm"]["by"] == "systemd"
    words = said.read_text().split()
    assert "--collect" in words and "--property=Restart=on-failure" in words
    assert f"--setenv=MPTUNE_STATE_DIRECTORY={machine.state}" in words and words[-1] == "reverter"
    until(lambda: machine.order("status")["reverted"], "the return")
    until(lambda: gone(machine), "its end")
    machine.roll_back()
    assert machine.look() == before
    # Where it does not take the unit, a process waits.
    (programs / "systemd-run").write_text("#!/bin/sh\nexit 1\n")
    role = machine.start(applying(PLAIN[:3], confirm_within_s=600), **there)
    assert role.answer()["confirm"]["by"] == "process"
    machine.roll_back()
    until(lambda: gone(machine), "its end")
    assert machine.look() == before
