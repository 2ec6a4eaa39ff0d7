"""Writes man/*.1, a page for every command, from the declarations that `--help` shows (`make man`).

Macros are man(7)'s; characters beyond ASCII are written by their code points, which groff and mandoc both
read whatever the locale.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from commands import Command, Parameter, Text, program
from mptune import __version__

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "man"
CITATION = ROOT / "CITATION.cff"

_EXIT_STATUS = (
    ("0", "It was done."),
    ("1", "It could not be done; one line on stderr says why."),
    ("2", "The input is wrong; one line on stderr names the file, the key and what was expected."),
    ("130", "It was interrupted (Ctrl-C)."),
)


def main() -> None:
    """Write the pages, and remove those of commands that there are no more."""
    PAGES.mkdir(exist_ok=True)
    pages = {f"{command.page}.1": page(command) for command in program().walk()}
    for left in {path.name for path in PAGES.glob("*.1")} - set(pages):
        (PAGES / left).unlink()
    for name, text in pages.items():
        (PAGES / name).write_text(text, encoding="ascii")
    print(f"man: {len(pages)} pages")


def page(command: Command) -> str:
    """The page of a command."""
    return "\n".join(_lines(command)) + "\n"


def _lines(command: Command) -> Iterator[str]:
    yield f'.TH {command.page.upper()} 1 "{_released()}" "mptune {__version__}" "mptune"'
    yield from (".SH NAME", f"{_escaped(command.page)} \\- {_escaped(command.summary.rstrip('.'))}")
    yield from (".SH SYNOPSIS", f".B {_escaped(command.name)}", _escaped(command.usage))
    yield ".SH DESCRIPTION"
    for number, text in enumerate(command.description):
        yield from _paragraph(text, first=number == 0)
    yield from _parameters("ARGUMENTS", command.arguments)
    yield from _parameters("OPTIONS", command.options)
    if command.commands:
        yield ".SH COMMANDS"
        for title, commands in command.grouped():
            yield from (f".SS {_escaped(title)}",) if title else ()
            for one in commands:
                yield from (".TP", f".BR {_escaped(one.page)} (1)", _escaped(one.summary))
    if command.examples:
        yield from (".SH EXAMPLES", ".nf", *map(_escaped, command.examples), ".fi")
    if not any("exit code" in text.words.lower() for text in command.description):  # some have their own
        yield ".SH EXIT STATUS"
        for status, meaning in _EXIT_STATUS:
            yield from (".TP", f".B {status}", meaning)
    if " " in command.name:
        above = command.page.rpartition("-")[0]
        yield from (".SH SEE ALSO", f".BR {_escaped(above)} (1)")


def _paragraph(text: Text, *, first: bool) -> Iterator[str]:
    if not first:
        yield ".PP"
    if text.lines:
        yield from (".nf", *map(_escaped, text.lines), ".fi")
    else:
        yield _escaped(text.words)


def _parameters(title: str, found: tuple[Parameter, ...]) -> Iterator[str]:
    if found:
        yield f".SH {title}"
    for one in found:
        yield from (".TP", f".B {_escaped(one.written)}", _escaped(" ".join(one.help.split())))


def _escaped(text: str) -> str:
    """Text that roff prints as it is."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("~", "\\(ti")
    plain = plain.replace('"', "\\(dq").replace("^", "\\(ha").replace("`", "\\(ga")
    plain = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in plain)
    return f"\\&{plain}" if plain.startswith(".") else plain


def _released() -> str:
    """Day of the release, as CITATION.cff has it."""
    found: list[str] = re.findall(
        r"^date-released: *['\"]?([0-9-]+)", (ROOT / "CITATION.cff").read_text(), re.M
    )
    return found[0]


if __name__ == "__main__":
    main()
