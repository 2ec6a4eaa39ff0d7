"""Machine as a testbed sees it: a place that runs roles of the agent and has settings and facts.

How it is reached is in the file of its kind.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mptune.errors import FailureKind, MptuneError
from mptune.linux.talker import Message, Talker

#: The facts of a machine, as its agent reports them (role `host`, action "look").
Looked = dict[str, Any]


class MachineError(MptuneError):
    """A machine cannot be used: the message has its name, the reason and a remedy.

    Attributes
    ----------
    away : it cannot be reached now; later it may be, without anybody mending anything here.
    """

    def __init__(self, message: str, *, away: bool = False) -> None:
        super().__init__(message)
        self.away = away


class Machine(Protocol):
    """A machine in use, until `close`.

    Attributes
    ----------
    name : for messages.
    kind : of the failure of a trial that its end is.
    """

    name: str
    kind: FailureKind

    def start(self, role: str, name: str | None = None) -> Talker:
        """Start the agent in a role; messages use `name` instead of the role, if given."""
        ...

    def set(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Change sysctls, all of them or none, and return what they were.

        Raises
        ------
        TrialError : the machine refuses, or is gone.
        """
        ...

    def restore(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Put these sysctls back, or all that were set; return those left as they are, with the reason.

        Raises
        ------
        TrialError : the machine is gone, and puts them back by itself.
        """
        ...

    def look(self, names: Sequence[str] = (), pairs: Sequence[tuple[str, str]] = ()) -> Looked:
        """The facts, with these sysctls and the device by which packets of each pair of addresses leave.

        Raises
        ------
        TrialError : the machine is gone.
        """
        ...

    def ask(self, action: str, **arguments: object) -> int:
        """Send one of these requests, to collect its answer later; return its number."""
        ...

    def collect(self, number: int) -> Message:
        """The answer to a request.

        Raises
        ------
        TrialError : the machine refuses, is silent or is gone.
        """
        ...

    @property
    def killed(self) -> bool:
        """It is gone."""
        ...

    def death(self) -> str:
        """Reason of the loss, in a sentence."""
        ...

    def hurry(self) -> None:
        """From now on it is gone as soon as it does not answer at once."""
        ...

    def close(self) -> None:
        """Let it restore everything, and end the session."""
        ...
