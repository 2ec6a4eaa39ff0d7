"""The whole chain between two machines, as a user types it, and what an ordinary program gains by it; also
where the sender is a router with busybox alone.

Two uplinks that are alike, of which a kernel that is left alone uses one: an answer doubles what it has.
"""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest

from mptune.machines.ssh import VARIABLE
from tests.hosts.traffic import connected, mptcp, rate_mbps
from tests.hosts.world import SERVER, Side, Uplink, World
from tests.plugins.program import command_line
from tests.plugins.reruns import spoiled

#: What both uplinks have together, and one of them: payload of 40 and 20 Mbit/s, Mbit/s.
BOTH, ONE = 38.2, 19.1
#: Short trials and few candidates: not which answer is the best, but one that is better than one path.
ASKED = ("--pm", "fullmesh,default", "--cc", "cubic", "--buffers", "512KiB,1MiB", "--buffer-mode", "auto")
BUDGET = ("--duration", "2s", "--budget", "40s", "--no-tcp")


#: Alice has the same uplink twice: half of what it adds is far beyond what two transfers differ by.
TWICE = Side(uplinks=(Uplink(), Uplink()))


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    """Two machines like any other."""
    return make_world((TWICE, SERVER))


@pytest.fixture(scope="module")
def routed(make_world: Callable[..., World]) -> World:
    """Alice has busybox, and no other program or library, and /var/lib, which routers make when needed."""
    made = make_world((replace(TWICE, small=True), SERVER))
    made.alice.file("/small/tmp/lib").mkdir()
    return made


def mptune(world: World, tmp_path, *words: object) -> subprocess.CompletedProcess[str]:
    """A command line, whatever becomes of it."""
    return subprocess.run(
        command_line(*words),
        cwd=tmp_path,
        env={**os.environ, VARIABLE: str(world.bin / "ssh")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def typed(world: World, tmp_path, *words: object) -> str:
    """Output of a command, which must not fail."""
    done = mptune(world, tmp_path, *words)
    if done.returncode and "overloaded" in done.stderr:
        spoiled(done.stderr.strip())
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def transfer_mbps(world: World) -> tuple[float, int]:
    """Throughput to bob of a program of alice's that sets nothing, and its subflows."""
    with connected(world) as ends:
        rate = rate_mbps(ends.client, ends.server, 12_000_000)
        return rate, mptcp(ends.client).subflows


@pytest.mark.measures("how fast a short transfer is")
def test_what_was_measured_is_applied_shown_to_help_confirmed_and_taken_back(world, tmp_path):
    run = "runs/world"
    with world.unchanged():
        alone, subflows = transfer_mbps(world)
        assert subflows == 1 and alone <= ONE * 1.05
        brief = ("--max-data", "4MB", "--max-time", "1s", "--family", "ipv4", "--quiet")
        typed(world, tmp_path, "probe", "alice", "bob", "--out", "world.toml", *brief)
        where = ("--testbed", "hosts", "--out", run, "--quiet", "--json")
        typed(world, tmp_path, "optimise", "world.toml", *where, *ASKED, *BUDGET)
        assert "Read: ssh alice" in typed(world, tmp_path, "advise", run)

        # Of three runs, one with a slow start too many hides the gain.
        short = ("--runs", "5", "--seconds", "2", "--json")
        limits = ("--confirm-within", "10min", "--verify")
        verified = json.loads(typed(world, tmp_path, "apply", run, *limits, *short))
        verdict = verified["verdict"]
        before, after = (verdict[when]["summary"]["mean"] for when in ("before", "after"))
        assert verdict["kept"] and verdict["gain"]["least"] > verdict["needed"] > 0
        assert before < ONE * 1.05 < after < BOTH * 1.05
        assert len(verdict["before"]["last"]["subflows"]) == 1
        assert len(verdict["after"]["last"]["subflows"]) == 2

        status = json.loads(typed(world, tmp_path, "status", run, "--json"))
        waiting = [answer["confirm"]["left_s"] for answer in status.values()]
        assert len(waiting) == 2 and all(0 < left <= 600 for left in waiting)
        typed(world, tmp_path, "apply", run, "--confirm")
        status = json.loads(typed(world, tmp_path, "status", run, "--json"))
        assert {setting["state"] for machine in status.values() for setting in machine["settings"]} == {"set"}
        together, subflows = transfer_mbps(world)
        assert subflows == 2 and together > ONE * 1.05  # no single path carries that
        typed(world, tmp_path, "rollback", run)


@pytest.mark.needs("busybox")
@pytest.mark.measures("how fast a short transfer is")
def test_a_router_is_told_why_what_to_set_gains_by_it_and_goes_back(routed, tmp_path):
    run, on_hosts = "runs/routed", ("--testbed", "hosts", "--quiet", "--json")
    with routed.unchanged():
        brief = ("--max-data", "4MB", "--max-time", "1s", "--family", "ipv4", "--quiet")
        typed(routed, tmp_path, "probe", "alice", "bob", "--out", "routed.toml", *brief)

        # Its kernel opens one subflow, which is what programs miss: no path, and no buffer.
        asked = ("why", "routed.toml", *on_hosts, "--one-way", "--budget", "12s")
        (direction,) = json.loads(typed(routed, tmp_path, *asked))["directions"]
        (cause,) = (cause for cause in direction["causes"] if cause["kind"] == "subflows")
        assert cause["mbps"] > ONE / 2
        second = routed.uplink("alice", 1)
        assert f"on alice: ip mptcp endpoint add {second.ipv4} dev {second.device} subflow" in cause["remedy"]

        few = ("--pm", "fullmesh", "--cc", "cubic", "--buffers", "1MiB", "--buffer-mode", "auto")
        spending = ("--duration", "1s", "--budget", "30s", "--no-tcp")
        typed(routed, tmp_path, "optimise", "routed.toml", *on_hosts, "--out", run, *few, *spending)
        short = ("--verify", "--runs", "3", "--seconds", "1", "--json")
        verdict = json.loads(typed(routed, tmp_path, "apply", run, *short))["verdict"]
        assert verdict["kept"] and len(verdict["after"]["last"]["subflows"]) == 2
        assert transfer_mbps(routed)[1] == 2
        typed(routed, tmp_path, "rollback", run)
