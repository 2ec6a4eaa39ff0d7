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
from mptune.tables import convert
from mptune.topology import _defaults as defaults
from mptune.topology._checked import check_abbr
from mptune.topology._kinds import TIME
from mptune.topology._schema import CoreTable, SharedTable
from mptune.topology._segment_values import Level, LinkReader
from mptune.topology._sites import SharedSegment
from mptune.topology._values import Ledger, Origin

#: Most shared segments: with them on all of 64 paths, the core still has room for every place of a packet.
_MOST = 8

#: A segment, and the labels of the paths that cross it.
Shared = tuple[SharedSegment, frozenset[str]]


def read_shared(
    core: CoreTable, labels: Sequence[str], ledger: Ledger, origin: Origin, folder: Folder
) -> list[Shared]:
    """All shared segments, in the file's order, which is that of the data.

    Parameters
    ----------
    labels : of all paths.

    Raises
    ------
    InputError : anything that is not as expected.
    """
    if len(core.shared) > _MOST:
        expected = f"expected at most {_MOST} shared segments, found {len(core.shared)}"
        raise InputError(ledger.where, "core.shared", expected)
    found: list[Shared] = []
    for number, raw in enumerate(core.shared):
        key = f"core.shared[{number}]"
        table = convert(raw, SharedTable, ledger.where, key)
        check_abbr(table.name, ledger.where, f"{key}.name")
        if table.name in (segment.name for segment, _ in found):
            expected = f"expected a unique name, found {quoted(table.name)} twice"
            raise InputError(ledger.where, f"{key}.name", expected)
        _check_paths(table.paths, labels, ledger.where, f"{key}.paths")
        found.append((_segment(table, ledger, origin, folder), frozenset(table.paths)))
    return found


def _check_paths(paths: Sequence[str], labels: Sequence[str], where: str, key: str) -> None:
    for number, label in enumerate(paths):
        if label not in labels:
            expected = f"expected an interface pair of the two sites ({', '.join(labels)})"
            raise InputError(where, f"{key}[{number}]", f"{expected}, found {quoted(label)}")
        if label in paths[:number]:
            raise InputError(where, f"{key}[{number}]", f"expected each path once, found {label} twice")
    if len(paths) < 2:
        raise InputError(where, key, f"expected at least two paths, found {', '.join(paths) or 'none'}")


def _segment(table: SharedTable, ledger: Ledger, outer: Origin, folder: Folder) -> SharedSegment:
    key = f"core.shared.{table.name}"
    levels = [Level(key, table, ledger.origin(key, table, outer))]
    reader = LinkReader(key, levels, ledger, folder, defaults.NO_SHARED_CAP)
    segment = reader.segment(2 * reader.given("delay", TIME, defaults.SHARED_DELAY))
    return SharedSegment(name=table.name, **msgspec.structs.asdict(segment))
