"""Made-up recordings: one subflow that sends what a window allows, as packets at a network's edge."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mptune.capture import PACKET, About, Recording, Run, empty_samples
from mptune.capture._model import ACK, ARRIVED, NONE, SYN

SEGMENT = 1000
RTT_S = 0.02


def packet(at_s: float, way: int, **fields: Any) -> dict[str, Any]:
    """A packet that takes half an RTT, with some fields; `way` 0 is that of the data."""
    known = {"data": NONE, "data_ack": NONE, "flags": ACK, "fate": ARRIVED, "window": 1 << 20}
    entered = round(at_s * 1e9)
    left = entered + round(RTT_S / 2 * 1e9)
    return {"entered": entered, "left": left, "route": way, **known, **fields}


def table(packets: Iterable[dict[str, Any]]) -> Any:
    """Packets in order of entry."""
    ordered = sorted(packets, key=lambda packet: packet["entered"])
    rows = np.zeros(len(ordered), PACKET)
    for row, packet in zip(rows, ordered, strict=True):
        for name, value in packet.items():
            row[name] = value
    return rows


def run(packets: Iterable[dict[str, Any]], duration_s: float, samples: Any = None) -> Run:
    """A run of these packets."""
    return Run(
        packets=table(packets),
        samples=empty_samples(0) if samples is None else samples,
        seed=1,
        duration_ns=round(duration_s * 1e9),
        in_order_bytes=0,
    )


def recording(*runs: Run, paths: tuple[str, ...] = ("A-X",), testbed: str = "simulated") -> Recording:
    """A recording of some runs."""
    rtts = (round(RTT_S * 1e9),) * len(paths)
    trial = {"pm": "fullmesh", "cc": "reno"}
    about = About(
        testbed=testbed, release="linux", topology="made-up", paths=paths, base_rtt_ns=rtts, trial=trial
    )
    return Recording(about=about, runs=list(runs))


def course(
    window: Callable[[float], int],
    *,
    duration_s: float = 1.0,
    jitter_s: float = 0.0,
    seed: int = 1,
    lost: Callable[[int], bool] = lambda _: False,
) -> Run:
    """A subflow that keeps as many segments in flight as a function of time gives.

    Each segment that arrives is acknowledged; one that is lost is sent again an RTT later.

    Parameters
    ----------
    jitter_s : largest random delay of a packet's entry; the order is kept.
    lost : whether the segment with this number is lost when it is sent for the first time.
    """
    random = np.random.default_rng(seed)
    packets = [packet(0, 0, flags=SYN), packet(RTT_S / 2, 1, flags=SYN | ACK)]
    number, now_s, last_s = 0, RTT_S, 0.0
    while now_s < duration_s:
        segments = window(now_s)
        gap_s = RTT_S / segments
        for place in range(segments):
            at_s = last_s = max(last_s, now_s + place * gap_s + float(random.uniform(0, jitter_s)))
            here = {"seq": number * SEGMENT, "data": number * SEGMENT, "length": SEGMENT}
            if lost(number):
                packets += [packet(at_s, 0, **here, fate=2), packet(at_s + RTT_S, 0, **here)]
            else:
                packets.append(packet(at_s, 0, **here))
            acked = (number + 1) * SEGMENT
            packets.append(packet(at_s + RTT_S / 2, 1, ack=acked, data_ack=acked))
            number += 1
        now_s += RTT_S
    return run(packets, duration_s)
