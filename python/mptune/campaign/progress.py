"""How far a campaign is: a bar with rate and time left on a terminal, plain lines elsewhere.

Everything goes to stderr, so that stdout holds the answer alone. It counts; it runs nothing.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from mptune.campaign.running import Advance

#: Seconds between two plain lines.
PLAIN_INTERVAL_S = 10.0


class Reporter:
    """Shows the phases of a campaign, one after the other.

    Parameters
    ----------
    quiet : show nothing.
    stream : where to; stderr by default. It decides between bar and plain lines.
    clock : seconds of a monotonic clock.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quiet = quiet
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock

    @contextmanager
    def phase(self, name: str) -> Iterator[Advance | None]:
        """Give the callback for `run_trials` that shows one phase under this name."""
        if self._quiet:
            yield None
        elif self._stream.isatty():
            with self._bar() as bar:
                task = bar.add_task(name, total=None)
                yield lambda done, total: bar.update(task, completed=done, total=total)
        else:
            yield _PlainLines(name, self._stream, self._clock)

    def _bar(self) -> Progress:
        """Give the bar of a terminal."""
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _RateColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=Console(file=self._stream),
        )


class _RateColumn(ProgressColumn):
    """Trials per second of the bar."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f} trials/s" if task.speed else "- trials/s")


class _PlainLines:
    """A line every `PLAIN_INTERVAL_S` and one at the end."""

    def __init__(self, name: str, stream: TextIO, clock: Callable[[], float]) -> None:
        self._name, self._stream, self._clock = name, stream, clock
        self._start = self._last = clock()

    def __call__(self, done: int, total: int) -> None:
        """Count, and print when it is time."""
        now = self._clock()
        if done < total and now - self._last < PLAIN_INTERVAL_S:
            return
        self._last = now
        rate = done / max(now - self._start, 1e-9)
        left = f", {(total - done) / rate:.0f} s left" if done < total else ""
        self._stream.write(f"{self._name}: {done}/{total} trials, {rate:.1f} trials/s{left}\n")
        self._stream.flush()
