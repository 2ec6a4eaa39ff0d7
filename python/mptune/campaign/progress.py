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
    def phase(self, name: str, unit: str = "trials") -> Iterator[Advance | None]:
        """Give the callback for `run_trials` (or another count of units) that shows one phase by name."""
        if self._quiet:
            yield None
        elif self._stream.isatty():
            with self._bar(unit) as bar:
                task = bar.add_task(name, total=None, note="")

                def advance(done: int, total: int, note: str = "") -> None:
                    bar.update(task, completed=done, total=total, note=note)

                yield advance
        else:
            yield _PlainLines(name, unit, self._stream, self._clock)

    def _bar(self, unit: str) -> Progress:
        """Give the bar of a terminal."""
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _RateColumn(unit),
            TimeRemainingColumn(),
            TextColumn("left"),
            TextColumn("{task.fields[note]}", markup=False),
            console=Console(file=self._stream),
        )


class _RateColumn(ProgressColumn):
    """Units per second of the bar."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f} {self._unit}/s" if task.speed else f"- {self._unit}/s")


class _PlainLines:
    """A line every `PLAIN_INTERVAL_S` and one at the end."""

    def __init__(self, name: str, unit: str, stream: TextIO, clock: Callable[[], float]) -> None:
        self._name, self._unit, self._stream, self._clock = name, unit, stream, clock
        self._start = self._last = clock()

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Count, and print when it is time."""
        now = self._clock()
        if done < total and now - self._last < PLAIN_INTERVAL_S:
            return
        self._last = now
        rate = done / max(now - self._start, 1e-9)
        left = f", {(total - done) / rate:.0f} s left" if done < total else ""
        said = f"; {note}" if note else ""
        self._stream.write(
            f"{self._name}: {done}/{total} {self._unit}, {rate:.1f} {self._unit}/s{left}{said}\n"
        )
        self._stream.flush()
