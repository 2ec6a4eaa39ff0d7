"""Background traffic in a topology file: TCP connections on a path, datagrams on one link.

The core determines what it does to the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mptune import _core, units
from mptune._text import quoted
from mptune.errors import InputError
from mptune.topology._defaults import Assumption
from mptune.topology._flows import Background, OnOff, TcpBackground, UdpBackground
from mptune.topology._kinds import MOMENT, PACKET, PERIOD, RATE, Kind, choice
from mptune.topology._mptcp import FULL
from mptune.topology._network import Link, links
from mptune.topology._schema import TcpTable
from mptune.topology._sites import Path, Site
from mptune.topology._values import Table

#: Limit on sources and connections; the core's event queue has room for more.
_MAX_FLOWS = 256
#: 1 Tbit/s: a full packet still takes a few nanoseconds.
_MAX_UDP_BPS = 10**12
_BIT_NS_PER_BYTE = 8 * 10**9
_FULL_PACKET = 1500

_CC = Assumption("cubic", "no cc given: Linux' default")
_START = Assumption(0, "no start given: from the beginning of the trial")
_PACKET = Assumption(_FULL_PACKET, "no packet given: full packets, headers included")
_LENGTHS = Assumption(
    "exponential", "no lengths given: drawn from exponential distributions, so sources do not synchronise"
)


def read_background(
    tables: Sequence[Table[Any]], sender: Site, receiver: Site, paths: Sequence[Path]
) -> tuple[Background, ...]:
    """All flows of `[[background]]`, in the file's order.

    Raises
    ------
    InputError : anything that is not as expected.
    """
    if len(tables) > _MAX_FLOWS:
        expected = f"expected at most {_MAX_FLOWS} flows, found {len(tables)}"
        raise InputError(tables[0].ledger.where, "background", expected)
    known = {link.name: link for link in links(sender, receiver, paths)}
    return tuple(
        _tcp(table, paths) if isinstance(table.written, TcpTable) else _udp(table, known) for table in tables
    )


def _tcp(table: Table[Any], paths: Sequence[Path]) -> TcpBackground:
    path = table.value("path", _words([path.label for path in paths]))
    cc = table.given("cc", _words(_core.congestion_controls()), _CC)
    if any(each.label == path and each.core.mptcp not in (None, FULL) for each in paths):
        raise table.refuse("path", f"expected a path without a word on mptcp, found {path}")
    start, stop = _times(table)
    return TcpBackground(path=path, cc=cc, start_ns=start, stop_ns=stop)


def _udp(table: Table[Any], known: dict[str, Link]) -> UdpBackground:
    name = table.value("link", _link_in(known))
    link = known[name]
    rate = table.value("rate", RATE)
    if rate > _MAX_UDP_BPS:
        found = units.format_rate(rate)
        raise table.refuse("rate", f"expected at most {units.format_rate(_MAX_UDP_BPS)}, found {found}")
    if link.queue_bytes is None:
        expected = "expected a link that limits the rate (a core segment without a rate does not)"
        raise table.refuse("link", f"{expected}, found {quoted(name)}")
    packet = table.given("packet", PACKET, _PACKET)
    on_off = _on_off(table, packet, rate)
    start, stop = _times(table)
    return UdpBackground(
        link=name, rate_bps=rate, packet_bytes=packet, on_off=on_off, start_ns=start, stop_ns=stop
    )


def _on_off(table: Table[Any], packet_bytes: int, rate_bps: int) -> OnOff | None:
    given = [name for name in ("on", "off", "lengths") if table.has(name)]
    if not given:
        return None
    for name in ("on", "off"):
        if not table.has(name):
            raise table.refuse(name, f"expected beside {given[0]}, but missing")
    on, off = table.value("on", PERIOD), table.value("off", MOMENT)
    gap = max(1, packet_bytes * _BIT_NS_PER_BYTE // rate_bps)
    if on < gap:
        expected = f"expected at least the {units.format_time(gap)} of one packet"
        raise table.refuse("on", f"{expected}, found {units.format_time(on)}")
    lengths = table.given("lengths", _words(["fixed", "exponential"]), _LENGTHS)
    return OnOff(on_ns=on, off_ns=off, lengths=lengths)


def _times(table: Table[Any]) -> tuple[int, int | None]:
    start = table.given("start", MOMENT, _START)
    stop = table.optional("stop", MOMENT)
    if stop is not None and stop <= start:
        expected = f"expected more than the start at {units.format_time(start)}"
        raise table.refuse("stop", f"{expected}, found {units.format_time(stop)}")
    return start, stop


def _words(options: Sequence[str]) -> Kind[str]:
    return choice({word: word for word in options})


def _link_in(known: dict[str, Link]) -> Kind[str]:
    """Kind of a link's name. There are too many to list: access links and core links, each way."""
    examples = '"{}", "{}", "{}" or "{}"'.format(*list(known)[:2], *list(known)[-2:])

    def parse(text: str) -> str:
        if text not in known:
            raise ValueError(f"expected the name of a link such as {examples}, found {quoted(text)}")
        return text

    return Kind(parse, str, next(iter(known)))
