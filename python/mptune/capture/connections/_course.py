"""A connection over time: rates and round trips of its subflows in steps, for charts."""

from __future__ import annotations

from typing import Any

import msgspec

from mptune.capture.connections._grouping import Group
from mptune.capture.connections._traffic import round_trips

#: Steps of a chart.
_STEPS = 120


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of a subflow in a step.

    Attributes
    ----------
    subflow : its number, from 1 on.
    end : 0 is what the client sent.
    t_s : its middle, from the connection's first packet.
    mbps : payload sent, retransmissions included.
    rtt_ms : median from data to acknowledgement; None without any.
    """

    subflow: int
    end: int
    t_s: float
    mbps: float
    rtt_ms: float | None


def course(group: Group) -> list[Step]:
    """Equal steps from the first packet of a connection to its last one."""
    import numpy as np

    start_ns = min(member.flow.near.first_ns for member in group.members)
    last_ns = max(member.flow.near.last_ns for member in group.members)
    # From 0 on: times since 1970 have no nanoseconds as floating-point numbers.
    edges = np.linspace(0, max(last_ns - start_ns, _STEPS), _STEPS + 1)
    width_s = float(edges[1]) / 1e9
    steps: list[Step] = []
    for number, member in enumerate(group.members, 1):
        for end in range(2):
            way = member.way(end)
            view = (member.flow.near, member.flow.far)[way]
            packets = view.ways[way].packets
            sizes = np.histogram(packets["at"] - start_ns, edges, weights=packets["length"])[0]
            if not sizes.any():
                continue
            at, rtts = round_trips(view.ways[way], view.ways[1 - way])
            for index, rtt in enumerate(_medians(at - start_ns, rtts, edges)):
                middle_s = float(edges[index]) / 1e9 + width_s / 2
                mbps = float(sizes[index]) * 8e-6 / width_s
                steps.append(Step(subflow=number, end=end, t_s=middle_s, mbps=mbps, rtt_ms=rtt))
    return steps


def _medians(at: Any, values: Any, edges: Any) -> list[float | None]:
    """Median of each step, ms."""
    import numpy as np

    order = np.argsort(at, kind="stable")
    bounds = np.searchsorted(at[order], edges)
    parts = np.split(values[order], bounds[1:-1])
    return [float(np.median(part)) / 1e6 if len(part) else None for part in parts]
