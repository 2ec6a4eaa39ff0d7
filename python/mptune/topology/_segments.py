"""The N x M paths of a topology file: interface pairs, and the core segment of each.

A segment takes each value from its own table, else from `[core]`, else from the defaults. Files, sites
and interfaces are `_load`'s.
"""

from mptune import units
from mptune.errors import InputError
from mptune.topology import _defaults as defaults
from mptune.topology._model import CoreSegment, Path, Site
from mptune.topology._schema import CoreTable, SegmentTable, convert, inside
from mptune.topology._values import LOSS, QUEUE, RATE, TIME, Kind, Ledger

#: Paths the core can carry.
_MAX_PATHS = 64


def read_paths(
    sender: Site, receiver: Site, core_table: object, ledger: Ledger, source: str
) -> tuple[Path, ...]:
    """All paths, local interface by local interface.

    Parameters
    ----------
    core_table : the file's `[core]` as it is written.
    source : where plain values are published unless a nearer table says otherwise.

    Raises
    ------
    InputError : too many pairs, or anything in `[core]` that is not as expected.
    """
    count = len(sender.interfaces) * len(receiver.interfaces)
    if count > _MAX_PATHS:
        raise InputError(
            ledger.where, "sites", f"expected at most {_MAX_PATHS} interface pairs, found {count}"
        )
    core = convert(core_table, CoreTable, ledger.where, "core")
    labels = [f"{a.abbr}-{b.abbr}" for a in sender.interfaces for b in receiver.interfaces]
    segments = _segments(core, labels, ledger.where)
    paths = []
    for i, local in enumerate(sender.interfaces):
        for j, remote in enumerate(receiver.interfaces):
            label = f"{local.abbr}-{remote.abbr}"
            reader = _SegmentReader(label, segments.get(label), core, ledger, source)
            segment = reader.segment(2 * (local.delay_ns + remote.delay_ns))
            paths.append(
                Path(label=label, local_index=i, remote_index=j, local=local, remote=remote, core=segment)
            )
    return tuple(paths)


def _segments(core: CoreTable, labels: list[str], where: str) -> dict[str, SegmentTable]:
    segments: dict[str, SegmentTable] = {}
    for number, raw in enumerate(core.segments):
        key = f"core.segments[{number}]"
        segment = convert(raw, SegmentTable, where, key)
        if segment.path not in labels:
            expected = f"expected an interface pair of the two sites ({', '.join(labels)})"
            raise InputError(where, f"{key}.path", f"{expected}, found {segment.path!r}")
        if segment.path in segments:
            raise InputError(
                where, f"{key}.path", f"expected one segment per pair, found {segment.path} twice"
            )
        segments[segment.path] = segment
    return segments


class _SegmentReader:
    """Values of one path's core segment: its own, else those of `[core]`, else the defaults."""

    def __init__(
        self, label: str, segment: SegmentTable | None, core: CoreTable, ledger: Ledger, source: str
    ) -> None:
        self.key = f"core.segments.{label}"
        self.ledger = ledger
        core_source = core.source or source
        self.levels: list[tuple[str, SegmentTable | CoreTable, str]] = [("core", core, core_source)]
        if segment is not None:
            self.levels.insert(0, (self.key, segment, segment.source or core_source))

    def segment(self, access_ns: int) -> CoreSegment:
        """Build the segment; `access_ns` is what the access links take of the path's RTT."""
        core_rtt = self._core_rtt(access_ns)
        rate, queue = self._cap()
        return CoreSegment(
            forward_ns=core_rtt // 2,
            reverse_ns=core_rtt - core_rtt // 2,
            jitter_ns=self._given("jitter", TIME, defaults.core_jitter(core_rtt)),
            loss_ppb=self._given("loss", LOSS, defaults.core_loss()),
            rate_bps=rate,
            queue_bytes=queue,
        )

    def _core_rtt(self, access_ns: int) -> int:
        """Core's share of the RTT, ns: what the access links leave of `rtt`, or twice `delay`."""
        for key, table, source in self.levels:
            if table.rtt is not None and table.delay is not None:
                raise InputError(self.ledger.where, key, "expected either rtt or delay, found both")
            if table.delay is not None:
                return 2 * self.ledger.read(inside(key, "delay"), table.delay, TIME, source)
            if table.rtt is not None:
                rtt = self.ledger.read(inside(key, "rtt"), table.rtt, TIME, source)
                if rtt < access_ns:
                    least, found = units.format_time(access_ns), units.format_time(rtt)
                    expected = f"expected at least the {least} of the path's access links, found {found}"
                    raise InputError(self.ledger.where, inside(key, "rtt"), expected)
                return rtt - access_ns
        raise InputError(self.ledger.where, f"{self.key}.rtt", "expected, here or in [core], but missing")

    def _cap(self) -> tuple[int | None, int | None]:
        found = self._find("rate")
        if found is None:
            if (queue := self._find("queue")) is not None:
                raise InputError(self.ledger.where, queue[0], "expected a rate beside it, but missing")
            self.ledger.assume(f"{self.key}.rate", "unlimited", str, defaults.NO_CAP)
            return None, None
        rate = self.ledger.read(found[0], found[1], RATE, found[2])
        return rate, self._given("queue", QUEUE, defaults.access_queue(rate, adsl=False))

    def _given(self, name: str, kind: Kind[int], assumption: defaults.Assumption) -> int:
        if (found := self._find(name)) is None:
            return self.ledger.assume(f"{self.key}.{name}", assumption.value, kind.show, assumption.reason)
        return self.ledger.read(found[0], found[1], kind, found[2])

    def _find(self, name: str) -> tuple[str, object, str] | None:
        """Key, raw value and source of the nearest table that has `name`."""
        for key, table, source in self.levels:
            if (raw := getattr(table, name)) is not None:
                return inside(key, name), raw, source
        return None
