"""The tables of a topology file as written, before any value is parsed.

    name, description, sender, receiver, initial_path, lsrr = "honoured" | "ignored"
    [sites.<abbreviation>]                  name, location, lat, lon, ssh
    [[sites.<abbreviation>.interfaces]]     isp, abbr, adsl, up or trace_up, down or trace_down, trace,
                                            delay, jitter, loss, queue*, effects* (`_effects`), schedule,
                                            schedule_period, ipv4, ipv6, device, metered, max_data,
                                            price_per_gb, monthly_data
    [core]                                  what segments leave out: rtt or delay, jitter, loss, rate or
                                            trace, queue, effects, schedule, schedule_period
    [[core.segments]]                       path = "U-C" and any of the keys of [core], mptcp, mptcp_ipv6
    [[core.shared]]                         name, paths = ["U-C", "U-D"] and any of the keys of [core] but rtt
    [[background]]                          kind = "tcp": path, cc, start, stop
                                            kind = "udp": link, rate, packet, on, off, lengths, start, stop

A key with * applies to both links of an interface, or with `_up` or `_down` appended to one of them.
`docs/reference/topology.md` has every key with its unit, its default and what it does to packets.

A value is text with its unit, or a table `{ value = "286 Mbit/s", assumed = "reason" }`, or
`{ value = ..., source = "where it is published" }`, or `{ value = ..., measured = "when and how" }`;
`up.value = ...` and `up.assumed = ...` on two lines are the same. Any table may have `source`, `assumed` or
`measured` for its plain values; the nearest applies, and without any the file itself is the source.
`delay` is one way; a segment's `rtt` is that of the whole path, access links included; what it loses, delays
or duplicates (`loss` and the like) is data, not ACKs. Only tables and types are checked here; `_values`
checks the values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from mptune.topology._effects import DECLARED


class SourcedTable(msgspec.Struct, kw_only=True):
    """Any table: where its plain values are published, why they are assumed, or how they were measured."""

    source: str | None = None
    assumed: str | None = None
    measured: str | None = None


def _keys(name: str, keys: Iterable[str]) -> type[SourcedTable]:
    fields = [(key, Any, None) for key in keys]
    made: type[Any] = msgspec.defstruct(name, fields, bases=(SourcedTable,), kw_only=True)
    return made


if TYPE_CHECKING:

    class _AccessEffects(SourcedTable, kw_only=True): ...

    class _CoreEffects(SourcedTable, kw_only=True): ...
else:
    #: The keys of the effects, as they are declared.
    _WAYS = ("_up", "_down")
    _AccessEffects = _keys(
        "_AccessEffects",
        (f"{effect.key}{way}" for effect in DECLARED for way in (*([""] if effect.on.both else []), *_WAYS)),
    )
    _CoreEffects = _keys("_CoreEffects", (effect.key for effect in DECLARED))


class FileTable(SourcedTable, kw_only=True):
    """The file itself."""

    name: str
    sender: str
    receiver: str
    sites: dict[str, SiteTable]
    core: CoreTable = msgspec.field(default_factory=lambda: CoreTable())
    background: list[TcpTable | UdpTable] = msgspec.field(default_factory=list)
    description: str = ""
    initial_path: Any = None
    lsrr: Any = None


class SiteTable(SourcedTable, kw_only=True):
    """`[sites.X]`."""

    name: str
    interfaces: list[InterfaceTable]
    location: str = ""
    ssh: str | None = None
    lat: float | None = None
    lon: float | None = None


class InterfaceTable(_AccessEffects, kw_only=True):
    """`[[sites.X.interfaces]]`."""

    isp: str
    abbr: str
    up: Any = None
    down: Any = None
    trace_up: Any = None
    trace_down: Any = None
    trace: Any = None
    delay: Any = None
    jitter: Any = None
    queue: Any = None
    queue_up: Any = None
    queue_down: Any = None
    loss: Any = None
    schedule: list[InterfaceStepTable] | None = None
    schedule_period: Any = None
    adsl: bool = False
    ipv4: str | None = None
    ipv6: str | None = None
    device: str | None = None
    metered: bool = False
    max_data: Any = None
    price_per_gb: Any = None
    monthly_data: Any = None


class SegmentValues(_CoreEffects, kw_only=True):
    """Common values of all segments."""

    delay: Any = None
    jitter: Any = None
    loss: Any = None
    rate: Any = None
    trace: Any = None
    queue: Any = None
    schedule: list[SegmentStepTable] | None = None
    schedule_period: Any = None


class CoreValues(SegmentValues, kw_only=True):
    """Common values of `[core]` and its segments."""

    rtt: Any = None


class CoreTable(CoreValues, kw_only=True):
    """`[core]`."""

    segments: list[SegmentTable] = msgspec.field(default_factory=list)
    shared: list[SharedTable] = msgspec.field(default_factory=list)


class SegmentTable(CoreValues, kw_only=True):
    """`[[core.segments]]`."""

    path: str
    mptcp: Any = None
    mptcp_ipv6: Any = None


class SharedTable(SegmentValues, kw_only=True):
    """`[[core.shared]]`."""

    name: str
    paths: list[str]


class InterfaceStepTable(SourcedTable, kw_only=True):
    """A step of an interface's `schedule`."""

    at: Any
    up: Any = None
    down: Any = None
    delay: Any = None
    loss: Any = None


class SegmentStepTable(SourcedTable, kw_only=True):
    """A step of a core segment's `schedule`."""

    at: Any
    rate: Any = None
    delay: Any = None
    loss: Any = None


class TraceTable(SourcedTable, kw_only=True):
    """A trace with what is to be done with it."""

    file: Any
    format: Any = None
    start: Any = None
    stop: Any = None
    gaps: Any = None
    begins: Any = None
    ends: Any = None
    mean: Any = None
    elsewhere: Any = None
    one_way: Any = None
    rows: Any = None


class TcpTable(SourcedTable, kw_only=True):
    """`[[background]]` with kind = "tcp"."""

    kind: Literal["tcp"]
    path: Any
    cc: Any = None
    start: Any = None
    stop: Any = None


class UdpTable(SourcedTable, kw_only=True):
    """`[[background]]` with kind = "udp"."""

    kind: Literal["udp"]
    link: Any
    rate: Any
    packet: Any = None
    on: Any = None
    off: Any = None
    lengths: Any = None
    start: Any = None
    stop: Any = None


class ValueTable(SourcedTable, kw_only=True):
    """A value with its reason or its source."""

    value: Any
