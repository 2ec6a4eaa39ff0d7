"""Settings that stay on hosts: made and put back over ssh, and put back by themselves when ssh is gone."""

import pytest

from mptune.apply import apply
from mptune.apply.apply import Target, Wanted
from mptune.apply.records import Setting
from mptune.errors import MptuneError
from mptune.machines.ssh import VARIABLE
from tests.plugins.waiting import until

WMEM = "net.ipv4.tcp_wmem"
SETTINGS: list[Setting] = [
    {"kind": "sysctl", "name": WMEM, "value": "4096 16384 741376"},
    {"kind": "limits", "subflows": 3, "add_addr_accepted": 2},
]
ALICE, BOB = Target("alice", "alice"), Target("bob", "bob")


@pytest.fixture(autouse=True)
def _ssh(world, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(world.bin / "ssh"))


def setups(*targets: Target) -> list[Wanted]:
    return [Wanted(target, lambda _place: SETTINGS) for target in targets]


def reverters(machine) -> list[int]:
    return [pid for pid, _, words in machine.processes() if "reverter" in words]


def test_both_hosts_are_changed_and_put_back(world):
    with world.alice.unchanged(), world.bob.unchanged():
        done = apply.apply(setups(ALICE, BOB), run="a run", confirm_within_s=600)
        assert [name for name, _ in done] == ["alice", "bob"]
        assert (
            world.alice.sysctl(WMEM).split() == world.bob.sysctl(WMEM).split() == ["4096", "16384", "741376"]
        )
        assert [answer.waited for _, answer in apply.confirm([ALICE, BOB])] == [True, True]
        until(lambda: not reverters(world.alice) and not reverters(world.bob), "the end of what waits")
        assert {answer.state for _, answer in apply.status([ALICE, BOB])} == {"applied"}
        assert [answer.kept for _, answer in apply.roll_back([ALICE, BOB])] == [[], []]


def test_a_host_that_nobody_reaches_any_more_puts_everything_back(world):
    with world.alice.unchanged():
        apply.apply(setups(ALICE), run="a run", confirm_within_s=3)
        world.alice.kill_sshd()
        with pytest.raises(MptuneError, match="unreachable"):
            apply.confirm([ALICE])
        until(lambda: not reverters(world.alice), "the return")
        world.alice.start_sshd()
        ((_, status),) = apply.status([ALICE])
        assert status.state == "nothing" and status.reverted is not None and not status.reverted.kept
        apply.roll_back([ALICE])


def test_one_host_that_refuses_leaves_none_changed(world):
    with world.alice.unchanged(), world.bob.unchanged():
        bad: Setting = {"kind": "sysctl", "name": "net.mptcp.enabled", "value": "many"}
        both = [*setups(ALICE), Wanted(BOB, lambda _place: [*SETTINGS, bad])]
        with pytest.raises(apply.Refused, match=r"bob: net\.mptcp\.enabled: .*; alice was rolled back"):
            apply.apply(both, run="a run")
