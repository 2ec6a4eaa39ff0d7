"""Venue of a trial: two sites, roles of the agent on each, and the network between them.

`mptune.linux.kernel_trial` has the course of a trial, which is the same everywhere; a venue has what differs:
two namespaces with an emulated network (`mptune.linux.namespace_venue`), or two hosts with a real one
(`mptune.testbeds._hosts_venue`). It measures nothing.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from mptune.errors import FailureKind
from mptune.linux.addresses import Side
from mptune.linux.talker import Message, Talker

#: Conditions that could explain a result, by name, for the observation.
About = dict[str, int | float | str]


class Foundation(Protocol):
    """Foundation of roles: a talker, or a machine."""

    @property
    def kind(self) -> FailureKind:
        """Of the failure of a trial that its end is."""
        ...

    @property
    def killed(self) -> bool:
        """It is gone."""
        ...

    def death(self) -> str:
        """Reason of its end, in a sentence."""
        ...


class Venue(Protocol):
    """A context manager for one trial: inside, its roles can be started. Afterwards nothing is left of it.

    The verbs are in the order of a trial; each raises a `TrialError` if something died, refused or was
    silent.

    Attributes
    ----------
    about : what could explain the result; complete when the block ends.
    """

    about: About

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def start(self, role: str, side: Side, name: str | None = None) -> Talker:
        """Start the agent in a role on a site; messages use `name` instead of the role, if given."""
        ...

    @property
    def foundations(self) -> Sequence[Foundation]:
        """Foundations of the roles: the end of one explains theirs."""
        ...

    @property
    def companions(self) -> Sequence[Talker]:
        """Talkers, besides its roles, that must not end before the trial does."""
        ...

    def prepare(self) -> None:
        """Begin what takes time; the roles are there."""
        ...

    def lay_out(self) -> None:
        """Complete it: the receiver can listen on its addresses."""
        ...

    def open(self) -> None:
        """Connections are the path managers' from now on, which are informed next."""
        ...

    def confirm(self) -> None:
        """They really are."""
        ...

    def begin(self, halves: Sequence[Talker]) -> None:
        """The sender is about to connect; `halves` are the meter's."""
        ...

    def close(self) -> None:
        """All connections are there at both ends: later ones are no longer the path managers'."""
        ...

    def look(self) -> None:
        """Keep what is lost when a process ends; called often."""
        ...

    def cut(self, action: str, path: int) -> None:
        """Cut ("down") or restore ("up") a path."""
        ...

    def hurry(self) -> None:
        """The trial is broken off: whoever does not answer at once is not waited for."""
        ...

    def conclude(self) -> Message | None:
        """The network's report, if it has one."""
        ...

    @property
    def waited_ns(self) -> int | None:
        """The meter was ready to run for this long, but got no processor; None where that is not known."""
        ...
