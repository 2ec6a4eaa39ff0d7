"""Values of a topology that calibration infers, and the topology with other ones.

Only what the file assumes is inferred: published and measured values stay. Of links, only those matter that
can limit the data; on each of them TCP connections of others are possible.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from mptune.calibration.priors import PRIORS
from mptune.topology import WRITE, Path, TcpBackground, Topology, place
from mptune.units import parse_fraction, parse_rate, parse_size, parse_time

#: Kinds of values, in the order in which they are shown.
KINDS: tuple[str, ...] = tuple(PRIORS)

#: Those that are inferred unless others are asked for.
USUAL: tuple[str, ...] = tuple(kind for kind in KINDS if kind != "core")

#: Queue of a core segment whose rate is inferred: s at that rate, and bounds (bytes) as of a default queue.
CORE_QUEUE_S = 0.1
_CORE_QUEUES = (65_536, 4_194_304)

#: Beginning of the key of a number of connections; the link's name follows.
TCP = "background."

#: Congestion control of the connections of others: Linux's default.
_TCP_CC = "cubic"


#: Kinds of values as `mptune.topology.place` has them.
_UNITS: Mapping[str, str] = {"rate": "rate", "core": "rate", "rtt": "time", "queue": "size", "loss": "loss"}

#: Readers of a value's words.
_READ: Mapping[str, Callable[[str], int]] = {
    "rate": parse_rate,
    "time": parse_time,
    "size": parse_size,
    "loss": parse_fraction,
}

#: Smallest values: a queue holds a full packet, and a link has some rate.
_LEAST: Mapping[str, int] = {"rate": 100, "core": 100, "rtt": 1, "queue": 1500, "loss": 0}

#: Values that follow from another one unless the file states them: kind -> last parts of keys. They keep the
#: digits of its words too, and are written beside the value.
FOLLOWING: Mapping[str, Mapping[str, str]] = {
    "core": {"rate": "queue"},
    "rate": {"up": "queue_up", "down": "queue_down", "rate": "queue"},
    "rtt": {"rtt": "jitter"},
}


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One value to infer.

    Attributes
    ----------
    key : as in `Topology.provenance`, or "background." and the name of the link.
    kind : of `PRIORS`.
    stated : as the file has it, in the topology's unit; of connections their number.
    path : of connections, the one that they use.
    """

    key: str
    kind: str
    stated: int
    path: str = ""

    def value(self, u: float) -> int:
        """The value at a standard normal quantile, in the topology's unit, with the digits of its words."""
        return self.rounded(PRIORS[self.kind].value(u, self.stated))

    def rounded(self, value: int) -> int:
        """A value with the digits of its words, so that a file has the network that was simulated."""
        if self.kind == "tcp":
            return value
        return max(_LEAST[self.kind], _READ[_UNITS[self.kind]](self.words(value)))

    @property
    def quantile(self) -> float:
        """Place of the stated value in its prior, standard normal."""
        return PRIORS[self.kind].quantile(self.stated)

    def words(self, value: int) -> str:
        """A value for people and for files."""
        return str(value) if self.kind == "tcp" else in_words(value, _UNITS[self.kind])

    @property
    def prior(self) -> str:
        """Its prior, in words."""
        return PRIORS[self.kind].words.format(self.words(self.stated))


def parameters(topology: Topology, kinds: Sequence[str] = KINDS) -> list[Parameter]:
    """Everything to infer of a topology, kind by kind."""
    every = [*_of_links(topology), *_of_paths(topology)]
    if "core" in kinds:
        every += _of_cores(topology)
    return [parameter for kind in KINDS if kind in kinds for parameter in every if parameter.kind == kind]


def _of_links(topology: Topology) -> Iterator[Parameter]:
    for site, way in ((topology.sender, "up"), (topology.receiver, "down")):
        sends = way == "up"
        for number, interface in enumerate(site.interfaces):
            paths = [
                path
                for path in topology.paths
                if number == (path.local_index if sends else path.remote_index)
            ]
            if not _can_limit(paths, sends):
                continue
            key = f"sites.{site.abbr}.interfaces.{interface.abbr}"
            yield from _assumed(topology, f"{key}.{way}", "rate")
            yield from _assumed(topology, f"{key}.queue_{way}", "queue")
            if interface.loss_ppb:
                yield from _assumed(topology, f"{key}.loss", "loss")
            fastest = max(paths, key=lambda path: path.remote.down_bps if sends else path.local.up_bps)
            link = f"{site.abbr} {interface.abbr} {way}"
            yield Parameter(key=f"{TCP}{link}", kind="tcp", stated=0, path=fastest.label)


def _can_limit(paths: Sequence[Path], sends: bool) -> bool:
    """True if an access link can be slower than what comes in, or goes out, on the other side."""
    rate = paths[0].local.up_bps if sends else paths[0].remote.down_bps
    beyond = sum(
        min(path.remote.down_bps if sends else path.local.up_bps, path.core.rate_bps or rate)
        for path in paths
    )
    return rate <= beyond


def _of_paths(topology: Topology) -> Iterator[Parameter]:
    for path in topology.paths:
        key = f"core.segments.{path.label}"
        yield from _assumed(topology, f"{key}.rtt", "rtt")
        # Where an access link of the path loses packets, losses of both cannot be separated.
        if path.core.loss_ppb or not (path.local.loss_ppb or path.remote.loss_ppb):
            yield from _assumed(topology, f"{key}.loss", "loss")
        if path.core.rate_bps is not None:
            yield from _assumed(topology, f"{key}.rate", "rate")
            yield from _assumed(topology, f"{key}.queue", "queue")


def _of_cores(topology: Topology) -> Iterator[Parameter]:
    """Rates of core segments that the file does not limit, and connections of others there."""
    for path in topology.paths:
        key = f"core.segments.{path.label}.rate"
        origin = topology.provenance.get(key)
        if path.core.rate_bps is None and (origin is None or origin.assumed is not None):
            yield Parameter(key=key, kind="core", stated=path.rate_bps, path=path.label)
            yield Parameter(key=f"{TCP}core {path.label}", kind="tcp", stated=0, path=path.label)


def _assumed(topology: Topology, key: str, kind: str) -> Iterator[Parameter]:
    origin = topology.provenance.get(key)
    where = place(topology, key)
    if origin is not None and origin.assumed is not None and where is not None:
        yield Parameter(key=key, kind=kind, stated=where.value)


def with_values(topology: Topology, values: Mapping[Parameter, int]) -> Topology:
    """The topology with other values: rates first, as queues keep their time when those change.

    Raises
    ------
    KeyError : the topology does not have such a value.
    """
    background = list(topology.background)
    for parameter, value in sorted(values.items(), key=lambda pair: KINDS.index(pair[0].kind)):
        if parameter.kind == "tcp":
            background += [TcpBackground(path=parameter.path, cc=_TCP_CC)] * value
            continue
        if parameter.kind == "core":
            topology = _with_core_rate(topology, parameter.path, value)
            continue
        where = place(topology, parameter.key)
        if where is None:
            raise KeyError(parameter.key)
        topology = where.changed(value)
        beside = following(parameter)
        if beside is not None and (other := place(topology, beside)) is not None:
            topology = other.changed(_READ[other.kind](in_words(other.value, other.kind)))
    return msgspec.structs.replace(topology, background=tuple(background))


def _with_core_rate(topology: Topology, label: str, rate_bps: int) -> Topology:
    """The topology with a bottleneck in the core of a path."""
    least, most = _CORE_QUEUES
    queue = min(max(round(rate_bps / 8 * CORE_QUEUE_S), least), most)
    queue = _READ["size"](in_words(queue, "size"))

    def limited(path: Path) -> Path:
        if path.crosses != label:
            return path
        core = msgspec.structs.replace(path.core, rate_bps=rate_bps, queue_bytes=queue)
        return msgspec.structs.replace(path, core=core)

    return msgspec.structs.replace(topology, paths=tuple(map(limited, topology.paths)))


def following(parameter: Parameter) -> str | None:
    """Key of the value that follows from one: the queue of a link, or the jitter of a segment."""
    table, _, last = parameter.key.rpartition(".")
    beside = FOLLOWING.get(parameter.kind, {}).get(last)
    return None if beside is None else f"{table}.{beside}"


def in_words(value: int, unit: str) -> str:
    """A value with three digits, for files too: sizes in powers of ten, so that they are whole bytes.

    Parameters
    ----------
    unit : the kind of `mptune.topology.Place`.
    """
    if unit != "size":
        return WRITE[unit](value)
    whole = float(f"{max(value, _LEAST['queue']):.3g}")
    return f"{whole / 1e6:g} MB" if whole >= 1e6 else f"{whole / 1e3:g} kB"
