"""Segments that several paths of a topology file share: `[[core.shared]]`.

Each takes its values from its own table, else from the defaults; those of `[core]` are for paths' own
segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as Folder

import msgspec

from mptune._text import quoted
from mptune.errors import InputError
from mptune.topology import _defaults as defaults
from mptune.topology._document import Document
from mptune.topology._kinds import TIME
from mptune.topology._schema import SharedTable
from mptune.topology._segment_values import LinkReader
from mptune.topology._sites import SharedSegment
from mptune.topology._values import Table

#: Most shared segments: with them on all of 64 paths, the core still has room for every place of a packet.
_MOST = 8

#: A segment, and the labels of the paths that cross it.
Shared = tuple[SharedSegment, frozenset[str]]


def read_shared(written: Document, labels: Sequence[str], folder: Folder) -> list[Shared]:
    """All shared segments, in the file's order, which is that of the data.

    Parameters
    ----------
    written : the tables of the file.
    labels : of all paths.

    Raises
    ------
    InputError : anything that is not as expected.
    """
    tables = written.shared
    if len(tables) > _MOST:
        expected = f"expected at most {_MOST} shared segments, found {len(tables)}"
        raise written.core.refuse("shared", expected)
    for number, table in enumerate(tables.values()):
        _check_paths(table, labels, f"core.shared[{number}].paths")
    return [(_segment(name, table, folder), frozenset(table.written.paths)) for name, table in tables.items()]


def _check_paths(table: Table[SharedTable], labels: Sequence[str], key: str) -> None:
    where, paths = table.ledger.where, table.written.paths
    for number, label in enumerate(paths):
        if label not in labels:
            expected = f"expected an interface pair of the two sites ({', '.join(labels)})"
            raise InputError(where, f"{key}[{number}]", f"{expected}, found {quoted(label)}")
        if label in paths[:number]:
            raise InputError(where, f"{key}[{number}]", f"expected each path once, found {label} twice")
    if len(paths) < 2:
        raise InputError(where, key, f"expected at least two paths, found {', '.join(paths) or 'none'}")


def _segment(name: str, table: Table[SharedTable], folder: Folder) -> SharedSegment:
    reader = LinkReader(table.key, [table], folder, defaults.NO_SHARED_CAP)
    segment = reader.segment(2 * reader.given("delay", TIME, defaults.SHARED_DELAY))
    return SharedSegment(name=name, **msgspec.structs.asdict(segment))
