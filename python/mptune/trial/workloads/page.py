"""Pages with their objects; judged by the time of each page."""

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Self

import msgspec

from mptune import units
from mptune.trial.workloads._base import (
    REQUEST_BYTES,
    THINK,
    InPieces,
    Written,
    check_sizes,
    check_within,
    size_text,
    think_text,
    thinks_too_long,
)
from mptune.trial.workloads._criteria import Times

#: Most objects of a page (`crates/mptune-core/src/workload/page.rs`).
_MOST_OBJECTS = 10_000


class Page(InPieces, frozen=True, kw_only=True, tag="page"):
    """Pages on one connection, each with the objects that it names; both programs set TCP_NODELAY.

    The data receiver is the client. It asks for the objects together, as soon as the page itself has
    arrived, and gets them in their order, as with HTTP/2 without priorities. The time of a page counts from
    its request to the last byte of its last object.

    Attributes
    ----------
    request_bytes, page_bytes, object_bytes : payloads.
    objects : of a page.
    think_ns : from a page that is whole to the next request.
    """

    judged_by: ClassVar[Times] = Times(
        of="page",
        many="pages",
        from_to="From the request for a page to the last byte of its last object in order.",
        waiting="the next page is asked for when one is whole.",
    )

    request_bytes: int = REQUEST_BYTES
    page_bytes: int
    objects: int
    object_bytes: int
    think_ns: int = 0

    @property
    def pause_ns(self) -> int:
        """Time of thinking."""
        return self.think_ns

    @property
    def waiting_bytes(self) -> int:
        """Bytes that can wait to be sent: all objects of a page."""
        return max(self.page_bytes, self.objects * self.object_bytes)

    @property
    def phrase(self) -> str:
        """The workload for people."""
        objects = f"{self.objects} objects of {units.format_size(self.object_bytes)}"
        return f"pages of {units.format_size(self.page_bytes)} with {objects}"


class Browsing(Written, frozen=True, kw_only=True, tag="page"):
    """Pages without an end, with fields of `Page`."""

    form: ClassVar[str] = "page:SIZE/NxSIZE[,think=TIME]"
    help: ClassVar[str] = "page:60KiB/30x20KiB,think=1s: a page that names 30 objects of 20 KiB."
    objectives_help: ClassVar[str] = "of pages page:mean or a percentile"
    named: ClassVar[Mapping[str, tuple[str, Callable[[str], int]]]] = THINK

    page_bytes: int
    objects: int
    object_bytes: int
    think_ns: int = 0

    @classmethod
    def read(cls, text: str, rest: str | None) -> Self:
        """The workload that a text means."""
        page, objects, options = cls.halves(text, rest)
        size = units.parse_size(page)
        number, times, object_size = objects.partition("x")
        if not times:
            raise cls.wrong(text)
        return cls(
            page_bytes=size,
            objects=units.parse_count(number),
            object_bytes=units.parse_size(object_size),
            **options,
        )

    @property
    def text(self) -> str:
        """The text that means it."""
        objects = f"{self.objects}x{size_text(self.object_bytes)}"
        return f"page:{size_text(self.page_bytes)}/{objects}{think_text(self.think_ns)}"

    def check(self) -> None:
        """Refuse values that no trial can have."""
        check_within("objects", self.objects, _MOST_OBJECTS)
        check_sizes({"a page": self.page_bytes, "an object": self.object_bytes})

    def impossible(self, duration_ns: int) -> Iterator[str]:
        """Errors of the workload for this time."""
        return thinks_too_long(self.think_ns, duration_ns)

    def lasting(self, duration_ns: int) -> Page:
        """The workload of a trial."""
        return Page(**msgspec.structs.asdict(self), duration_ns=duration_ns)
