"""The sites of a topology file: what it gives for the access links of their interfaces, and defaults.

Keys of one link end in `_up` or `_down`; without that ending, a key
that both may have applies to both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path as Folder
from typing import NamedTuple

from mptune.topology import _defaults as defaults
from mptune.topology._declared import Ahead
from mptune.topology._document import SiteTables
from mptune.topology._effects import Effects
from mptune.topology._hosts import read_price, read_size
from mptune.topology._kinds import LOSS, RATE, TIME
from mptune.topology._link_effects import EffectsReader, bounded
from mptune.topology._schedules import Steps, read_steps
from mptune.topology._schema import InterfaceTable
from mptune.topology._sites import UNKNOWN, Interface, Site
from mptune.topology._trace import Trace, trace_of
from mptune.topology._values import Place, Table
from mptune.topology.traces import Recording, schedule, typical_delay_ns

_WAYS = ("up", "down")
#: Keys of traces: of one link, and of both.
_TRACES = ("trace_up", "trace_down", "trace")


def read_site(tables: SiteTables, folder: Folder) -> Site:
    """One site with its interfaces.

    Parameters
    ----------
    folder : where relative names of trace files start.

    Raises
    ------
    InputError : anything that is not as expected.
    """
    site = tables.site.written
    return Site(
        abbr=tables.abbr,
        name=site.name,
        location=site.location,
        interfaces=tuple(_InterfaceReader(table, folder).interface() for table in tables.interfaces),
        ssh=site.ssh,
        lat=site.lat,
        lon=site.lon,
    )


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
    def __init__(self, table: Table[InterfaceTable], folder: Folder) -> None:
        self._table, self._row, self._ledger = table, table.written, table.ledger
        self._traces = {name: trace_of(table, name, folder) for name in _TRACES if table.has(name)}

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
            max_data_bytes=read_size(row.max_data, self._ledger.where, self._table.key_of("max_data")),
            price_per_gb=read_price(row.price_per_gb, self._ledger.where, self._table.key_of("price_per_gb")),
            monthly_bytes=read_size(row.monthly_data, self._ledger.where, self._table.key_of("monthly_data")),
            jitter_ns=self._table.optional("jitter", TIME) or 0,
            up_effects=up.effects,
            down_effects=down.effects,
        )

    def _link(self, way: str, steps: Steps | None) -> _AccessLink:
        rate, times_ms = self._line(way)
        reader = EffectsReader(self._ledger, partial(self._find, way))
        limits = reader.on_rate()
        bound = None if rate is None else bounded(rate, limits)
        queue = reader.queue(bound, self._table.key_of(f"queue_{way}"), adsl=self._row.adsl)
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
            raise self._table.refuse("model", expected)
        return _AccessLink(UNKNOWN if rate is None else rate, queue, effects)

    def _line(self, way: str) -> tuple[int | None, tuple[int, ...] | None]:
        """Rate of a link, bit/s, None if not known, and the opportunities whose mean it is, if any."""
        found = self._one("rate", way, lambda trace: trace.mean_bps(way) is not None)
        if self._table.has(way):
            if found is not None:
                expected = f"expected either {way} or {found[0]}, found both"
                raise self._table.refuse(found[0], expected)
            return self._table.value(way, RATE), None
        if found is None:
            expected = f"expected a rate, or trace_{way} instead, or ssh at both sites, but missing"
            self._ledger.lack(self._table.key_of(way), expected)
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
            raise self._table.refuse(names[0], expected)
        return found[0] if found else None

    def _delay(self) -> int:
        """Delay of either link: the median of recorded ones, as given, or the default."""
        found = {way: recording for way in _WAYS if (recording := self._recording("delay", way))}
        if found:
            self._refuse_beside_traces("delay")
            return typical_delay_ns(each.delay[way] for way, each in found.items())
        between_hosts = self._ledger.between_hosts
        default = defaults.NO_ACCESS_DELAY if between_hosts else defaults.access_delay(self._row.adsl)
        return self._table.given("delay", TIME, default)

    def _loss(self) -> int:
        """Loss of either link before a recorded one begins: as given, or the default."""
        if all(self._recording("loss", way) for way in _WAYS):
            self._refuse_beside_traces("loss")
            return 0
        return self._table.given("loss", LOSS, defaults.access_loss(self._row.adsl))

    def _refuse_beside_traces(self, name: str) -> None:
        if self._table.has(name):
            raise self._table.refuse(name, f"expected either {name} or a trace that has it, found both")

    def _find(self, way: str, name: str) -> Place | None:
        """Value of one link, from its own key or from the key for both."""
        own = f"{name}_{way}"
        if getattr(self._row, name, None) is None:
            return Place(self._table, own, self._table.key_of(own)) if self._table.has(own) else None
        if any(self._table.has(f"{name}_{each}") for each in _WAYS):
            raise self._table.refuse(name, f"expected either {name} or {name}_up and {name}_down")
        return Place(self._table, name, self._table.key_of(own))

    def _steps(self) -> Steps | None:
        fixed = {way: not {f"trace_{way}", "trace"} & set(self._traces) for way in _WAYS}
        if self._row.schedule is not None and any(trace.recording for trace in self._traces.values()):
            expected = "expected either a schedule or a trace with rates, delays or losses, found both"
            raise self._table.refuse("schedule", expected)
        if self._ledger.between_hosts:
            fixed = {way: self._table.has(way) for way in _WAYS}
        return read_steps(self._table, fixed)
