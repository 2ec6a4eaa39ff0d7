"""RTTs of the paths beside the trials of a campaign: without load and under it (buffer-size study, Table II).

Without load is the smallest RTT that a subflow saw in a trial, that of its handshake or of empty queues, as a
ping sees it; under load is its smoothed RTT at the end. It measures nothing.
"""

from typing import NamedTuple

from mptune.runner.seeds import BASELINE, ON_KERNEL
from mptune.statistics import Summary, summarise
from mptune.store import Store

#: Trials on another testbed than the campaign's, and those that the answer is only shown beside.
_OTHERS = ", ".join(f"'{purpose}'" for purpose in (*ON_KERNEL, BASELINE))

_RTTS = f"""
SELECT s.path, s.active, s.min_rtt_ms, s.rtt_ms FROM subflow s JOIN trial t ON t.id = s.trial
WHERE t.status = 'done' AND t.campaign = (SELECT min(id) FROM campaign) AND t.purpose NOT IN ({_OTHERS})
ORDER BY t.id, s.number
"""


class PathRtt(NamedTuple):
    """RTTs of a path over the trials, ms.

    Attributes
    ----------
    idle : smallest RTT of every subflow on it, standby ones too.
    loaded : last smoothed RTT of those that carried data; None if none did.
    """

    path: str
    idle: Summary
    loaded: Summary | None


def path_rtts(store: Store) -> list[PathRtt]:
    """The paths in the order in which trials first used them; none of a store whose trials saw no RTT."""
    idle: dict[str, list[float]] = {}
    loaded: dict[str, list[float]] = {}
    for row in store.rows(_RTTS):
        if row["min_rtt_ms"] is not None:
            idle.setdefault(row["path"], []).append(row["min_rtt_ms"])
        if row["active"] and row["rtt_ms"] is not None:
            loaded.setdefault(row["path"], []).append(row["rtt_ms"])
    return [
        PathRtt(path, summarise(values), summarise(loaded[path]) if path in loaded else None)
        for path, values in idle.items()
    ]
