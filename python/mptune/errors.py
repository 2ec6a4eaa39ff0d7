"""The errors a user can see, and the exit code of each.

The whole tree::

    MptuneError                 exit 1: the work could not be done
    ├── InputError              exit 2: something the user wrote is wrong
    │   └── LimitReached        exit 2: a limit that the user wrote is reached; what was measured is kept
    └── TrialError              exit 1: one trial failed (campaigns record it and continue)

And `Failure`: why a trial gave no number, for code (its kind) and for people (its reason).

This module formats one-line messages; it neither prints them nor exits: `mptune.cli` does. Whatever files and
hosts wrote into them, they are one line with an end, and control no terminal.
"""

import difflib
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from mptune._text import bounded, in_one_line, quoted

#: Why a trial gave no usable number:
#:
#: - stalled: nothing arrived in order for too long
#: - overloaded: the machine was too busy for real time
#: - fallback: the connection became plain TCP
#: - died: a process ended, a testbed gave up, or either was silent
#: - refused: a process or the kernel would not do what it was asked
#: - unreachable: there was no connection, or no byte arrived
#: - incomplete: the limit came before the last byte, or before what was to be measured
#: - corrupt: the payload is not what was sent
#: - miscounted: the simulator's books contradict themselves, a fault of its own
FailureKind = Literal[
    "stalled",
    "overloaded",
    "fallback",
    "died",
    "refused",
    "unreachable",
    "incomplete",
    "corrupt",
    "miscounted",
]

#: Most characters of a message, of a file or option in it, and of a key.
_MESSAGE, _WHERE, _KEY = 1000, 200, 120


class Failure(msgspec.Struct, frozen=True):
    """Why a trial gave no usable number; as text it is the reason alone.

    Attributes
    ----------
    kind : what code asks for.
    reason : what people read; no code depends on its words.
    """

    kind: FailureKind
    reason: str

    def __post_init__(self) -> None:
        """Hold the reason, which may come from a host, to the rules of messages."""
        msgspec.structs.force_setattr(self, "reason", _message(self.reason))

    def __str__(self) -> str:
        return self.reason


class MptuneError(Exception):
    """Base of every error whose message is meant for the user (one line, no traceback).

    Examples
    --------
    >>> import mptune
    >>> try:
    ...     mptune.open_run("nowhere")
    ... except mptune.MptuneError as error:
    ...     print(error)
    nowhere: expected a run directory, found no config.json in it
    """

    exit_code: int = 1
    args: tuple[Any, ...]

    def __init__(self, *message: object) -> None:
        super().__init__(*(_message(str(part)) for part in message))

    def reword(self, words: Callable[[str], str]) -> None:
        """Change the message, for readers who write options in another way."""
        self.args = tuple(words(str(arg)) for arg in self.args)


class InputError(MptuneError):
    """Bad input: its place, the key, and the expectation.

    Parameters
    ----------
    where : the file, or the option as the caller writes it: a flag, or a keyword.
    key : the key inside it (dotted path), or "" when the whole of `where` is meant.
    expected : what was expected, and what was found instead.

    Examples
    --------
    >>> import mptune
    >>> try:
    ...     mptune.run("UiT-HAW", duration="soon")
    ... except mptune.InputError as error:
    ...     print(error.where)
    duration
    """

    exit_code = 2

    def __init__(self, where: str, key: str, expected: str) -> None:
        self.where: str = _message(where, _WHERE)
        self.key: str = _message(key, _KEY)
        self.expected: str = _message(expected)
        where, key, expected = self.where, self.key, self.expected
        super().__init__(": ".join(part for part in (where, key, expected) if part))

    def reword(self, words: Callable[[str], str]) -> None:
        """Change where it is, and what was expected; the key of a file stays."""
        self.where, self.expected = words(self.where), words(self.expected)
        self.args: tuple[Any, ...] = (
            ": ".join(part for part in (self.where, self.key, self.expected) if part),
        )


class LimitReached(InputError):
    """Nothing more may be measured, because the user limited it.

    Attributes
    ----------
    so_far : the best answer yet, as a sentence; empty where there is none.
    """

    so_far = ""


class TrialError(MptuneError):
    """A trial that could not be carried out; the message is the reason that gets recorded."""

    def __init__(self, reason: str, kind: FailureKind = "died") -> None:
        super().__init__(reason)
        self.kind = kind

    @property
    def failure(self) -> Failure:
        """The failure as it is recorded."""
        return Failure(self.kind, str(self))


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, and what is known by then.

    Parameters
    ----------
    so_far : the best answer yet, as a sentence; empty where there is none.
    interrupt : the original one; its notes, which the user sees, are kept.
    """

    def __init__(self, so_far: str = "", interrupt: KeyboardInterrupt | None = None) -> None:
        super().__init__()
        self.so_far = so_far
        for note in getattr(interrupt, "__notes__", ()):
            self.add_note(note)


#: Characters of a list of known names.
_LISTED = 180


def one_of(known: Iterable[object], name: object) -> str:
    """Error text for an unknown name, wherever it was written: the known ones, of many the nearest."""
    text = "none" if name is None else quoted(name)
    names = [str(each) for each in known]
    listed = ", ".join(names)
    if len(listed) > _LISTED:
        like = difflib.get_close_matches(str(name), names, 5)
        listed = ", ".join(like) or bounded(listed, _LISTED)
    return f"expected one of {listed}, found {text}"


def _message(text: str, most: int = _MESSAGE) -> str:
    return bounded(in_one_line(text), most)
