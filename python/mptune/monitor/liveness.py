"""Liveness of an established subflow, from the kernel's counters.

TCP notices only of a subflow with something unacknowledged: its timer runs out again and again, each time
after twice as long. The subflow stays established meanwhile, for a quarter of an hour by default. One that is
idle over a dead path looks like any other that is idle.
"""

from mptune.monitor.shape import Subflow

#: Timeouts in a row from which a subflow is lost; the path managers take the same number
#: (crates/mptune-core/src/pathmanager/driver.rs).
LOST_AFTER_TIMEOUTS = 3


def is_lost(subflow: Subflow) -> bool:
    """Nobody answers, whatever its role is."""
    return subflow.state in (None, "established") and (subflow.timeouts_in_a_row or 0) >= LOST_AFTER_TIMEOUTS


def words(subflow: Subflow) -> str:
    """For how long there has been no answer; empty unless it is lost."""
    if not is_lost(subflow):
        return ""
    since = "" if subflow.silent_ns is None else f" for {subflow.silent_ns / 1e9:.0f} s"
    return f"no answer{since}, {subflow.timeouts_in_a_row} timeouts in a row"
