"""irtt's JSON: RTTs, one-way delays and losses of its probes, sent by the site of the interface.

The file may be compressed, as irtt writes it (`.json.gz`). Times are those of the client's monotonic clock,
which nobody sets. One-way delays need clocks in step: without `one_way = true` half the RTT is either way.
"""

from collections.abc import Iterator

import msgspec

from mptune.topology.traces._format import WHOLE, Entry, Format, Source, document, plain, time, wrong


class _Stamp(msgspec.Struct, frozen=True):
    wall: int | None = None
    monotonic: int | None = None


class _End(msgspec.Struct, frozen=True):
    send: _Stamp = _Stamp()


class _Stamps(msgspec.Struct, frozen=True):
    client: _End = _End()


class _Delay(msgspec.Struct, frozen=True):
    rtt: int | None = None
    send: int | None = None
    receive: int | None = None


class _RoundTrip(msgspec.Struct):
    seqno: int
    lost: bool | str
    timestamps: _Stamps
    delay: _Delay = _Delay()


class _File(msgspec.Struct):
    round_trips: list[_RoundTrip]


#: `lost`, which is true, false or one of two words -> what is known to be lost.
_LOST = {"true_up": {"up_loss": WHOLE}, "true_down": {"up_loss": 0, "down_loss": WHOLE}}


def _recognises(head: str) -> bool:
    return head.lstrip().startswith("{") and '"irtt"' in head


def _read(source: Source) -> Iterator[Entry]:
    trips = document(source.text, _File).round_trips
    # Where of one probe nobody knows on which way it was lost, all losses are of round trips.
    sided = all(trip.lost in (False, "false", *_LOST) for trip in trips)
    for trip in trips:
        sent, line = trip.timestamps.client.send, trip.seqno + 1
        at = sent.monotonic if sent.monotonic is not None else sent.wall
        if at is None:
            raise wrong(line, "the time of sending", None)
        if trip.lost not in (False, True, "false", "true", *_LOST):
            raise wrong(line, "lost to be true, false, true_up or true_down", trip.lost)
        if trip.lost in (False, "false"):
            lost = {"up_loss": 0, "down_loss": 0} if sided else {"round_loss": 0}
            yield Entry(at, line, _delays(trip, source.one_way, line) | lost)
        else:
            yield Entry(at, line, _LOST[str(trip.lost)] if sided else {"round_loss": WHOLE})


def _delays(trip: _RoundTrip, one_way: bool, line: int) -> dict[str, int]:
    if not one_way:
        return {"rtt": time(plain(trip.delay.rtt), 1, line)}
    names = {"up_delay": trip.delay.send, "down_delay": trip.delay.receive}
    return {name: time(plain(value), 1, line, "a one-way delay") for name, value in names.items()}


FORMAT = Format(
    name="irtt",
    units="delays in ns, time in ns",
    source="irtt-client(1), section OUTPUT, json_format 1",
    recognises=_recognises,
    read=_read,
    probes=True,
)
