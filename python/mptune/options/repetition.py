"""Repeating a campaign over time, as options: how often, for how long, and what that makes.

When a round begins, and what of the network moves on until then, is the business of `mptune.campaign`.
"""

from collections.abc import Iterator
from typing import Annotated

from mptune.options._declared import Option
from mptune.options._kinds import time

#: Rounds of a repeated campaign beyond this are a typo.
_MAX_ROUNDS = 100_000

Every = Annotated[
    int | None,
    Option(time(positive=True), "Repeat everything at this interval, with --for.", key="repeat.every"),
]
Lasting = Annotated[
    int | None,
    Option(time(positive=True), "Repeat everything for this long, with --every.", key="repeat.for"),
]


def wrong_repetition(every_ns: int | None, for_ns: int | None) -> Iterator[tuple[str, str]]:
    """Conflicts between the two options: the field, and the expectation that it violates."""
    if (every_ns is None) != (for_ns is None):
        missing = "every_ns" if every_ns is None else "for_ns"
        yield missing, "expected together with the other of every and for"
    if every_ns is not None and for_ns is not None and not every_ns <= for_ns <= every_ns * _MAX_ROUNDS:
        yield "every_ns", f"expected an interval that fits 1 to {_MAX_ROUNDS} times into the whole"


def rounds_of(every_ns: int | None, for_ns: int | None) -> int:
    """Number of rounds; the last one begins before the end."""
    return 1 if every_ns is None or for_ns is None else -(-for_ns // every_ns)
