"""Screen of `mptune capture`: the largest connections with their subflows, and sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mptune import units
from mptune._text import number_of
from mptune.cli._common import echo
from mptune.cli._tables import table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mptune.capture.connections import Analysis, Connection, Data, Subflow

_COLUMNS = 100
#: Connections in full, their subflows and sentences, and further connections, unless all are wanted.
_FULL, _SUBFLOWS, _SENTENCES, _MORE = 2, 8, 6, 5


def largest(found: Analysis) -> int | None:
    """Place of the connection with most data; None without one."""
    sizes = [_size(connection) for connection in found.connections]
    return sizes.index(max(sizes)) if sizes else None


def _size(connection: Connection) -> int:
    return connection.there.sent_bytes + connection.back.sent_bytes


def show(out: Console, found: Analysis, *, details: bool) -> None:
    """Print it; warnings go to standard error.

    Parameters
    ----------
    details : all connections, subflows and sentences.
    """
    for warning in found.warnings:
        echo(f"mptune: warning: {warning}", err=True)
    count, plain = len(found.connections), number_of(found.plain, "plain TCP flow")
    headline = f"{number_of(found.packets, 'packet')} of TCP: {number_of(count, 'MPTCP connection')}, {plain}"
    out.print(headline, style="bold")
    order = sorted(range(count), key=lambda place: -_size(found.connections[place]))
    full = order if details else order[:_FULL]
    for place in full:
        _show_connection(out, found.connections[place], details=details)
    more = order[len(full) :]
    if more:
        out.print(f"\nFurther connections: {len(more)} (all: --details)", style="bold")
        out.print(_smaller([found.connections[place] for place in more[:_MORE]]))
    for sentence in found.limits:
        _print(out, sentence, "", "")


def _print(out: Console, text: str, first: str, then: str) -> None:
    for line in textwrap.wrap(text, _COLUMNS, initial_indent=first, subsequent_indent=then):
        out.print(line, soft_wrap=True)


def _show_connection(out: Console, connection: Connection, *, details: bool) -> None:
    out.print()
    for line in textwrap.wrap(". ".join(_headline(connection)) + ".", _COLUMNS):
        out.print(line, style="bold", soft_wrap=True)
    most = len(connection.subflows) if details else _SUBFLOWS
    subflows = list(enumerate(connection.subflows, 1))[:most]
    out.print(_subflows(subflows))
    traffic = _traffic(subflows)
    if traffic.row_count:
        out.print(traffic)
    left = len(connection.subflows) - len(subflows)
    if left:
        out.print(f"{number_of(left, 'further subflow')} (all: --details)")
    sentences = connection.findings if details else connection.findings[:_SENTENCES]
    for finding in sentences:
        where = "" if finding.subflow is None else f"subflow {finding.subflow + 1}, "
        _print(out, f"{where}{finding.at_s:.3f} s: {finding.sentence}", "- ", "  ")
    left = len(connection.findings) - len(sentences)
    if left:
        out.print(f"{left} more (all: --details)")


def _headline(connection: Connection) -> Iterator[str]:
    token = connection.server_token or connection.client_token
    kind = "MPTCP" if connection.version is None else f"MPTCP v{connection.version}"
    if connection.fallback:
        kind += ", fell back to TCP"
    yield f"Connection {token or 'of unknown token'}, {kind}, {connection.duration_s:.3f} s"
    for data, way in ((connection.there, "client to server"), (connection.back, "server to client")):
        if data.sent_bytes:
            yield f"{way[0].upper()}{way[1:]}: {', '.join(_data(data))}"


def _data(data: Data) -> Iterator[str]:
    yield f"{units.format_size(data.sent_bytes, 4)} sent"
    rate = "" if data.goodput_mbps is None else f" ({data.goodput_mbps:.2f} Mbit/s)"
    yield f"{units.format_size(data.acked_bytes, 4)} acknowledged{rate}"
    if data.reinjected_bytes:
        yield f"{units.format_size(data.reinjected_bytes, 4)} reinjected"
    if data.duplicate_bytes:
        yield f"{units.format_size(data.duplicate_bytes, 4)} arrived again"
    if data.closed:
        yield "DATA_FIN"


def _subflows(subflows: list[tuple[int, Subflow]]) -> Table:
    shown = table("#", "client", "server", "state", "role", "| opened", "| handshake", "close")
    for number, subflow in subflows:
        role = "-" if subflow.backup is None else "standby" if subflow.backup else "active"
        by = "" if subflow.opened_by in (None, "client") else f", by {subflow.opened_by}"
        shown.add_row(
            str(number),
            subflow.client,
            subflow.server,
            subflow.state + by,
            role,
            f"{subflow.opened_s:.3f} s",
            _number(subflow.handshake_ms, " ms", 1),
            subflow.close,
        )
    return shown


def _traffic(subflows: list[tuple[int, Subflow]]) -> Table:
    names = ("sent", "Mbit/s", "first here", "retransmitted", "reinjected", "lost", "RTT", "median")
    shown = table("#", "to", *(f"| {name}" for name in names))
    for number, subflow in subflows:
        for to, traffic in (("server", subflow.there), ("client", subflow.back)):
            if traffic.packets:
                shown.add_row(
                    str(number),
                    to,
                    units.format_size(traffic.bytes, 3),
                    _number(traffic.mbps, "", 2),
                    units.format_size(traffic.first_bytes, 3),
                    str(traffic.retransmitted),
                    str(traffic.reinjected),
                    "-" if traffic.lost is None else str(traffic.lost),
                    _number(traffic.rtt_ms, " ms", 1),
                    _number(traffic.median_rtt_ms, " ms", 1),
                )
    return shown


def _smaller(connections: list[Connection]) -> Table:
    shown = table("token", "client", "server", "| subflows", "| sent", "| back", "| remarks")
    for connection in connections:
        first = connection.subflows[0]
        shown.add_row(
            connection.server_token or connection.client_token or "-",
            first.client,
            first.server,
            str(len(connection.subflows)),
            units.format_size(connection.there.sent_bytes, 3),
            units.format_size(connection.back.sent_bytes, 3),
            str(len(connection.findings)),
        )
    return shown


def _number(value: float | None, unit: str, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}{unit}"
