"""iperf3's JSON (`-J`), of its client at the site of the interface: rates, and the losses of UDP.

A test with `-R` is of the down link, one with `--bidir` of both. What it omits (`-O`) is left out. The rate
of a TCP test is what its congestion control got, which is the link's only where that filled it.
"""

from collections.abc import Iterator

import msgspec

from mptune._text import quoted
from mptune.topology.traces._format import SECOND, Entry, Format, Source, document, plain, rate, share, time


class _TestStart(msgspec.Struct, frozen=True):
    reverse: int = 0
    bidir: int = 0


class _Start(msgspec.Struct, frozen=True):
    test_start: _TestStart = _TestStart()


class _Sum(msgspec.Struct):
    start: float
    bits_per_second: float
    omitted: bool = False
    sender: bool = True
    lost_percent: float | None = None


class _Interval(msgspec.Struct):
    sum: _Sum
    sum_bidir_reverse: _Sum | None = None


class _File(msgspec.Struct):
    intervals: list[_Interval] = []
    start: _Start = _Start()
    error: str | None = None


_PERCENT = 10**7


def _recognises(head: str) -> bool:
    return head.lstrip().startswith("{") and '"start"' in head and '"iperf ' in head


def _read(source: Source) -> Iterator[Entry]:
    file = document(source.text, _File)
    if file.error is not None:
        raise ValueError(f"expected a test that succeeded; iperf3 reports {quoted(file.error)}")
    way, other = ("down", "up") if file.start.test_start.reverse else ("up", "down")
    for number, interval in enumerate(file.intervals, start=1):
        if interval.sum.omitted:
            continue
        values = _values(interval.sum, way, number)
        if interval.sum_bidir_reverse is not None:
            values |= _values(interval.sum_bidir_reverse, other, number)
        at = time(plain(interval.sum.start / 10**6), 10**6 * SECOND, number, "a start")
        yield Entry(at, number, values)


def _values(found: _Sum, way: str, number: int) -> dict[str, int]:
    values = {way: rate(plain(found.bits_per_second), 1, number)}
    if found.lost_percent is not None and not found.sender:
        values[f"{way}_loss"] = share(plain(found.lost_percent), _PERCENT, number)
    return values


FORMAT = Format(
    name="iperf3",
    units="bit/s, seconds since the start",
    source="iperf3(1), option -J",
    recognises=_recognises,
    read=_read,
)
