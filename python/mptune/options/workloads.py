"""The option that names a workload other than a saturated sender or one transfer.

A text such as "messages:200B/100ms": the kind, and what it needs. How long it lasts is another option.
"""

import itertools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from mptune import units
from mptune._text import quoted
from mptune.errors import one_of
from mptune.options._declared import Option
from mptune.options._kinds import Kind, count
from mptune.options.lists import bursts, sizes
from mptune.trial import (
    MOST_CONNECTIONS,
    Asked,
    AskedPart,
    AskedSingle,
    Asking,
    Browsing,
    Bursting,
    Commands,
    Pattern,
    Saturating,
    Several,
    Sized,
    Watching,
    on_each,
)

#: Most messages of a trial (`crates/mptune-core/src/workload/messages.rs`).
_MOST = 1_000_000
#: Most bursts of a trial (`crates/mptune-core/src/workload/onoff.rs`).
_MOST_BURSTS = 100_000
#: Most requests at a time (`crates/mptune-core/src/workload/requests.rs`).
_MOST_AT_ONCE = 1_000

#: Most objects of a page (`crates/mptune-core/src/workload/page.rs`).
_MOST_OBJECTS = 10_000

#: Whatever can be asked for by this option.
AskedWorkload = Asked | Several | Commands

#: Kinds, and how they are written.
_KINDS = {
    "messages": "messages:SIZE/INTERVAL",
    "on-off": "on-off:SIZE/TIME",
    "requests": "requests:SIZE/SIZE[,think=TIME][,at_once=N]",
    "page": "page:SIZE/NxSIZE[,think=TIME]",
    "video": "video[:RATE/RATE...][,segment=TIME][,buffer=TIME]",
}

#: The bitrates of a video unless others are asked for, bit/s: those of 16:9 in H.264 from the HLS authoring
#: specification for Apple devices, 416x234 to 1920x1080.
LADDER = (145_000, 365_000, 730_000, 1_100_000, 2_000_000, 3_000_000, 4_500_000, 6_000_000, 7_800_000)
#: Playing time of a segment and of the player's buffer, as of DASH's reference player (dash.js).
_SEGMENT_NS, _BUFFER_NS = 4_000_000_000, 30_000_000_000
#: Most bitrates (`crates/mptune-core/src/workload/video.rs`).
_MOST_BITRATES = 256


#: What a file with a list begins with.
_FILE = "@"

#: Kinds that are options of their own, or words, unless they are in a mix.
_IN_A_MIX = {"bulk": "bulk", "transfer": "transfer:SIZE"}

#: What a mix begins with, and what is between its parts and behind their numbers of connections.
_MIX, _AND, _TIMES = "mix:", "+", "*"

#: What two programs begin with, how that goes on, and how many they are.
_EXEC, _OF_EXEC, _ENDS = "exec:", "exec:CLIENT,SERVER", 2


def _parse(text: str) -> AskedWorkload:
    if text.strip().startswith(_MIX):
        parts = text.strip().removeprefix(_MIX).split(_AND)
        return Several(parts=tuple(map(_part, parts)))
    if text.strip().startswith(_EXEC):
        return _commands(text.strip().removeprefix(_EXEC), text)
    return _parse_one(text)


def _part(text: str) -> AskedPart:
    """A part such as "20*messages:200B/100ms"."""
    number, times, one = text.partition(_TIMES)
    if not times:
        number, one = "1", text
    return AskedPart(workload=_parse_any(one), connections=count().parse(number))


def _parse_any(text: str) -> AskedSingle:
    """A part's workload."""
    kind, colon, rest = text.strip().partition(":" if ":" in text else ",")
    if kind == "bulk" and not colon:
        return Saturating()
    if kind == "transfer" and colon == ":":
        return Sized(bytes=units.parse_size(rest))
    if kind in _IN_A_MIX:
        raise ValueError(f"expected {_IN_A_MIX[kind]}, found {quoted(text)}")
    if kind not in _KINDS:
        raise ValueError(one_of((*_IN_A_MIX, *_KINDS), kind))
    return _parse_one(text)


def _parse_one(text: str) -> Asked:
    kind, more, rest = text.strip().partition(":" if ":" in text else ",")
    if kind not in _KINDS:
        raise ValueError(one_of((*_KINDS, "exec", "mix"), kind))
    if kind == "video":
        return _video(text, rest.split(",") if more else [])
    main, *others = rest.split(",")
    if kind == "on-off" and main.startswith(_FILE) and not others:
        return _bursting(main.removeprefix(_FILE))
    first, slash, second = main.partition("/")
    further = _further(kind, others)
    if not slash or further is None:
        raise ValueError(f"expected {_KINDS[kind]}, found {quoted(text)}")
    size = units.parse_size(first)
    if kind == "messages":
        return Pattern(bytes=size, interval_ns=units.parse_time(second))
    if kind == "on-off":
        return Bursting(mean_bytes=size, mean_gap_ns=units.parse_time(second))
    if kind == "requests" and second.startswith(_FILE):
        return _drawing(size, second.removeprefix(_FILE), further)
    if kind == "requests":
        response = units.parse_size(second)
        return Asking(
            request_bytes=size,
            response_bytes=response,
            think_ns=further.get("think_ns", 0),
            at_once=further.get("at_once", 1),
        )
    number, times, object_size = second.partition("x")
    if not times:
        raise ValueError(f"expected {_KINDS[kind]}, found {quoted(text)}")
    objects = count().parse(number)
    return Browsing(page_bytes=size, objects=objects, object_bytes=units.parse_size(object_size), **further)


def _drawing(request_bytes: int, file: str, further: Mapping[str, int]) -> Asking:
    """Requests whose responses have the sizes of a file."""
    found = sizes(file)
    return Asking(
        request_bytes=request_bytes,
        response_bytes=round(sum(found) / len(found)),
        response_sizes=found,
        think_ns=further.get("think_ns", 0),
        at_once=further.get("at_once", 1),
        file=file,
    )


def _bursting(file: str) -> Bursting:
    """Bursts of a file; their means are what is known of them beforehand."""
    listed = bursts(file)
    last_ns, _ = listed[-1]
    return Bursting(
        mean_bytes=round(sum(size for _, size in listed) / len(listed)),
        mean_gap_ns=last_ns // (len(listed) - 1) if listed[1:] else 1_000_000_000,
        listed=listed,
        file=file,
    )


def _commands(rest: str, text: str) -> Commands:
    """Two command lines with a comma between them that is not quoted; the words are split as by sh(1)."""
    words = shlex.shlex(rest, posix=True, punctuation_chars=",")
    words.whitespace_split, words.commenters = True, ""
    try:
        found = list(words)
    except ValueError as error:
        raise ValueError(f"expected {_OF_EXEC}, found {quoted(text)}: {error}") from None
    lines: list[list[str]] = [[]]
    for word in found:
        if word == ",":
            lines.append([])
        else:
            lines[-1].append(word)
    if len(lines) != _ENDS or not all(lines):
        raise ValueError(
            f"expected {_OF_EXEC}, two command lines with a comma that is not quoted, found {quoted(text)}"
        )
    return Commands(client=tuple(lines[0]), server=tuple(lines[1]))


def _quoted_words(words: tuple[str, ...]) -> str:
    return " ".join(
        f"'{word}'" if "," in word and shlex.quote(word) == word else shlex.quote(word) for word in words
    )


def _video(text: str, parts: list[str]) -> Watching:
    """A video of bitrates such as "1M/2.5M", with what else is named."""
    ladder: tuple[int, ...] = LADDER
    found: dict[str, int] = {}
    for number, part in enumerate(parts):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals and number == 0:
            ladder = tuple(map(_bitrate, part.split("/")))
        elif equals and name in ("segment", "buffer") and name not in found:
            found[name] = units.parse_time(value)
        else:
            raise ValueError(f"expected {_KINDS['video']}, found {quoted(text)}")
    segment_ns, buffer_ns = found.get("segment", _SEGMENT_NS), found.get("buffer", _BUFFER_NS)
    return Watching(ladder_bps=ladder, segment_ns=segment_ns, buffer_ns=buffer_ns)


def _bitrate(text: str) -> int:
    """Bit/s of "2.5M"."""
    try:
        return units.parse_rate(f"{text.strip()}bit/s")
    except ValueError:
        raise ValueError(f"expected bitrates such as 365k/1M/2.5M, found {quoted(text)}") from None


def _further(kind: str, parts: list[str]) -> dict[str, int] | None:
    """Values of `think` and `at_once`; None if they are not what the kind has."""
    found: dict[str, int] = {}
    for part in parts:
        name, equals, value = (word.strip() for word in part.partition("="))
        field = {"think": "think_ns", "at_once": "at_once"}.get(name)
        if field is None or f"[,{name}=" not in _KINDS[kind] or not equals or field in found:
            return None
        found[field] = units.parse_time(value) if name == "think" else count().parse(value)
    return found


def shown(asked: AskedSingle | Several | Commands) -> str:
    """The text that means a workload."""
    match asked:
        case Several():
            text = _MIX + _AND.join(map(_shown_part, asked.parts))
        case Saturating():
            text = "bulk"
        case Sized():
            text = f"transfer:{_size(asked.bytes)}"
        case Pattern():
            text = f"messages:{_size(asked.bytes)}/{_time(asked.interval_ns)}"
        case Bursting() if asked.listed:
            text = f"on-off:{_FILE}{asked.file}"
        case Bursting():
            text = f"on-off:{_size(asked.mean_bytes)}/{_time(asked.mean_gap_ns)}"
        case Asking():
            at_once = f",at_once={asked.at_once}" if asked.at_once > 1 else ""
            response = f"{_FILE}{asked.file}" if asked.response_sizes else _size(asked.response_bytes)
            request = _size(asked.request_bytes)
            text = f"requests:{request}/{response}{_think(asked.think_ns)}{at_once}"
        case Browsing():
            objects = f"{asked.objects}x{_size(asked.object_bytes)}"
            text = f"page:{_size(asked.page_bytes)}/{objects}{_think(asked.think_ns)}"
        case Commands():
            text = f"exec:{_quoted_words(asked.client)},{_quoted_words(asked.server)}"
        case Watching():
            rates = (units.format_rate(bps) for bps in asked.ladder_bps)
            ladder = "/".join(rate.replace(" ", "").removesuffix("bit/s") for rate in rates)
            text = f"video:{ladder},segment={_time(asked.segment_ns)},buffer={_time(asked.buffer_ns)}"
    return text


def _shown_part(part: AskedPart) -> str:
    times = f"{part.connections}{_TIMES}" if part.connections != 1 else ""
    return f"{times}{shown(part.workload)}"


def _size(size: int) -> str:
    return units.format_size(size).replace(" ", "")


def _time(ns: int) -> str:
    return units.format_time(ns).replace(" ", "")


def _think(ns: int) -> str:
    return f",think={_time(ns)}" if ns else ""


def _check(asked: AskedSingle | Several | Commands) -> None:
    named: dict[str, int] = {}
    match asked:
        case Several():
            for part in asked.parts:
                _within("connections", part.connections, MOST_CONNECTIONS)
                _check(part.workload)
            _within("connections", sum(part.connections for part in asked.parts), MOST_CONNECTIONS)
        case Sized():
            named = {"a transfer": asked.bytes}
        case Pattern():
            named = {"a message": asked.bytes}
            if asked.interval_ns <= 0:
                raise ValueError("expected an interval above 0, found 0")
        case Bursting():
            named = {"a burst": asked.mean_bytes}
            if asked.mean_gap_ns <= 0:
                raise ValueError("expected a gap above 0, found 0")
        case Asking():
            named = {"a request": asked.request_bytes, "a response": asked.response_bytes}
            _within("requests at once", asked.at_once, _MOST_AT_ONCE)
        case Browsing():
            named = {"a page": asked.page_bytes, "an object": asked.object_bytes}
            _within("objects", asked.objects, _MOST_OBJECTS)
        case Commands():
            pass
        case Watching():
            named = {}
            _check_video(asked)
    for name, size in named.items():
        if size <= 0:
            raise ValueError(f"expected {name} of at least 1 B, found 0 B")


def _check_video(asked: Watching) -> None:
    _within("bitrates", len(asked.ladder_bps), _MOST_BITRATES)
    for lower, higher in itertools.pairwise((0, *asked.ladder_bps)):
        if higher <= lower:
            rates = " and ".join(map(units.format_rate, (lower, higher)))
            raise ValueError(f"expected bitrates that rise, found {rates if lower else '0 bit/s'}")
    if asked.segment_ns <= 0:
        raise ValueError("expected segments longer than 0, found 0")
    if asked.buffer_ns < 2 * asked.segment_ns:
        least, found = units.format_time(2 * asked.segment_ns), units.format_time(asked.buffer_ns)
        raise ValueError(f"expected a buffer of at least two segments, {least}, found {found}")


def _within(what: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise ValueError(f"expected 1 to {most} {what}, found {value}")


WORKLOAD = Kind("WORKLOAD", _parse, shown, _check)

WorkloadOption = Annotated[
    AskedWorkload | None,
    Option(
        WORKLOAD,
        "What the programs do instead, for the --duration. messages:200B/100ms: a message of 200 B every "
        "100 ms, judged by its delay. on-off:1MiB/2s: bursts of 1 MiB every 2 s on average, exponentially "
        "distributed. requests:400B/64KiB,think=1s,at_once=2: the receiver asks with 400 B, "
        "is answered with 64 KiB, and asks again after 1 s, twice at a time. @FILE in place of a response's "
        "size draws from the sizes in its lines, and on-off:@FILE has its lines START,SIZE as bursts. "
        "page:60KiB/30x20KiB,think=1s: a "
        "page that names 30 objects of 20 KiB. video:1M/2.5M/5M/8M,segment=4s,buffer=30s: segments of a "
        "video, each at the bitrate that the player's buffer allows; video alone has usual bitrates. "
        "mix:bulk+20*messages:200B/100ms: several at the same time, on connections of their own, here one "
        "that sends as fast as it can beside 20 with messages; what counts is the first, and transfer:SIZE "
        "can be in it too. exec:./client.sh,./server.sh: the connections of two programs; the client has the "
        "--duration to end.",
        key="trials.workload",
        unset="as much as the connection takes",
    ),
]


Connections = Annotated[
    int,
    Option(
        count(1, MOST_CONNECTIONS),
        "Connections with this workload between the same two sites, each with path manager, congestion "
        "control and buffers of its own, that share the paths. They begin within a second, at times drawn "
        "from the seed. Shown are their sum and Jain's index of fairness.",
        flag="--connections",
        key="trials.connections",
    ),
]


def on_connections(
    asked: AskedWorkload | None, connections: int, transfer_bytes: int | None = None
) -> AskedWorkload | None:
    """The workload on so many connections, if that can be; without one, a saturated sender or a transfer."""
    if not 1 < connections <= MOST_CONNECTIONS:
        return asked
    alone = Saturating() if transfer_bytes is None else Sized(bytes=transfer_bytes)
    return asked if isinstance(asked, Commands) else on_each(asked or alone, connections)


def wrong_connections(
    asked: AskedWorkload | None, connections: int, transfers: Sequence[int] = ()
) -> Iterator[str]:
    """Errors of a number of connections with a workload or sizes of transfers, for `Options.conflicts`."""
    if connections > 1 and isinstance(asked, Commands):
        yield "expected only without programs (exec), which open connections as they like"
    elif connections > 1 and transfers:
        yield "expected with sizes of transfers in the --workload (mix:20*transfer:1MiB)"


def impossible(asked: AskedWorkload | AskedSingle | None, duration_ns: int | None) -> Iterator[str]:
    """Errors of a workload with a duration, for `Options.conflicts`."""
    if asked is None or duration_ns is None or isinstance(asked, Saturating | Sized | Commands):
        return
    if isinstance(asked, Several):
        if (found := sum(part.connections for part in asked.parts)) > MOST_CONNECTIONS:
            yield f"expected at most {MOST_CONNECTIONS} connections, found {found}"
        for part in asked.parts:
            yield from impossible(part.workload, duration_ns)
    elif isinstance(asked, Pattern):
        messages = asked.lasting(duration_ns).count
        if messages > _MOST:
            yield f"expected at most {_MOST} messages, found {messages}"
    elif isinstance(asked, Bursting):
        bursts = duration_ns // asked.mean_gap_ns + 1
        if bursts > _MOST_BURSTS:
            yield f"expected at most {_MOST_BURSTS} bursts, found about {bursts}"
    elif isinstance(asked, Watching):
        if asked.segment_ns >= duration_ns:
            segment, whole = units.format_time(asked.segment_ns), units.format_time(duration_ns)
            yield f"expected segments shorter than the duration of {whole}, found {segment}"
    elif asked.think_ns >= duration_ns:
        think, whole = units.format_time(asked.think_ns), units.format_time(duration_ns)
        yield f"expected less thinking than the duration of {whole}, found {think}"
