"""Requests and their responses; judged by the time of each response."""

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Self

import msgspec

from mptune import units
from mptune.trial.workloads._base import (
    FILE,
    THINK,
    InPieces,
    Written,
    check_sizes,
    check_within,
    size_text,
    think_text,
    thinks_too_long,
    without_file,
)
from mptune.trial.workloads._criteria import Times
from mptune.trial.workloads.lists import sizes

#: Most requests at a time (`crates/mptune-core/src/workload/requests.rs`).
_MOST_AT_ONCE = 1_000


class Requests(InPieces, frozen=True, kw_only=True, tag="requests"):
    """Requests and their responses on one connection; both programs set TCP_NODELAY.

    The data receiver is the client: it asks, the data sender answers in order, and after thinking it asks
    again. The time of a response counts from its request to its last byte in order.

    Attributes
    ----------
    request_bytes, response_bytes : payloads.
    response_sizes : payloads of responses, from which each is drawn by the trial's seed, all as likely, and
        of which `response_bytes` is the mean; empty for one that is always the same.
    think_ns : from a response to the next request.
    at_once : requests under way together.
    """

    judged_by: ClassVar[Times] = Times(
        of="response",
        many="responses",
        from_to="From a request to the last byte of its response in order.",
        waiting="a slow one delays the requests that come after it.",
    )

    request_bytes: int
    response_bytes: int
    response_sizes: tuple[int, ...] = ()
    think_ns: int = 0
    at_once: int = 1

    @property
    def pause_ns(self) -> int:
        """Time of thinking."""
        return self.think_ns

    @property
    def waiting_bytes(self) -> int:
        """Bytes that can wait to be sent: all responses at once."""
        return self.at_once * max(self.request_bytes, self.response_bytes, *self.response_sizes)

    @property
    def phrase(self) -> str:
        """The workload for people."""
        many = f", {self.at_once} at a time" if self.at_once > 1 else ""
        return f"requests with responses of {self._sizes}{many}"

    @property
    def _sizes(self) -> str:
        text = units.format_size(self.response_bytes)
        return f"{text} on average" if self.response_sizes else text

    def arrived(self, number: int, connections: int = 1) -> str:
        """So many responses, for people."""
        return f"{number} responses of {self._sizes}"


class Asking(Written, frozen=True, kw_only=True, tag="requests"):
    """Requests without an end, with fields of `Requests`; `file` has the sizes."""

    form: ClassVar[str] = "requests:SIZE/SIZE[,think=TIME][,at_once=N]"
    help: ClassVar[str] = (
        "requests:400B/64KiB,think=1s,at_once=2: the receiver asks with 400 B, is answered with 64 KiB, and "
        "asks again after 1 s, twice at a time; @FILE in place of the response's size draws from the sizes "
        "in its lines."
    )
    objectives_help: ClassVar[str] = "of requests response:mean or a percentile"
    named: ClassVar[Mapping[str, tuple[str, Callable[[str], int]]]] = {
        **THINK,
        "at_once": ("at_once", units.parse_count),
    }

    request_bytes: int
    response_bytes: int
    response_sizes: tuple[int, ...] = ()
    think_ns: int = 0
    at_once: int = 1
    file: str = ""

    @classmethod
    def read(cls, text: str, rest: str | None) -> Self:
        """The workload that a text means."""
        request, response, options = cls.halves(text, rest)
        size = units.parse_size(request)
        if response.startswith(FILE):
            drawn = sizes(file := response.removeprefix(FILE))
            mean = round(sum(drawn) / len(drawn))
            asked = cls(request_bytes=size, response_bytes=mean, response_sizes=drawn, file=file)
        else:
            asked = cls(request_bytes=size, response_bytes=units.parse_size(response))
        return msgspec.structs.replace(asked, **options)

    @property
    def text(self) -> str:
        """The text that means it."""
        at_once = f",at_once={self.at_once}" if self.at_once > 1 else ""
        response = f"{FILE}{self.file}" if self.response_sizes else size_text(self.response_bytes)
        return f"requests:{size_text(self.request_bytes)}/{response}{think_text(self.think_ns)}{at_once}"

    def check(self) -> None:
        """Refuse values that no trial can have."""
        check_within("requests at once", self.at_once, _MOST_AT_ONCE)
        check_sizes({"a request": self.request_bytes, "a response": self.response_bytes})

    def impossible(self, duration_ns: int) -> Iterator[str]:
        """Errors of the workload for this time."""
        return thinks_too_long(self.think_ns, duration_ns)

    def lasting(self, duration_ns: int) -> Requests:
        """The workload of a trial."""
        return Requests(**without_file(self), duration_ns=duration_ns)
