"""Two hosts as the venue of a trial: which of their settings it changes, and when it puts them back.

The path manager of an MPTCP connection is fixed when it is created, so it is chosen just before the trial's
connection is requested and put back as soon as both ends have it. Connections of others that are created in
that moment get a path manager that does nothing for them; all others keep theirs.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from mptune.errors import TrialError
from mptune.linux.addresses import Side
from mptune.linux.talker import Message, Talker
from mptune.linux.venue import About
from mptune.machines import Machine

#: Sysctls of a host.
Settings = Mapping[str, str]


class HostsVenue:
    """The venue of one trial; see `mptune.linux.venue`.

    Parameters
    ----------
    lasting : settings for the whole trial, by site.
    momentary : settings until both ends have the connection.
    """

    def __init__(
        self,
        machines: Mapping[Side, Machine],
        lasting: Mapping[Side, Settings],
        momentary: Mapping[Side, Settings],
        about: About,
    ) -> None:
        self.about = about
        self._machines, self._lasting, self._momentary = machines, lasting, momentary
        self._asked: list[tuple[Machine, int]] = []
        self._changed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put everything back; a host that is gone does so by itself."""
        if not self._changed:
            return
        asked = [(machine, machine.ask("restore", names=None)) for machine in self._machines.values()]
        for machine, number in [*self._asked, *asked]:
            try:
                answer = machine.collect(number)
            except TrialError:
                continue
            for name, why in answer.get("kept", {}).items():
                self.about[f"not put back on {machine.name}: {name}"] = str(why)

    def start(self, role: str, side: Side, name: str | None = None) -> Talker:
        """Start the agent in a role on a host."""
        return self._machines[side].start(role, name)

    @property
    def foundations(self) -> Sequence[Machine]:
        """The sessions with both hosts."""
        return tuple(self._machines.values())

    @property
    def companions(self) -> Sequence[Talker]:
        """None: the roles end with their session."""
        return ()

    def prepare(self) -> None:
        """Set what holds for the whole trial."""
        self._set(self._lasting)
        self.confirm()

    def lay_out(self) -> None:
        """Nothing: the network exists already."""

    def open(self) -> None:
        """Choose the path manager of new connections; `confirm` waits for the answers."""
        self._set(self._momentary)

    def confirm(self) -> None:
        """Wait for the answers.

        Raises
        ------
        TrialError : a host refuses, or is gone.
        """
        asked, self._asked = self._asked, []
        for machine, number in asked:
            machine.collect(number)

    def begin(self, halves: Sequence[Talker]) -> None:
        """Nothing: the network runs by itself."""

    def close(self) -> None:
        """Put the path manager back; the answers are read at the end."""
        for side, settings in self._momentary.items():
            if settings:
                machine = self._machines[side]
                self._asked.append((machine, machine.ask("restore", names=list(settings))))

    def look(self) -> None:
        """Nothing: the halves of the meter look themselves."""

    def cut(self, action: str, path: int) -> None:
        """Refuse: real paths are not cut.

        Raises
        ------
        TrialError : always.
        """
        raise TrialError(f"{action}: the paths between hosts cannot be cut", "refused")

    def hurry(self) -> None:
        """A host that does not answer at once is given up; it restores by itself."""
        for machine in self._machines.values():
            machine.hurry()

    def conclude(self) -> Message | None:
        """The network has no report."""
        return None

    @property
    def waited_ns(self) -> None:
        """Unknown on a real network."""
        return

    def _set(self, wanted: Mapping[Side, Settings]) -> None:
        for side, settings in wanted.items():
            if settings:
                self._changed = True
                machine = self._machines[side]
                self._asked.append((machine, machine.ask("set", settings=dict(settings))))
