"""The flags of a command, made from the declarations of its options.

A command's function takes an options struct, or a single declared option, as a parameter. On the command
line that parameter becomes flags, and the function gets their values. The declarations are in
`mptune.options` and in the structs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import typer

from mptune.cli._help import Panel
from mptune.options import SWITCH, TOGGLE, Declared, Given, Options, declared
from mptune.options import option_of as declaration

#: Tables of a campaign file in the order in which help shows their options, and the titles it gives them;
#: then what is in none; then those of path managers.
_TABLES = {
    "factors": "What is compared",
    "trials": "Trials, and how many",
    "impact": "Impact factors",
    "decision": "Decision",
    "repeat": "Repetition",
    "": "Where and how",
    "transport": "Transport",
    "paths": "Path policies",
    "dask": "Workers",
}
_OF_PATH_MANAGERS = "Path managers"


class _Parameter(NamedTuple):
    """A parameter of a command's function, and the flags it becomes."""

    name: str
    flags: tuple[Declared, ...]
    make: Callable[[Mapping[tuple[str, ...], str]], Any]


def with_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Give the command that typer sees: its parameters are flags; typer's own parameters stay.

    A parameter of type `Given[S]` gets the text as written, one of type S gets the built struct.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    made: list[_Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        declarations = _declared(parameter, hints[parameter.name])
        if declarations is None:
            hint = hints[parameter.name]
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))
        else:
            made.append(declarations)
            parameters += [
                _flag(f"{declarations.name}_{number}", option)
                for number, option in enumerate(declarations.flags)
            ]

    @wraps(function)
    def command(**values: Any) -> None:
        for name in made:
            raw = {flag.fields: values.pop(f"{name.name}_{n}") for n, flag in enumerate(name.flags)}
            values[name.name] = name.make(_written(raw))
        function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    command.__annotations__ = {
        each_parameter.name: each_parameter.annotation for each_parameter in parameters
    }
    return command


def _declared(parameter: inspect.Parameter, hint: Any) -> _Parameter | None:
    """The flags of a parameter; None if it is typer's own."""
    if isinstance(hint, type) and issubclass(hint, Options):
        return _Parameter(parameter.name, _in_order(hint), lambda raw: Given(hint, raw).build())
    if get_origin(hint) is Given:
        (kind,) = get_args(hint)
        return _Parameter(parameter.name, _in_order(kind), lambda raw: Given(kind, raw))
    if (option := declaration(hint)) is None:
        return None
    default = msgspec.NODEFAULT if parameter.default is inspect.Parameter.empty else parameter.default
    each_declaration = Declared((parameter.name,), option, default)
    return _Parameter(
        parameter.name,
        (each_declaration,),
        lambda raw: (
            each_declaration.parse(raw[each_declaration.fields])
            if each_declaration.fields in raw
            else parameter.default
        ),
    )


def _in_order(kind: type[Options]) -> tuple[Declared, ...]:
    """Options of a struct as help shows them: by the tables that campaign files have."""
    return tuple(sorted((option for option in declared(kind) if not option.option.file_only), key=_table))


def _table(option: Declared) -> int:
    table = option.key.rpartition(".")[0]
    return list(_TABLES).index(table) if table in _TABLES else len(_TABLES)


def _written(raw: Mapping[tuple[str, ...], Any]) -> dict[tuple[str, ...], str]:
    """Texts of the flags that were given."""
    texts = {}
    for fields, value in raw.items():
        if isinstance(value, list):
            texts[fields] = ",".join(value)
        elif isinstance(value, bool):
            texts[fields] = str(value).lower()
        elif isinstance(value, str):
            texts[fields] = value
    return {fields: text for fields, text in texts.items() if raw[fields] != []}


def _flag(name: str, declaration: Declared) -> inspect.Parameter:
    """A flag as typer wants it."""
    kind: Any = declaration.option.kind
    required = declaration.default is msgspec.NODEFAULT
    table = declaration.key.rpartition(".")[0]
    panel = Panel(_TABLES.get(table, _OF_PATH_MANAGERS), rare=declaration.option.rare)
    if kind is SWITCH or kind is TOGGLE:
        flag = (
            declaration.flag
            if kind is SWITCH
            else f"{declaration.flag}/--no-{declaration.flag.removeprefix('--')}"
        )
        hint: Any = Annotated[
            bool | None, typer.Option(flag, help=declaration.described, rich_help_panel=panel)
        ]
    else:
        text: Any = list[str] if kind.several else str
        names = _names(kind) if kind.known() else None
        option = typer.Option(
            declaration.flag,
            help=declaration.described,
            metavar=kind.metavar,
            autocompletion=names,
            rich_help_panel=panel,
        )
        hint = Annotated[text if required else text | None, option]
    default = inspect.Parameter.empty if required else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _names(kind: Any) -> Callable[[str], list[str]]:
    """Completions: the names that the help lists, for the last one of a list."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if kind.several else ("", "", incomplete)
        return [f"{before}{comma}{name}" for name in map(str, kind.known()) if name.startswith(last)]

    return complete
