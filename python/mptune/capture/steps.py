"""A run of a recording step by step: what round trips took, and what was sent again, of each subflow.

For figures that show a whole trial; `series` has fine curves. It looks at whole arrays, so that a trial of a
million packets takes a second.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mptune.capture._model import Run


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a subflow.

    Attributes
    ----------
    subflow : label of its path, with a number if the path has several.
    t_s : its start, seconds from the connection's request.
    rtt_ms, min_rtt_ms, max_rtt_ms : mean and ends of the smoothed RTT, milliseconds.
    retransmitted : segments that were sent again.
    """

    subflow: str
    t_s: float
    rtt_ms: float
    min_rtt_ms: float
    max_rtt_ms: float
    retransmitted: int


def steps(run: Run, labels: tuple[str, ...], width_ns: int) -> list[Step]:
    """Whole steps of a run, subflow by subflow; steps without an RTT are left out.

    A recording that has no room for every packet ends where the first one is missing.

    Parameters
    ----------
    labels : of the paths.
    width_ns : of a step, nanoseconds.
    """
    import numpy as np

    packets, samples = run.packets, run.samples
    begin = int(packets["entered"][0]) if len(packets) else 0
    end_ns = run.duration_ns
    if run.unrecorded and len(packets):
        end_ns = min(end_ns, int(packets["entered"][-1]) - begin)
    count = end_ns // width_ns
    result: list[Step] = []
    for path, label in enumerate(labels):
        mine = samples[(samples["path"] == path) & (samples["srtt"] > 0)]
        flows = _flows(packets, path)
        for place, number in enumerate(np.unique(mine["subflow"])):
            own = mine[mine["subflow"] == number]
            retransmitted = (
                _retransmissions(packets, flows[place]) if place < len(flows) else np.empty(0, "u8")
            )
            numbers = np.bincount(((retransmitted - begin) // width_ns).astype("i8"), minlength=count)
            name = label if place == 0 else f"{label} ({place + 1})"
            of_step = own["t"] // width_ns
            for index in range(count):
                low, high = np.searchsorted(of_step, (index, index + 1))
                if low == high:
                    continue
                rtts = own["srtt"][low:high] / 1e6
                result.append(
                    Step(
                        subflow=name,
                        t_s=index * width_ns / 1e9,
                        rtt_ms=float(rtts.mean()),
                        min_rtt_ms=float(rtts.min()),
                        max_rtt_ms=float(rtts.max()),
                        retransmitted=int(numbers[index]),
                    )
                )
    return result


def _flows(packets: Any, path: int) -> list[int]:
    """Numbers of the subflows on a path, in the order of their first packets with data."""
    import numpy as np

    sent = packets[(packets["route"] == 2 * path) & (packets["length"] > 0)]
    flows, first = np.unique(sent["flow"], return_index=True)
    return [int(flow) for _, flow in sorted(zip(first.tolist(), flows.tolist(), strict=True))]


def _retransmissions(packets: Any, flow: int) -> Any:
    """Times at which a subflow retransmitted, nanoseconds."""
    import numpy as np

    sent = packets[(packets["flow"] == flow) & (packets["route"] % 2 == 0) & (packets["length"] > 0)]
    ends = sent["seq"] + sent["length"]
    highest = np.maximum.accumulate(ends)
    before = np.concatenate([np.zeros(1, "u8"), highest[:-1]]) if len(sent) else highest
    return sent["entered"][ends <= before]
