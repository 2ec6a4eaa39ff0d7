"""Raw data of the FCC's Measuring Broadband America.

Rates are in `curr_httpgetmt`, `curr_httppostmt` and `curr_webget`, RTTs and losses in `curr_udplatency` and
`curr_ping`. A file has the tests of thousands of homes; a trace is of one unit and one target
(`rows = { unit_id = "386" }`).
"""

from collections.abc import Iterator

from mptune.topology.traces._format import (
    MICROSECOND,
    WHOLE,
    Entry,
    Format,
    Row,
    Source,
    columns,
    moment,
    number,
    rate,
    table,
    time,
    wrong,
)

_BYTES_PER_SECOND = 8


def _recognises(head: str) -> bool:
    return {"unit_id", "dtime"} <= set(columns(head))


def _read(source: Source) -> Iterator[Entry]:
    values = _rate if "bytes_sec" in columns(source.text) else _round_trip
    for row in table(source, lines_of=("unit_id", "target")):
        yield Entry(moment(row.cell("dtime"), row.line), row.line, values(row))


def _rate(row: Row) -> dict[str, int]:
    return {"rate": rate(row.cell("bytes_sec"), _BYTES_PER_SECOND, row.line)}


def _round_trip(row: Row) -> dict[str, int]:
    good, bad = (number(row.cell(column), row.line, column) for column in ("successes", "failures"))
    if good < 0 or bad < 0 or not good + bad:
        raise wrong(row.line, "successes and failures above 0", f"{good}, {bad}")
    lost = {"round_loss": round(bad * WHOLE / (good + bad))}
    return {"rtt": time(row.cell("rtt_avg"), MICROSECOND, row.line)} | lost if good else lost


FORMAT = Format(
    name="fcc",
    units="bytes_sec in bytes/s, rtt_avg in us, dtime in UTC",
    source="FCC, Measuring Broadband America, data dictionary of the raw data",
    recognises=_recognises,
    read=_read,
)
