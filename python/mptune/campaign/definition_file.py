"""The campaign file of a definition: the inverse of `read_definition`, for runs asked for in other ways.

It writes what differs from the defaults. The topology is named, not contained.
"""

import json
from collections.abc import Iterator
from typing import Any

from mptune.campaign.definition import Definition, kind_of
from mptune.options import Declared, declared, value_of
from mptune.units import format_time


def definition_file(definition: Definition, topology: str, networks: str = "") -> str:
    """Text of a campaign file.

    Parameters
    ----------
    topology : the file, or the name of a shipped scenario.
    networks : the file of networks, if there is one.
    """
    kind = kind_of(definition.options)
    head = {"name": definition.name, "topology": topology, "kind": kind, "testbed": definition.testbed}
    tables: dict[str, list[str]] = {"": [f"{key} = {_quoted(text)}" for key, text in head.items()]}
    for declaration, value in _changed(definition):
        table, _, key = declaration.key.rpartition(".")
        line = f"{key} = {_written(declaration, value)}"
        if line not in tables.setdefault(table, []):
            tables[table].append(line)
    if definition.routes.every_ns is not None:
        every = f'every = "{format_time(definition.routes.every_ns)}"'
        tables["routes"] = [every, *([f"networks = {_quoted(networks)}"] if networks else [])]
    parts = [[*([f"[{table}]"] if table else []), *lines] for table, lines in tables.items()]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _changed(definition: Definition) -> Iterator[tuple[Declared, Any]]:
    """Options that differ from what a file without them would give."""
    kind = type(definition.options)
    plain = kind().completed()
    for declaration in declared(kind):
        value = value_of(definition.options, declaration.fields)
        if declaration.key and value is not None and value != value_of(plain, declaration.fields):
            yield declaration, value


def _written(declaration: Declared, value: Any) -> str:
    kind = declaration.option.kind
    text = kind.show(value)
    if str in kind.written:
        return _quoted(text)
    if list in kind.written:
        return json.dumps(text.split(","), ensure_ascii=False)
    return text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
