"""One subflow of the kernel as a policy's driver keeps it, and the records of what befell it.

All times are CLOCK_MONOTONIC (`time.monotonic_ns`), nanoseconds. Nothing is decided here: `managed.py` does.
"""

import msgspec

from mptune.linux.mptcp_messages import Pair
from mptune.linux.sock_diag import Statistics


class PriorityChange(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel made a subflow on a path standby or active."""

    at_ns: int
    path: str
    backup: bool


class Outage(msgspec.Struct, kw_only=True):
    """A subflow that was lost while it was in use, and what became of it.

    Attributes
    ----------
    path : where it ran.
    last_heard_ns : when its last acknowledgement arrived.
    detected_ns : when it was found lost.
    successors : paths that the policy took in its place.
    carrying_ns : when the first of them was seen carrying data, at most one look (20 ms) late.
    take_over_ns : from the last sign of life to that, a duration: detection and switching together. It may be
        shorter than the detection, since the kernel uses standby subflows by itself once it finds all
        active ones stale (`net.mptcp.stale_loss_cnt`). None without a successor that carries data.
    restored_ns : when it made progress again.
    """

    path: str
    last_heard_ns: int
    detected_ns: int
    successors: tuple[str, ...] = ()
    carrying_ns: int | None = None
    take_over_ns: int | None = None
    restored_ns: int | None = None


class Subflow:
    """A subflow with what the policy wants of it and what the kernel does with it.

    Attributes
    ----------
    path : number of its path.
    backup : what the policy wants.
    pair : its ends, once it is established.
    state : "joining", "established", "refused" or "closed".
    lost : no progress for long.
    kernel_backup : whether it is standby in the kernel.
    last : the latest statistics.
    carrying_ns : since when it carries data without a pause; None while it carries none.
    heard_ns : when the last acknowledgement arrived.
    refused_ns : since when the kernel refuses to change its priority; `refusal_told` : that is on record.
    """

    def __init__(self, path: int, backup: bool) -> None:
        self.path, self.backup = path, backup
        self.pair: Pair | None = None
        self.state = "joining"
        self.lost = False
        self.kernel_backup = backup
        self.last: Statistics | None = None
        self.carrying_ns: int | None = None
        self.established_ns = 0
        self.heard_ns = 0
        self.refused_ns: int | None = None
        self.refusal_told = False

    @property
    def alive(self) -> bool:
        """Established and not lost."""
        return self.state == "established" and not self.lost

    def establish(self, pair: Pair, now_ns: int) -> None:
        """Its handshake is done."""
        self.pair, self.state = pair, "established"
        self.established_ns = self.heard_ns = now_ns

    def note(self, statistics: Statistics, now_ns: int) -> None:
        """Look at it."""
        before = self.last.acked_bytes if self.last else 1  # the SYN
        if statistics.acked_bytes > before:
            self.carrying_ns = self.carrying_ns or now_ns
        elif statistics.unacked == 0:
            self.carrying_ns = None
        self.heard_ns = max(self.heard_ns, now_ns - statistics.silent_ms * 1_000_000)
        if statistics.backup is not None:
            self.kernel_backup = statistics.backup
        self.last = statistics
