"""Keywords of Python's callers, made from the declarations of options, as the flags of commands are.

A keyword is the flag without its dashes, `_` for `-`; `for_` is `--for`. A value is what is written on the
command line ("4MiB", "30s", "cubic,olia"), or a number, a bool, or a sequence of such values.
"""

import difflib
import keyword
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from mptune._text import bounded, quoted
from mptune.errors import InputError
from mptune.options import Declared, Given, Options, declared

O = TypeVar("O", bound=Options)  # noqa: E741 - as T, but of options


def name_of(declaration: Declared) -> str:
    """The keyword of an option."""
    name = declaration.flag.removeprefix("--").replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def keywords(kind: type[Options]) -> dict[str, Declared]:
    """Every option of a struct by its keyword; where two have one flag, the one with several values."""
    by_name: dict[str, Declared] = {}
    for declaration in declared(kind):
        name = name_of(declaration)
        if not declaration.option.file_only and (name not in by_name or declaration.option.kind.several):
            by_name[name] = declaration
    return by_name


def build(given: Mapping[str, Any], *kinds: type[Options]) -> list[Any]:
    """The structs with the values that were given; None is the default.

    Raises
    ------
    InputError : naming the keyword that is not known, or whose value is invalid.
    """
    known = [keywords(kind) for kind in kinds]
    for name in given:
        if not any(name in names for names in known):
            raise InputError(name, "", _one_of(sorted({key for names in known for key in names}), name))
    built = []
    for kind, names in zip(kinds, known, strict=True):
        texts = {
            names[name].fields: _text(name, value)
            for name, value in given.items()
            if name in names and value is not None
        }
        built.append(Given(kind, texts, lambda declaration: (name_of(declaration), "")).build())
    return built


def _text(name: str, value: object) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Mapping):
        return ",".join(f"{label}={_text(name, entry)}" for label, entry in value.items())
    if isinstance(value, Sequence):
        return ",".join(_text(name, entry) for entry in value)
    raise InputError(name, "", f"expected text, a number or a sequence of them, found {type(value).__name__}")


def _one_of(known: Sequence[str], name: str) -> str:
    """Error text for an unknown keyword: the known ones that resemble it, or some of them."""
    like = difflib.get_close_matches(name, known, 5)
    named = ", ".join(like) if like else bounded(", ".join(known), 150)
    return f"expected one of {named}, found {quoted(name)}"
