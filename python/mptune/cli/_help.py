"""Output of `--help`: commands in groups, and of a command first what most users need.

`GROUPS` is the one declaration of which command belongs where; `mptune.cli` lists the commands in its order,
man pages and the site follow it. An option's group is the table of campaign files it is in (`_flags`), and
whether it is rare stands in its declaration (`mptune.options.Option`). `--help-all` shows everything.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from mptune.cli._values import as_given

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ALL", "COMMANDS", "GROUPS", "Command", "Group", "Groups", "Panel", "summary", "with_all"]


class Group(NamedTuple):
    """Commands for one purpose.

    Attributes
    ----------
    title : what a user wants with them.
    commands : in the order of the help.
    """

    title: str
    commands: tuple[str, ...]


#: Every command stands here once. The first group is what matters most.
GROUPS = (
    Group("Start here", ("probe", "optimise", "why", "report", "apply", "watch", "campaign", "reproduce")),
    Group("Ask about a network or your data", ("paths", "buffers", "fit", "calibrate")),
    Group("Measure more of it", ("run", "impact", "rules", "routes")),
    Group("Apply an answer, and take it back", ("advise", "status", "rollback", "exec", "daemon")),
    Group("Look at a machine or a run", ("ui", "doctor", "capture", "bundle")),
    Group("Reproduce, on a simulator or a kernel", ("compare", "diverge", "shrink")),
    Group("Develop and install", ("cc", "kernel", "clean", "completion")),
)
COMMANDS = tuple(command for group in GROUPS for command in group.commands)

#: The option that shows the rest, and the key under which a context knows that it was given.
ALL, _ALL_GIVEN = "--help-all", "mptune.help_all"
#: Options from which on help groups them.
_MANY = 12
#: Paragraphs and examples without --help-all.
_PARAGRAPHS, _EXAMPLES = 2, 3
#: Title of the options that are in no group where others are.
_UNGROUPED = "Other options"


class Panel(str):
    """Title of a group of options; `rare` marks an option that only --help-all shows."""

    rare: bool

    def __new__(cls, title: str, *, rare: bool) -> Panel:
        """Make one."""
        made = super().__new__(cls, title)
        made.rare = rare
        return made


class Command(TyperCommand):
    """A command whose help begins with what most users need."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, whose values are taken as they are given."""
        return as_given(super().get_params(ctx))

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write its first paragraphs, or all."""
        with _shortened(self, "help", _paragraphs(self.help or "") if not _all(ctx) else self.help):
            super().format_help_text(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options: in groups if there are many."""
        rows: list[tuple[str, tuple[str, str]]] = []
        arguments, rare = [], 0
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            panel = getattr(parameter, "rich_help_panel", None)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(record)
            elif isinstance(panel, Panel) and panel.rare and not _all(ctx):
                rare += 1
            else:
                rows.append((str(panel or ""), record))
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        for title, options in _sections(rows):
            with formatter.section(title):
                formatter.write_dl(options)
        if rare:
            formatter.write_paragraph()
            formatter.write(f"{rare} more options: {ctx.command_path} {ALL}\n")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the first examples, or all."""
        with _shortened(self, "epilog", _first_examples(self.epilog or "") if not _all(ctx) else self.epilog):
            super().format_epilog(ctx, formatter)


class Groups(TyperGroup):
    """A program, or a command with commands below it: their whole summaries, in groups if it has any."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, whose values are taken as they are given."""
        return as_given(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, which matter more, before the options."""
        self.format_commands(ctx, formatter)
        records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write them."""
        there = {
            name: command
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None and not command.hidden
        }
        width = max(map(len, there), default=0)
        for title, names in _grouped(there):
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary(there[name])) for name in names])


def summary(command: Any) -> str:
    """First sentence of a command's help, never cut."""
    return " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())


def with_all(command: Callable[..., None], examples: int) -> Callable[..., None]:
    """Give a command `--help-all`, if `--help` leaves anything of it out.

    Parameters
    ----------
    command : as typer sees it.
    examples : how many it has.
    """
    signature = inspect.signature(command)
    rare = any(_rare(parameter.annotation) for parameter in signature.parameters.values())
    long = len(inspect.cleandoc(command.__doc__ or "").split("\n\n")) > _PARAGRAPHS
    if not (rare or long or examples > _EXAMPLES):
        return command

    def whole(help_all: bool = False, **values: Any) -> None:
        command(**values)

    more = inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_AllOption)
    whole.__signature__ = signature.replace(  # type: ignore[attr-defined] # what typer reads
        parameters=[*signature.parameters.values(), more]
    )
    whole.__annotations__ = {**command.__annotations__, "help_all": _AllOption}
    whole.__name__, whole.__doc__ = command.__name__, command.__doc__
    return whole


def _show_all(ctx: typer.Context, value: bool) -> None:
    if value:
        ctx.meta[_ALL_GIVEN] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


_AllOption = Annotated[
    bool,
    typer.Option(
        ALL, is_eager=True, callback=_show_all, help="Show all options, examples and explanations, and exit."
    ),
]


def _rare(annotation: Any) -> bool:
    return any(
        isinstance(panel := getattr(part, "rich_help_panel", None), Panel) and panel.rare
        for part in getattr(annotation, "__metadata__", ())
    )


def _all(ctx: Any) -> bool:
    return bool(ctx.meta.get(_ALL_GIVEN))


def _grouped(there: Any) -> list[tuple[str, list[str]]]:
    """Titles and names: by GROUPS for the program's commands, otherwise all together."""
    if not set(there) & {"optimise"}:
        return [("Commands", list(there))] if there else []
    known = [(group.title, [name for name in group.commands if name in there]) for group in GROUPS]
    return [(title, names) for title, names in known if names]


def _sections(rows: list[tuple[str, tuple[str, str]]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Options below their titles; those without one last."""
    if len(rows) <= _MANY or not any(title for title, _ in rows):
        return [("Options", [record for _, record in rows])] if rows else []
    rows = sorted(rows, key=lambda row: not row[0])  # stable: the order of the declarations stays
    return [
        (title or _UNGROUPED, [record for _, record in options])
        for title, options in groupby(rows, key=lambda row: row[0])
    ]


def _paragraphs(text: str) -> str:
    return "\n\n".join(inspect.cleandoc(text).split("\n\n")[:_PARAGRAPHS])


def _first_examples(epilog: str) -> str:
    """The epilog up to its third example."""
    head, title, below = epilog.partition("Examples:\n")
    return head + title + "\n".join(below.splitlines()[:_EXAMPLES])


@contextmanager
def _shortened(command: Any, name: str, text: str | None) -> Iterator[None]:
    """Give a command another text while its help is written."""
    whole = getattr(command, name)
    setattr(command, name, text)
    try:
        yield
    finally:
        setattr(command, name, whole)
