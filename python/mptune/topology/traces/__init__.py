"""Traces of links: one file per format, and one list. To add a format, write `<name>.py` and its line here.

A trace is what somebody measured of a link over time, in the format of whatever measured it.
"""

from mptune.topology.traces import conext23, csv_units, fcc, iperf3, irtt, mahimahi, monroe, ping
from mptune.topology.traces._format import Format, Source, moment
from mptune.topology.traces._recording import (
    GAPS,
    WAYS,
    Part,
    Recording,
    recorded,
    schedule,
    typical_delay_ns,
)

#: Every format but mahimahi's, which has opportunities instead of entries, in the order of recognition.
FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT for module in (irtt, iperf3, ping, monroe, fcc, conext23, csv_units)
}
#: All names.
NAMES = (mahimahi.NAME, *FORMATS)
#: Characters of a file that formats are recognised by.
_HEAD = 4096


def recognised(text: str) -> Format | None:
    """Format of a text; None if it is mahimahi's, or none of them."""
    head = text[:_HEAD]
    return next((kind for kind in FORMATS.values() if kind.recognises(head)), None)


def others() -> str:
    """The formats beside mahimahi's, for messages."""
    return f"one of the formats {', '.join(FORMATS)}"


__all__ = [
    "FORMATS",
    "GAPS",
    "NAMES",
    "WAYS",
    "Format",
    "Part",
    "Recording",
    "Source",
    "mahimahi",
    "moment",
    "others",
    "recognised",
    "recorded",
    "schedule",
    "typical_delay_ns",
]
