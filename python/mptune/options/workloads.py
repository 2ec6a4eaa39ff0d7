"""The option that names a workload other than a saturated sender or one transfer.

A text such as "messages:200B/100ms": the kind, and what it needs. How long it lasts is another option.
"""

from collections.abc import Iterator
from typing import Annotated

from mptune import units
from mptune._text import quoted
from mptune.errors import one_of
from mptune.options._declared import Option
from mptune.options._kinds import Kind, count
from mptune.trial import Asking, Pattern

#: Most messages of a trial (`crates/mptune-core/src/workload/messages.rs`).
_MOST = 1_000_000
#: Most requests at a time (`crates/mptune-core/src/workload/requests.rs`).
_MOST_AT_ONCE = 1_000

#: Kinds, and how they are written.
_KINDS = {
    "messages": "messages:SIZE/INTERVAL",
    "requests": "requests:SIZE/SIZE[,think=TIME][,at_once=N]",
}


def _parse(text: str) -> Pattern | Asking:
    kind, _, rest = text.strip().partition(":")
    if kind not in _KINDS:
        raise ValueError(one_of(_KINDS, kind))
    main, *others = rest.split(",")
    first, slash, second = main.partition("/")
    if not slash:
        raise ValueError(f"expected {_KINDS[kind]}, found {quoted(text)}")
    if kind == "requests":
        sizes = units.parse_size(first), units.parse_size(second)
        return Asking(request_bytes=sizes[0], response_bytes=sizes[1], **_further(others, text))
    if others:
        raise ValueError(f"expected {_KINDS[kind]}, found {quoted(text)}")
    return Pattern(bytes=units.parse_size(first), interval_ns=units.parse_time(second))


def _further(parts: list[str], text: str) -> dict[str, int]:
    """Values of `think` and `at_once`."""
    found: dict[str, int] = {}
    for part in parts:
        name, equals, value = (word.strip() for word in part.partition("="))
        if name == "think" and equals and "think_ns" not in found:
            found["think_ns"] = units.parse_time(value)
        elif name == "at_once" and equals and name not in found:
            found[name] = count().parse(value)
        else:
            raise ValueError(f"expected {_KINDS['requests']}, found {quoted(text)}")
    return found


def shown(asked: Pattern | Asking) -> str:
    """The text that means a workload."""
    if isinstance(asked, Pattern):
        size, interval = units.format_size(asked.bytes), units.format_time(asked.interval_ns)
        return f"messages:{size}/{interval}".replace(" ", "")
    sizes = f"{units.format_size(asked.request_bytes)}/{units.format_size(asked.response_bytes)}"
    think = f",think={units.format_time(asked.think_ns)}" if asked.think_ns else ""
    at_once = f",at_once={asked.at_once}" if asked.at_once > 1 else ""
    return f"requests:{sizes}{think}{at_once}".replace(" ", "")


def _check(asked: Pattern | Asking) -> None:
    if isinstance(asked, Pattern):
        sizes = [("a message", asked.bytes)]
        if asked.interval_ns <= 0:
            raise ValueError("expected an interval above 0, found 0")
    else:
        sizes = [("a request", asked.request_bytes), ("a response", asked.response_bytes)]
        if not 1 <= asked.at_once <= _MOST_AT_ONCE:
            raise ValueError(f"expected 1 to {_MOST_AT_ONCE} requests at once, found {asked.at_once}")
    for name, size in sizes:
        if size <= 0:
            raise ValueError(f"expected {name} of at least 1 B, found 0 B")


WORKLOAD = Kind("WORKLOAD", _parse, shown, _check)

WorkloadOption = Annotated[
    Pattern | Asking | None,
    Option(
        WORKLOAD,
        "What the programs do instead, for the --duration. messages:200B/100ms: a message of 200 B every "
        "100 ms, judged by its delay. requests:400B/64KiB,think=1s,at_once=2: the receiver asks with 400 B, "
        "is answered with 64 KiB, and asks again after 1 s, twice at a time.",
        key="trials.workload",
        unset="as much as the connection takes",
    ),
]


def impossible(asked: Pattern | Asking | None, duration_ns: int | None) -> Iterator[str]:
    """Errors of a workload with a duration, for `Options.conflicts`."""
    if asked is None or duration_ns is None:
        return
    if isinstance(asked, Pattern):
        messages = asked.lasting(duration_ns).count
        if messages > _MOST:
            yield f"expected at most {_MOST} messages, found {messages}"
    elif asked.think_ns >= duration_ns:
        think, whole = units.format_time(asked.think_ns), units.format_time(duration_ns)
        yield f"expected less thinking than the duration of {whole}, found {think}"
