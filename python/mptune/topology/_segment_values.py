"""The values of one segment of a topology file, from the tables that may give them.

A path's own segment takes each value from its table in `[[core.segments]]`, else from `[core]`, else from the
defaults; a segment of `[[core.shared]]` from its table, else from the defaults. `_segments` has the paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as Folder
from typing import Any, NamedTuple

import msgspec

from mptune import units
from mptune.errors import InputError
from mptune.tables import inside
from mptune.topology import _defaults as defaults
from mptune.topology._declared import Ahead
from mptune.topology._effects import DECLARED, Effects, Schedule
from mptune.topology._kinds import LOSS, RATE, TIME, Kind, choice
from mptune.topology._link_effects import EffectsReader, Fields, bounded
from mptune.topology._mptcp import WORDS
from mptune.topology._schedules import Steps, read_steps
from mptune.topology._schema import CoreTable, SegmentTable
from mptune.topology._sites import UNKNOWN, Carries, CoreSegment
from mptune.topology._trace import Trace, trace_of
from mptune.topology._values import Place, Table
from mptune.topology.traces import WAYS, schedule


class _Cap(NamedTuple):
    """Limit of a segment's rate, bit/s (for a trace its mean), and the queue in front of it, bytes."""

    effects: Fields
    rate_bps: int | None = None
    trace: Trace | None = None
    queue_bytes: int | None = None


class LinkReader:
    """Values of one segment: of the first of its tables that has them, else the defaults.

    Parameters
    ----------
    key : its name in provenance.
    tables : the nearest first.
    no_cap : why it has no rate if no table gives one.
    """

    def __init__(self, key: str, tables: Sequence[Table[Any]], folder: Folder, no_cap: str) -> None:
        self._key, self._tables, self._folder, self._no_cap = key, tables, folder, no_cap
        self._ledger = tables[0].ledger
        self._reader = EffectsReader(self._ledger, self._find)

    def segment(self, core_rtt_ns: int | None) -> CoreSegment:
        """Build the segment; its delay there and back is None if it is not known.

        Raises
        ------
        InputError : anything that is not as expected.
        """
        core_rtt = UNKNOWN if core_rtt_ns is None else core_rtt_ns
        cap = self._cap()
        forward, back = self._effects(cap)
        return CoreSegment(
            forward_ns=core_rtt // 2,
            reverse_ns=core_rtt - core_rtt // 2,
            jitter_ns=self._jitter(core_rtt_ns),
            loss_ppb=self.given("loss", LOSS, defaults.core_loss()),
            rate_bps=cap.rate_bps,
            queue_bytes=cap.queue_bytes,
            forward_effects=forward,
            back_effects=back,
        )

    def given(self, name: str, kind: Kind[int], default: defaults.Assumption[int]) -> int:
        """A value, or its default."""
        if (found := self._find(name)) is None:
            return self._ledger.assume(f"{self._key}.{name}", default.value, kind.show, default.reason)
        return found.value(kind)

    def either(self, text: str, other: str) -> Place | None:
        """One of two values that exclude each other, in the nearest table that has it."""
        for table in self._tables:
            names = [name for name in (text, other) if table.has(name)]
            if len(names) == 2:
                expected = f"expected either {text} or {other}, found both"
                raise InputError(self._ledger.where, table.key, expected)
            for name in names:
                return Place(table, name, f"{self._key}.{name}")
        return None

    def _jitter(self, core_rtt_ns: int | None) -> int:
        """Its jitter; the default is a share of the delay, if that is known."""
        if core_rtt_ns is None and self._find("jitter") is None:
            return UNKNOWN
        return self.given("jitter", TIME, defaults.core_jitter(core_rtt_ns or 0))

    def _cap(self) -> _Cap:
        limits, found = self._reader.on_rate(), self.either("rate", "trace")
        if found is None and not limits:
            for name in ("queue", *(effect.key for effect in DECLARED if effect.on.place == "queue")):
                if (lone := self._find(name)) is not None:
                    expected = "expected a rate, a trace or a bucket beside it, but missing"
                    raise lone.refuse(expected)
            self._ledger.assume(f"{self._key}.rate", "unlimited", str, self._no_cap)
            return _Cap({})
        rate, trace = (None, None) if found is None else self._line(found)
        bound = bounded(rate, limits)
        queue = self._reader.queue(bound, f"{self._key}.queue", adsl=False)
        return _Cap(limits | self._reader.on_queue(Ahead(queue, bound)), rate, trace, queue)

    def _line(self, found: Place) -> tuple[int, Trace | None]:
        if found.name == "rate":
            return found.value(RATE), None
        trace = trace_of(found.table, found.name, self._folder)
        means = {trace.mean_bps(way) for way in WAYS}
        delays = trace.recording is not None and trace.recording.delay
        mean = means.pop()
        if mean is None or means or delays:
            expected = "expected a trace of one rate for both ways, and of no RTTs (interfaces take those)"
            raise found.refuse(f"{expected}, found {trace.name}")
        return mean, trace

    def _effects(self, cap: _Cap) -> tuple[Effects, Effects]:
        """Effects of both directions: rate limits either way, and what happens to data on the wire."""
        steps = self._steps(cap)
        base = None if cap.trace else cap.rate_bps
        times = None if cap.trace is None else cap.trace.times_ms or None
        recording = None if cap.trace is None else cap.trace.recording

        def over_time(*, lossy: bool) -> Schedule | None:
            if recording is not None:
                return schedule(recording, None, recording if lossy and recording.loss else None, WAYS[0])
            return None if steps is None else steps.of_link("rate", base, lossy=lossy)

        back = Effects(trace_ms=times, schedule=over_time(lossy=False), **cap.effects)
        forward = Effects(
            trace_ms=times, schedule=over_time(lossy=True), **cap.effects, **self._reader.on_wire()
        )
        if back.model is not None and (times is not None or back.schedule is not None or forward.schedule):
            expected = "expected a fixed rate and delay beside it, without a trace or a schedule"
            raise InputError(self._ledger.where, inside(self._key, "model"), expected)
        return forward, back

    def _steps(self, cap: _Cap) -> Steps | None:
        fixed = {"rate": cap.rate_bps is not None and cap.trace is None}
        recorded = cap.trace is not None and cap.trace.recording is not None
        for table in self._tables:
            if recorded and table.has("schedule"):
                expected = "expected either a schedule or a trace with rates over time, found both"
                raise table.refuse("schedule", expected)
            steps = read_steps(table, fixed)
            if steps is not None:
                return steps
        return None

    def _find(self, name: str) -> Place | None:
        """Value in the nearest table that has it."""
        found = next((table for table in self._tables if table.has(name)), None)
        return None if found is None else Place(found, name, f"{self._key}.{name}")


class CoreReader(LinkReader):
    """Values of one path's core segment: its own, else those of `[core]`, else the defaults."""

    def __init__(
        self, label: str, segment: Table[SegmentTable] | None, core: Table[CoreTable], folder: Folder
    ) -> None:
        self._own = segment
        tables: list[Table[Any]] = [core] if segment is None else [segment, core]
        super().__init__(f"core.segments.{label}", tables, folder, defaults.NO_CAP)

    def core(self, around_ns: int) -> CoreSegment:
        """Build the segment; `around_ns` is the part of the path's RTT outside it."""
        segment = self.segment(self._core_rtt(around_ns))
        found = {key: self._mptcp(key) for key in ("mptcp", "mptcp_ipv6")}
        return msgspec.structs.replace(segment, **found)

    def _mptcp(self, key: str) -> Carries | None:
        """Treatment of MPTCP by a segment; None if that is not known."""
        return None if self._own is None else self._own.optional(key, choice(WORDS))

    def _core_rtt(self, around_ns: int) -> int | None:
        """The segment's part of the RTT, ns: what the rest leaves of `rtt`, or twice `delay`.

        None if it is not known.
        """
        found = self.either("rtt", "delay")
        if found is None:
            expected = "expected, here or in [core], or ssh at both sites, but missing"
            self._ledger.lack(f"{self._key}.rtt", expected)
            return None
        time = found.value(TIME)
        if found.name == "delay":
            return 2 * time
        if time < around_ns:
            least = units.format_time(around_ns)
            expected = f"expected at least the {least} of the path's access links and shared segments"
            raise found.refuse(f"{expected}, found {units.format_time(time)}")
        return time - around_ns
