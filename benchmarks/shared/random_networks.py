"""Random networks: a seed gives the same topology on every machine.

Not a benchmark. Numbers are drawn log-uniformly in decimal arithmetic, whose `ln` and `exp` are rounded
correctly everywhere; the C library's are not.
"""

import random
from decimal import Context, Decimal
from typing import NamedTuple

from mptune.topology import CoreSegment, Interface, Path, Site, Topology

#: Interfaces of sender and receiver, two to eight paths; each is as likely as any other.
SHAPES = (
    *((1, 2), (2, 1), (1, 3), (3, 1), (1, 4), (4, 1), (2, 2), (1, 5), (5, 1)),
    *((2, 3), (3, 2), (1, 6), (7, 1), (2, 4), (4, 2)),
)
#: bit/s of a bottleneck, ns of a path's RTT, ppb of a lossy path (0.01 % to 0.5 %): log-uniform.
RATE_BPS = (2_000_000, 300_000_000)
RTT_NS = (5_000_000, 200_000_000)
LOSS_PPB = (100_000, 5_000_000)
#: Queue of a bottleneck in bandwidth-delay products, but never less than a few packets, bytes.
QUEUE_BDPS = (Decimal("0.5"), Decimal(4))
LEAST_QUEUE = 15_000
#: Access links of a network whose paths share nothing.
WIDE_BPS, WIDE_QUEUE = 10_000_000_000, 2**26

_EXACT = Context(prec=30)
_BIT_NS_PER_BYTE = 8 * 10**9


class Draw:
    """Draws from a seed; uses `Random.random` alone, which no version of Python changes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(self._random.random() * n)

    def uniform(self, low: int | str | Decimal, high: int | str | Decimal) -> Decimal:
        """Log-uniform within the limits; text is a decimal number."""
        low, high = Decimal(low), Decimal(high)
        power = _EXACT.multiply(Decimal(self._random.random()), _EXACT.ln(_EXACT.divide(high, low)))
        return min(max(_EXACT.multiply(low, _EXACT.exp(power)), low), high)


class _Wire(NamedTuple):
    """RTT (ns) and loss (ppb) of a path."""

    rtt_ns: int
    loss_ppb: int


def random_network(seed: int) -> Topology:
    """A network of two to eight paths.

    In half of the networks the access links are the bottlenecks, shared by all paths of an interface; in the
    other half each path has a bottleneck of its own in the core. About half of the paths lose packets.
    """
    draw = Draw(seed)
    locals_, remotes = SHAPES[draw.below(len(SHAPES))]
    shared = draw.below(2) == 0
    wires = {
        (local, remote): _Wire(int(draw.uniform(*RTT_NS)), _loss(draw))
        for local in range(locals_)
        for remote in range(remotes)
    }
    sender = _site("S", "ABCDEFG"[:locals_], 0, wires, draw, shared=shared)
    receiver = _site("R", "TUVWXYZ"[:remotes], 1, wires, draw, shared=shared)
    paths = tuple(
        Path(
            label=f"{sender.interfaces[local].abbr}-{receiver.interfaces[remote].abbr}",
            local_index=local,
            remote_index=remote,
            local=sender.interfaces[local],
            remote=receiver.interfaces[remote],
            core=_core(wire, draw, shared=shared),
        )
        for (local, remote), wire in wires.items()
    )
    links = "shared access links" if shared else "a bottleneck for each path"
    return Topology(
        name=f"random-{seed}",
        description=f"{locals_} x {remotes} interfaces, {links}",
        sender=sender,
        receiver=receiver,
        paths=paths,
        initial_path=paths[0].label,
        lsrr_honoured=False,
        provenance={},
        file="",
    )


def _loss(draw: Draw) -> int:
    """Loss of a path, none for half of them."""
    lossy = draw.below(2) == 1
    return int(draw.uniform(*LOSS_PPB)) if lossy else 0


def _site(
    abbr: str, letters: str, end: int, wires: dict[tuple[int, int], _Wire], draw: Draw, *, shared: bool
) -> Site:
    """A site; the queue of a shared access link goes by the mean RTT of the interface's paths."""
    interfaces = []
    for index, letter in enumerate(letters):
        rtts = [wire.rtt_ns for ends, wire in wires.items() if ends[end] == index]
        rate, queue = _bottleneck(sum(rtts) // len(rtts), draw) if shared else (WIDE_BPS, WIDE_QUEUE)
        interfaces.append(_interface(letter, rate, queue))
    return Site(abbr=abbr, name=f"site {abbr}", location="drawn at random", interfaces=tuple(interfaces))


def wide_site(abbr: str, letters: str, location: str = "drawn at random") -> Site:
    """A site whose access links limit nothing."""
    interfaces = tuple(_interface(letter, WIDE_BPS, WIDE_QUEUE) for letter in letters)
    return Site(abbr=abbr, name=f"site {abbr}", location=location, interfaces=interfaces)


def _interface(letter: str, rate_bps: int, queue_bytes: int) -> Interface:
    """An access link that is the same both ways."""
    return Interface(
        isp=f"ISP {letter}",
        abbr=letter,
        up_bps=rate_bps,
        down_bps=rate_bps,
        delay_ns=0,
        queue_up_bytes=queue_bytes,
        queue_down_bytes=queue_bytes,
        loss_ppb=0,
    )


def _core(wire: _Wire, draw: Draw, *, shared: bool) -> CoreSegment:
    """The core of a path: its delay and loss, and its bottleneck if that is not in the access links."""
    rate, queue = (None, None) if shared else _bottleneck(wire.rtt_ns, draw)
    return CoreSegment(
        forward_ns=wire.rtt_ns // 2,
        reverse_ns=wire.rtt_ns - wire.rtt_ns // 2,
        jitter_ns=0,
        loss_ppb=wire.loss_ppb,
        rate_bps=rate,
        queue_bytes=queue,
    )


def _bottleneck(rtt_ns: int, draw: Draw) -> tuple[int, int]:
    """Rate (bit/s) and queue (bytes) of a link for paths of this RTT."""
    rate = int(draw.uniform(*RATE_BPS))
    queue = int(draw.uniform(*QUEUE_BDPS) * rate * rtt_ns / _BIT_NS_PER_BYTE)
    return rate, max(queue, LEAST_QUEUE)
