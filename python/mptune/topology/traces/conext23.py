"""Starlink and cellular networks on the move, a rate every second: the set of Hu et al. (CoNEXT 2023).

"LEO Satellite vs. Cellular Networks: Exploring the Potential for Synergistic Integration".
Its repository has no licence: fetch it yourself. A file strings many drives together, in no order of time:
they are sorted here, and between them are gaps. `start` and `stop` choose a drive, `gaps = "cut"` takes the
gaps out.
"""

from collections.abc import Iterator

from mptune.topology.traces._format import Entry, Format, Source, columns, moment, rate, table

_MBPS = 10**6
#: Columns of a file's folders: all but 7-TCP-Parallel, and that.
_NAMES = (("time", "throughput"), ("time", "bitrate"))


def _recognises(head: str) -> bool:
    found = set(columns(head))
    return any(set(names) <= found for names in _NAMES)


def _read(source: Source) -> Iterator[Entry]:
    found = columns(source.text)
    (value,) = (value for _, value in _NAMES if value in found)
    entries = (
        Entry(moment(row.cell("time"), row.line), row.line, {"rate": rate(row.cell(value), _MBPS, row.line)})
        for row in table(source)
    )
    yield from sorted(entries, key=lambda entry: entry.at_ns)


FORMAT = Format(
    name="conext23",
    units="throughput in Mbit/s, time of day with a zone such as CDT",
    source="github.com/Starlink-Project/Satellite-vs-Cellular: README.md of each folder",
    recognises=_recognises,
    read=_read,
)
