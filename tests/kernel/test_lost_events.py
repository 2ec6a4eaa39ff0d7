"""A path manager after lost events: it looks at what there is. Floods take too long in a guest."""

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.plugins.crowd import dropped
from tests.plugins.netlink import inside
from tests.plugins.path_world import Managed, connections
from tests.plugins.waiting import until

pytestmark = pytest.mark.usefixtures("may_manage_paths")

#: include/net/tcp_states.h
SYN_SENT = "02"


def test_lost_events_are_made_up_for_by_a_look_at_what_there_is(world):
    def live(managed: Managed) -> list[list[str]]:
        living = [report["subflows"] for report in managed.reports() if report["closed_ns"] is None]
        return [[subflow["state"] for subflow in subflows] for subflows in living]

    with world.managed("fullmesh") as managed:
        with connections(world, 20):
            until(lambda: live(managed) == [["established"] * 4] * 20)
            os.kill(managed.sender.pid, signal.SIGSTOP)
        while dropped(world.sites.local) == 0:
            with connections(world, 100):
                pass
        with connections(world, 30):
            os.kill(managed.sender.pid, signal.SIGCONT)
            until(lambda: live(managed) == [["established"] * 4] * 30)
        until(lambda: live(managed) == [])


def test_a_join_that_failed_among_lost_events_is_not_waited_for(world):
    def states() -> dict[str, str]:
        reports = [report for report in managed.reports() if report["closed_ns"] is None]
        return {subflow["path"]: subflow["state"] for report in reports for subflow in report["subflows"]}

    def handshakes() -> int:
        lines = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        return [line.split()[3] for line in lines].count(SYN_SENT)

    with world.managed("fullmesh") as managed, ExitStack() as stack:
        still_cut = stack.enter_context(ExitStack())
        still_cut.enter_context(world.cut("1-1"))
        with world.cut("0-1"):
            stack.enter_context(connections(world, 1, "10.65.0.1"))
            until(lambda: states().get("1-0") == "established")
            os.kill(managed.sender.pid, signal.SIGSTOP)
            before = dropped(world.sites.local)
            while dropped(world.sites.local) == before:
                with connections(world, 100):
                    pass
        until(lambda: inside(world.sites.local, handshakes) == 1, "the end of the join on path 0-1")
        os.kill(managed.sender.pid, signal.SIGCONT)
        expected = {"0-0": "established", "0-1": "refused", "1-0": "established", "1-1": "joining"}
        until(lambda: states() == expected, f"{expected}")
        assert managed.reports()[0]["problems"] == ["0-1: the join failed among events that were lost"]
        still_cut.close()
        until(lambda: states() == {**expected, "1-1": "refused"}, "the end of the join on path 1-1")
