"""The N x M paths of a topology file: interface pairs, and the core segment of each.

A segment takes each value from its own table, else from `[core]`, else from the defaults. `_load` reads the
sites, `_interfaces` the interfaces, `_shared` the segments that paths share.
"""

from __future__ import annotations

from pathlib import Path as Folder

import msgspec

from mptune import units
from mptune._text import quoted
from mptune.errors import InputError
from mptune.tables import convert
from mptune.topology import _defaults as defaults
from mptune.topology._families import MAX_PATHS, pairs
from mptune.topology._kinds import TIME, choice
from mptune.topology._mptcp import WORDS
from mptune.topology._schema import CoreTable, SegmentTable
from mptune.topology._segment_values import Level, LinkReader
from mptune.topology._shared import read_shared
from mptune.topology._sites import Carries, CoreSegment, Path, Site, around_ns
from mptune.topology._values import Ledger, Origin


def read_paths(
    sender: Site, receiver: Site, core_table: object, ledger: Ledger, origin: Origin, folder: Folder
) -> tuple[Path, ...]:
    """All paths, local interface by local interface.

    Parameters
    ----------
    core_table : the file's `[core]` as written.
    origin : origin of plain values unless a nearer table has another.
    folder : where relative names of trace files start.

    Raises
    ------
    InputError : too many pairs, or anything in `[core]` that is not as expected.
    """
    count = len(sender.interfaces) * len(receiver.interfaces)
    if count > MAX_PATHS:
        expected = f"expected at most {MAX_PATHS} interface pairs, found {count}"
        raise InputError(ledger.where, "sites", expected)
    core = convert(core_table, CoreTable, ledger.where, "core")
    labels = [pair.label for pair in pairs(sender, receiver, both=False)]
    segments = _segments(core, labels, ledger.where)
    shared = read_shared(core, labels, ledger, origin, folder)
    paths = []
    for pair in pairs(sender, receiver, both=False):
        crossed = tuple(segment for segment, over in shared if pair.label in over)
        reader = _SegmentReader(pair.label, segments.get(pair.label), core, ledger, origin, folder)
        segment = reader.core(around_ns(pair.local, pair.remote, crossed))
        paths.append(Path(label=pair.label, core=segment, shared=crossed, **pair._asdict()))
    return tuple(paths)


def _segments(core: CoreTable, labels: list[str], where: str) -> dict[str, SegmentTable]:
    segments: dict[str, SegmentTable] = {}
    for number, raw in enumerate(core.segments):
        key = f"core.segments[{number}]"
        segment = convert(raw, SegmentTable, where, key)
        if segment.path not in labels:
            expected = f"expected an interface pair of the two sites ({', '.join(labels)})"
            raise InputError(where, f"{key}.path", f"{expected}, found {quoted(segment.path)}")
        if segment.path in segments:
            raise InputError(
                where, f"{key}.path", f"expected one segment per pair, found {segment.path} twice"
            )
        segments[segment.path] = segment
    return segments


class _SegmentReader(LinkReader):
    """Values of one path's core segment: its own, else those of `[core]`, else the defaults."""

    def __init__(
        self,
        label: str,
        segment: SegmentTable | None,
        core: CoreTable,
        ledger: Ledger,
        origin: Origin,
        folder: Folder,
    ) -> None:
        key, core_origin = f"core.segments.{label}", ledger.origin("core", core, origin)
        levels = [Level("core", core, core_origin)]
        if segment is not None:
            levels.insert(0, Level(key, segment, ledger.origin(key, segment, core_origin)))
        super().__init__(key, levels, ledger, folder, defaults.NO_CAP)

    def core(self, around_ns: int) -> CoreSegment:
        """Build the segment; `around_ns` is the part of the path's RTT outside it."""
        segment = self.segment(self._core_rtt(around_ns))
        found = {key: self._mptcp(key) for key in ("mptcp", "mptcp_ipv6")}
        return msgspec.structs.replace(segment, **found)

    def _mptcp(self, key: str) -> Carries | None:
        """Treatment of MPTCP by a segment; None if that is not known."""
        (level, *_) = self._levels
        raw = getattr(level.table, key) if isinstance(level.table, SegmentTable) else None
        if raw is None:
            return None
        return self._ledger.read(f"{self._key}.{key}", raw, choice(WORDS), level.origin)

    def _core_rtt(self, around_ns: int) -> int | None:
        """The segment's part of the RTT, ns: what the rest leaves of `rtt`, or twice `delay`.

        None if it is not known.
        """
        found = self.either("rtt", "delay")
        if found is None:
            expected = "expected, here or in [core], or ssh at both sites, but missing"
            self._ledger.lack(f"{self._key}.rtt", expected)
            return None
        name, value = found
        time = self._ledger.read(value.key, value.raw, TIME, value.origin)
        if name == "delay":
            return 2 * time
        if time < around_ns:
            least = units.format_time(around_ns)
            expected = f"expected at least the {least} of the path's access links and shared segments"
            raise InputError(self._ledger.where, value.key, f"{expected}, found {units.format_time(time)}")
        return time - around_ns
