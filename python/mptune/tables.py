"""TOML files as tables of checked keys and types: what topology files and campaign files share.

It knows no keys or values; an error is one line that names the file and the key.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mptune.errors import InputError
from mptune.files import read_bytes

Table = TypeVar("Table", bound=msgspec.Struct)

_WORDS = {
    "str": "text",
    "bool": "true or false",
    "object": "a table",
    "array": "a list of tables",
    "int": "a whole number",
    "float": "a number",
}


def read_toml(file: Path, where: str) -> dict[str, Any]:
    """Tables of a TOML file, of built-in types.

    Raises
    ------
    InputError : it cannot be read, or is not TOML; `where` is its name in the message.
    """
    try:
        return parse_toml(read_bytes(file), where)
    except OSError as error:
        raise InputError(where, "", f"expected a readable file: {error.strerror}") from None


def parse_toml(content: bytes, where: str) -> dict[str, Any]:
    """Tables of the content of a TOML file.

    Raises
    ------
    InputError : it is not TOML; `where` is its name in the message.
    """
    try:
        raw: dict[str, Any] = msgspec.toml.decode(content)
    except UnicodeDecodeError:
        raise InputError(where, "", "expected TOML, which is UTF-8 text") from None
    except msgspec.DecodeError as error:
        raise InputError(where, "", f"expected TOML: {error}") from None
    except RecursionError:
        raise InputError(where, "", "expected TOML without so many brackets inside each other") from None
    return raw


def convert(raw: object, table: type[Table], where: str, key: str) -> Table:
    """Check the keys and types of one table (not of the tables inside it).

    Parameters
    ----------
    where, key : file and dotted key of the table, for messages.

    Raises
    ------
    InputError : not a table, an unknown or missing key, or a key of the wrong type.
    """
    if not isinstance(raw, dict):
        raise InputError(where, key, f"expected a table, found {_word(type(raw).__name__)}")
    known = table.__struct_encode_fields__
    inherited = getattr(table.__base__, "__struct_fields__", ())
    for name in raw:
        if name not in known:
            # Keys common to several kinds of tables come last.
            listed = sorted(known, key=lambda field: field in inherited)
            raise unknown_key(where, inside(key, name), listed)
    try:
        return msgspec.convert(raw, table)
    except msgspec.ValidationError as error:
        raise _explained(error, where, key) from None


def unknown_key(where: str, key: str, known: Iterable[str]) -> InputError:
    """Error at a key that means nothing; `known` are those that may stand in its table."""
    return InputError(where, key, f"unknown key, expected one of {', '.join(known)}")


def inside(key: str, name: str) -> str:
    """Dotted key of `name` in the table at `key` ("" is the file itself)."""
    return f"{key}.{name}" if key else name


def _explained(error: msgspec.ValidationError, where: str, key: str) -> InputError:
    """Translate msgspec's message into the terms of this file format."""
    message, _, place = str(error).partition(" - at `$.")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", message):
        return InputError(where, inside(key, missing[1]), "expected, but missing")
    expected, actual = re.findall(r"`(.+?)`", message)
    required = _word(expected.removesuffix(" | null"))
    return InputError(where, inside(key, place.rstrip("`")), f"expected {required}, found {_word(actual)}")


def _word(type_name: str) -> str:
    aliases = {"dict": "object", "list": "array"}
    return _WORDS.get(aliases.get(type_name, type_name), type_name)
