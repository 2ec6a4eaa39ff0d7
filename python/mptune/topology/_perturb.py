"""The same network with other numbers: rates, delays and losses that are off by some share.

Nobody knows a network to one percent. An answer that holds only for the exact numbers of its topology file is
worthless.
"""

import math
import random
from collections.abc import Callable
from typing import TypeVar

import msgspec

from mptune.topology._model import Topology
from mptune.topology._sites import CoreSegment, Interface, Path, Site

S = TypeVar("S", bound=CoreSegment)


def perturbed(topology: Topology, share: float, seed: int) -> Topology:
    """A topology whose rates, delays and loss probabilities are each off by a factor.

    The factors are drawn independently for every link, uniform in the logarithm between 1 / (1 + `share`) and
    1 + `share`. Queues keep their time at the link's rate: they belong to the device that has the rate.
    Traces, schedules and other effects stay as they are.

    Parameters
    ----------
    share : 0.2 for 20 %.
    seed : the same seed gives the same topology.
    """
    draw = random.Random(f"perturbed/{seed}")
    width = math.log1p(share)

    def factor() -> float:
        return math.exp(draw.uniform(-width, width))

    senders, receivers = (
        tuple(_interface(interface, factor) for interface in site.interfaces)
        for site in (topology.sender, topology.receiver)
    )
    cores: dict[str, CoreSegment] = {}
    for path in topology.paths:
        if path.crosses not in cores:
            cores[path.crosses] = _core(path.core, factor)
    shared = {name: _core(segment, factor) for name, segment in topology.shared.items()}
    return msgspec.structs.replace(
        topology,
        sender=_site(topology.sender, senders),
        receiver=_site(topology.receiver, receivers),
        paths=tuple(
            _path(
                path, senders[path.local_index], receivers[path.remote_index], cores[path.crosses]
            ).crossing(shared)
            for path in topology.paths
        ),
    )


def _site(site: Site, interfaces: tuple[Interface, ...]) -> Site:
    return msgspec.structs.replace(site, interfaces=interfaces)


def _interface(interface: Interface, factor: Callable[[], float]) -> Interface:
    up, down = factor(), factor()
    return msgspec.structs.replace(
        interface,
        up_bps=round(interface.up_bps * up),
        down_bps=round(interface.down_bps * down),
        queue_up_bytes=round(interface.queue_up_bytes * up),
        queue_down_bytes=round(interface.queue_down_bytes * down),
        delay_ns=round(interface.delay_ns * factor()),
        loss_ppb=round(interface.loss_ppb * factor()),
    )


def _path(path: Path, local: Interface, remote: Interface, core: CoreSegment) -> Path:
    return msgspec.structs.replace(path, local=local, remote=remote, core=core)


def _core(segment: S, factor: Callable[[], float]) -> S:
    rate, delay = factor(), factor()
    return msgspec.structs.replace(
        segment,
        forward_ns=round(segment.forward_ns * delay),
        reverse_ns=round(segment.reverse_ns * delay),
        loss_ppb=round(segment.loss_ppb * factor()),
        rate_bps=None if segment.rate_bps is None else round(segment.rate_bps * rate),
        queue_bytes=None if segment.queue_bytes is None else round(segment.queue_bytes * rate),
    )
