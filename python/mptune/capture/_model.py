"""Model of a recording: runs of one trial with their packets and samples, and the trial itself."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np

#: One packet, as `crates/mptune-core/src/recording.rs` writes it; times in nanoseconds, positions in bytes.
PACKET: list[tuple[Any, ...]] = [
    ("entered", "<u8"),
    ("left", "<u8"),
    ("seq", "<u8"),
    ("ack", "<u8"),
    ("data", "<u8"),
    ("data_ack", "<u8"),
    ("window", "<u4"),
    ("sack", "<i4", (3, 2)),
    ("length", "<u2"),
    ("size", "<u2"),
    ("flow", "<u2"),
    ("route", "u1"),
    ("flags", "u1"),
    ("options", "u1"),
    ("fate", "u1"),
    ("link", "u1"),
    ("reserved", "u1"),
]
#: Stands for a position that a packet does not have.
NONE = 2**64 - 1
#: Fates of packets, by their numbers.
FATES = ("under way", "arrived", "dropped", "lost", "cut")
ARRIVED = FATES.index("arrived")
#: Flags of TCP, and the bit of `options` that marks a segment received before.
SYN, ACK, DUPLICATE = 1 << 1, 1 << 4, 1 << 7

#: A sender's state of one of its subflows: windows in segments, NaN where there is no threshold yet.
SAMPLE = [
    ("t", "<i8"),
    ("path", "<u2"),
    ("subflow", "<u2"),
    ("cwnd", "<f8"),
    ("ssthresh", "<f8"),
    ("srtt", "<i8"),
    ("unacked", "<u4"),
    ("sacked", "<u4"),
    ("lost", "<u4"),
    ("state", "u1"),
    ("backoff", "u1"),
]


@cache
def packet_type() -> np.dtype[Any]:
    """The packets' type."""
    import numpy as np

    return np.dtype(PACKET)


@cache
def sample_type() -> np.dtype[Any]:
    """The samples' type."""
    import numpy as np

    return np.dtype(SAMPLE)


def empty_samples(count: int) -> np.ndarray[Any, Any]:
    """Array of this many samples, all zero."""
    import numpy as np

    return np.zeros(count, sample_type())


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded trial, and its testbed.

    Attributes
    ----------
    testbed : name of the testbed.
    release : of the kernel, or whose MPTCP was simulated.
    topology : its name.
    paths : their labels, in the order of the packets' routes.
    base_rtt_ns : of each path, without queues.
    trial : the settings that matter, by name.
    """

    testbed: str
    release: str
    topology: str
    paths: tuple[str, ...]
    base_rtt_ns: tuple[int, ...]
    trial: dict[str, Any]


class Run(msgspec.Struct, kw_only=True):
    """One run.

    Attributes
    ----------
    packets : structured array of type `PACKET`, in order of entry.
    samples : structured array of type `SAMPLE`, in order of time; times count from the connection's request.
    seed : of everything random in the network.
    duration_ns, in_order_bytes : what the testbed measured.
    unrecorded : packets beyond the limit.
    """

    packets: Any
    samples: Any
    seed: int
    duration_ns: int
    in_order_bytes: int
    unrecorded: int = 0


class Recording(msgspec.Struct, kw_only=True):
    """Runs of the same trial at the same place."""

    about: About
    runs: list[Run]
