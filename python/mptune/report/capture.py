"""The figure of a captured connection: rate and RTT of every subflow, in the direction with more data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptune.report.charts.captured import over_time
from mptune.report.charts.style import Key, Spec
from mptune.report.figures import panels

if TYPE_CHECKING:
    from mptune.capture.connections import Examined, Subflow

_WIDTH = 420
#: Subflows that are drawn, those with most data.
_MOST = 8


def figure(found: Examined, number: int) -> Spec:
    """Vega-Lite of a connection, by its place in the analysis."""
    connection = found.analysis.connections[number]
    end = int(connection.back.sent_bytes > connection.there.sent_bytes)
    sizes = [(subflow.there, subflow.back)[end].bytes for subflow in connection.subflows]
    busiest = sorted(range(len(sizes)), key=lambda place: -sizes[place])[:_MOST]
    names = {place + 1: _name(connection.subflows[place], place) for place in sorted(busiest)}
    colours = Key(field="subflow", title="", names=tuple(names.values()))
    steps = [step for step in found.course(number) if step.end == end and step.subflow in names]
    rates = [{"subflow": names[step.subflow], "t_s": step.t_s, "value": step.mbps} for step in steps]
    rtts = [
        {"subflow": names[step.subflow], "t_s": step.t_s, "value": step.rtt_ms}
        for step in steps
        if step.rtt_ms is not None
    ]
    charts = [("Rate", over_time(rates, colours, "payload sent (Mbit/s)", zero=True))]
    if rtts:
        charts.append(("Round trips", over_time(rtts, colours, "RTT (ms)", zero=False)))
    way = ("client to server", "server to client")[end]
    token = connection.server_token or connection.client_token or "of unknown token"
    return panels(charts, f"Connection {token}", f"From {way}.", columns=2, width=_WIDTH)


def _name(subflow: Subflow, place: int) -> str:
    return f"{place + 1}: {subflow.client} to {subflow.server}"
