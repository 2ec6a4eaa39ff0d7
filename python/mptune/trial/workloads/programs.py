"""Programs of the user's: a client and a server, whose connections are measured; on a kernel alone."""

import shlex
from typing import ClassVar, Self

from mptune._text import quoted
from mptune.trial.metrics import COMPLETION, THROUGHPUT
from mptune.trial.workloads._base import BaseWorkload, Written
from mptune.trial.workloads._criteria import Criteria

#: Number of programs.
_ENDS = 2


class Programs(BaseWorkload, frozen=True, kw_only=True, tag="exec"):
    """A client and a server of the user's, whose connections are measured; they run on a kernel alone.

    The client starts at the sending site, where the connections of trials begin, as soon as the server at the
    receiving site listens. The trial ends with the client. Their sockets get the trial's settings by the
    preloaded library (`mptune.linux.preload`).

    Attributes
    ----------
    client, server : the file or the name of a program, and its arguments.
    deadline_ns : the trial fails if the client has not ended after this long.
    """

    judged_by: ClassVar[Criteria] = Criteria((COMPLETION, THROUGHPUT))
    completes: ClassVar[bool] = True

    client: tuple[str, ...]
    server: tuple[str, ...]
    deadline_ns: int

    @property
    def limit_ns(self) -> int:
        """Latest end of the trial."""
        return self.deadline_ns

    @property
    def phrase(self) -> str:
        """The workload for people."""
        return f"the program {shlex.join(self.client)}"


class Commands(Written, frozen=True, kw_only=True, tag="exec"):
    """A client and a server, with fields of `Programs`."""

    form: ClassVar[str] = "exec:CLIENT,SERVER"
    help: ClassVar[str] = (
        "exec:./client.sh,./server.sh: the connections of two programs; the client has the --duration to end."
    )

    client: tuple[str, ...]
    server: tuple[str, ...]

    @classmethod
    def read(cls, text: str, rest: str | None) -> Self:
        """Two command lines with a comma between them that is not quoted; the words are split as by sh(1)."""
        if rest is None or ":" not in text:
            raise cls.wrong(text)
        words = shlex.shlex(rest, posix=True, punctuation_chars=",")
        words.whitespace_split, words.commenters = True, ""
        try:
            found = list(words)
        except ValueError as error:
            raise ValueError(f"{cls.wrong(text)}: {error}") from None
        lines: list[list[str]] = [[]]
        for word in found:
            if word == ",":
                lines.append([])
            else:
                lines[-1].append(word)
        if len(lines) != _ENDS or not all(lines):
            what = f"{cls.form}, two command lines with a comma that is not quoted"
            raise ValueError(f"expected {what}, found {quoted(text)}")
        return cls(client=tuple(lines[0]), server=tuple(lines[1]))

    @property
    def text(self) -> str:
        """The text that means it."""
        return f"exec:{_quoted(self.client)},{_quoted(self.server)}"

    def lasting(self, duration_ns: int) -> Programs:
        """The workload of a trial, which the client ends: it has so long at most."""
        return Programs(client=self.client, server=self.server, deadline_ns=duration_ns)


def _quoted(words: tuple[str, ...]) -> str:
    return " ".join(
        f"'{word}'" if "," in word and shlex.quote(word) == word else shlex.quote(word) for word in words
    )
