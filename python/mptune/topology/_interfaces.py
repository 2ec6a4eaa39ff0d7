"""The interfaces of a topology file: what is given for each access link, and defaults for the rest.

`_load` reads the sites they belong to. Keys of one link end in `_up` or `_down`; without that ending, a key
that both may have applies to both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path as Folder
from typing import NamedTuple, TypeVar

from mptune.errors import InputError
from mptune.topology import _defaults as defaults
from mptune.topology._declared import Ahead
from mptune.topology._effects import Effects
from mptune.topology._hosts import read_price, read_size
from mptune.topology._kinds import LOSS, RATE, TIME, Kind
from mptune.topology._link_effects import EffectsReader, Found, bounded
from mptune.topology._schedules import Steps, read_steps
from mptune.topology._schema import InterfaceTable
from mptune.topology._sites import UNKNOWN, Interface
from mptune.topology._trace import Trace, trace_of
from mptune.topology._values import Ledger, Origin
from mptune.topology.traces import Recording, schedule, typical_delay_ns

T = TypeVar("T")

_WAYS = ("up", "down")
#: Keys of traces: of one link, and of both.
_TRACES = ("trace_up", "trace_down", "trace")


def read_interface(
    row: InterfaceTable, key: str, ledger: Ledger, site_origin: Origin, folder: Folder
) -> Interface:
    """One interface.

    Parameters
    ----------
    key : its name in messages and provenance.
    site_origin : origin of the site's plain values.
    folder : where relative names of trace files start.

    Raises
    ------
    InputError : anything that is not as expected.
    """
    return _InterfaceReader(row, key, ledger, ledger.origin(key, row, site_origin), folder).interface()


def _series(trace: Trace, quantity: str) -> Mapping[str, object]:
    """Series of a quantity in a trace, by direction."""
    recording = trace.recording
    if recording is None:
        return {}
    return {"rate": recording.rate, "delay": recording.delay, "loss": recording.loss}[quantity]


class _AccessLink(NamedTuple):
    rate_bps: int
    queue_bytes: int
    effects: Effects


class _InterfaceReader:
    def __init__(self, row: InterfaceTable, key: str, ledger: Ledger, origin: Origin, folder: Folder) -> None:
        self._row, self._key, self._ledger, self._origin = row, key, ledger, origin
        self._traces = {
            name: trace_of(ledger, f"{key}.{name}", getattr(row, name), origin, folder)
            for name in _TRACES
            if getattr(row, name) is not None
        }

    def interface(self) -> Interface:
        row = self._row
        steps = self._steps()
        up, down = (self._link(way, steps) for way in _WAYS)
        return Interface(
            isp=row.isp,
            abbr=row.abbr,
            up_bps=up.rate_bps,
            down_bps=down.rate_bps,
            delay_ns=self._delay(),
            queue_up_bytes=up.queue_bytes,
            queue_down_bytes=down.queue_bytes,
            loss_ppb=self._loss(),
            adsl=row.adsl,
            ipv4=row.ipv4,
            ipv6=row.ipv6,
            device=row.device,
            metered=row.metered,
            max_data_bytes=read_size(row.max_data, self._ledger.where, f"{self._key}.max_data"),
            price_per_gb=read_price(row.price_per_gb, self._ledger.where, f"{self._key}.price_per_gb"),
            monthly_bytes=read_size(row.monthly_data, self._ledger.where, f"{self._key}.monthly_data"),
            jitter_ns=0 if row.jitter is None else self._read("jitter", TIME),
            up_effects=up.effects,
            down_effects=down.effects,
        )

    def _link(self, way: str, steps: Steps | None) -> _AccessLink:
        rate, times_ms = self._line(way)
        reader = EffectsReader(self._ledger, partial(self._find, way))
        limits = reader.on_rate()
        bound = None if rate is None else bounded(rate, limits)
        queue = reader.queue(bound, f"{self._key}.queue_{way}", adsl=self._row.adsl)
        rates, delays, losses = (self._recording(each, way) for each in ("rate", "delay", "loss"))
        recorded = schedule(rates, delays, losses, way)
        effects = Effects(
            trace_ms=times_ms,
            schedule=recorded if steps is None else steps.of_link(way, None if times_ms else rate),
            **limits,
            **reader.on_queue(None if bound is None else Ahead(queue, bound)),
            **reader.on_wire(),
        )
        if effects.model is not None and (times_ms is not None or effects.schedule is not None):
            expected = "expected a fixed rate and delay beside it, without a trace or a schedule"
            raise InputError(self._ledger.where, f"{self._key}.model", expected)
        return _AccessLink(UNKNOWN if rate is None else rate, queue, effects)

    def _line(self, way: str) -> tuple[int | None, tuple[int, ...] | None]:
        """Rate of a link, bit/s, None if not known, and the opportunities whose mean it is, if any."""
        found = self._one("rate", way, lambda trace: trace.mean_bps(way) is not None)
        if getattr(self._row, way) is not None:
            if found is not None:
                expected = f"expected either {way} or {found[0]}, found both"
                raise InputError(self._ledger.where, f"{self._key}.{found[0]}", expected)
            return self._read(way, RATE), None
        if found is None:
            expected = f"expected a rate, or trace_{way} instead, or ssh at both sites, but missing"
            self._ledger.lack(f"{self._key}.{way}", expected)
            return None, None
        return found[1].mean_bps(way), found[1].times_ms or None

    def _recording(self, quantity: str, way: str) -> Recording | None:
        """The recording that has a quantity of a link."""
        found = self._one(quantity, way, lambda trace: way in _series(trace, quantity))
        return None if found is None else found[1].recording

    def _one(self, quantity: str, way: str, has: Callable[[Trace], bool]) -> tuple[str, Trace] | None:
        """The trace of a link that has a quantity, with its key."""
        names = (f"trace_{way}", "trace")
        traces = [(name, self._traces[name]) for name in names if name in self._traces]
        found = [(name, trace) for name, trace in traces if has(trace)]
        if len(found) > 1:
            expected = f"expected a {quantity} in one trace, found it in {names[0]} and in {names[1]}"
            raise InputError(self._ledger.where, f"{self._key}.{names[0]}", expected)
        return found[0] if found else None

    def _delay(self) -> int:
        """Delay of either link: the median of recorded ones, as given, or the default."""
        found = {way: recording for way in _WAYS if (recording := self._recording("delay", way))}
        if found:
            self._refuse_beside_traces("delay")
            return typical_delay_ns(each.delay[way] for way, each in found.items())
        between_hosts = self._ledger.between_hosts
        default = defaults.NO_ACCESS_DELAY if between_hosts else defaults.access_delay(self._row.adsl)
        return self._given("delay", TIME, default)

    def _loss(self) -> int:
        """Loss of either link before a recorded one begins: as given, or the default."""
        if all(self._recording("loss", way) for way in _WAYS):
            self._refuse_beside_traces("loss")
            return 0
        return self._given("loss", LOSS, defaults.access_loss(self._row.adsl))

    def _refuse_beside_traces(self, name: str) -> None:
        if getattr(self._row, name) is not None:
            expected = f"expected either {name} or a trace that has it, found both"
            raise InputError(self._ledger.where, f"{self._key}.{name}", expected)

    def _find(self, way: str, name: str) -> Found | None:
        """Value of one link, from its own key or from the key for both."""
        own, both = f"{name}_{way}", getattr(self._row, name, None)
        if both is None:
            raw, key = getattr(self._row, own), f"{self._key}.{own}"
            return None if raw is None else Found(key, raw, self._origin, key)
        if any(getattr(self._row, f"{name}_{each}") is not None for each in _WAYS):
            expected = f"expected either {name} or {name}_up and {name}_down"
            raise InputError(self._ledger.where, f"{self._key}.{name}", expected)
        return Found(f"{self._key}.{name}", both, self._origin, f"{self._key}.{own}")

    def _steps(self) -> Steps | None:
        fixed = {way: not {f"trace_{way}", "trace"} & set(self._traces) for way in _WAYS}
        if self._row.schedule is not None and any(trace.recording for trace in self._traces.values()):
            expected = "expected either a schedule or a trace with rates, delays or losses, found both"
            raise InputError(self._ledger.where, f"{self._key}.schedule", expected)
        if self._ledger.between_hosts:
            fixed = {way: getattr(self._row, way) is not None for way in _WAYS}
        return read_steps(self._ledger, self._key, self._row, self._origin, fixed)

    def _read(self, name: str, kind: Kind[T]) -> T:
        return self._ledger.read(f"{self._key}.{name}", getattr(self._row, name), kind, self._origin)

    def _given(self, name: str, kind: Kind[int], default: defaults.Assumption[int]) -> int:
        if getattr(self._row, name) is not None:
            return self._read(name, kind)
        return self._ledger.assume(f"{self._key}.{name}", default.value, kind.show, default.reason)
