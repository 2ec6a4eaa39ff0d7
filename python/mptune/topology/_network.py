"""A topology as the core's links and routes: the one place that knows how an interface pair is wired.

Each interface has one up and one down link, shared by all its paths; each path has a core link of its
own each way. Data crosses sender up, core forward, receiver down; ACKs receiver up, core back, sender
down. Rates null are not rate limiting, and such links have no queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mptune.topology._model import Path, Site, Topology


def describe(topology: Topology) -> dict[str, Any]:
    """Return the core's `NetworkSpec` as JSON types."""
    sites = (topology.sender, topology.receiver)
    links = [link for site in sites for link in _access(site)]
    receiver_base = 2 * len(topology.sender.interfaces)
    paths = []
    for path in topology.paths:
        local, remote, core = 2 * path.local_index, receiver_base + 2 * path.remote_index, len(links)
        links += _core(path)
        paths.append(
            {
                "label": path.label,
                "local": path.local_index,
                "remote": path.remote_index,
                "forward": [local, core, remote + 1],
                "reverse": [remote, core + 1, local + 1],
            }
        )
    return {
        "links": links,
        "paths": paths,
        "initial_path": [path.label for path in topology.paths].index(topology.initial_path),
        "lsrr_honoured": topology.lsrr_honoured,
    }


def _access(site: Site) -> list[dict[str, Any]]:
    """Up and down link of each interface, in that order."""
    links = []
    for interface in site.interfaces:
        name = f"{site.abbr} {interface.abbr}"
        common = {"delay_ns": interface.delay_ns, "loss_ppb": interface.loss_ppb}
        links.append(_link(f"{name} up", interface.up_bps, interface.queue_up_bytes, **common))
        links.append(_link(f"{name} down", interface.down_bps, interface.queue_down_bytes, **common))
    return links


def _core(path: Path) -> list[dict[str, Any]]:
    """Core link of the data direction (with the segment's loss) and of the ACK direction (without)."""
    core = path.core
    rate, queue, jitter = core.rate_bps, core.queue_bytes, core.jitter_ns
    there, back = f"{path.label} forward", f"{path.label} back"
    return [
        _link(there, rate, queue, delay_ns=core.forward_ns, jitter_ns=jitter, loss_ppb=core.loss_ppb),
        _link(back, rate, queue, delay_ns=core.reverse_ns, jitter_ns=jitter),
    ]


def _link(
    name: str,
    rate_bps: int | None,
    queue_bytes: int | None,
    *,
    delay_ns: int,
    jitter_ns: int = 0,
    loss_ppb: int = 0,
) -> dict[str, Any]:
    return {
        "name": name,
        "rate_bps": rate_bps,
        "delay_ns": delay_ns,
        "jitter_ns": jitter_ns,
        "queue_bytes": queue_bytes,
        "loss_ppb": loss_ppb,
    }
