"""Limits of captures, by where they were taken, and parts of them that are not looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mptune._text import number_of
from mptune.capture.pcap import CUT, MALFORMED

if TYPE_CHECKING:
    from mptune.capture.connections._flows import Found
    from mptune.capture.connections._grouping import Group
    from mptune.capture.pcap import Packets

#: Payload of a packet that no link carries: it is cut, or was put together, by the card.
_LARGE = 9500


def limits(packets: Packets, groups: list[Group]) -> list[str]:
    """Sentences."""
    return list(_limits(packets, groups))


def _limits(packets: Packets, groups: list[Group]) -> Iterator[str]:
    members = [member for group in groups for member in group.members]
    alone = [member for member in members if not member.flow.both]
    places = {
        None if nearer is None else nearer ^ member.opener
        for member in alone
        for nearer in [member.flow.near.nearer()]
    }
    if 0 in places or 1 in places:
        here, far = ("the client", "the server") if 0 in places else ("the server", "the client")
        if places >= {0, 1}:
            here, far = "one end", "the other end"
        yield (
            f"Taken at {here}: of what {far} sends, losses and RTTs are not seen; what of the rest reached "
            f"{far} is known by acknowledgements alone."
        )
    if None in places and alone:
        yield (
            "Some handshakes are missing, or were seen between the ends: RTTs there are those from the place "
            "of the capture on."
        )
    if any(not group.members[0].initial or group.keys == (None, None) for group in groups):
        yield (
            "Some connections have no MP_CAPABLE with keys here: which of them belong together, where their "
            "data begins and who opened them is not known."
        )
    if len(packets.table) and int(packets.table["length"].max()) > _LARGE:
        yield (
            "Segments are larger than a link carries, as a network card cuts or joins them: packets and "
            "retransmissions are fewer than on the wire."
        )


def warnings(packets: Packets, found: Found) -> list[str]:
    """Sentences."""
    return [*packets.warnings, *_warnings(packets, found)]


def _warnings(packets: Packets, found: Found) -> Iterator[str]:
    passed, table = packets.passed, packets.table
    cut = int((table["options"] & CUT > 0).sum())
    malformed = int((table["options"] & MALFORMED > 0).sum())
    for count, what in (
        (passed.unknown, "{} of a link type that is not read"),
        (passed.fragments, "{} of IP fragments"),
        (passed.cut, "{} cut within the TCP header"),
    ):
        if count:
            yield f"Left out: {what.format(number_of(count, 'frame'))}."
    if cut:
        yield f"{number_of(cut, 'packet')} cut within the TCP options (tcpdump -s 128 keeps them)."
    if malformed:
        yield f"{number_of(malformed, 'packet')} with a malformed option of MPTCP, which is ignored."
    if found.omitted:
        yield f"Only the {len(found.flows)} busiest flows with MPTCP are read, not {found.omitted} others."
