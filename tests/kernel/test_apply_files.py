"""Files as settings that stay: written, put back with their rights, and read again by the daemon."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from mptune.linux import agent
from tests.kernel.settings_world import PLAIN, SYSCTL, WMEM, Machine, applying
from tests.plugins.waiting import PATIENCE_S

pytestmark = pytest.mark.needs("root")

FILES = PLAIN[-2:]


def test_a_file_is_written_with_its_rights_and_comes_back_with_them(machine):
    before = machine.look()
    policy, answer = machine.apply(FILES)["settings"][-2:]
    assert policy["setting"]["content"] == "[[policy]]\n" and answer["before"]["absent"]
    assert policy["before"]["content"] == '[daemon]\nmode = "auto"\n'
    rights = machine.sh(
        "stat -c '%a %u %g' /etc/mptune/policy.toml /var/lib/mptune/policies/a-run/policy.json"
    )
    assert rights == "640 7 8\n644 0 0\n"
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


def test_the_content_of_a_file_stays_hidden_from_those_who_may_not_read_it(machine):
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
        visible = as_anybody(machine, "sh", "-c", look).stdout
        assert digits[:24] not in visible and "the secret" not in visible, number
        role.kill()
        if not stopped:
            break
    assert number > 10 and "applied" in machine.sh(f"ls {STATE}")
    status = json.dumps({"action": "status"}) + "\n"
    answer = json.loads(as_anybody(machine, PROGRAM, "settings", text=status).stdout)
    words = "settings of mptune are applied here, with files: only root may see which"
    assert (answer["because"], answer["reason"]) == ("privilege", words)
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
    answer = machine.order("apply", settings=[SYSCTL, file], run="")
    assert answer["event"] == "refused" and words in answer["reason"]
    assert machine.look() == before


def test_what_somebody_else_wrote_into_a_file_stays(machine):
    machine.apply(FILES)
    machine.sh("echo 'mine' >> /etc/mptune/policy.toml; echo 'mine' > /var/lib/mptune/policies/a-run/notes")
    kept = {setting["name"] for setting in machine.roll_back()["kept"]}
    assert kept == {
        "file /etc/mptune/policy.toml",
        *(f"directory /var/lib/mptune{rest}" for rest in ("", "/policies", "/policies/a-run")),
    }
    assert machine.sh("cat /etc/mptune/policy.toml") == "[[policy]]\nmine\n"
    assert [setting["name"] for setting in machine.roll_back(force=True)["kept"]] == []
    assert machine.sh("cat /etc/mptune/policy.toml").startswith("[daemon]")


RUN = "/var/lib/mptune/policies/a-run/run"


def test_an_answer_that_the_daemon_measured_again_is_put_back(machine):
    before = machine.look()
    machine.apply(FILES)
    # As the measuring leaves it: the new answer, and the same in the new run.
    machine.sh(f"mkdir {RUN}; echo new | tee {RUN}/renewed.json > {RUN}/../policy.json")
    assert [setting["state"] for setting in machine.order("status")["settings"]][-2:] == ["set", "renewed"]
    machine.sh(f"mv {RUN} /var/lib/mptune/aside")
    assert machine.order("status")["settings"][-1]["state"] == "changed"
    machine.sh(f"mv /var/lib/mptune/aside {RUN}")
    kept = machine.roll_back()["kept"]
    assert {setting["name"].split()[0] for setting in kept} == {"directory"}  # the run is the user's
    machine.sh(f"rm -r {RUN}; rmdir -p /var/lib/mptune/policies/a-run || true")
    assert machine.look() == before


def test_a_renewed_answer_that_somebody_else_changed_stays(machine):
    machine.apply(FILES)
    machine.sh(f"mkdir {RUN}; echo new > {RUN}/renewed.json; echo newer > {RUN}/../policy.json")
    assert machine.order("status")["settings"][-1]["state"] == "changed"
    assert "file /var/lib/mptune/policies/a-run/policy.json" in {
        setting["name"] for setting in machine.roll_back()["kept"]
    }


def test_files_outlive_a_restart_and_so_does_what_is_known_of_them(machine):
    before = machine.look()
    machine.apply([SYSCTL, *FILES])
    (journal,) = machine.state.glob("applied*.json")
    machine.sh(f"echo 4096 16384 4194304 > {WMEM}")
    journal.write_text(json.dumps({**json.loads(journal.read_text()), "boot": "another"}))
    status = machine.order("status")
    assert status["state"] == "rebooted"
    assert {setting["setting"]["kind"] for setting in status["settings"]} == {"file", "directory"}
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
    """Its output."""
    output, _ = process.communicate(timeout=PATIENCE_S)
    return output.splitlines()


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
    answer = machine.order("apply", settings=[SYSCTL, {**FILES[0], "reload": str(socket)}], run="")
    assert answer["because"] == "daemon" and answer["reason"] == "the daemon: policy.toml: to: expected"
    assert heard(process) == ["reload [[policy]]", "reload [daemon]"]
    assert machine.look() == before
