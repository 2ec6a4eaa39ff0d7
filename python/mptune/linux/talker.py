"""Somebody at the other end of lines of JSON: a process of this machine, or one on another machine.

It receives and sends messages; the caller knows their meaning. What is the same for all of them is
here; how lines travel, and what an end looks like, is the subclass's business. Nothing blocks without a
limit.
"""

import select
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from mptune.errors import FailureKind, TrialError

#: Seconds it has to end after its input ended, before it is killed.
GRACE_S = 3.0
#: Characters from the end of standard error that are included in a reason.
TOLD_CHARACTERS = 200
#: Messages that may come before the one that is waited for.
_OTHERS = 10_000

Message = dict[str, Any]


class Talker(ABC):
    """A conversation, which ends at the latest with the block.

    Attributes
    ----------
    name : for messages, such as "emulator".
    kind : of the failure of a trial that its end is.
    """

    kind: FailureKind = "died"

    def __init__(self, name: str) -> None:
        self.name = name
        self._messages: deque[Message] = deque()
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @abstractmethod
    def fileno(self) -> int:
        """Descriptor that is readable when there is something to `take`, for select(2)."""

    @abstractmethod
    def tell(self, message: Mapping[str, object]) -> None:
        """Send a line; it is lost if the other end has ended, which is noticed elsewhere."""

    @abstractmethod
    def close(self) -> None:
        """End its input, which ends it; its last messages can still be taken."""

    @abstractmethod
    def end(self, grace_s: float = GRACE_S) -> None:
        """End its input, and kill it if that does not end it."""

    @abstractmethod
    def death(self) -> str:
        """Reason of its end, in a sentence, with the last line of its standard error."""

    @property
    @abstractmethod
    def killed(self) -> bool:
        """A signal ended it, or what it ran on is gone."""

    @abstractmethod
    def _receive(self) -> None:
        """Add what has arrived to the messages, without waiting, and notice the end."""

    @property
    def ended(self) -> bool:
        """Its output has ended and all its messages have been taken."""
        return self._ended and not self._messages

    def take(self) -> list[Message]:
        """Its messages so far, without waiting."""
        self._receive()
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def expect(self, event: str, within_s: float) -> Message:
        """Wait for a message of that kind and discard earlier ones; later ones can still be taken.

        Raises
        ------
        TrialError : it reports an error, or ends, or the time is up.
        """
        end, others = time.monotonic() + within_s, 0
        while True:
            pending = deque(self.take())
            while pending:
                message = pending.popleft()
                others += 1
                if others > _OTHERS:
                    raise TrialError(f"{self.name}: more than {_OTHERS} messages before {event!r}", "refused")
                if message.get("event") == "error":
                    raise TrialError(f"{self.name}: {message.get('reason')}", "refused")
                if message.get("event") == event:
                    self._messages = pending
                    return message
            if self._ended:
                raise TrialError(self.death(), self.kind)
            if time.monotonic() > end:
                raise TrialError(f"{self.name}: no {event!r} within {within_s:g} s")
            await_any([self], end - time.monotonic())


def await_any(talkers: Iterable[Talker], seconds: float) -> None:
    """Wait until there is something to take from one of them, but not longer than this.

    By poll(2): with many of them descriptors exceed what select(2) can have.
    """
    poll = select.poll()
    for talker in talkers:
        poll.register(talker, select.POLLIN)
    poll.poll(1000 * max(0.0, seconds))


def last_words(stderr: str) -> str:
    """The last line of a standard error, as it ends a sentence; empty if there is none."""
    last = next((line.strip() for line in reversed(stderr.split("\n")) if line.strip()), "")
    return f": {last[-TOLD_CHARACTERS:]}" if last else ""


def manner(status: int | None) -> str:
    """Reason of a process's end, from its `subprocess` status; None if it still runs."""
    if status is None:
        return "closed its output"
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
