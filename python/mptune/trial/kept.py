"""Structs of what a campaign keeps of a trial, which metrics read (`mptune.trial.metrics`).

`mptune.trial.records` makes them of observations.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mptune._text import plain_tcp
from mptune.errors import Failure, FailureKind

#: The protocol without MPTCP; where path managers are listed, it stands for one, and no path manager has this
#: name.
PLAIN_TCP: Final = "tcp"


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Record of a piece of a workload beside the time that it took, such as a segment of a video.

    Attributes
    ----------
    at_ns : when it was asked for, since the connection was established.
    bytes : its payload.
    stalled_ns : how long the player stood still before it arrived.
    """

    at_ns: int
    bytes: int
    stalled_ns: int = 0


class SubflowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One subflow of one trial: its share of the delivered payload, and its state at the end.

    Attributes
    ----------
    rtt_ms, min_rtt_ms : last smoothed RTT and smallest RTT; None if it never measured one. Trials of version
        0.1 have no smallest RTT.
    rto_ms : retransmission timeout at the end; None if it is not known.
    with_mbps, without_mbps : throughput of the connection around the window without the subflow, and in it,
        if the trial withdrew it for a while to measure its impact factor (`mptune.impact`).
    """

    path: str
    active: bool
    throughput_mbps: float
    rtt_ms: float | None
    retransmitted: int
    min_rtt_ms: float | None = None
    with_mbps: float | None = None
    without_mbps: float | None = None
    rto_ms: float | None = None


class PartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a mix: its connections together.

    Attributes
    ----------
    throughput_mbps : sum over the connections, each over the time for which it was measured.
    completion_s : of transfers, that of the connection that took longest.
    fairness : Jain's index of their throughputs, percent; None of a single connection.
    delays_ms, pieces : as of a record.
    """

    throughput_mbps: float
    completion_s: float | None = None
    fairness: float | None = None
    delays_ms: tuple[float, ...] = ()
    pieces: tuple[Piece, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a campaign.

    Attributes
    ----------
    throughput_mbps : over the whole trial, including handshake and slow start; None if it failed. Of a trial
        that ended early, what is expected over the duration that was asked for.
    omega : impact factor of the withdrawn subflow, if one was withdrawn (MPCOA's design).
    failed : the reason, if it failed.
    duration_s : how long it really lasted, s, also if it failed: the time it cost on the testbed, without
        its set-up.
    took_s : real time that it took, s, of a trial with a clock of its own; None where it cost its duration.
    completion_s : of a transfer, from the first SYN to its last byte in order.
    p5_mbps : of a saturated sender, throughput that 95 % of the whole seconds reach; None for fewer than 20
        of them, and for trials of version 0.2.
    delays_ms : of each message, response, page or segment in order; empty for other workloads.
    pieces : the rest of what is known of each segment of a video; players one after the other.
    repeated : how often it was run before, and not counted because the machine was too busy.
    others_mbps : throughput of TCP connections of others, in the order of the topology, of a trial with a
        workload in `settings`.
    parts : of a mix, one for each of its parts; the other numbers are those of the first.
    settings : fields of the trial that differ from the defaults of version 0.1 and are not fields here
        (JSON types).
    """

    purpose: str
    pm: str
    cc: str
    buffer_bytes: int
    run: int
    seed: int
    withdrawn: str | None
    throughput_mbps: float | None
    failed: Failure | None
    subflows: tuple[SubflowRecord, ...]
    omega: float | None = None
    round: int = 0
    duration_s: float | None = None
    took_s: float | None = None
    completion_s: float | None = None
    p5_mbps: float | None = None
    repeated: int = 0
    settings: dict[str, Any] = {}
    delays_ms: tuple[float, ...] = ()
    pieces: tuple[Piece, ...] = ()
    parts: tuple[PartRecord, ...] = ()
    others_mbps: tuple[float, ...] = ()

    @property
    def manager(self) -> str:
        """The path manager, or plain TCP with its path if that is known, for tables and sentences."""
        path = self.settings.get("initial_path", "")
        return plain_tcp(path) if is_tcp(self.settings) else self.pm

    @property
    def failed_kind(self) -> FailureKind | None:
        """The kind of its failure, if it failed."""
        return None if self.failed is None else self.failed.kind


def is_tcp(settings: Mapping[str, Any]) -> bool:
    """True if a trial with these settings is plain TCP."""
    return bool(settings.get("protocol") == PLAIN_TCP)


def of_part(kept: Record, number: int) -> Record:
    """The record of a mix as if its part with this number, from 0 on, were what it was judged by."""
    part, sent = kept.parts[number], kept.settings["workload"]["parts"][number]
    return msgspec.structs.replace(
        kept,
        throughput_mbps=part.throughput_mbps,
        completion_s=part.completion_s,
        p5_mbps=kept.p5_mbps if number == 0 else None,
        delays_ms=part.delays_ms,
        pieces=part.pieces,
        settings={**kept.settings, "workload": sent["workload"]},
    )


def sent_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The workload that a trial with these settings is judged by, as it is stored; empty without a name."""
    sent: Mapping[str, Any] = settings.get("workload") or {}
    return sent["parts"][0]["workload"] if "parts" in sent else sent
