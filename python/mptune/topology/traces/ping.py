"""`ping -D` of Linux (iputils): RTTs and losses of the echo requests of one interface.

Lines without an answer, which `-O` prints, and errors of routers count as lost, and so do numbers that never
appear. Of an answer that comes twice the first counts. Numbers have 16 bits and begin anew.
"""

import re
from collections.abc import Iterator

from mptune.topology.traces._format import (
    MILLISECOND,
    Entry,
    Format,
    Probe,
    Source,
    moment,
    probes,
    time,
    wrong,
)

_ROUND = 2**16
_LINE = re.compile(r"\[(\d+\.\d+)\] (.*icmp_seq=(\d{1,5})\b.*)", re.ASCII)
_TIME = re.compile(r" time=([\d.]+) ms", re.ASCII)


def _recognises(head: str) -> bool:
    return "icmp_seq=" in head


def _read(source: Source) -> Iterator[Entry]:
    sent: dict[int, Probe] = {}
    last = 0
    for line, text in enumerate(source.text.splitlines(), start=1):
        if "icmp_seq=" not in text:
            continue
        found = _LINE.fullmatch(text)
        if found is None:
            raise wrong(line, "a time in brackets, as `ping -D` prints it,", text)
        stamp, rest, count = found[1], found[2], int(found[3])
        # The round that brings it nearest to the one before.
        count += round((last - count) / _ROUND) * _ROUND
        answered = _TIME.search(rest)
        at = moment(stamp, line)
        if answered:
            rtt = time(answered[1], MILLISECOND, line)
            if count not in sent or sent[count].rtt_ns is None:
                sent[count] = Probe(at - rtt, line, rtt)
        else:
            sent.setdefault(count, Probe(at, line, None))
        last = count
    yield from probes(sent)


FORMAT = Format(
    name="ping",
    units="RTT in ms, time in Unix seconds",
    source="ping(8) of iputils, option -D",
    recognises=_recognises,
    read=_read,
    probes=True,
)
