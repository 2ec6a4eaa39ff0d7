"""The interfaces of a topology file: what is given for each access link, and defaults for the rest.

`_load` reads the sites they belong to. Keys of one link end in `_up` or `_down`; without that ending, a key
that both may have applies to both.
"""

from __future__ import annotations

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
from mptune.topology._trace import Trace, trace_in
from mptune.topology._values import Ledger, Origin

T = TypeVar("T")

_WAYS = ("up", "down")


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


class _AccessLink(NamedTuple):
    rate_bps: int
    queue_bytes: int
    effects: Effects


class _InterfaceReader:
    def __init__(self, row: InterfaceTable, key: str, ledger: Ledger, origin: Origin, folder: Folder) -> None:
        self._row, self._key, self._ledger, self._origin = row, key, ledger, origin
        self._trace = trace_in(folder)

    def interface(self) -> Interface:
        row = self._row
        steps = self._steps()
        up, down = (self._link(way, steps) for way in _WAYS)
        between_hosts = self._ledger.between_hosts
        delay = defaults.NO_ACCESS_DELAY if between_hosts else defaults.access_delay(row.adsl)
        return Interface(
            isp=row.isp,
            abbr=row.abbr,
            up_bps=up.rate_bps,
            down_bps=down.rate_bps,
            delay_ns=self._given("delay", TIME, delay),
            queue_up_bytes=up.queue_bytes,
            queue_down_bytes=down.queue_bytes,
            loss_ppb=self._given("loss", LOSS, defaults.access_loss(row.adsl)),
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
        rate, trace = self._line(way)
        reader = EffectsReader(self._ledger, partial(self._find, way))
        limits = reader.on_rate()
        bound = None if rate is None else bounded(rate, limits)
        queue = reader.queue(bound, f"{self._key}.queue_{way}", adsl=self._row.adsl)
        effects = Effects(
            trace_ms=None if trace is None else trace.times_ms,
            schedule=None if steps is None else steps.of_link(way, None if trace else rate),
            **limits,
            **reader.on_queue(None if bound is None else Ahead(queue, bound)),
            **reader.on_wire(),
        )
        return _AccessLink(UNKNOWN if rate is None else rate, queue, effects)

    def _line(self, way: str) -> tuple[int | None, Trace | None]:
        """Rate of a link, bit/s, or None if it is not known, and the trace whose mean it is, if any."""
        trace = getattr(self._row, f"trace_{way}")
        if getattr(self._row, way) is not None:
            if trace is not None:
                expected = f"expected either {way} or trace_{way}, found both"
                raise InputError(self._ledger.where, f"{self._key}.trace_{way}", expected)
            return self._read(way, RATE), None
        if trace is None:
            expected = f"expected a rate, or trace_{way} instead, or ssh at both sites, but missing"
            self._ledger.lack(f"{self._key}.{way}", expected)
            return None, None
        read = self._read(f"trace_{way}", self._trace)
        return read.mean_bps, read

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
        fixed = {way: getattr(self._row, f"trace_{way}") is None for way in _WAYS}
        if self._ledger.between_hosts:
            fixed = {way: getattr(self._row, way) is not None for way in _WAYS}
        return read_steps(self._ledger, self._key, self._row, self._origin, fixed)

    def _read(self, name: str, kind: Kind[T]) -> T:
        return self._ledger.read(f"{self._key}.{name}", getattr(self._row, name), kind, self._origin)

    def _given(self, name: str, kind: Kind[int], default: defaults.Assumption[int]) -> int:
        if getattr(self._row, name) is not None:
            return self._read(name, kind)
        return self._ledger.assume(f"{self._key}.{name}", default.value, kind.show, default.reason)
