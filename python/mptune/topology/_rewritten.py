"""A topology file again, with other values: TOML for people and for `load`.

Comments of the file are lost; what it states on the origin of its values stays.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as File
from typing import Any

import msgspec

from mptune.tables import read_toml
from mptune.topology._shipped import find

#: Keys whose values are names of files, relative to the topology file.
_FILES = ("trace", "trace_up", "trace_down")


class Change(msgspec.Struct, frozen=True):
    """A value with its origin: `kind` is "assumed", "measured" or "source", `words` the origin itself."""

    value: str
    kind: str
    words: str


def rewritten(
    path: str | File,
    changes: Mapping[str, Change],
    *,
    name: str,
    background: Sequence[Mapping[str, str]] = (),
    comments: Sequence[str] = (),
    folder: File = File(),
) -> str:
    """Text of a topology file with some values changed.

    Parameters
    ----------
    path : the file, or the name of a shipped scenario.
    changes : key, as in `Topology.provenance`, of an interface or a core segment -> new value.
    name : of the new topology.
    background : more rows of `[[background]]`.
    comments : lines at its top.
    folder : where the text is going to be; names of trace files are relative to it.

    Raises
    ------
    InputError : no such file, or no TOML.
    """
    file = find(path)
    raw = read_toml(file, str(file))
    raw["name"] = name
    for key, change in changes.items():
        table, last = _table_of(raw, key)
        table[last] = {"value": change.value, change.kind: change.words}
        for both in _BOTH.get(last, ()):
            table.pop(both, None)
    raw["background"] = [*raw.get("background", ()), *map(dict, background)]
    return written(raw, comments, file.parent, folder)


def written(raw: dict[str, Any], comments: Sequence[str], old: File, new: File) -> str:
    """Text of a topology file from its tables.

    Parameters
    ----------
    raw : as `read_toml` gives them; names of trace files in them become relative to the folder `new`.
    comments : lines at its top.
    old : the folder that they are relative to.
    """
    _move(raw, old, new)
    return "\n".join((*(f"# {line}" for line in comments), *_lines(raw))) + "\n"


#: Keys that a more specific one replaces.
_BOTH = {"rtt": ("delay",)}


def _table_of(raw: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """The table of a key, made if there is none, and the last part of the key."""
    parts = key.split(".")
    if parts[0] == "sites":
        _, site, _, abbr, last = parts
        interfaces = raw["sites"][site]["interfaces"]
        return next(row for row in interfaces if row["abbr"] == abbr), last
    label, last = parts[2:]
    if parts[1] == "shared":
        return next(row for row in raw["core"]["shared"] if row["name"] == label), last
    segments = raw.setdefault("core", {}).setdefault("segments", [])
    segment = next((row for row in segments if row["path"] == label), None)
    if segment is None:
        segment = {"path": label}
        segments.append(segment)
    return segment, last


def _move(raw: dict[str, Any], old: File, new: File) -> None:
    """Names of trace files, relative to another folder."""
    core = raw.get("core", {})
    tables = [core, *core.get("segments", ()), *core.get("shared", ())]
    tables += [row for site in raw["sites"].values() for row in site["interfaces"]]
    for table in tables:
        for key in _FILES:
            holder, last = _name_in(table, key)
            if isinstance(holder.get(last), str):
                holder[last] = os.path.relpath((old / holder[last]).resolve(), new.resolve())


def _name_in(table: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """Table and key of a trace's name: a value, a value with its origin, or a table with `file`."""
    inner = table.get(key)
    if not isinstance(inner, dict):
        return table, key
    return _name_in(inner, "file") if "file" in inner else (inner, "value")


def _lines(raw: Mapping[str, Any]) -> Iterator[str]:
    yield from _values(raw, ("sites", "core", "background"))
    for abbr, site in raw["sites"].items():
        yield f"\n[sites.{_key(abbr)}]"
        yield from _values(site, ("interfaces",))
        for interface in site["interfaces"]:
            yield f"\n[[sites.{_key(abbr)}.interfaces]]"
            yield from _values(interface)
    core = raw.get("core", {})
    lists = ("segments", "shared")
    if any(key not in lists for key in core):
        yield "\n[core]"
        yield from _values(core, lists)
    rows_of = [(f"core.{name}", core.get(name, ())) for name in lists]
    for title, rows in (*rows_of, ("background", raw.get("background", ()))):
        for row in rows:
            yield f"\n[[{title}]]"
            yield from _values(row)


def _values(table: Mapping[str, Any], but: Sequence[str] = ()) -> Iterator[str]:
    for key, value in table.items():
        if key not in but:
            yield f"{_key(key)} = {_inline(value)}"


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_inline(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, str):
        # A basic string of TOML has the escapes of JSON.
        return json.dumps(value, ensure_ascii=not value.isprintable()).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if plain else json.dumps(name)
