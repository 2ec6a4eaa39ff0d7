"""Records a command in a terminal as a moving picture: `python shipping/picture.py FILE.svg -- COMMAND...`.

The command runs in a terminal of its own (pty); what its screen shows is read by pyte, a terminal without a
window. The picture is an SVG that moves by itself, loads nothing, and stands still at its end where readers
ask for less motion. `make pictures` makes those of the docs.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import os
import pty
import select
import shlex
import struct
import sys
import termios
import time
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pyte

#: Size of the terminal, characters; of a character, pixels.
COLUMNS, ROWS = 100, 24
_WIDE, _HIGH, _MARGIN = 8.4, 18, 12
#: Seconds in the picture: a letter typed, between what was typed and what it does, and the end.
_LETTER, _PAUSE, _END = 0.05, 0.6, 12.0
#: While the command runs the screen is looked at this often, and that many pictures are kept at most.
_LOOK, _RUNNING = 0.5, 12
#: Seconds that they take together.
_RUN = 6.0

_COLOURS = {
    "default": "#d8dee9", "black": "#4c566a", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b",
    "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#eceff4",
    "brightblack": "#7b879d", "brightred": "#ff7b86", "brightgreen": "#b5e890", "brightbrown": "#ffd787",
    "brightblue": "#8cc8ff", "brightmagenta": "#e0a0f5", "brightcyan": "#7fe0ec", "brightwhite": "#ffffff",
}  # fmt: skip
#: A space that no renderer joins with its neighbours.
_SPACE = "\N{NO-BREAK SPACE}"
_PAPER, _FRAME = "#1e222a", "#2b303b"


class Run(NamedTuple):
    """Letters of one style: where they begin, the text, its colour, and whether it is bold."""

    column: int
    text: str
    colour: str
    bold: bool


#: A screen: runs by row.
Screen = tuple[tuple[Run, ...], ...]


def record(command: list[str], folder: Path) -> list[Screen]:
    """Screens that a command shows, the last one when it has ended.

    Parameters
    ----------
    folder : where it runs.
    """
    screen = pyte.Screen(COLUMNS, ROWS)
    screen.set_mode(pyte.modes.LNM)
    stream, text = pyte.Stream(screen), codecs.getincrementaldecoder("utf-8")("replace")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screens, looked = [], 0.0
    while True:
        ready, _, _ = select.select([terminal], [], [], _LOOK)
        try:
            shown = os.read(terminal, 65536) if ready else b""
        except OSError:  # Linux: the other end is closed
            break
        if ready and not shown:
            break
        stream.feed(text.decode(shown))
        if time.monotonic() - looked >= _LOOK:
            screens.append(_seen(screen))
            looked = time.monotonic()
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"{shlex.join(command)}: ended with {os.waitstatus_to_exitcode(status)}")
    return [*_thinned([one for one, _ in groupby(screens) if any(one)]), _seen(screen)]


def _seen(screen: Any) -> Screen:
    rows = []
    for row in range(ROWS):
        cells = [(column, screen.buffer[row][column]) for column in range(COLUMNS)]
        runs = []
        for (colour, bold), group in groupby(cells, key=lambda cell: (cell[1].fg, cell[1].bold)):
            some = list(group)
            if text := "".join(cell.data for _, cell in some).rstrip():
                colour = _COLOURS.get(colour) or (f"#{colour}" if len(colour) == 6 else _COLOURS["default"])
                runs.append(Run(some[0][0], text, colour, bold))
        rows.append(tuple(runs))
    return tuple(rows)


def _thinned(screens: list[Screen]) -> list[Screen]:
    step = max(1, -(-len(screens) // _RUNNING))
    return screens[::step]


def typed(line: str) -> list[Screen]:
    """Screens of a line that is typed."""
    prompt = Run(0, "$", _COLOURS["green"], True)
    ends = [*range(0, len(line), 2), len(line)]
    letters = [Run(2, f"{line[:end]}▏", _COLOURS["white"], False) for end in ends]
    return [((prompt, one), *[()] * (ROWS - 1)) for one in letters]


def picture(line: str, screens: list[Screen]) -> str:
    """The SVG of a line that is typed, and the screens that follow."""
    typing = typed(line)
    timed = [(screen, 2 * _LETTER) for screen in typing[:-1]] + [(typing[-1], _PAUSE)]
    timed += [(screen, _RUN / max(1, len(screens) - 1)) for screen in screens[:-1]] + [(screens[-1], _END)]
    whole = sum(seconds for _, seconds in timed)
    wide, high = COLUMNS * _WIDE + 2 * _MARGIN, ROWS * _HIGH + 2 * _MARGIN
    styles, frames, begin = [], [], 0.0
    for number, (screen, seconds) in enumerate(timed):
        begin, end = begin, begin + seconds
        last = number == len(timed) - 1
        styles.append(_shown(number, 100 * begin / whole, 100 * end / whole, whole, last=last))
        frames.append(f'<g class="f{"" if last else " m"}" id="f{number}">{_drawn(screen)}</g>')
        begin = end
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" role="img" '
            f'aria-label="{escape(line)}">',
            f"<title>{escape(line)}</title>",
            "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
            "white-space:pre}.b{font-weight:700}.m{visibility:hidden}",
            *styles,
            "@media (prefers-reduced-motion:reduce){.f{animation:none!important}}</style>",
            f'<rect width="{wide:g}" height="{high:g}" rx="8" fill="{_PAPER}" stroke="{_FRAME}"/>',
            *frames,
            "</svg>\n",
        ]
    )


def _shown(number: int, begin: float, end: float, whole: float, *, last: bool) -> str:
    """Style of a screen that is seen from one share of the time to another, percent."""
    before = "0%{visibility:hidden}" if number else ""  # without animation only the last one is seen
    after = "" if last else f"{end:.3f}%,100%{{visibility:hidden}}"
    return (
        f"@keyframes k{number}{{{before}{begin:.3f}%{{visibility:visible}}{after}}}"
        f"#f{number}{{animation:k{number} {whole:.2f}s step-end infinite}}"
    )


def _drawn(screen: Screen) -> str:
    return "".join(
        f'<text x="{_MARGIN + run.column * _WIDE:g}" y="{_MARGIN + (row + 1) * _HIGH - 5:g}" '
        f'textLength="{len(run.text) * _WIDE:g}" fill="{run.colour}" class="{"b" if run.bold else ""}">'
        f"{escape(run.text).replace(chr(32), _SPACE)}</text>"
        for row, runs in enumerate(screen)
        for run in runs
    )


def main() -> None:
    """Record the command, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path)
    parser.add_argument("--in", dest="folder", type=Path, default=Path(), help="where the command runs")
    parser.add_argument("--as", dest="line", help="what is typed in the picture, if it is not the command")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    command = [word for word in given.command if word != "--"]
    screens = record(command, given.folder)
    given.file.write_text(picture(given.line or shlex.join(command), screens), encoding="utf-8")
    print(
        f"{given.file}: {len(screens)} screens, {given.file.stat().st_size / 1024:.0f} KiB", file=sys.stderr
    )


if __name__ == "__main__":
    main()
