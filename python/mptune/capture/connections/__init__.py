"""MPTCP in captures: connections by token, their subflows, data sent again, and what went wrong.

`_flows` finds the TCP flows and where they were captured, `_grouping` joins them, `_data` follows the data
sequence space, `_traffic` each direction of a subflow, `_findings` has the sentences. It reads no file:
`mptune.capture.pcap` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mptune.capture import pcap
from mptune.capture.connections import _flows
from mptune.capture.connections._course import Step, course
from mptune.capture.connections._data import Direction, direction
from mptune.capture.connections._findings import ENDS, About, findings, is_backup, reset_of, state
from mptune.capture.connections._flows import ACK, FIN, SYN
from mptune.capture.connections._grouping import Group, Member, groups
from mptune.capture.connections._limits import limits, warnings
from mptune.capture.connections._model import Analysis, Connection, Data, Finding, Subflow, Traffic
from mptune.capture.connections._traffic import traffic

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Analysis",
    "Connection",
    "Data",
    "Examined",
    "Finding",
    "Step",
    "Subflow",
    "Traffic",
    "analyse",
    "examine",
]


class Examined(NamedTuple):
    """Analysis of captures, and the packets behind it.

    Attributes
    ----------
    groups : flows of each connection, in the order of the analysis.
    """

    analysis: Analysis
    groups: list[Group]

    def course(self, number: int) -> list[Step]:
        """A connection over time, by its place in the analysis."""
        return course(self.groups[number])


def examine(*paths: Path) -> Examined:
    """Read and analyse one capture, or two of the same packets at both ends.

    Raises
    ------
    InputError : one is not readable, no capture, or without packets of TCP.
    """
    return analyse(pcap.read(*paths), [str(path) for path in paths])


def analyse(packets: pcap.Packets, files: list[str]) -> Examined:
    """Connections of a capture, in order of their first packets.

    Parameters
    ----------
    files : names of the captures.
    """
    found = _flows.find(packets)
    grouped = groups(found.flows)
    analysis = Analysis(
        files=files,
        packets=len(packets.table),
        plain=found.plain,
        connections=[_connection(group) for group in grouped],
        limits=limits(packets, grouped),
        warnings=warnings(packets, found),
    )
    return Examined(analysis, grouped)


def _connection(group: Group) -> Connection:
    start_ns = group.members[0].flow.near.first_ns
    fallbacks = [_falls_back(group, end) for end in range(2)]
    ways = [direction(group, end, fallback=fallbacks[end]) for end in range(2)]
    states = [state(member) for member in group.members]
    about = About(group, start_ns)
    remarks = findings(about, states)
    tokens = [group.token_of(end) for end in range(2)]
    first = group.members[0]
    return Connection(
        client_token=None if tokens[0] is None else f"{tokens[0]:08x}",
        server_token=None if tokens[1] is None else f"{tokens[1]:08x}",
        version=group.version,
        checksums=group.checksums,
        start_ns=start_ns,
        duration_s=(max(member.flow.near.last_ns for member in group.members) - start_ns) / 1e9,
        fallback=any(fallbacks) or any(finding.kind in _FALLBACKS for finding in remarks),
        whole=first.initial and first.flow.near.syn(0) is not None,
        subflows=[
            _subflow(member, number, states[number], start_ns, ways)
            for number, member in enumerate(group.members)
        ],
        there=ways[0].data,
        back=ways[1].data,
        findings=remarks,
    )


#: Findings after which a connection is plain TCP.
_FALLBACKS = ("capable vanished", "capable dropped", "infinite mapping")


def _falls_back(group: Group, end: int) -> bool:
    """An end sends payload on its only subflow, and none of it has a mapping."""
    if len(group.members) > 1 or not group.members[0].initial:
        return False
    packets = group.members[0].flow.sent(end).packets
    loaded = packets[packets["length"] > 0]
    unmapped = (loaded["dss"] & pcap.MAPPED == 0) & (loaded["options"] & 1 << pcap.CAPABLE == 0)
    return bool(len(loaded) and not (loaded["dss"] & pcap.MAPPED > 0).any() and unmapped.any())


def _subflow(member: Member, number: int, became: str, start_ns: int, ways: list[Direction]) -> Subflow:
    flow = member.flow
    ends = [f"{_bracketed(address)}:{port}" for address, port in zip(*flow.ends, strict=True)]
    joined = flow.options(pcap.Join)
    ids = [sent.option.address_id for sent in joined if sent.flags & (SYN | ACK) == SYN]
    gaps, nearer = flow.near.handshake_ns(), None if flow.both else flow.near.nearer()
    known = flow.near.syn(0) is not None or flow.near.syn(1) is not None
    return Subflow(
        client=ends[member.opener],
        server=ends[1 - member.opener],
        opened_by=ENDS[member.opener] if known else None,
        opened_s=(flow.near.first_ns - start_ns) / 1e9,
        state=became,
        backup=is_backup(member, joined),
        address_id=ids[0] if ids else 0 if member.initial and known else None,
        handshake_ms=None if gaps is None else sum(gaps) / 1e6,
        taken_near=None if nearer is None else ENDS[nearer ^ member.opener],
        close=_close(member),
        there=traffic(member, number, 0, ways[0]),
        back=traffic(member, number, 1, ways[1]),
    )


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _close(member: Member) -> str:
    """Ending of a subflow."""
    closed = member.flow.options(pcap.Closed)
    if closed:
        return f"MP_FASTCLOSE by the {ENDS[closed[0].way ^ member.opener]}"
    reset = reset_of(member.flow)
    if reset is not None:
        return f"RST by the {ENDS[reset[0] ^ member.opener]}{reset[1]}"
    fins = [end for end in range(2) if (member.flow.sent(member.way(end)).packets["flags"] & FIN > 0).any()]
    if len(fins) == 2:
        return "FIN"
    return f"FIN by the {ENDS[fins[0]]} alone" if fins else "open"
