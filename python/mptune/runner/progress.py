"""Progress of a campaign: a bar with rate and time left on a terminal, plain lines elsewhere.

Everything goes to stderr, so that stdout has only the answer. It counts; it runs nothing.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from mptune import interrupts
from mptune._text import in_one_line, pace, visible
from mptune.runner.running import Advance

#: Seconds between two plain lines.
PLAIN_INTERVAL_S = 10.0


class Reporter:
    """Shows the phases of a campaign one after another.

    Parameters
    ----------
    quiet : show nothing.
    stream : output, stderr by default; a terminal gets a bar, anything else plain lines.
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

    def notice(self, sentence: str) -> None:
        """Show a sentence before or between phases; nothing if it is empty."""
        if sentence and not self._quiet:
            print(visible(sentence, lines=True), file=self._stream, flush=True)

    @contextmanager
    def phase(self, name: str, unit: str = "trials") -> Iterator[Advance | None]:
        """Give the callback for `run_trials` (or another counter) that shows the progress of a phase.

        Raises
        ------
        KeyboardInterrupt : an earlier Ctrl-C was lost.
        """
        interrupts.raise_lost()
        if self._quiet:
            yield None
        elif self._stream.isatty():
            from mptune.runner._bar import bar

            with bar(unit, self._stream) as progress:
                task = progress.add_task(visible(name), total=None, note="")

                def advance(done: int, total: int, note: str = "") -> None:
                    progress.update(task, completed=done, total=total, note=visible(note))

                yield advance
        else:
            yield _PlainLines(name, unit, self._stream, self._clock)


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
        suffix = f"; {note}" if note else ""
        self._stream.write(
            in_one_line(f"{self._name}: {done}/{total} {self._unit}, {pace(rate, self._unit)}{left}{suffix}")
            + "\n"
        )
        self._stream.flush()
