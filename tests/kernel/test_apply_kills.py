"""Settings that stay, when processes are killed at any step, and when nobody confirms them."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mptune.linux import agent
from tests.kernel.settings_world import OTHER, PLAIN, TAKEN, WMEM, Machine, applying, gone
from tests.plugins.kills import ending, everywhere
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("root")


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
        for step in earlier:
            assert machine.start(step).answer()["event"] != "refused"
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


# Confirmations.


def test_a_reverter_that_is_killed_anywhere_leaves_the_rest_to_a_rollback(machine):
    before = machine.look()
    order = applying(PLAIN, confirm_within_s=1)

    def kills_at(number: int) -> bool:
        assert machine.start(order, MPTUNE_STOP_AT=f"reverter {number}").answer()["event"] == "applied"
        # The answer has waited for it: it waits too, or its time was over.
        pids = machine.reverters()
        if not pids or ending(pids[0]) == "Z":
            return False
        os.kill(pids[0], signal.SIGKILL)
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
    order = json.dumps(applying([*PLAIN, program], confirm_within_s=20))
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
    assert status["confirm"] is None and {setting["state"] for setting in status["settings"]} == {"set"}
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


def test_what_could_not_be_put_back_by_itself_is_reported(machine):
    machine.apply(PLAIN[:3], confirm_within_s=20)
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
    programs, arguments, running = tmp_path / "bin", tmp_path / "said", tmp_path / "running"
    programs.mkdir()
    running.mkdir()
    (programs / "systemd-run").write_text(SYSTEMD_RUN.format(said=arguments))
    (programs / "systemd-run").chmod(0o755)
    there = {"PATH": f"{programs}:{os.environ['PATH']}", "MPTUNE_SYSTEMD_DIRECTORY": str(running)}
    role = machine.start(applying(PLAIN[:3], confirm_within_s=1), **there)
    assert role.answer()["confirm"]["by"] == "systemd"
    words = arguments.read_text().split()
    assert {"--collect", "--property=Restart=on-failure", "--property=Type=exec"} <= set(words)
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
