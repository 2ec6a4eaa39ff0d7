"""Data cost of an answer: prices of interfaces, and the payload that the subflows carried.

A path costs what both of its interfaces do. Headers and what is sent twice are left out: payload that a
subflow carried is what counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mptune._text import digits
from mptune.topology import Topology
from mptune.trial import Record
from mptune.trial.metrics import COST, Metric
from mptune.units import format_size

#: Hours of a month of 30 days.
_MONTH_H = 720

#: Mbit/s as GB an hour.
_GB_PER_H = 3600 / 8000


def prices(topology: Topology) -> dict[str, float]:
    """Price of 10^9 bytes on each path, by label; empty if no interface has one."""
    found = {path.label: path.local.price_per_gb + path.remote.price_per_gb for path in topology.paths}
    return found if any(found.values()) else {}


def metric(topology: Topology) -> Metric | None:
    """Price of 10^9 bytes of payload, averaged over what each path carried; None without prices."""
    known = prices(topology)
    if not known:
        return None

    def read(kept: Record) -> float | None:
        carried = sum(subflow.throughput_mbps for subflow in kept.subflows)
        paid = sum(subflow.throughput_mbps * known.get(subflow.path, 0.0) for subflow in kept.subflows)
        return paid / carried if carried > 0 else None

    return replace(COST, read=read)


def sentences(topology: Topology, records: Sequence[Record]) -> Iterator[str]:
    """Cost of a configuration per GB and hour, and how long contracts last with it.

    Parameters
    ----------
    records : its trials.
    """
    mbps = _carried(records)
    if known := prices(topology):
        per_hour = sum(rate * known.get(path, 0.0) * _GB_PER_H for path, rate in mbps.items())
        total = sum(mbps.values())
        if total > 0:
            per_gb = per_hour / (total * _GB_PER_H)
            yield f"It costs {digits(per_gb, 3)} per GB, {digits(per_hour, 3)} an hour of this workload."
    for site in (topology.sender, topology.receiver):
        for interface in site.interfaces:
            if interface.monthly_bytes is None:
                continue
            over = sum(
                rate
                for path in topology.paths
                if interface in (path.local, path.remote) and (rate := mbps.get(path.label, 0.0))
            )
            hours = interface.monthly_bytes / 1e9 / (over * _GB_PER_H) if over else _MONTH_H
            lasts = f"last for {digits(hours, 3)} h" if hours < _MONTH_H else "are not used up"
            yield f"The {format_size(interface.monthly_bytes)} a month of {interface.abbr} {lasts} with it."


def _carried(records: Sequence[Record]) -> dict[str, float]:
    """Mean payload that each path carried, Mbit/s, over the trials that did not fail."""
    good = [record for record in records if record.failed is None]
    found: dict[str, float] = {}
    for record in good:
        for subflow in record.subflows:
            found[subflow.path] = found.get(subflow.path, 0.0) + subflow.throughput_mbps / len(good)
    return found
