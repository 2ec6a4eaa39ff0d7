"""Live connections beside the daemon: what it did, and the connections as `mptune watch` has them.

The daemon's socket has its events, the agent's role `watch` the connections (`mptune.monitor`). Nothing is
started where no daemon runs. What was sent is taken when a page asks for it.
"""

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import msgspec

from mptune.errors import MptuneError
from mptune.linux.talker import Talker
from mptune.monitor import daemon, sources
from mptune.monitor.columns import COLUMNS, Cell, held, safe_cell
from mptune.monitor.figures import Machine
from mptune.monitor.shape import census
from mptune.monitor.view import View

#: Time between two reports of the agent, and events that are kept.
_INTERVAL_NS = 1_000_000_000
_EVENTS = 8


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A connection, or below it one of its subflows.

    Attributes
    ----------
    cells : of `mptune.monitor.columns.COLUMNS`.
    why : why its path policy holds it; empty if none does.
    """

    is_subflow: bool
    cells: tuple[Cell, ...]
    why: str


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Connections at a moment.

    Attributes
    ----------
    lines : None as long as there is no report.
    events : what the daemon did, the latest last.
    trouble : what is missing, in a line.
    """

    has_daemon: bool
    lines: tuple[Line, ...] | None = None
    events: tuple[str, ...] = ()
    trouble: str = ""


class Live:
    """Connections of this machine; safe to ask from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack = ExitStack()
        # The agent ends with the thread that started it (PR_SET_PDEATHSIG), and each request has its own.
        self._starter = ThreadPoolExecutor(1)
        self._daemon: daemon.DaemonEvents | None = None
        self._talker: Talker | None = None
        self._machine, self._view = Machine(), View()
        self._view.open_all()
        self._events: deque[str] = deque(maxlen=_EVENTS)

    def look(self) -> Seen:
        """Everything as it is now, without waiting."""
        with self._lock:
            if not self._hears():
                return Seen(has_daemon=False)
            try:
                self._take()
            except MptuneError as error:
                return Seen(has_daemon=True, events=tuple(self._events), trouble=str(error))
            lines = None if self._machine.census is None else self._lines()
            return Seen(has_daemon=True, lines=lines, events=tuple(self._events), trouble=self._unknown())

    def close(self) -> None:
        """End the agent, and disconnect."""
        with self._lock:
            self._end()
            self._starter.shutdown()

    def _hears(self) -> bool:
        """Connect to the daemon if that is not done, and take its events; False without one."""
        if self._daemon is None:
            self._daemon = daemon.connect()
        if self._daemon is None:
            return False
        self._events.extend(event.line for event in self._daemon.take())
        if self._daemon.ended:
            self._end()
            return False
        return True

    def _take(self) -> None:
        if self._talker is None:
            self._machine = Machine()
            (self._talker,) = self._starter.submit(self._start).result().values()
        for message in self._talker.take():
            match message.get("event"):
                case "connections":
                    self._machine.update(census(message))
                case "error":
                    raise MptuneError(str(message.get("reason")))
                case _:
                    pass
        if self._talker.ended:
            death = self._talker.death()
            self._stack.close()
            self._talker = None  # the next page starts another one
            raise MptuneError(death)

    def _start(self) -> dict[str, Talker]:
        return self._stack.enter_context(sources.started({}, _INTERVAL_NS))

    def _lines(self) -> tuple[Line, ...]:
        rows = self._view.rows([self._machine])
        return tuple(
            Line(
                is_subflow=row.subflow is not None,
                cells=tuple(safe_cell(column, row) for column in COLUMNS),
                why="" if row.subflow is None else held(row.subflow.now, row.connection.now),
            )
            for row in rows
        )

    def _unknown(self) -> str:
        limits = () if self._machine.census is None else self._machine.census.limits
        return f"Not known: {'; '.join(limits)}" if limits else ""

    def _end(self) -> None:
        self._stack.close()
        self._talker = None
        if self._daemon is not None:
            self._daemon.close()
            self._daemon = None
