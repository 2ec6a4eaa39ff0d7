"""How much trials between hosts send, and the limits on that (`max_data` of an interface).

It counts what this program sent, payload and headers, and knows nothing of other programs.
"""

import math
from collections.abc import Iterable

from mptune.errors import InputError, LimitReached
from mptune.testbeds._base import Observation, Trial
from mptune.topology import Interface, Site, Topology

#: Bytes on the wire per byte of payload: a packet of 1500 has 1428 bytes with all options of MPTCP, 1408 over
#: IPv6 (RFC 8684 section 3.3).
_WIRE = 1500 / 1408
#: A limit must hold even with retransmissions, and with full buffers at the end of a transfer.
_RESERVE = 1.1

_PACKET = 1500


class Meter:
    """Bytes that were sent over each limited interface, by host and interface."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str], int] = {}

    def check(self, trial: Trial) -> None:
        """Refuse a trial that may exceed the limit of an interface.

        Raises
        ------
        InputError : naming the interface, or its rate if that is not known.
        LimitReached : it would, together with earlier trials.
        """
        for site, interface, way in _limited(trial.topology):
            key = f"sites.{site.abbr}.interfaces.{interface.abbr}"
            if trial.transfer_bytes is None and f"{key}.{way}" in trial.topology.missing:
                expected = f"expected a rate, needed by {key}.max_data; `mptune probe` measures it"
                raise InputError(trial.topology.file, f"{key}.{way}", expected)
            limit, sent = interface.max_data_bytes or 0, self._sent.get(_name(site, interface), 0)
            most = at_most(trial, interface, way)
            if sent + most > limit:
                found = f"{_shown(sent)} sent, and the next trial sends up to {_shown(most)}"
                raise LimitReached(
                    trial.topology.file, f"{key}.max_data", f"{_shown(limit)} do not suffice: {found}"
                )

    def count(self, trial: Trial, observation: Observation) -> None:
        """Add what a trial sent; for a failed one, the most that it may have sent."""
        topology = trial.topology
        ends = {path.label: (path.local.abbr, path.remote.abbr) for path in topology.paths}
        for site, interface, way in _limited(topology):
            if observation.failed is not None:
                sent = at_most(trial, interface, way)
            else:
                side = 0 if way == "up" else 1
                mine = [one for one in observation.subflows if ends[one.path][side] == interface.abbr]
                sent = sum(math.ceil(_WIRE * one.bytes) + _PACKET * one.retransmitted for one in mine)
            name = _name(site, interface)
            self._sent[name] = self._sent.get(name, 0) + sent


def at_most(trial: Trial, interface: Interface, way: str) -> int:
    """Bytes that a trial sends over an interface at most."""
    if trial.transfer_bytes is not None:
        return math.ceil(_RESERVE * _WIRE * trial.transfer_bytes)
    rate_bps = interface.up_bps if way == "up" else interface.down_bps
    return math.ceil(_RESERVE * rate_bps * (trial.duration_ns or 0) / 8e9)


def notice(topology: Topology, lasting_ns: int | None = None) -> str:
    """How much is sent at most, as far as rates are known, and over which metered interfaces; a sentence.

    Parameters
    ----------
    lasting_ns : total sending time; None if that is not known.
    """
    ways = [(topology.sender, "up"), (topology.receiver, "down")]
    rates = [
        None
        if any(_key(site, one, way) in topology.missing for one in site.interfaces)
        else sum(one.up_bps if way == "up" else one.down_bps for one in site.interfaces)
        for site, way in ways
    ]
    known = [rate for rate in rates if rate is not None]
    said = f"{topology.sender.name} sends to {topology.receiver.name}"
    if known:
        most = min(known)
        said += f" at most {most / 1e6:g} Mbit/s, {_shown(most // 8)} a second"
        if lasting_ns is not None:
            said += f", {_shown(round(most * lasting_ns / 8e9))} in all"
    else:
        said += " as fast as the network allows: its rates are not known"
    metered = [
        f"{one.abbr}" + ("" if one.max_data_bytes is None else f" (at most {_shown(one.max_data_bytes)})")
        for site in (topology.sender, topology.receiver)
        for one in site.interfaces
        if one.metered or one.max_data_bytes is not None
    ]
    return f"{said}; metered: {', '.join(metered)}." if metered else f"{said}."


def _limited(topology: Topology) -> Iterable[tuple[Site, Interface, str]]:
    for site, way in ((topology.sender, "up"), (topology.receiver, "down")):
        for interface in site.interfaces:
            if interface.max_data_bytes is not None:
                yield site, interface, way


def _key(site: Site, interface: Interface, way: str) -> str:
    return f"sites.{site.abbr}.interfaces.{interface.abbr}.{way}"


def _name(site: Site, interface: Interface) -> tuple[str, str]:
    return site.ssh or site.abbr, interface.abbr


def _shown(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
