"""The option that names a workload other than a saturated sender or one transfer.

A text such as "messages:200B/100ms": the kind, and what it needs. How long it lasts is another option.
"""

from collections.abc import Iterator
from typing import Annotated

from mptune import units
from mptune._text import quoted
from mptune.errors import one_of
from mptune.options._declared import Option
from mptune.options._kinds import Kind
from mptune.trial import Pattern

#: Kinds, and how they are written.
_KINDS = {"messages": "messages:SIZE/INTERVAL"}


def _parse(text: str) -> Pattern:
    kind, _, rest = text.strip().partition(":")
    if kind not in _KINDS:
        raise ValueError(one_of(_KINDS, kind))
    size, slash, interval = rest.partition("/")
    if not slash:
        raise ValueError(f'expected {_KINDS[kind]}, such as "messages:200B/100ms", found {quoted(text)}')
    return Pattern(bytes=units.parse_size(size), interval_ns=units.parse_time(interval))


def shown(pattern: Pattern) -> str:
    """The text that means a pattern."""
    size, interval = units.format_size(pattern.bytes), units.format_time(pattern.interval_ns)
    return f"messages:{size}/{interval}".replace(" ", "")


def _check(pattern: Pattern) -> None:
    for name, value in (("size", pattern.bytes), ("interval", pattern.interval_ns)):
        if value <= 0:
            raise ValueError(f"expected {'an' if name[0] == 'i' else 'a'} {name} above 0, found 0")


WORKLOAD = Kind("WORKLOAD", _parse, shown, _check)

WorkloadOption = Annotated[
    Pattern | None,
    Option(
        WORKLOAD,
        "What the program sends instead, for the --duration: messages:200B/100ms is a message of 200 B every "
        "100 ms, judged by its delay.",
        key="trials.workload",
        unset="as much as the connection takes",
    ),
]


def too_many(pattern: Pattern | None, duration_ns: int | None) -> Iterator[str]:
    """The error of a duration with more messages than a trial can have."""
    most = 1_000_000
    if pattern is not None and duration_ns is not None and pattern.lasting(duration_ns).count > most:
        yield f"expected at most {most} messages, found {pattern.lasting(duration_ns).count}"
