"""Data sent by trials between hosts, and the limits on that (`max_data` of an interface).

It counts what this program sent, payload and headers, and knows nothing of other programs.
"""

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from mptune.errors import InputError, LimitReached
from mptune.topology import Interface, Site, Topology
from mptune.trial import Mix, Observation, Trial, Workload, judged

#: Bytes on the wire per byte of payload: a packet of 1500 has 1428 bytes with all options of MPTCP, 1408 over
#: IPv6 (RFC 8684 section 3.3).
_WIRE = 1500 / 1408
#: A limit must hold even with retransmissions, and with full buffers at the end of a transfer.
_RESERVE = 1.1

_PACKET = 1500
#: Of them headers, which a short packet has too.
_HEADERS = 1500 - 1408

#: Bytes by host and interface.
Sent = Mapping[tuple[str, str], int]


class Meter:
    """Bytes that were sent over each limited interface.

    Attributes
    ----------
    sent : so far.
    """

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str], int] = {}
        self.sent: Sent = MappingProxyType(self._sent)

    def check(self, trial: Trial) -> None:
        """Refuse a trial that may exceed the limit of an interface.

        Raises
        ------
        InputError : naming the interface, or its rate if that is not known.
        LimitReached : it would, together with earlier trials.
        """
        check(trial, sent=self._sent)

    def count(self, trial: Trial, observation: Observation) -> None:
        """Add what a trial sent; a failed one counts with all that it may have sent."""
        for site, interface, way in _limited(trial.topology):
            self._add(site, interface, _sent(trial, observation, interface, way))

    def recall(self, trial: Trial, observation: Observation) -> None:
        """Add what a trial of an earlier session sent, and what it sent before it was repeated."""
        self.count(trial, observation)
        for site, interface, way in _limited(trial.topology):
            before = int(observation.metadata.get("repeated", 0))
            self._add(site, interface, before * at_most(trial, interface, way))

    def _add(self, site: Site, interface: Interface, sent: int) -> None:
        name = _name(site, interface)
        self._sent[name] = self._sent.get(name, 0) + sent


def check(trial: Trial, times: int = 1, sent: Sent = MappingProxyType({})) -> None:
    """Refuse a trial that, run so many times, may exceed the limit of an interface.

    Parameters
    ----------
    times : runs to come.
    sent : what was sent before.

    Raises
    ------
    InputError : naming the interface, or its rate if that is not known.
    LimitReached : it would, together with earlier trials.
    """
    for site, interface, way in _limited(trial.topology):
        key = f"sites.{site.abbr}.interfaces.{interface.abbr}"
        if _sized(trial.workload) is None and f"{key}.{way}" in trial.topology.missing:
            expected = f"expected a rate, needed by {key}.max_data; `mptune probe` measures it"
            raise InputError(trial.topology.file, f"{key}.{way}", expected)
        limit, before = interface.max_data_bytes or 0, sent.get(_name(site, interface), 0)
        most = times * at_most(trial, interface, way)
        if before + most > limit:
            coming = "the next trial sends" if times == 1 else f"{times} trials send"
            found = f"{_shown(before)} sent, and {coming} up to {_shown(most)}"
            raise LimitReached(
                trial.topology.file, f"{key}.max_data", f"{_shown(limit)} do not suffice: {found}"
            )


def _sent(trial: Trial, observation: Observation, interface: Interface, way: str) -> int:
    """Bytes that a trial sent over an interface."""
    if observation.failed is not None:
        return at_most(trial, interface, way)
    side = 0 if way == "up" else 1
    ends = {path.label: (path.local.abbr, path.remote.abbr) for path in trial.topology.paths}
    mine = [subflow for subflow in observation.subflows if ends[subflow.path][side] == interface.abbr]
    own = judged(trial.workload)
    sent = sum(_with_headers(own, subflow.bytes) + _PACKET * subflow.retransmitted for subflow in mine)
    if not isinstance(trial.workload, Mix):
        return sent
    # Of the other workloads nobody knows by which paths they went.
    return min(sent + _beside(trial.workload, observation), max(sent, at_most(trial, interface, way)))


def _beside(mix: Mix, observation: Observation) -> int:
    """Bytes that the other workloads of a mix sent, over all paths together."""
    others = zip(mix.parts[1:], observation.parts[1:], strict=True)
    return sum(
        _with_headers(part.workload, connection.bytes) + _PACKET * connection.retransmitted
        for part, seen in others
        for connection in seen.connections
    )


def at_most(trial: Trial, interface: Interface, way: str) -> int:
    """Bytes that a trial sends over an interface at most."""
    rate_bps = interface.up_bps if way == "up" else interface.down_bps
    return math.ceil(_RESERVE * _wire_bytes(trial.workload, rate_bps))


def notice(
    topology: Topology,
    sending: Workload | None = None,
    sent: Sent = MappingProxyType({}),
) -> str:
    """Upper bound on the data sent, as far as rates are known, and metered interfaces; a sentence.

    Parameters
    ----------
    sending : all trials together, as one workload; None if that is not known.
    sent : what was sent before.
    """
    ways = [(topology.sender, "up"), (topology.receiver, "down")]
    known = [
        rate
        for site, way in ways
        if (rate := _sum(_rate_bps(topology, site, interface, way) for interface in site.interfaces))
        is not None
    ]
    sentence = f"{topology.sender.name} sends to {topology.receiver.name}"
    if known:
        most = min(known)
        sentence += f" at most {most / 1e6:g} Mbit/s, {_shown(most // 8)} a second"
    else:
        most = None
        sentence += " as fast as the network allows: its rates are not known"
    if (in_all := _to_come(most, sending)) is not None:
        sentence += f", {_shown(in_all)} in all"
    metered = [
        interface.abbr
        + _share(
            interface.max_data_bytes,
            sent.get(_name(site, interface), 0),
            _to_come(_rate_bps(topology, site, interface, way), sending),
        )
        for site, way in ways
        for interface in site.interfaces
        if interface.metered or interface.max_data_bytes is not None
    ]
    return f"{sentence}; metered: {', '.join(metered)}." if metered else f"{sentence}."


def _share(limit: int | None, before: int, to_come: int | None) -> str:
    """Data sent over an interface, and its limit; empty if nothing is known."""
    if limit is None:
        return "" if to_come is None else f" (at most {_shown(to_come)})"
    left = max(0, limit - before)
    most = left if to_come is None else min(left, to_come)
    if before:
        return f" ({_shown(before)} of {_shown(limit)} sent before, now at most {_shown(most)})"
    return f" (at most {_shown(limit)})" if most == limit else f" (at most {_shown(most)} of {_shown(limit)})"


def _to_come(rate_bps: int | None, sending: Workload | None) -> int | None:
    """Bytes that are sent at most over a link of a rate; None if that is not known."""
    if sending is None or (rate_bps is None and _sized(sending) is None):
        return None
    return round(_wire_bytes(sending, rate_bps or 0))


def _wire_bytes(workload: Workload, rate_bps: int) -> float:
    """Bytes on the wire, without retransmissions: of what has a size, or of a link that is never idle."""
    size = _sized(workload)
    return rate_bps * workload.limit_ns / 8e9 if size is None else size


def _sized(workload: Workload) -> int | None:
    """Bytes on the wire of what has a size, of all connections together; None of anything else."""
    if isinstance(workload, Mix):
        sizes = [(part.connections, _sized(part.workload)) for part in workload.parts]
        known = [number * size for number, size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None
    return None if workload.size is None else _with_headers(workload, workload.size)


def _with_headers(workload: Workload, payload: int) -> int:
    """Bytes on the wire of a payload, both directions together; each message has packets of its own."""
    return workload.ways * (math.ceil(_WIRE * payload) + _HEADERS * workload.messages_in(payload))


def _rate_bps(topology: Topology, site: Site, interface: Interface, way: str) -> int | None:
    """The rate of an access link; None if it is not known."""
    if f"sites.{site.abbr}.interfaces.{interface.abbr}.{way}" in topology.missing:
        return None
    return interface.up_bps if way == "up" else interface.down_bps


def _sum(rates: Iterable[int | None]) -> int | None:
    """The sum of rates; None if one is not known."""
    found = list(rates)
    known = [rate for rate in found if rate is not None]
    return sum(known) if len(known) == len(found) else None


def _limited(topology: Topology) -> Iterable[tuple[Site, Interface, str]]:
    for site, way in ((topology.sender, "up"), (topology.receiver, "down")):
        for interface in site.interfaces:
            if interface.max_data_bytes is not None:
                yield site, interface, way


def _name(site: Site, interface: Interface) -> tuple[str, str]:
    return site.ssh or site.abbr, interface.abbr


def _shown(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
