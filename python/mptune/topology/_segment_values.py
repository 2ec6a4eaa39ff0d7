"""The values of one segment of a topology file, from the tables that may give them.

What a segment of `[[core.segments]]` and one of `[[core.shared]]` have in common; `_segments` has the paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as Folder
from typing import NamedTuple

from mptune.errors import InputError
from mptune.tables import inside
from mptune.topology import _defaults as defaults
from mptune.topology._declared import Ahead
from mptune.topology._effects import DECLARED, Effects, Schedule
from mptune.topology._kinds import LOSS, RATE, TIME, Kind
from mptune.topology._link_effects import EffectsReader, Fields, Found, bounded
from mptune.topology._schedules import Steps, read_steps
from mptune.topology._schema import SegmentValues
from mptune.topology._sites import UNKNOWN, CoreSegment
from mptune.topology._trace import Trace, trace_of
from mptune.topology._values import Ledger, Origin
from mptune.topology.traces import WAYS, schedule


class Level(NamedTuple):
    """A table that may give a value of the segment."""

    key: str
    table: SegmentValues
    origin: Origin


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
    no_cap : why it has no rate if no table gives one.
    """

    def __init__(
        self, key: str, levels: Sequence[Level], ledger: Ledger, folder: Folder, no_cap: str
    ) -> None:
        self._key, self._levels, self._ledger, self._no_cap = key, levels, ledger, no_cap
        self._folder = folder
        self._reader = EffectsReader(ledger, self._find)

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
        return self._ledger.read(found.key, found.raw, kind, found.origin)

    def either(self, text: str, other: str) -> tuple[str, Found] | None:
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
                    raise InputError(self._ledger.where, lone.key, expected)
            self._ledger.assume(f"{self._key}.rate", "unlimited", str, self._no_cap)
            return _Cap({})
        rate, trace = (None, None) if found is None else self._line(*found)
        bound = bounded(rate, limits)
        queue = self._reader.queue(bound, f"{self._key}.queue", adsl=False)
        return _Cap(limits | self._reader.on_queue(Ahead(queue, bound)), rate, trace, queue)

    def _line(self, name: str, found: Found) -> tuple[int, Trace | None]:
        if name == "rate":
            return self._ledger.read(found.key, found.raw, RATE, found.origin), None
        trace = trace_of(self._ledger, found.key, found.raw, found.origin, self._folder)
        means = {trace.mean_bps(way) for way in WAYS}
        delays = trace.recording is not None and trace.recording.delay
        mean = means.pop()
        if mean is None or means or delays:
            expected = "expected a trace of one rate for both ways, and of no RTTs (interfaces take those)"
            raise InputError(self._ledger.where, found.key, f"{expected}, found {trace.name}")
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
        for level in self._levels:
            if recorded and level.table.schedule is not None:
                expected = "expected either a schedule or a trace with rates over time, found both"
                raise InputError(self._ledger.where, inside(level.key, "schedule"), expected)
            steps = read_steps(self._ledger, level.key, level.table, level.origin, fixed)
            if steps is not None:
                return steps
        return None

    def _find(self, name: str) -> Found | None:
        """Value in the nearest table that has it."""
        for level in self._levels:
            if (raw := getattr(level.table, name)) is not None:
                return Found(inside(level.key, name), raw, level.origin, f"{self._key}.{name}")
        return None
