"""The N x M paths of a topology file: interface pairs, and the core segment of each.

A segment takes each value from its own table, else from `[core]`, else from the defaults. `_load` reads the
sites, `_interfaces` the interfaces.
"""

from __future__ import annotations

from pathlib import Path as Folder
from typing import NamedTuple

from mptune import units
from mptune._text import quoted
from mptune.errors import InputError
from mptune.tables import convert, inside
from mptune.topology import _defaults as defaults
from mptune.topology._declared import Ahead
from mptune.topology._effects import DECLARED, Effects, Schedule
from mptune.topology._families import MAX_PATHS, pairs
from mptune.topology._kinds import LOSS, RATE, TIME, Kind, choice
from mptune.topology._link_effects import EffectsReader, Fields, Found, bounded
from mptune.topology._mptcp import WORDS
from mptune.topology._schedules import Steps, read_steps
from mptune.topology._schema import CoreTable, CoreValues, SegmentTable
from mptune.topology._sites import UNKNOWN, Carries, CoreSegment, Path, Site
from mptune.topology._trace import Trace, trace_in
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
    paths = []
    for pair in pairs(sender, receiver, both=False):
        reader = _SegmentReader(pair.label, segments.get(pair.label), core, ledger, origin, folder)
        segment = reader.segment(2 * (pair.local.delay_ns + pair.remote.delay_ns))
        paths.append(Path(label=pair.label, core=segment, **pair._asdict()))
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


class _Level(NamedTuple):
    """A table that may give a value of the segment."""

    key: str
    table: CoreValues
    origin: Origin


class _Cap(NamedTuple):
    """Limit of a segment's rate, bit/s (for a trace its mean), and the queue in front of it, bytes."""

    effects: Fields
    rate_bps: int | None = None
    trace: Trace | None = None
    queue_bytes: int | None = None


class _SegmentReader:
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
        self._key, self._ledger = f"core.segments.{label}", ledger
        self._trace = trace_in(folder)
        core_origin = ledger.origin("core", core, origin)
        self._levels = [_Level("core", core, core_origin)]
        if segment is not None:
            own = ledger.origin(self._key, segment, core_origin)
            self._levels.insert(0, _Level(self._key, segment, own))
        self._reader = EffectsReader(ledger, self._find)

    def segment(self, access_ns: int) -> CoreSegment:
        """Build the segment; `access_ns` is the access links' part of the path's RTT."""
        known = self._core_rtt(access_ns)
        core_rtt = UNKNOWN if known is None else known
        cap = self._cap()
        forward, back = self._effects(cap)
        return CoreSegment(
            forward_ns=core_rtt // 2,
            reverse_ns=core_rtt - core_rtt // 2,
            jitter_ns=self._jitter(known),
            loss_ppb=self._given("loss", LOSS, defaults.core_loss()),
            rate_bps=cap.rate_bps,
            queue_bytes=cap.queue_bytes,
            forward_effects=forward,
            back_effects=back,
            mptcp=self._mptcp(),
        )

    def _mptcp(self) -> Carries | None:
        """Treatment of MPTCP by a segment; None if that is not known."""
        (level, *_) = self._levels
        if not isinstance(level.table, SegmentTable) or level.table.mptcp is None:
            return None
        return self._ledger.read(f"{self._key}.mptcp", level.table.mptcp, choice(WORDS), level.origin)

    def _jitter(self, core_rtt_ns: int | None) -> int:
        """Its jitter; the default is a share of the delay, if that is known."""
        if core_rtt_ns is None and self._find("jitter") is None:
            return UNKNOWN
        return self._given("jitter", TIME, defaults.core_jitter(core_rtt_ns or 0))

    def _core_rtt(self, access_ns: int) -> int | None:
        """The core's part of the RTT, ns: what the access links leave of `rtt`, or twice `delay`.

        None if it is not known.
        """
        found = self._either("rtt", "delay")
        if found is None:
            expected = "expected, here or in [core], or ssh at both sites, but missing"
            self._ledger.lack(f"{self._key}.rtt", expected)
            return None
        name, value = found
        time = self._ledger.read(value.key, value.raw, TIME, value.origin)
        if name == "delay":
            return 2 * time
        if time < access_ns:
            least = units.format_time(access_ns)
            expected = f"expected at least the {least} of the path's access links"
            raise InputError(self._ledger.where, value.key, f"{expected}, found {units.format_time(time)}")
        return time - access_ns

    def _cap(self) -> _Cap:
        limits, found = self._reader.on_rate(), self._either("rate", "trace")
        if found is None and not limits:
            for name in ("queue", *(effect.key for effect in DECLARED if effect.on.place == "queue")):
                if (lone := self._find(name)) is not None:
                    expected = "expected a rate, a trace or a bucket beside it, but missing"
                    raise InputError(self._ledger.where, lone.key, expected)
            self._ledger.assume(f"{self._key}.rate", "unlimited", str, defaults.NO_CAP)
            return _Cap({})
        rate, trace = (None, None) if found is None else self._line(*found)
        bound = bounded(rate, limits)
        queue = self._reader.queue(bound, f"{self._key}.queue", adsl=False)
        return _Cap(limits | self._reader.on_queue(Ahead(queue, bound)), rate, trace, queue)

    def _line(self, name: str, found: Found) -> tuple[int, Trace | None]:
        if name == "rate":
            return self._ledger.read(found.key, found.raw, RATE, found.origin), None
        trace = self._ledger.read(found.key, found.raw, self._trace, found.origin)
        return trace.mean_bps, trace

    def _effects(self, cap: _Cap) -> tuple[Effects, Effects]:
        """Effects of both directions: rate limits either way, and what happens to data on the wire."""
        steps = self._steps(cap)
        base = None if cap.trace else cap.rate_bps
        times = None if cap.trace is None else cap.trace.times_ms

        def schedule(*, lossy: bool) -> Schedule | None:
            return None if steps is None else steps.of_link("rate", base, lossy=lossy)

        back = Effects(trace_ms=times, schedule=schedule(lossy=False), **cap.effects)
        forward = Effects(
            trace_ms=times, schedule=schedule(lossy=True), **cap.effects, **self._reader.on_wire()
        )
        return forward, back

    def _steps(self, cap: _Cap) -> Steps | None:
        fixed = {"rate": cap.rate_bps is not None and cap.trace is None}
        for level in self._levels:
            steps = read_steps(self._ledger, level.key, level.table, level.origin, fixed)
            if steps is not None:
                return steps
        return None

    def _given(self, name: str, kind: Kind[int], default: defaults.Assumption[int]) -> int:
        if (found := self._find(name)) is None:
            return self._ledger.assume(f"{self._key}.{name}", default.value, kind.show, default.reason)
        return self._ledger.read(found.key, found.raw, kind, found.origin)

    def _find(self, name: str) -> Found | None:
        """Value in the nearest table that has it."""
        for level in self._levels:
            if (raw := getattr(level.table, name)) is not None:
                return Found(inside(level.key, name), raw, level.origin, f"{self._key}.{name}")
        return None

    def _either(self, text: str, other: str) -> tuple[str, Found] | None:
        """One of two values that exclude each other, with its name, in the nearest table that has it."""
        for level in self._levels:
            names = [name for name in (text, other) if getattr(level.table, name) is not None]
            if len(names) == 2:
                expected = f"expected either {text} or {other}, found both"
                raise InputError(self._ledger.where, level.key, expected)
            for name in names:
                raw = getattr(level.table, name)
                return name, Found(inside(level.key, name), raw, level.origin, f"{self._key}.{name}")
        return None
