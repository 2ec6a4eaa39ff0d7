"""TCP transfers, which decide where there are no trains, or where they disagree."""

from __future__ import annotations

from mptune.probe import estimates
from mptune.probe.connections import Connections
from mptune.probe.ends import ENDS, End
from mptune.probe.estimates import Estimate
from mptune.probe.links import Links, Rate
from mptune.probe.preparation import Prepared
from mptune.probe.trains import FOR_RATES, Trains

#: Patience, ns, and the length of a transfer, seconds.
_LIMIT_NS, _LASTS_S = 8_000_000_000, 1.5
#: Share of the data budget; without trains theirs as well.
_FOR_TCP = 0.1
#: If trains disagree by more than this, a transfer decides.
_DISAGREE = 0.2
#: Share of a packet that the headers of TCP leave.
_PAYLOAD = 1448 / 1500


def transfer(
    prepared: Prepared, connections: Connections, trains: Trains, links: Links
) -> dict[tuple[End, int], Rate]:
    """Rates by the end that sends and path, where a transfer decided."""
    doubtful = [
        (end, path)
        for path in connections.plain
        for end in ENDS
        if links.rate(end, path) is None or _is_doubtful(trains, end, path)
    ]
    share = _FOR_TCP if trains.udp else FOR_RATES + _FOR_TCP
    found: dict[tuple[End, int], Rate] = {}
    dead: set[int] = set()
    for end, path in doubtful:
        if path in dead:
            continue
        before = links.rate(end, path)
        size = share * prepared.wish.data_bytes / len(doubtful)
        if before is not None:
            size = min(size, before.value * _LASTS_S / 8)
        word = "upload" if end == "sender" else "download"
        asked = [connections.plain[path]], [{word: round(size)}]
        (answer,) = prepared.ends.ask(*asked, limit_ns=_LIMIT_NS)
        if answer.failed is not None:
            dead.add(path)
            continue
        view = answer.served if end == "sender" else answer.view
        value = None if view is None else estimates.transfer_rate(view.arrived, _PAYLOAD)
        rate = _alone(value) if before is None else _beside(trains, end, path, before, value)
        if rate is not None:
            found[end, path] = rate
    return found


def _is_doubtful(trains: Trains, end: End, path: int) -> bool:
    later = trains.of(end, path)[2:]
    return estimates.disagree(later) > _DISAGREE or estimates.sustained(later) is not None


def _alone(transferred: float | None) -> Rate | None:
    """The rate where no train arrived."""
    if transferred is None:
        return None
    at_least = Estimate(value=transferred, low=transferred, high=transferred, samples=1, at_least=True)
    return Rate(at_least, "a TCP transfer")


def _beside(trains: Trains, end: End, path: int, before: Estimate, transferred: float | None) -> Rate:
    """The rate where trains disagree."""
    value = estimates.decided(estimates.sustained(trains.of(end, path)[2:]) or before.value, transferred)
    decided = Estimate(
        value=value, low=min(before.low, value), high=max(before.high, value), samples=before.samples
    )
    return Rate(decided, f"{before.samples} trains that disagree, and a TCP transfer")
