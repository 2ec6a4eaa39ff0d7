"""Progress of work in named steps: a bar on a terminal, a line for each step elsewhere; on stderr."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def shown(*, quiet: bool) -> Iterator[Callable[[str, float | None], None]]:
    """Show steps; what is yielded is called with a step, and the share of it that is done, if known."""
    if quiet:
        yield lambda step, share: None
    elif not sys.stderr.isatty():
        last = ""

        def line(step: str, share: float | None) -> None:
            nonlocal last
            if step != last:
                sys.stderr.write(f"{step} ...\n")
                sys.stderr.flush()
                last = step

        yield line
    else:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from mptune._terminal import Terminal

        columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
        with Progress(*columns, console=Terminal(file=sys.stderr), transient=True) as progress:
            task = progress.add_task("", total=None)

            def move(step: str, share: float | None) -> None:
                # A total of None is a bar that moves without end.
                progress.update(
                    task, description=step, total=None if share is None else 1.0, completed=share or 0.0
                )

            yield move
