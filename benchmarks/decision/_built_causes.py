"""Networks with built causes of missing throughput, drawn from a seed: what is wrong with each is known.

Not a benchmark. A server with one wide line sends to a home with two or three. A sound network has lines of
like RTTs with queues of a BDP, and buffers that are enough; a cause changes one thing of it.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks.shared.random_networks import Draw
from mptune.diagnosis.options import WhyOptions
from mptune.options.path_managers import PathManagerOptions
from mptune.topology import Topology, from_tables

#: Causes alone: how many of each are built.
SINGLE = {
    "buffer": 4,
    "receive window": 3,
    "head-of-line": 5,
    "shared bottleneck": 4,
    "loss": 4,
    "policing": 3,
    "subflows": 4,
    "stripped": 3,
}
#: Two causes in one network, as often as they stand here.
MIXED = (
    ("buffer", "loss"),
    ("buffer", "stripped"),
    ("buffer", "policing"),
    ("receive window", "loss"),
    ("receive window", "stripped"),
    ("receive window", "subflows"),
    ("head-of-line", "loss"),
    ("head-of-line", "stripped"),
    ("head-of-line", "policing"),
    ("shared bottleneck", "loss"),
    ("shared bottleneck", "stripped"),
    ("shared bottleneck", "policing"),
    ("shared bottleneck", "buffer"),
    ("shared bottleneck", "receive window"),
    ("loss", "policing"),
    ("loss", "stripped"),
    ("loss", "subflows"),
    ("policing", "stripped"),
    ("policing", "subflows"),
    ("subflows", "buffer"),
)
HEALTHY = 10
_MIB = 2**20


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A network with what is wrong with it."""

    name: str
    truth: frozenset[str]
    topology: Topology
    options: WhyOptions


class _Line:
    """A line of the home while it is drawn."""

    def __init__(self, draw: Draw, rtt_ms: float) -> None:
        self.mbps = float(draw.uniform(12, 60))
        self.rtt_ms = rtt_ms * float(draw.uniform("0.8", "1.25"))
        self.loss = 0.0
        self.bucket: tuple[float, float] | None = None
        self.mptcp: str | None = None


class _Network:
    """A sound network, and what causes change of it."""

    def __init__(self, draw: Draw, lines: int) -> None:
        self.draw = draw
        rtt_ms = float(draw.uniform(12, 50))
        self.lines = [_Line(draw, rtt_ms) for _ in range(lines)]
        self.shared_mbps: float | None = None
        self.shares = 2
        self.settings: dict[str, Any] = {}

    @property
    def window_bytes(self) -> float:
        """Sum of the rates for the longest RTT."""
        return sum(line.mbps for line in self.lines) * 1e3 / 8 * max(line.rtt_ms for line in self.lines)

    def tables(self, name: str) -> dict[str, Any]:
        """The topology file's tables."""
        ends = [
            {
                "isp": f"Line {abbr}",
                "abbr": abbr,
                "up": "20 Mbit/s",
                "down": _mbit(line.mbps),
                "queue_down": f"{max(30_000, round(line.mbps * line.rtt_ms * 125))} B",
            }
            for abbr, line in zip("ABC", self.lines, strict=False)
        ]
        wide = {"isp": "Transit", "abbr": "W", "up": "1 Gbit/s", "down": "1 Gbit/s", "queue": "4 MiB"}
        core: dict[str, Any] = {
            "segments": [_segment(*pair) for pair in zip("ABC", self.lines, strict=False)]
        }
        if self.shared_mbps is not None:
            paths = [f"W-{abbr}" for abbr in "ABC"[: self.shares]]
            core["shared"] = [{"name": "transit", "paths": paths, "rate": _mbit(self.shared_mbps)}]
        return {
            "name": name,
            "sender": "CLOUD",
            "receiver": "HOME",
            "assumed": "drawn",
            "sites": {
                "CLOUD": {"name": "Server", "interfaces": [wide]},
                "HOME": {"name": "Home", "interfaces": ends},
            },
            "core": core,
        }


def _mbit(value: float) -> str:
    return f"{value:.3f} Mbit/s"


def _segment(abbr: str, line: _Line) -> dict[str, Any]:
    segment: dict[str, Any] = {"path": f"W-{abbr}", "rtt": f"{line.rtt_ms:.3f} ms"}
    if line.loss:
        segment["loss"] = f"{100 * line.loss:.4f} %"
    if line.bucket is not None:
        rate, burst = line.bucket
        segment["bucket"] = {"rate": _mbit(rate), "burst": f"{round(burst)} B"}
        segment["queue"] = "15000 B"
    if line.mptcp is not None:
        segment["mptcp"] = line.mptcp
    return segment


def _buffer(network: _Network) -> None:
    size = max(60_000, round(network.window_bytes * float(network.draw.uniform("0.2", "0.6"))))
    network.settings["buffer_bytes"] = size


def _receive_window(network: _Network) -> None:
    size = max(60_000, round(network.window_bytes * float(network.draw.uniform("0.2", "0.6"))))
    network.settings |= {"buffer_bytes": 4 * _MIB, "receive_bytes": size}


def _head_of_line(network: _Network) -> None:
    """The last line is slow and far; the buffers are enough for each line alone."""
    slow = network.lines[-1]
    slow.mbps = float(network.draw.uniform(3, 7))
    slow.rtt_ms = float(network.draw.uniform(350, 600))
    for line in network.lines[:-1]:
        line.mbps = float(network.draw.uniform(30, 60))
        line.rtt_ms = float(network.draw.uniform(10, 18))
    network.settings["buffer_bytes"] = round(float(network.draw.uniform("1.2", "1.7")) * _MIB)


def _shared_bottleneck(network: _Network) -> None:
    network.lines[1].mbps = network.lines[0].mbps * float(network.draw.uniform("0.7", "1.4"))
    rates = [line.mbps for line in network.lines[:2]]
    network.shared_mbps = max(rates) * 1.02 + 0.3 * float(network.draw.uniform("0.1", 1)) * min(rates)


def _loss(network: _Network) -> None:
    line = network.lines[-1]
    line.mbps = max(line.mbps, 25.0)
    line.rtt_ms = max(line.rtt_ms, 25.0)
    line.loss = float(network.draw.uniform("0.008", "0.03"))


def _policing(network: _Network) -> None:
    line = network.lines[0 if network.shared_mbps is None else -1]
    line.mbps = max(line.mbps, 30.0)
    line.bucket = (
        line.mbps * float(network.draw.uniform("0.25", "0.5")),
        float(network.draw.uniform(60_000, 300_000)),
    )


def _subflows(network: _Network) -> None:
    if network.draw.below(2):
        network.settings |= {"pm": "default", "initial_path": "W-A"}
    else:
        network.settings |= {"pm": "pcdc", "active": ("W-A",)}


def _stripped(network: _Network) -> None:
    network.lines[1 if network.shared_mbps is None else -1].mptcp = ("none", "first")[network.draw.below(2)]


_BUILD: dict[str, Callable[[_Network], None]] = {
    "buffer": _buffer,
    "receive window": _receive_window,
    "head-of-line": _head_of_line,
    "shared bottleneck": _shared_bottleneck,
    "loss": _loss,
    "policing": _policing,
    "subflows": _subflows,
    "stripped": _stripped,
}
#: What is built last needs what the others left: buffers go by the lines.
_ORDER = (
    "head-of-line",
    "shared bottleneck",
    "loss",
    "policing",
    "stripped",
    "subflows",
    "buffer",
    "receive window",
)


def cases(seed: int) -> list[Case]:
    """All of a seed: causes alone, mixtures, and sound networks."""
    wanted: list[tuple[str, ...]] = [(kind,) for kind, number in SINGLE.items() for _ in range(number)]
    wanted += [*MIXED, *[()] * HEALTHY]
    return [_case(kinds, Draw(1000 * seed + number), number) for number, kinds in enumerate(wanted)]


def _case(kinds: tuple[str, ...], draw: Draw, number: int) -> Case:
    # Two causes need a line each, and one that is sound.
    network = _Network(draw, 3 if len(kinds) > 1 else 2 + (not kinds and draw.below(2)))
    for kind in _ORDER:
        if kind in kinds:
            _BUILD[kind](network)
    settings = dict(network.settings)
    active = settings.pop("active", None)
    if active is not None:
        settings["pm_options"] = _active(active)
    name = f"{number:02d} {' and '.join(kinds) or 'sound'}"
    topology = from_tables(network.tables(name), name, name)
    return Case(name=name, truth=frozenset(kinds), topology=topology, options=WhyOptions(**settings))


def _active(labels: tuple[str, ...]) -> PathManagerOptions:
    """PCDC with some of the subflows."""
    empty: Any = PathManagerOptions()
    pcdc = type(empty).__annotations__["pcdc"].__args__[0]
    options: PathManagerOptions = msgspec.structs.replace(empty, pcdc=pcdc(active=labels))
    return options
