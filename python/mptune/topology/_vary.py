"""Values of a topology that are not certain, each with its range, and the topology with one of them changed.

A value is uncertain where it is assumed, or where it was measured with an interval. The range of a
measured one is that; of an assumed one it is stated here. Published values are taken as they are.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from mptune.errors import InputError
from mptune.topology._model import Topology
from mptune.topology._sites import CoreSegment, Interface, Path, Provenance, Site
from mptune.units import format_fraction, format_rate, format_size, format_time, parse_fraction, parse_rate

#: Assumed queues, jitters and losses may be off by this factor either way: nobody publishes them.
QUEUE_FACTOR = 2.0

#: Largest loss of a link that is assumed to lose nothing, parts per billion: 0.01 %.
SOME_LOSS_PPB = 100_000

#: An interval, as `mptune probe` writes it: "38 Mbit/s to 44 Mbit/s" at the end, or before a remark.
_INTERVAL = re.compile(r"([\d.]+ ?\S*) to ([\d.]+ ?\S+?)(?:,|$)")

_RATE, _TIME, _SIZE, _LOSS = "rate", "time", "size", "loss"

#: Values in words, by their kinds.
WRITE: dict[str, Callable[[int], str]] = {
    _RATE: lambda value: format_rate(value, 3),
    _TIME: lambda value: format_time(value, 3),
    _SIZE: lambda value: format_size(value, 3),
    _LOSS: lambda value: format_fraction(value, 2),
}
_READ: dict[str, Callable[[str], int]] = {_RATE: parse_rate, _LOSS: parse_fraction}

#: Fields of an interface by their keys: what they are, in the unit of the struct.
_OF_INTERFACE = {
    "up": ("up_bps", _RATE),
    "down": ("down_bps", _RATE),
    "queue_up": ("queue_up_bytes", _SIZE),
    "queue_down": ("queue_down_bytes", _SIZE),
    "delay": ("delay_ns", _TIME),
    "jitter": ("jitter_ns", _TIME),
    "loss": ("loss_ppb", _LOSS),
}

#: The queue that belongs to the device with the rate: it keeps its time.
_QUEUES = {"up_bps": "queue_up_bytes", "down_bps": "queue_down_bytes"}

#: Fields of a core segment; its RTT is that of the whole path.
_OF_SEGMENT = {
    "rate": ("rate_bps", _RATE),
    "queue": ("queue_bytes", _SIZE),
    "jitter": ("jitter_ns", _TIME),
    "loss": ("loss_ppb", _LOSS),
}


class Uncertain(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is not certain.

    Attributes
    ----------
    key : as in `Topology.provenance`.
    paths : labels of the paths that it concerns.
    stated : as the topology has it, in words.
    low, high : ends of its range, in words; equal to `stated` where it cannot go that way.
    because : where the range comes from: "measured", or what is assumed.
    below, above : the topology with the value at either end; None where that is the stated one.
    """

    key: str
    paths: tuple[str, ...]
    stated: str
    low: str
    high: str
    because: str
    below: Topology | None
    above: Topology | None


def uncertain(topology: Topology, share: float) -> Iterator[Uncertain]:
    """Every uncertain value of a topology that can be changed alone, in the order of the file.

    An access delay beside an RTT that is known for the whole path changes nothing, nor does a rate that is
    not limited: they are left out. Traces and schedules stay as they are.

    Parameters
    ----------
    share : assumed rates, delays and RTTs are off by this share: 0.2 is a factor of 1.2 either way.
    """
    for key, origin in topology.provenance.items():
        if origin.assumed is None and origin.measured is None:
            continue
        where = place(topology, key)
        if where is not None:
            each_uncertain = _ranged(key, origin, share, where)
            if each_uncertain is not None:
                yield each_uncertain


class Place(NamedTuple):
    """A value of a topology that can be changed alone.

    Attributes
    ----------
    value : in the unit of the topology: bit/s, ns, bytes or ppb.
    changed : the topology with another one; the queue of a link keeps its time when the rate changes.
    kind : rate, time, size or loss.
    paths : labels of the paths that it concerns.
    """

    value: int
    changed: Callable[[int], Topology]
    kind: str
    paths: tuple[str, ...]


def place(topology: Topology, key: str) -> Place | None:
    """The value at a key of `Topology.provenance`; None if it cannot be changed alone."""
    parts = key.split(".")
    if parts[0] == "sites" and len(parts) == 5 and parts[4] in _OF_INTERFACE:
        return _of_interface(topology, parts[1], parts[3], parts[4])
    if parts[:2] == ["core", "segments"] and len(parts) == 4:
        return _of_segment(topology, parts[2], parts[3])
    if parts[:2] == ["core", "shared"] and len(parts) == 4:
        return _of_shared(topology, parts[2], parts[3])
    return None


def _of_interface(topology: Topology, site: str, abbr: str, name: str) -> Place | None:
    sends = topology.sender.abbr == site
    whole = topology.sender if sends else topology.receiver
    (number,) = (i for i, interface in enumerate(whole.interfaces) if interface.abbr == abbr)
    mine = [path for path in topology.paths if (path.local_index if sends else path.remote_index) == number]
    if name == "delay":
        mine = [
            each_path
            for each_path in mine
            if f"core.segments.{each_path.crosses}.rtt" not in topology.provenance
        ]
        if not mine:
            return None
    field, kind = _OF_INTERFACE[name]
    old = whole.interfaces[number]
    value: int = getattr(old, field)

    def changed(new: int) -> Topology:
        fields = {field: new}
        if field in _QUEUES:
            fields[_QUEUES[field]] = max(1, round(getattr(old, _QUEUES[field]) * new / value))
        return _with_interface(topology, sends, number, msgspec.structs.replace(old, **fields))

    return Place(value, changed, kind, tuple(route.label for route in mine))


def _with_interface(topology: Topology, sends: bool, number: int, new: Interface) -> Topology:
    whole: Site = topology.sender if sends else topology.receiver
    interfaces = tuple(new if i == number else interface for i, interface in enumerate(whole.interfaces))
    site = msgspec.structs.replace(whole, interfaces=interfaces)
    paths = tuple(
        msgspec.structs.replace(path, **({"local": new} if sends else {"remote": new}))
        if (path.local_index if sends else path.remote_index) == number
        else path
        for path in topology.paths
    )
    sites = {"sender": site} if sends else {"receiver": site}
    return msgspec.structs.replace(topology, paths=paths, **sites)


def _of_segment(topology: Topology, label: str, name: str) -> Place | None:
    mine = [route for route in topology.paths if route.crosses == label]
    if not mine:
        return None
    path, labels = mine[0], tuple(route.label for route in mine)
    if name == "rtt":
        return Place(
            path.base_rtt_ns, lambda new: _with_core(topology, path, _of_rtt(path, new)), _TIME, labels
        )
    if name not in _OF_SEGMENT:
        return None
    field, kind = _OF_SEGMENT[name]
    value: int | None = getattr(path.core, field)
    if value is None:
        return None

    def changed(new: int) -> Topology:
        return _with_core(topology, path, msgspec.structs.replace(path.core, **{field: new}))

    return Place(value, changed, kind, labels)


def _of_rtt(path: Path, rtt_ns: int) -> CoreSegment:
    """The core segment with which the path has this RTT; no delay is below 0."""
    core = path.core
    there = max(0, core.forward_ns + (rtt_ns - path.base_rtt_ns) // 2)
    return msgspec.structs.replace(core, forward_ns=there, reverse_ns=max(0, rtt_ns - path.around_ns - there))


def _of_shared(topology: Topology, name: str, value_name: str) -> Place | None:
    segment = topology.shared.get(name)
    if segment is None or value_name not in _OF_SEGMENT:
        return None
    field, kind = _OF_SEGMENT[value_name]
    value: int | None = getattr(segment, field)
    if value is None:
        return None

    def changed(new: int) -> Topology:
        fields = {field: new}
        if field == "rate_bps" and segment.queue_bytes is not None:
            fields["queue_bytes"] = max(1, round(segment.queue_bytes * new / value))
        shared = topology.shared | {name: msgspec.structs.replace(segment, **fields)}
        paths = tuple(path.crossing(shared) for path in topology.paths)
        return msgspec.structs.replace(topology, paths=paths)

    crossing = tuple(path.label for path in topology.paths if any(one.name == name for one in path.shared))
    return Place(value, changed, kind, crossing)


def _with_core(topology: Topology, path: Path, core: CoreSegment) -> Topology:
    paths = (
        msgspec.structs.replace(route, core=core) if route.crosses == path.crosses else route
        for route in topology.paths
    )
    return msgspec.structs.replace(topology, paths=tuple(paths))


def _ranged(key: str, origin: Provenance, share: float, where: Place) -> Uncertain | None:
    """The value with its range; None where there is none."""
    value, changed, kind, paths = where
    ends = _measured(origin, kind) if origin.assumed is None else _assumed(key, kind, value, share)
    if ends is None:
        return None
    low, high, because = ends
    write = WRITE[kind]
    below = changed(low) if low < value else None
    above = changed(high) if high > value else None
    if below is None and above is None:
        return None
    return Uncertain(
        key=key,
        paths=paths,
        stated=write(value),
        low=write(low if below else value),
        high=write(high if above else value),
        because=because,
        below=below,
        above=above,
    )


def _measured(origin: Provenance, kind: str) -> tuple[int, int, str] | None:
    """Ends of the interval that a measured value has in its words."""
    found = _INTERVAL.search(origin.measured or "")
    if found is None or kind not in _READ:
        return None
    try:
        low, high = (_READ[kind](group) for group in found.groups())
    except (ValueError, InputError):
        return None
    return low, high, "measured"


def _assumed(key: str, kind: str, value: int, share: float) -> tuple[int, int, str]:
    """Ends of the range of an assumed value."""
    if kind == _LOSS and not value:
        return 0, SOME_LOSS_PPB, f"assumed, up to {format_fraction(SOME_LOSS_PPB, 2)}"
    if kind in (_SIZE, _LOSS) or key.endswith(".jitter"):
        factor = QUEUE_FACTOR
        return round(value / factor), round(value * factor), f"assumed, half to {factor:g} times"
    factor = 1 + share
    return round(value / factor), round(value * factor), f"assumed, off by {share:.0%}"
