"""Limit of a subflow, from the times that the kernel counts (`struct tcp_info`).

`busy_time` is the time with data to send or unacknowledged; parts of it are `rwnd_limited` (the peer's
receive window had no room) and `sndbuf_limited` (the send buffer had none). The rest of the busy time the
subflow waited for its congestion window, that is for the path. When it is not busy it was given nothing to
send: by the application, by the scheduler, which uses other subflows, or because the window or the buffer of
the connection as a whole is full, for which the kernel keeps no time. Its pacing rate shows whether a path
policy holds it.
"""

from collections.abc import Iterable
from typing import Literal

from mptune.monitor.shape import Subflow

#: In the order in which equal ones are named.
Limit = Literal["window", "buffer", "path", "idle", "held", "receiving"]

#: Meaning of each, for people.
MEANINGS: dict[Limit, str] = {
    "window": "the peer's receive window is full",
    "buffer": "the send buffer is full",
    "path": "the congestion window, that is the path",
    "idle": "there is nothing to send on it",
    "held": "its path policy holds it; the reason is in its details",
    "receiving": "it only receives; what limits that is known at the other end",
}


def limit(before: Subflow, now: Subflow, elapsed_ns: int) -> Limit | None:
    """Limit for the largest part of the time between two reports; None if that is not known."""
    busy = _growth(before.busy_ns, now.busy_ns)
    window = _growth(before.rwnd_limited_ns, now.rwnd_limited_ns)
    buffer = _growth(before.sndbuf_limited_ns, now.sndbuf_limited_ns)
    if busy is None or window is None or buffer is None or elapsed_ns <= 0:
        return None
    parts: dict[Limit, int] = {
        "window": window,
        "buffer": buffer,
        "path": busy - window - buffer,
        "idle": elapsed_ns - busy,
    }
    longest = max(parts, key=lambda name: parts[name])
    received = _growth(before.received_bytes, now.received_bytes)
    if longest != "idle":
        return longest
    if received:
        return "receiving"
    return "held" if now.held else "idle"


def blocked(held: Subflow, siblings: Iterable[Subflow]) -> tuple[int, int] | None:
    """Rate that a held subflow would hold up, bit/s, and time for which it would, ns.

    Equations 1 and 2 of the path policy hold, from what the kernel reports of this moment, where the policy
    goes by the largest rates of some seconds and by bursts; None if that is not known.
    """
    if held.rtt_ns is None or held.min_rtt_ns is None:
        return None
    rates = [
        other.delivery_rate_bps or 0
        for other in siblings
        if not other.held and other.min_rtt_ns is not None and other.min_rtt_ns < held.min_rtt_ns
    ]
    return (sum(rates), max(held.rtt_ns, held.min_rtt_ns * 5 // 4)) if any(rates) else None


def quickest(held: Subflow, siblings: Iterable[Subflow]) -> int | None:
    """Smallest RTT of a sibling that is not held, ns; None if that of the held subflow is not above it."""
    rtts = [other.rtt_ns for other in siblings if not other.held and other.rtt_ns is not None]
    least = min(rtts, default=None)
    return least if least is not None and held.rtt_ns is not None and least < held.rtt_ns else None


def _growth(before: int | None, now: int | None) -> int | None:
    """Growth of a total; None if it is not known, or the counter belongs to another subflow."""
    if before is None or now is None or now < before:
        return None
    return now - before
