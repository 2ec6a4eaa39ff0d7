"""The tables of a topology file as they are written, before any value is understood.

    name, description, source, sender, receiver, initial_path, lsrr = "honoured" | "ignored"
    [sites.<abbreviation>]                  name, location, source
    [[sites.<abbreviation>.interfaces]]     isp, abbr, adsl, up, down, delay, queue or queue_up and
                                            queue_down, loss, ipv4, ipv6, source
    [core]                                  what segments leave out: rtt or delay, jitter, loss, rate, queue
    [[core.segments]]                       path = "U-C" and any of the keys of [core], source

A value is text with its unit, or a table `{ value = "286 Mbit/s", assumed = "reason" }`, or
`{ value = ..., source = "where it is published" }`; `up.value = ...` and `up.assumed = ...` on two lines
are the same. Plain text counts as published; the nearest `source` (its own table's, its site's, the
file's) says where. `delay` is one way; a segment's `rtt` is that of the whole path, access links
included; its `loss` is that of the data direction. Only tables and types are checked here; values are
`_values`' job.
"""

import re
from typing import Any, TypeVar

import msgspec

from mptune.errors import InputError


class FileTable(msgspec.Struct, kw_only=True):
    """The file itself."""

    name: str
    sender: str
    receiver: str
    sites: dict[str, Any]
    core: dict[str, Any] = {}
    description: str = ""
    source: str | None = None
    initial_path: Any = None
    lsrr: Any = None


class SiteTable(msgspec.Struct, kw_only=True):
    """`[sites.X]`."""

    name: str
    interfaces: list[Any]
    location: str = ""
    source: str | None = None


class InterfaceTable(msgspec.Struct, kw_only=True):
    """`[[sites.X.interfaces]]`."""

    isp: str
    abbr: str
    up: Any
    down: Any
    delay: Any = None
    queue: Any = None
    queue_up: Any = None
    queue_down: Any = None
    loss: Any = None
    adsl: bool = False
    ipv4: str | None = None
    ipv6: str | None = None
    source: str | None = None


class CoreTable(msgspec.Struct, kw_only=True):
    """`[core]`."""

    segments: list[Any] = []
    rtt: Any = None
    delay: Any = None
    jitter: Any = None
    loss: Any = None
    rate: Any = None
    queue: Any = None
    source: str | None = None


class SegmentTable(msgspec.Struct, kw_only=True):
    """`[[core.segments]]`."""

    path: str
    rtt: Any = None
    delay: Any = None
    jitter: Any = None
    loss: Any = None
    rate: Any = None
    queue: Any = None
    source: str | None = None


class ValueTable(msgspec.Struct, kw_only=True):
    """A value with its reason or its source."""

    value: str
    assumed: str | None = None
    source: str | None = None


Table = TypeVar("Table", bound=msgspec.Struct)

_WORDS = {
    "str": "text",
    "bool": "true or false",
    "object": "a table",
    "array": "a list of tables",
    "int": "a whole number",
    "float": "a number",
}


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
    for name in raw:
        if name not in known:
            raise InputError(where, inside(key, name), f"unknown key, expected one of {', '.join(known)}")
    try:
        return msgspec.convert(raw, table)
    except msgspec.ValidationError as error:
        raise _explained(error, where, key) from None


def inside(key: str, name: str) -> str:
    """Dotted key of `name` in the table at `key` ("" is the file itself)."""
    return f"{key}.{name}" if key else name


def _explained(error: msgspec.ValidationError, where: str, key: str) -> InputError:
    """Message of msgspec in the words of this file format."""
    message, _, place = str(error).partition(" - at `$.")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", message):
        return InputError(where, inside(key, missing[1]), "expected, but missing")
    expected, found = re.findall(r"`(.+?)`", message)
    wanted = _word(expected.removesuffix(" | null"))
    return InputError(where, inside(key, place.rstrip("`")), f"expected {wanted}, found {_word(found)}")


def _word(type_name: str) -> str:
    aliases = {"dict": "object", "list": "array"}
    return _WORDS.get(aliases.get(type_name, type_name), type_name)
