"""The screen by its content: keys in, text out. An agent of the tests reports what there is."""

import asyncio
import os
import re
from contextlib import asynccontextmanager

import pytest

from mptune.monitor.figures import Machine
from mptune.monitor.screen import WatchApp
from mptune.monitor.screen.dialogs import Confirm, Help
from mptune.monitor.screen.table import Table
from mptune.monitor.shape import Happening, census
from tests.monitor.reports import MBYTE, FakeAgent, connection, report, subflow

#: Of the 16 colours of a terminal: red, green, magenta and cyan; yellow and white vanish on light ones.
READABLE = {1, 2, 5, 6}


def at(at_s, **others):
    """Two connections: rsync on two subflows at 8 Mbit/s, and an idle curl that fell back."""
    flows = subflow(1, acked_bytes=at_s * MBYTE, busy_ns=at_s * 10**9), subflow(2, backup=True)
    rsync = connection(1, *flows, acked_bytes=at_s * MBYTE, command="rsync")
    return report(at_s, rsync, connection(2, subflow(3), fallback=True), **others)


class Screen:
    """The app with its keys and its text."""

    def __init__(self, app, pilot, agent):
        self.app, self.pilot, self.agent = app, pilot, agent

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def hear(self, message):
        """Let the agent send something, and wait until the screen has taken it in."""
        before = [machine.census for machine in self.app._machines.values()]
        self.agent.say(message)
        await self.until(
            lambda: (
                message["event"] != "connections"
                or self.app.paused
                or [machine.census for machine in self.app._machines.values()] != before
            )
        )

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition():
                await self.pilot.pause(0.01)
        await self.pilot.pause()

    def lines(self):
        """Lines of the screen."""
        width, _ = self.app.size
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip)[:width].rstrip() for strip in strips]

    def notified(self, words):
        """A notification has these words, which may wrap."""
        return any(words in notification.message for notification in self.app._notifications)

    def text(self):
        return "\n".join(self.lines())


@asynccontextmanager
async def displayed(size=(80, 24), first=None, daemon=None):
    agent = FakeAgent()
    machine = Machine().update(census(first or at(1)))
    app = WatchApp({"": agent}, {"": machine}, daemon)
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            await pilot.pause()
            yield Screen(app, pilot, agent)
    finally:
        agent.end()


def scene(function):
    """A test that is a coroutine."""

    def test():
        asyncio.run(function())

    test.__doc__ = function.__doc__
    return test


@scene
async def test_a_screen_of_80_by_24_has_everything():
    async with displayed() as screen:
        await screen.hear(at(2))
        await screen.press("e")
        lines = screen.lines()
        assert len(lines) == 24 and max(map(len, lines)) <= 80
        assert lines[0].startswith("2 connections, 3 subflows  sent 8.00, received 0 Mbit/s  by rate")
        assert re.match(r"connection +Mbit/s course +RTT ms loss % role +limit", lines[1])
        assert re.match(r"- rsync > 10\.9\.0\.1:443 +8\.00 +█ +20\.0 +0 1\+1 +path", lines[2])
        assert re.match(r"   eth1 10\.0\.1\.2 > 10\.9\.0\.1 +8\.00 +█ +20\.0 +0 active +path", lines[3])
        assert re.match(r"   eth2 10\.0\.2\.2 > 10\.9\.0\.1 +0 +40\.0 +- standby +idle", lines[4])
        assert re.match(r"- curl > .* TCP +idle", lines[5])
        assert "token 00000001  MPTCP" in screen.text() and "pid 77" in screen.text()
        assert "Quit" in lines[-1] and "Help" in lines[-1]


@scene
async def test_every_subflow_has_its_course_and_a_held_one_says_why():
    async with displayed() as screen:
        for at_s in range(1, 6):
            held = subflow(2, acked_bytes=at_s * MBYTE, held=True, cc="mptune_prefer")
            await screen.hear(report(at_s, connection(1, subflow(1, acked_bytes=at_s**3 * MBYTE), held)))
        await screen.press("e", "down", "down")
        lines = screen.lines()
        assert re.match(r"   eth1 .* +[▁▂▃▄]+▅?█ +20\.0 ", lines[3])
        assert re.match(r"   eth2 .* +8\.00 +█{4} +40\.0 +0 active +held", lines[4])
        assert "held: paths before it have room" in screen.text()


@scene
async def test_its_colours_are_readable_on_light_and_on_dark_terminals():
    """The terminal's own ink and ground, and of its colours those that stand out from both."""
    async with displayed() as screen:
        lost = subflow(2, timeouts_in_a_row=4, silent_ns=10**10)
        await screen.hear(report(2, connection(1, subflow(1), lost), limits=["processes: they take root"]))
        await screen.press("e")
        strips = screen.app.screen._compositor.render_strips()
        styles = [segment.style for strip in strips for segment in strip if segment.text.strip()]
        inks = {style.color.number if style.color else None for style in styles}
        grounds = {style.bgcolor.number if style.bgcolor else None for style in styles}
        assert inks <= {None, *READABLE} and grounds == {None}


@scene
async def test_the_help_keeps_its_columns():
    async with displayed() as screen:
        await screen.press("question_mark")
        words = ("select a row", "quit", "after a question", "pause")
        assert len({line.index(one) for one in words for line in screen.lines() if one in line}) == 1


@scene
async def test_a_wide_screen_has_more_columns():
    async with displayed((160, 40)) as screen:
        await screen.hear(at(2))
        assert screen.lines()[1].split()[-6:] == ["cc", "cwnd", "sent", "received", "timeouts", "pid"]
        assert screen.lines()[2].split()[-1] == "77" and "cubic" in screen.lines()[2]


@scene
async def test_the_selection_stays_with_its_connection_when_the_order_changes():
    async with displayed() as screen:
        await screen.press("down")
        assert screen.app.query_one(Table).row.connection.now.token == 2
        faster = connection(2, subflow(3), acked_bytes=100 * MBYTE, fallback=True)
        await screen.hear(report(2, connection(1), faster))
        table = screen.app.query_one(Table)
        assert [row.connection.now.token for row in table.rows] == [2, 1]
        assert table.row.connection.now.token == 2


@scene
async def test_enter_opens_and_closes_and_s_sorts():
    async with displayed() as screen:
        await screen.press("enter")
        assert "eth1" in screen.text() and "eth3" not in screen.text()
        await screen.press("down", "enter")
        assert "eth1" not in screen.text()
        await screen.press("s", "S")
        assert "by RTT, turned" in screen.lines()[0]


@scene
async def test_the_filter_works_while_it_is_typed_and_escape_ends_it():
    async with displayed() as screen:
        await screen.press("slash", *"curl")
        assert "rsync" not in screen.text() and "filter: curl" in screen.lines()[0]
        await screen.press("enter", "q")  # q is a key again, not a letter
        assert not screen.app.is_running or screen.app._exit
    async with displayed() as screen:
        await screen.press("slash", *"xyz", "escape")
        assert "rsync" in screen.text() and "filter" not in screen.lines()[0]


@scene
async def test_pinned_connections_are_marked_and_stay():
    async with displayed() as screen:
        await screen.press("down", "x")
        assert screen.lines()[2].startswith("+*curl")
        await screen.press("x")
        assert screen.lines()[2].startswith("+ ") and "*" not in screen.text()


@scene
async def test_a_pause_keeps_what_is_shown():
    async with displayed() as screen:
        await screen.press("p")
        await screen.hear(report(2))
        assert "rsync" in screen.text() and "PAUSED" in screen.lines()[0]
        await screen.press("p")
        await screen.hear(report(3))
        assert "rsync" not in screen.text() and "0 connections" in screen.lines()[0]


@scene
async def test_a_role_is_changed_only_after_yes():
    async with displayed() as screen:
        await screen.press("enter", "down", "b")
        assert isinstance(screen.app.screen, Confirm)
        assert screen.app.screen.question == "Make 10.0.1.2:40001 > 10.9.0.1:443 of rsync standby?"
        await screen.press("n")
        assert screen.agent.told == []
        await screen.press("down", "b", "y")
        ends = {"local": "10.0.2.2:40002", "remote": "10.9.0.1:443"}
        assert screen.agent.told == [{"action": "set-backup", "token": 1, **ends, "backup": False}]
        await screen.hear({"event": "refused", "reason": "the kernel [says] no"})
        await screen.until(lambda: screen.notified("the kernel [says] no"))


@scene
async def test_without_the_right_to_change_a_role_nobody_is_asked():
    limits = ["roles of subflows can be seen, not changed: that takes CAP_NET_ADMIN"]
    async with displayed((80, 40), at(1, may_change=False, limits=limits)) as screen:
        await screen.press("enter", "down", "b")
        await screen.until(lambda: screen.notified("takes CAP_NET_ADMIN"))
        assert not isinstance(screen.app.screen, Confirm) and screen.agent.told == []
        assert "not known: roles of subflows can be seen" in screen.lines()[1]
        await screen.press("question_mark")
        assert isinstance(screen.app.screen, Help)
        assert limits[0][:40] in screen.text() and "receive window is full" in screen.text()
        await screen.press("escape")
        assert not isinstance(screen.app.screen, Help)


@scene
async def test_many_connections_scroll():
    many = report(1, *(connection(token, command=f"job{token}") for token in range(1, 1001)))
    async with displayed(first=many) as screen:
        await screen.press("end")
        assert screen.app.query_one(Table).row.connection.now.token == 1000
        assert "job1000 >" in screen.text() and "1000 connections" in screen.lines()[0]
        await screen.press("home", "pagedown")
        assert "job1000 >" not in screen.text() and "job1 >" in screen.text()
        await screen.press("pagedown")
        assert "job1 >" not in screen.text() and "job30 >" in screen.text()
        assert screen.lines()[1].startswith("connection")  # the heading stays


@scene
async def test_an_agent_that_ends_is_reported():
    async with displayed() as screen:
        screen.agent.die()
        await screen.until(lambda: "watch ended with status 1" in screen.text())
        assert "rsync" in screen.text()


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_it_ends(key):
    async def ends():
        async with displayed() as screen:
            await screen.press(key)
            assert screen.app._exit

    asyncio.run(ends())


class FakeDaemon:
    """A daemon that did two things."""

    ended = False

    def __init__(self, descriptor):
        self._descriptor = descriptor

    def fileno(self):
        return self._descriptor

    def take(self):
        os.read(self._descriptor, 100)
        return [
            Happening(at_ns=1, what="eth2 of rsync made standby", why="it costs 30 % and brings 4 %"),
            Happening(at_ns=2, what="eth2 lost"),
        ]


@scene
async def test_what_the_daemon_did_is_shown_with_its_reason():
    read, write = os.pipe()
    try:
        async with displayed(daemon=FakeDaemon(read)) as screen:
            assert "the daemon did nothing yet" in screen.text()
            os.write(write, b"x")
            await screen.until(lambda: "eth2 lost" in screen.text())
            assert "eth2 of rsync made standby: it costs 30 % and brings 4 %" in screen.text()
    finally:
        os.close(read)
        os.close(write)


@scene
async def test_what_comes_after_the_end_is_not_drawn_into_a_screen_that_is_gone():
    async with displayed() as screen:
        (machine,) = screen.app._machines.values()
        before = machine.census
        screen.app.exit()
        screen.agent.say(at(2))
    assert machine.census is before
