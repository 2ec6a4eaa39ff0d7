"""The commands of mptune as data, read from the declarations that `--help` shows.

For man pages and the reference of the site; it draws neither. Texts are as declared: paragraphs are joined to
one line each, and what a declaration keeps line by line stays so.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import typer

from mptune.cli import app
from mptune.cli._common import PROGRAM
from mptune.cli._help import GROUPS

#: Begins a paragraph that keeps its lines (click).
_AS_IT_IS = "\b"


class Text(NamedTuple):
    """A paragraph; with `lines`, they stay as they are."""

    words: str = ""
    lines: tuple[str, ...] = ()


class Parameter(NamedTuple):
    """An argument or an option: how it is written, and its help."""

    written: str
    help: str


class Command(NamedTuple):
    """A command.

    Attributes
    ----------
    name : as it is typed, "mptune campaign run".
    usage : what follows the name.
    summary : its first sentence.
    group : title of the commands among which the program's help has it; empty below another command.
    examples : command lines, some with a comment.
    """

    name: str
    usage: str
    summary: str
    description: tuple[Text, ...]
    arguments: tuple[Parameter, ...]
    options: tuple[Parameter, ...]
    examples: tuple[str, ...]
    commands: tuple[Command, ...]
    group: str = ""

    def grouped(self) -> list[tuple[str, list[Command]]]:
        """The commands below it by their groups, in the order of `--help`."""
        return [(title, list(some)) for title, some in groupby(self.commands, key=lambda one: one.group)]

    @property
    def page(self) -> str:
        """What its page is called."""
        return self.name.replace(" ", "-")

    def walk(self) -> Iterator[Command]:
        """The command and all below it, in the order of `--help`."""
        yield self
        for one in self.commands:
            yield from one.walk()


def program() -> Command:
    """The program with all its commands."""
    return _command(typer.main.get_command(app), PROGRAM, None)


def _command(command: Any, name: str, above: Any) -> Command:
    context = typer.Context(command, info_name=name, parent=above)
    texts = _texts(command.help or "")
    parameters = [one for one in command.get_params(context) if one.get_help_record(context)]
    return Command(
        name=context.command_path,
        usage=" ".join(_written(piece) for piece in command.collect_usage_pieces(context)),
        summary=texts[0].words,
        description=texts,
        arguments=tuple(
            Parameter(_written(one.metavar or one.name), one.get_help_record(context)[1])
            for one in parameters
            if one.param_type_name == "argument"
        ),
        options=tuple(
            Parameter(*one.get_help_record(context))
            for one in parameters
            if one.param_type_name != "argument"
        ),
        examples=_examples(command.epilog or ""),
        commands=tuple(
            _command(below, key, context) for key, below in getattr(command, "commands", {}).items()
        ),
        group=next(
            (group.title for group in GROUPS if above and not above.parent and name in group.commands), ""
        ),
    )


def _written(argument: str) -> str:
    """An argument without the braces that mark it as required."""
    plain = argument.replace("{", "").replace("}", "").replace("......", "...")
    return plain.replace("[[", "[").replace("]]", "]")


def _texts(help_: str) -> tuple[Text, ...]:
    found = []
    for paragraph in inspect.cleandoc(help_).split("\n\n"):
        if paragraph.startswith(_AS_IT_IS):
            found.append(Text(lines=tuple(paragraph.splitlines()[1:])))
        else:
            found.append(Text(" ".join(paragraph.split())))
    return tuple(found)


def _examples(epilog: str) -> tuple[str, ...]:
    """What stands below "Examples:"."""
    _, _, below = epilog.partition("Examples:\n")
    return tuple(line.strip() for line in below.splitlines())
