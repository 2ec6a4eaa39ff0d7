"""MONROE's tables as CSV: `monroe_exp_ping` (RTTs, losses) and `monroe_exp_http_download` (rates).

A table has the measurements of many nodes and SIM cards; a trace is of one (`rows = { nodeid = "48" }`).
"""

from collections.abc import Iterator

from mptune.topology.traces._format import (
    MILLISECOND,
    Entry,
    Format,
    Probe,
    Source,
    columns,
    moment,
    number,
    probes,
    rate,
    table,
    time,
)

_BYTES_PER_SECOND = 8


def _recognises(head: str) -> bool:
    return {"nodeid", "timestamp"} <= set(columns(head))


def _read(source: Source) -> Iterator[Entry]:
    rows = table(source, lines_of=("nodeid", "iccid", "host"))
    if "speed" in columns(source.text):
        for row in rows:
            speed = rate(row.cell("speed"), _BYTES_PER_SECOND, row.line)
            yield Entry(moment(row.cell("timestamp"), row.line), row.line, {"down": speed})
        return
    sent: dict[int, Probe] = {}
    for row in rows:
        count = int(number(row.cell("sequencenumber"), row.line, "sequencenumber"))
        rtt = time(row.cell("rtt"), MILLISECOND, row.line)
        sent.setdefault(count, Probe(moment(row.cell("timestamp"), row.line) - rtt, row.line, rtt))
    yield from probes(sent)


FORMAT = Format(
    name="monroe",
    units="rtt in ms, speed in bytes/s, timestamp in Unix seconds",
    source="github.com/MONROE-PROJECT/Experiments: experiments/ping, experiments/http_download",
    recognises=_recognises,
    read=_read,
    probes=True,
)
