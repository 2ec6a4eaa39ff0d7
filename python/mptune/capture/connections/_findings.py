"""Findings about a connection, in sentences: vanished options, failed joins, resets.

Sentences state what the packets show, and what a capture at that place cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from mptune.capture.connections._flows import ACK, RST, SYN, Flow, View
from mptune.capture.connections._model import Finding
from mptune.capture.pcap import (
    CAPABLE,
    DATA_FIN,
    DSS,
    JOIN,
    MAPPED,
    Announced,
    Closed,
    Failed,
    Join,
    Priority,
    Removed,
    Reset,
)

if TYPE_CHECKING:
    from mptune.capture.connections._flows import Sent
    from mptune.capture.connections._grouping import Group, Member

ENDS = ("client", "server")
#: Packets of a direction without DSS, from which on it is remarkable.
_ENOUGH = 3
#: Most findings of a kind that a connection has.
_MOST = 20


class About(NamedTuple):
    """A connection, and the time from which its findings count."""

    group: Group
    start_ns: int

    def found(self, kind: str, at_ns: int, number: int | None, sentence: str) -> Finding:
        """Make one."""
        return Finding(kind=kind, at_s=(at_ns - self.start_ns) / 1e9, subflow=number, sentence=sentence)


def findings(about: About, states: list[str]) -> list[Finding]:
    """All findings of a connection, in order of time.

    Parameters
    ----------
    states : of the subflows.
    """
    makers = (_capable(about), _mappings(about), _joins(about, states), _addresses(about), _ends(about))
    kept: list[Finding] = []
    counts: dict[str, int] = {}
    for maker in makers:
        for finding in maker:
            counts[finding.kind] = counts.get(finding.kind, 0) + 1
            if counts[finding.kind] <= _MOST:
                kept.append(finding)
    return sorted(kept, key=lambda finding: finding.at_s)


def with_option(view: View, way: int, subtype: int, flags: int) -> tuple[int, int]:
    """Packets of a part of the handshake: all, and those with an option."""
    packets = view.ways[way].packets
    chosen = packets[packets["flags"] & (SYN | ACK) == flags]
    return len(chosen), int((chosen["options"] & 1 << subtype > 0).sum())


# ---- the first handshake -----------------------------------------------------------------------------


def _capable(about: About) -> Iterator[Finding]:
    member = about.group.members[0]
    if not member.initial:
        return
    near, far = member.flow.near, member.flow.far
    asked, with_capable = with_option(near, 0, CAPABLE, SYN)
    answers, answered = with_option(near, 1, CAPABLE, SYN | ACK)
    if not asked or not with_capable:
        return
    at = near.first_ns
    if not answers:
        yield about.found("unanswered", at, 0, f"{_times(asked, 'SYN')} with MP_CAPABLE, and no answer.")
    elif not answered and with_capable < asked:
        yield about.found(
            "capable dropped",
            at,
            0,
            f"{_times(with_capable, 'SYN')} with MP_CAPABLE had no answer, and then one without it had: "
            "something on the way drops them, or loss did.",
        )
    elif not answered:
        yield about.found("capable vanished", at, 0, _where_capable(member.flow, near, far))
    elif not _confirmed(near):
        sentence = "MP_CAPABLE is in SYN and SYN/ACK, but the client goes on without MPTCP."
        yield about.found("capable vanished", at, 0, sentence)


def _where_capable(flow: Flow, near: View, far: View) -> str:
    """Place where MP_CAPABLE vanished: two captures tell."""
    if flow.both:
        if not with_option(far, 0, CAPABLE, SYN)[1]:
            return "MP_CAPABLE of the SYN is removed on the way from the client to the server."
        if with_option(far, 1, CAPABLE, SYN | ACK)[1]:
            return "MP_CAPABLE of the SYN/ACK is removed on the way from the server to the client."
        return "The server answers without MP_CAPABLE, though the SYN reaches it with it: it offers no MPTCP."
    if near.nearer() == 1:
        return "The server answers MP_CAPABLE without it: it offers no MPTCP there."
    return (
        "MP_CAPABLE is answered without it: the server offers no MPTCP, or the option is removed on the way, "
        "there or back; a capture at the server would tell."
    )


def _confirmed(view: View) -> bool:
    """The client's packets after its SYN have an option of MPTCP, or there are none."""
    packets = view.ways[0].packets
    later = packets[packets["flags"] & (SYN | RST) == 0]
    return not len(later) or bool((later["options"] & (1 << CAPABLE | 1 << DSS) > 0).any())


# ---- mappings ----------------------------------------------------------------------------------------


def _mappings(about: About) -> Iterator[Finding]:
    """DSS that vanished, infinite mappings and MP_FAIL."""
    for number, member in enumerate(about.group.members):
        for end in range(2):
            yield from _dss(about, number, member, end)
        for sent in member.flow.options(Failed):
            who = ENDS[sent.way ^ member.opener]
            sentence = (
                f"MP_FAIL of the {who}: a checksum was wrong, so that something on the way changes payload."
            )
            yield about.found("MP_FAIL", sent.at_ns, number, sentence)


def _dss(about: About, number: int, member: Member, end: int) -> Iterator[Finding]:
    """One direction of a subflow."""
    way, who, other = member.way(end), ENDS[end], ENDS[1 - end]
    sent, arrived = member.flow.sent(way), member.flow.arrived(way)
    packets = sent.packets[sent.packets["flags"] & (SYN | RST) == 0]
    mapped = packets["dss"] & MAPPED > 0
    infinite = mapped & (packets["mapped"] == 0) & (packets["dss"] & DATA_FIN == 0)
    if infinite.any():
        at = int(packets["at"][infinite.argmax()])
        sentence = f"Infinite mapping of the {who}: from here on the connection is plain TCP (fallback)."
        yield about.found("infinite mapping", at, number, sentence)
    if not member.flow.near.ways[1 - way].packets.size or len(packets) < _ENOUGH:
        return
    has, heard = _share(packets), _share(arrived.packets[arrived.packets["flags"] & (SYN | RST) == 0])
    at = int(packets["at"][0])
    if member.flow.both and has and not heard:
        sentence = f"DSS is removed on the way from the {who} to the {other}."
        yield about.found("DSS vanished", at, number, sentence)
    elif not has and _share(member.flow.sent(1 - way).packets):
        near = member.flow.near.nearer()
        if member.flow.both or (near is not None and near == way):
            sentence = f"The {who} sends no DSS, though the {other} does: it went on as plain TCP."
        else:
            sentence = (
                f"Packets of the {who} have no DSS, those of the {other} do: removed on the way before here, "
                f"or the {who} went on as plain TCP; a capture at the {who} would tell."
            )
        yield about.found("DSS vanished", at, number, sentence)


def _share(packets: Any) -> bool:
    """Packets have DSS."""
    return bool((packets["options"] & 1 << DSS > 0).any())


# ---- joins and addresses -----------------------------------------------------------------------------


def state(member: Member) -> str:
    """Fate of a subflow's handshake."""
    if member.initial:
        return "initial"
    near = member.flow.near
    answers, answered = with_option(near, 1, JOIN, SYN | ACK)
    resets = near.ways[1].packets
    resets = resets[resets["flags"] & RST > 0]
    if not answers:
        return "refused" if len(resets) else "unanswered"
    if not answered:
        return "not MPTCP"
    carried = any(way.packets["length"].any() for way in near.ways)
    dss = any(_share(way.packets) for way in near.ways)
    opener = near.ways[0].packets
    if not carried and not dss and (len(resets) or (opener["flags"] & RST > 0).any()):
        return "refused"
    return "joined"


def reset_of(flow: Flow) -> tuple[int, str] | None:
    """The way of the first RST of a flow, and its reason in words; None without one."""
    first: tuple[int, int] | None = None
    for way in range(2):
        packets = flow.sent(way).packets
        resets = packets["at"][packets["flags"] & RST > 0]
        if len(resets) and (first is None or resets[0] < first[0]):
            first = int(resets[0]), way
    if first is None:
        return None
    reasons = [sent.option.words for sent in flow.options(Reset) if sent.way == first[1]]
    return first[1], f", {reasons[0]}" if reasons else ""


def _joins(about: About, states: list[str]) -> Iterator[Finding]:
    """Joins that failed."""
    for number, (member, became) in enumerate(zip(about.group.members, states, strict=True)):
        flow, at = member.flow, member.flow.near.first_ns
        target = f"from {flow.ends.addresses[0]} to {flow.ends.addresses[1]}"
        if became == "unanswered":
            count, _ = with_option(flow.near, 0, JOIN, SYN)
            reached = flow.both and with_option(flow.far, 0, JOIN, SYN)[0]
            where = " though it reaches the other end" if reached else ""
            sentence = f"Join {target}: {_times(count, 'SYN')}, never answered{where}."
            yield about.found("join unanswered", at, number, sentence)
        elif became == "refused":
            reset = reset_of(flow)
            way, reason = reset if reset is not None else (1, ", no reason given")
            who = ENDS[way ^ member.opener]
            sentence = f"Join {target} refused: reset by the {who}{reason or ', no reason given'}."
            yield about.found("join refused", at, number, sentence)
        elif became == "not MPTCP":
            sentence = (
                f"Join {target}: answered without MP_JOIN: the option is removed on the way, or nothing "
                "there speaks MPTCP."
            )
            yield about.found("join vanished", at, number, sentence)


def _addresses(about: About) -> Iterator[Finding]:
    """Addresses that were announced and to which nobody joined, and what was removed."""
    used = [set[str](), set[str]()]
    for member in about.group.members:
        for way, address in enumerate(member.flow.ends.addresses):
            used[way ^ member.opener].add(address)
    announced: dict[tuple[int, str, int | None], tuple[int, int]] = {}
    echoed: set[tuple[int, str]] = set()
    for number, member in enumerate(about.group.members):
        for sent in member.flow.options(Announced):
            end = sent.way ^ member.opener
            if sent.option.echo:
                echoed.add((1 - end, sent.option.address))
            else:
                announced.setdefault((end, sent.option.address, sent.option.port), (sent.at_ns, number))
        for removed in member.flow.options(Removed):
            ids = ", ".join(map(str, removed.option.address_ids))
            sentence = f"The {ENDS[removed.way ^ member.opener]} removed its address {ids} (REMOVE_ADDR)."
            yield about.found("address removed", removed.at_ns, number, sentence)
    for (end, address, port), (at_ns, number) in announced.items():
        if address not in used[end]:
            heard = "its echo is there" if (end, address) in echoed else "there is no echo of it"
            where = address if port is None else f"{address} port {port}"
            sentence = f"The {ENDS[end]} announced {where} (ADD_ADDR), to which nobody joined; {heard}."
            yield about.found("address unused", at_ns, number, sentence)


def _ends(about: About) -> Iterator[Finding]:
    """Fast closes, and subflows that were reset."""
    for number, member in enumerate(about.group.members):
        for closed in member.flow.options(Closed)[:1]:
            who = ENDS[closed.way ^ member.opener]
            sentence = f"MP_FASTCLOSE of the {who}: it gave up the whole connection."
            yield about.found("fastclose", closed.at_ns, number, sentence)
        for sent in member.flow.options(Reset)[:1]:
            if state(member) in ("joined", "initial"):
                who = ENDS[sent.way ^ member.opener]
                sentence = f"The {who} reset the subflow: {sent.option.words}."
                yield about.found("subflow reset", sent.at_ns, number, sentence)


def is_backup(member: Member, joined: list[Sent[Join]]) -> bool | None:
    """True for a standby subflow, by MP_JOIN of its SYN and later MP_PRIO; None if the capture lacks both.

    Parameters
    ----------
    joined : its MP_JOIN options.
    """
    asked = [sent.option.backup for sent in joined if sent.flags & SYN]
    changed = [sent.option.backup for sent in member.flow.options(Priority) if sent.option.address_id is None]
    if changed:
        return bool(changed[-1])
    if asked:
        return any(asked)
    return False if member.initial and member.flow.near.ways[0].from_syn else None


def _times(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
