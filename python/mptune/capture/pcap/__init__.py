"""Captures of other programs, pcap and pcapng: their TCP packets as a table, with the options of MPTCP.

`_blocks` knows the containers, `_frames` what is below TCP, `_options` the options, `_packets` puts the table
together, and `writing` makes pcapng. It joins no packets into connections: `mptune.capture.connections` does.
"""

from mptune.capture.pcap._blocks import Interface
from mptune.capture.pcap._frames import Passed
from mptune.capture.pcap._options import (
    ACKED,
    ADD_ADDR,
    CAPABLE,
    CUT,
    DATA_FIN,
    DSS,
    FAIL,
    FASTCLOSE,
    JOIN,
    MALFORMED,
    MAPPED,
    Announced,
    Capable,
    Closed,
    Failed,
    Join,
    Option,
    Priority,
    Removed,
    Reset,
    decode,
)
from mptune.capture.pcap._packets import PACKET, Ends, Packets, Point, packet_type, read

__all__ = [
    "ACKED",
    "ADD_ADDR",
    "CAPABLE",
    "CUT",
    "DATA_FIN",
    "DSS",
    "FAIL",
    "FASTCLOSE",
    "JOIN",
    "MALFORMED",
    "MAPPED",
    "PACKET",
    "Announced",
    "Capable",
    "Closed",
    "Ends",
    "Failed",
    "Interface",
    "Join",
    "Option",
    "Packets",
    "Passed",
    "Point",
    "Priority",
    "Removed",
    "Reset",
    "decode",
    "packet_type",
    "read",
]
