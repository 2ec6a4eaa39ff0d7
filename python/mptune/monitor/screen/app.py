"""The screen as a whole: a line of totals, the table, details of the selected row, what the daemon did, keys.

Reports are taken in as they arrive, in the screen's own thread: nothing here waits.
"""

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input, Static

from mptune._text import number_of, visible
from mptune.errors import MptuneError
from mptune.linux.talker import Message, Talker
from mptune.monitor import columns
from mptune.monitor.daemon import DaemonEvents
from mptune.monitor.figures import Machine
from mptune.monitor.limits import MEANINGS
from mptune.monitor.screen.dialogs import Confirm, Help
from mptune.monitor.screen.table import Table
from mptune.monitor.shape import Happening, census
from mptune.monitor.view import Row, View

#: Of the daemon's deeds as many are shown.
_HAPPENINGS = 3
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_HELP = """\
up down pgup pgdn home end   select a row
enter right left             show or hide the subflows of a connection
e                            show or hide those of all
s S                          sort by the next column; turn the order round
/                            filter: all words, anywhere in a connection;
                             escape ends it
x                            pin a connection: it stays at the top
p                            pause
b                            make the selected subflow standby or active,
                             after a question
q ctrl+c                     quit

limit: what held a subflow back for most of the last interval
"""


class WatchApp(App[None]):
    """Live connections.

    Parameters
    ----------
    talkers : the agent's role `watch`, by the name of the machine.
    machines : reports received so far, by the same names.
    daemon : the daemon of this machine, if there is one.
    """

    TITLE = "mptune watch"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #totals, #limits, #trouble { height: 1; width: 100%; }
    #limits { color: ansi_magenta; }
    #details { height: 4; border-top: solid ansi_cyan; }
    #happenings { height: auto; max-height: 4; border-top: solid ansi_cyan; }
    #filter { height: 1; border: none; padding: 0; }
    Footer { background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("enter,right,left,space", "open", "Open", key_display="enter"),
        Binding("e", "open_all", "All"),
        Binding("s", "sort", "Sort"),
        Binding("S", "turn", show=False),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("x", "pin", "Pin"),
        Binding("p", "pause", "Pause"),
        Binding("b", "change", "Standby"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("escape", "no_filter", show=False),
    ]

    def __init__(
        self,
        talkers: Mapping[str, Talker],
        machines: Mapping[str, Machine],
        daemon: DaemonEvents | None = None,
    ) -> None:
        super().__init__()
        self.theme = "ansi-dark"  # the terminal's own colours, also where they are light
        self.view, self.paused = View(), False
        self._talkers, self._machines, self._daemon = talkers, machines, daemon
        self._happenings: deque[Happening] = deque(maxlen=_HAPPENINGS)

    def compose(self) -> ComposeResult:
        """The parts from top to bottom."""
        yield Static(id="totals", markup=False)
        yield Static(id="limits", markup=False)
        yield Table()
        yield Static(id="details", markup=False)
        yield Static(id="happenings", markup=False)
        yield Input(id="filter", placeholder="filter: words that a connection contains", compact=True)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to listen."""
        loop = asyncio.get_running_loop()
        for name, talker in self._talkers.items():
            loop.add_reader(talker.fileno(), self._hear, name, talker)
        if self._daemon is not None:
            loop.add_reader(self._daemon.fileno(), self._hear_daemon, self._daemon)
        for number in _SIGNALS:
            # Not in a thread of its own, where signals do not arrive.
            with contextlib.suppress(ValueError, RuntimeError):
                loop.add_signal_handler(number, self.exit)
        self.query_one("#filter").display = False
        self.query_one("#happenings").display = self._daemon is not None
        self.query_one(Table).focus()
        self._draw()

    def exit(self, *arguments: Any, **options: Any) -> None:
        """End, and listen no more: what comes now finds parts of the screen gone."""
        self._listen_no_more()
        super().exit(*arguments, **options)

    def on_unmount(self) -> None:
        """Leave nothing behind, however the screen ends."""
        self._listen_no_more()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            with contextlib.suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)

    def _listen_no_more(self) -> None:
        loop = asyncio.get_running_loop()
        descriptors = [talker.fileno for talker in self._talkers.values()]
        descriptors += [] if self._daemon is None else [self._daemon.fileno]
        for descriptor in descriptors:
            with contextlib.suppress(ValueError, OSError):
                loop.remove_reader(descriptor())

    # What is heard.

    def _hear(self, name: str, talker: Talker) -> None:
        """Take in an agent's reports; of several at once each counts."""
        machine = self._machines[name]
        for message in talker.take():
            try:
                self._take(machine, message)
            except MptuneError as error:
                machine.trouble = str(error)
        if talker.ended:
            asyncio.get_running_loop().remove_reader(talker.fileno())
            machine.trouble = machine.trouble or talker.death()
        self._draw()

    def _take(self, machine: Machine, message: Message) -> None:
        match message.get("event"):
            case "connections" if not self.paused:
                machine.update(census(message))
            case "changed":
                role = "standby" if message["backup"] else "active"
                self.notify(f"{message['local']} > {message['remote']} is {role}", markup=False)
            case "refused":
                self.notify(visible(str(message["reason"])), severity="error", markup=False, timeout=10)
            case "error":
                machine.trouble = str(message["reason"])
            case _:
                pass

    def _hear_daemon(self, daemon: DaemonEvents) -> None:
        self._happenings.extend(daemon.take())
        if daemon.ended:
            asyncio.get_running_loop().remove_reader(daemon.fileno())
            self._happenings.append(Happening(at_ns=0, what="the daemon has ended"))
        self._draw()

    # What is drawn.

    def _draw(self) -> None:
        self.query_one(Table).show(self.view.rows(self._machines.values()))
        self.query_one("#totals", Static).update(self._totals())
        limits = self._limits()
        self.query_one("#limits").display = bool(limits)
        self.query_one("#limits", Static).update(limits)
        lines = "\n".join(visible(happening.line) for happening in self._happenings)
        self.query_one("#happenings", Static).update(lines or "the daemon did nothing yet")
        self._draw_details()

    @on(Table.Selected)
    def _draw_details(self) -> None:
        row = self.query_one(Table).row
        lines = [] if row is None else columns.details(row)
        self.query_one("#details", Static).update("\n".join(lines))

    def _totals(self) -> str:
        machines = self._machines.values()
        connections = [connection for machine in machines for connection in machine.connections]
        sent, received = (sum(both) for both in zip(*(machine.totals() for machine in machines), strict=True))
        subflows = sum(len(connection.subflows) for connection in connections)
        parts = [
            f"{number_of(len(connections), 'connection')}, {number_of(subflows, 'subflow')}",
            f"sent {columns.rate(sent)}, received {columns.rate(received)} Mbit/s",
            f"by {self.view.sort}{', turned' if self.view.turned else ''}",
        ]
        parts += [f"filter: {self.view.text}"] if self.view.text else []
        parts += ["PAUSED"] if self.paused else []
        return "  ".join(parts)

    def _limits(self) -> str:
        troubles = [machine.trouble for machine in self._machines.values() if machine.trouble]
        known = (machine.census for machine in self._machines.values() if machine.census is not None)
        limits = dict.fromkeys(limit for each_census in known for limit in each_census.limits)
        if troubles:
            return visible("; ".join(troubles))
        return f"not known: {next(iter(limits)).partition(':')[0]}{_more(len(limits))} (?)" if limits else ""

    # What is done.

    def _row(self) -> Row | None:
        return self.query_one(Table).row

    @on(Table.Opened)
    def action_open(self) -> None:
        """Show or hide the subflows of the selected connection."""
        if (row := self._row()) is not None:
            self.view.open(row)
            self._draw()

    def action_open_all(self) -> None:
        """Show or hide those of all."""
        self.view.open_all()
        self._draw()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.view.next_sort()
        self._draw()

    def action_turn(self) -> None:
        """Turn the order round."""
        self.view.turned = not self.view.turned
        self._draw()

    def action_pin(self) -> None:
        """Pin the selected connection, or no longer."""
        if (row := self._row()) is not None:
            self.view.pin(row)
            self._draw()

    def action_pause(self) -> None:
        """Keep what is shown, or go on."""
        self.paused = not self.paused
        self._draw()

    def action_filter(self) -> None:
        """Ask for words."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.value = self.view.text
        field.focus()

    def action_no_filter(self) -> None:
        """Show all connections again."""
        self.query_one("#filter", Input).value = self.view.text = ""
        self._end_filter()

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        self.view.text = event.value
        self._draw()

    @on(Input.Submitted, "#filter")
    def _end_filter(self) -> None:
        self.query_one("#filter").display = False
        self.query_one(Table).focus()
        self._draw()

    def action_help(self) -> None:
        """Show what the keys do, what limits mean, and what is not known."""
        meanings = "".join(f"  {name:<11}{meaning}\n" for name, meaning in MEANINGS.items())
        known = (machine.census for machine in self._machines.values() if machine.census is not None)
        limits = dict.fromkeys(limit for each_census in known for limit in each_census.limits)
        unknown = "\nnot known here\n" + "".join(f"  {limit}\n" for limit in limits) if limits else ""
        self.push_screen(Help(_HELP + meanings + unknown))

    def action_change(self) -> None:
        """Make the selected subflow standby or active, after a question."""
        row = self._row()
        if row is None or row.subflow is None:
            self.notify("Select a subflow: enter shows those of a connection.")
            return
        census, subflow = row.machine.census, row.subflow.now
        if census is None or not census.may_change:
            self.notify("To change a role takes CAP_NET_ADMIN: run it as root.", severity="error")
            return
        if subflow.backup is None:
            self.notify("The role of this subflow is not known.", severity="error")
            return
        role = "active" if subflow.backup else "standby"
        whose = columns.who(row.connection)
        question = visible(f"Make {subflow.local} > {subflow.remote} of {whose} {role}?")
        order = {
            "action": "set-backup",
            "token": row.connection.now.token,
            "local": subflow.local,
            "remote": subflow.remote,
            "backup": not subflow.backup,
        }
        talker = self._talkers[row.machine.name]
        self.push_screen(Confirm(question), lambda yes: talker.tell(order) if yes else None)


def _more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""
