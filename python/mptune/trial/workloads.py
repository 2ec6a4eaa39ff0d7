"""The workload: what the program sends that uses the connection. A union of structs with a kind each.

It is independent of the network and of MPTCP. Simulator and agent read the same structs as JSON
(`crates/mptune-core/src/trial/spec.rs`).
"""

import itertools
import shlex
from typing import Any

import msgspec

from mptune.units import format_rate, format_size, format_time

#: Default time after which a transfer is given up, nanoseconds.
DEADLINE_NS = 600_000_000_000


class _Workload(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Common part of all workloads."""

    @property
    def kind(self) -> str:
        """Its word."""
        return str(self.__struct_config__.tag)

    @property
    def size(self) -> int | None:
        """Payload bytes; None where they are not known beforehand."""
        return None

    @property
    def pause_ns(self) -> int:
        """Longest time for which the programs send nothing."""
        return 0

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a stored trial, of which its key is made: the whole workload, as one setting."""
        return {"workload": _without_empty(msgspec.to_builtins(self))}


def _without_empty(settings: Any) -> Any:
    """Without lists that are empty: so a trial has the key that it had before there were any."""
    if isinstance(settings, list | tuple):
        return [_without_empty(one) for one in settings]
    if not isinstance(settings, dict):
        return settings
    return {name: _without_empty(value) for name, value in settings.items() if value not in ((), [])}


class Bulk(_Workload, frozen=True, kw_only=True, tag="bulk"):
    """A sender that always has more data.

    Attributes
    ----------
    duration_ns : how long it sends, from the first SYN.
    ends_early : the trial ends as soon as its throughput is known well enough, at the earliest after 4 s
        (`crates/mptune-core/src/early_end.rs`); not together with a script.
    """

    duration_ns: int
    ends_early: bool = False

    @property
    def limit_ns(self) -> int:
        """Latest end of the trial."""
        return self.duration_ns

    @property
    def settings(self) -> dict[str, Any]:
        """By the names that they had before there were workloads."""
        return {"duration_ns": self.duration_ns, "ends_early": self.ends_early}


class Transfer(_Workload, frozen=True, kw_only=True, tag="transfer"):
    """A transfer, measured to its last byte in order.

    Attributes
    ----------
    bytes : payload.
    deadline_ns : it is given up after this long, and is then reported as failed.
    """

    bytes: int
    deadline_ns: int = DEADLINE_NS

    @property
    def size(self) -> int:
        """Its payload."""
        return self.bytes

    @property
    def limit_ns(self) -> int:
        """Latest end of the trial."""
        return self.deadline_ns

    @property
    def settings(self) -> dict[str, Any]:
        """By the names that they had before there were workloads."""
        return {"transfer_bytes": self.bytes, "deadline_ns": self.deadline_ns}


#: Default time after the last message is due within which it has to arrive, nanoseconds.
PATIENCE_NS = 10_000_000_000


class _InPieces(_Workload, frozen=True, kw_only=True):
    """Common part of workloads whose programs offer their data in pieces.

    Attributes
    ----------
    duration_ns : pieces begin within this time.
    patience_ns : the trial fails if the last arrives later than this after `duration_ns`.
    """

    duration_ns: int
    patience_ns: int = PATIENCE_NS

    @property
    def limit_ns(self) -> int:
        """Latest end of the trial."""
        return self.duration_ns + self.patience_ns


class Messages(_InPieces, frozen=True, kw_only=True, tag="messages"):
    """A message at fixed times, as calls and games send them; the program sets TCP_NODELAY.

    The first is due when the connection is established, the next one interval later and so on, whatever
    became of those before. The delay of a message counts from when it was due, also if it found no room in
    the send buffer then, until its last byte arrived in order.

    Attributes
    ----------
    bytes : payload of a message.
    interval_ns : from one to the next.
    """

    bytes: int
    interval_ns: int

    @property
    def size(self) -> int:
        """Payload of all of them."""
        return self.count * self.bytes

    @property
    def pause_ns(self) -> int:
        """Time from one to the next."""
        return self.interval_ns

    @property
    def waiting_bytes(self) -> int:
        """What can wait to be sent: a message, and those of a standstill of 2 s."""
        return self.bytes + self.bytes * 2_000_000_000 // self.interval_ns

    @property
    def phrase(self) -> str:
        """The workload for people."""
        return f"messages of {format_size(self.bytes)} every {format_time(self.interval_ns)}"

    def arrived(self, number: int) -> str:
        """So many of them, for people."""
        of_all = "" if number == self.count else f" of {self.count}"
        return f"{number}{of_all} messages of {format_size(self.bytes)}"

    @property
    def count(self) -> int:
        """Number of messages."""
        return -(-self.duration_ns // self.interval_ns)


class Requests(_InPieces, frozen=True, kw_only=True, tag="requests"):
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
        """What can wait to be sent: all responses at once."""
        return self.at_once * max(self.request_bytes, self.response_bytes, *self.response_sizes)

    @property
    def phrase(self) -> str:
        """The workload for people."""
        many = f", {self.at_once} at a time" if self.at_once > 1 else ""
        return f"requests with responses of {self._sizes}{many}"

    @property
    def _sizes(self) -> str:
        text = format_size(self.response_bytes)
        return f"{text} on average" if self.response_sizes else text

    def arrived(self, number: int) -> str:
        """So many responses, for people."""
        return f"{number} responses of {self._sizes}"


class OnOff(_InPieces, frozen=True, kw_only=True, tag="on-off"):
    """Bursts with silence between them; the program sets TCP_NODELAY.

    Sizes and gaps are those of a list, or exponentially distributed: then they follow from the seed of the
    trial (`crates/mptune-core/src/workload/onoff.rs`). The first is due when the connection is established,
    each other one a gap after the one before was due, whatever became of it. The time of a burst counts from
    when it was due until its last byte arrived in order.

    Attributes
    ----------
    mean_bytes : mean payload of a burst.
    mean_gap_ns : mean time from one to the next.
    listed : when each is due, and its payload; empty for bursts that are drawn.
    """

    mean_bytes: int
    mean_gap_ns: int
    listed: tuple[tuple[int, int], ...] = ()
    patience_ns: int = 60_000_000_000

    @property
    def pause_ns(self) -> int:
        """Time from one to the next: of those that are drawn one in a million is longer."""
        listed = [after - before for (before, _), (after, _) in itertools.pairwise(self.listed)]
        return max(listed) if listed else 14 * self.mean_gap_ns

    @property
    def waiting_bytes(self) -> int:
        """What can wait to be sent: the largest, or three of the mean, which one in twenty exceeds alone."""
        return max((size for _, size in self.listed), default=3 * self.mean_bytes)

    @property
    def phrase(self) -> str:
        """The workload for people."""
        return f"bursts of {format_size(self.mean_bytes)} every {format_time(self.mean_gap_ns)} on average"

    def arrived(self, number: int) -> str:
        """So many bursts, for people."""
        return f"{number} bursts"


#: Payload of a request for a page or an object, bytes: a line and some headers.
REQUEST_BYTES = 400


class Page(_InPieces, frozen=True, kw_only=True, tag="page"):
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
        """What can wait to be sent: all objects of a page."""
        return max(self.page_bytes, self.objects * self.object_bytes)

    @property
    def phrase(self) -> str:
        """The workload for people."""
        objects = f"{self.objects} objects of {format_size(self.object_bytes)}"
        return f"pages of {format_size(self.page_bytes)} with {objects}"

    def arrived(self, number: int) -> str:
        """So many pages, for people."""
        return f"{number} pages"


class Programs(_Workload, frozen=True, kw_only=True, tag="exec"):
    """A client and a server of the user's, whose connections are measured; they run on a kernel alone.

    The client starts at the sending site, where the connections of trials begin, as soon as the server at the
    receiving site listens. The trial ends with the client. Their sockets get the trial's settings by the
    preloaded library (`mptune.linux.preload`).

    Attributes
    ----------
    client, server : the file or the name of a program, and its arguments.
    deadline_ns : the trial fails if the client has not ended after this long.
    """

    client: tuple[str, ...]
    server: tuple[str, ...]
    deadline_ns: int

    @property
    def limit_ns(self) -> int:
        """Latest end of the trial."""
        return self.deadline_ns

    @property
    def waiting_bytes(self) -> None:
        """What can wait to be sent is not known."""
        return

    @property
    def phrase(self) -> str:
        """The workload for people."""
        return f"the program {shlex.join(self.client)}"


class Video(_InPieces, frozen=True, kw_only=True, tag="video"):
    """Segments of a video on one connection, asked for one at a time; both programs set TCP_NODELAY.

    The data receiver is the player: playing begins with the first segment, stands still while the next one is
    missing, and the bitrate of each is chosen by what is left to play (BOLA,
    `crates/mptune-core/src/workload/player.rs`).

    Attributes
    ----------
    request_bytes : payload of a request.
    ladder_bps : bitrates, ascending, bit/s.
    segment_ns : playing time of a segment.
    buffer_ns : playing time that the player keeps at most, at least two segments.
    """

    request_bytes: int = REQUEST_BYTES
    ladder_bps: tuple[int, ...]
    segment_ns: int
    buffer_ns: int
    patience_ns: int = 60_000_000_000

    @property
    def pause_ns(self) -> int:
        """Time until there is room for a segment."""
        return self.segment_ns

    @property
    def waiting_bytes(self) -> int:
        """What can wait to be sent: a segment."""
        return -(-self.ladder_bps[-1] * self.segment_ns // 8_000_000_000)

    @property
    def phrase(self) -> str:
        """The workload for people."""
        return f"video of up to {format_rate(self.ladder_bps[-1])}"

    def arrived(self, number: int) -> str:
        """So many segments, for people."""
        return f"{number} segments of {format_time(self.segment_ns)}"


#: Workloads that are judged by the time of each of their parts.
Timed = Messages | OnOff | Requests | Page | Video
Workload = Bulk | Transfer | Timed


class Browsing(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="page"):
    """Pages without an end, as `Pattern`; the fields are those of `Page`."""

    page_bytes: int
    objects: int
    object_bytes: int
    think_ns: int = 0

    def lasting(self, duration_ns: int) -> Page:
        """The workload of a trial."""
        return Page(**msgspec.structs.asdict(self), duration_ns=duration_ns)


class Watching(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="video"):
    """A video without an end, as `Pattern`; the fields are those of `Video`."""

    ladder_bps: tuple[int, ...]
    segment_ns: int
    buffer_ns: int

    def lasting(self, duration_ns: int) -> Video:
        """The workload of a trial."""
        return Video(**msgspec.structs.asdict(self), duration_ns=duration_ns)


class Asking(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="requests"):
    """Requests without an end, as `Pattern`; with fields of `Requests`; `file` has the sizes."""

    request_bytes: int
    response_bytes: int
    response_sizes: tuple[int, ...] = ()
    think_ns: int = 0
    at_once: int = 1
    file: str = ""

    def lasting(self, duration_ns: int) -> Requests:
        """The workload of a trial."""
        return Requests(**_without_file(self), duration_ns=duration_ns)


class Bursting(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="on-off"):
    """Bursts without an end, as `Pattern`; with fields of `OnOff`; `file` has the list."""

    mean_bytes: int
    mean_gap_ns: int
    listed: tuple[tuple[int, int], ...] = ()
    file: str = ""

    def lasting(self, duration_ns: int) -> OnOff:
        """The workload of a trial."""
        return OnOff(**_without_file(self), duration_ns=duration_ns)


def _without_file(asked: Asking | Bursting) -> dict[str, Any]:
    """Fields of a trial's workload: where its list came from is none of them."""
    return {name: value for name, value in msgspec.structs.asdict(asked).items() if name != "file"}


class Pattern(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="messages"):
    """Messages without an end: what a user asks for, before it is known how long a trial lasts."""

    bytes: int
    interval_ns: int

    def lasting(self, duration_ns: int) -> Messages:
        """The workload of a trial."""
        return Messages(bytes=self.bytes, interval_ns=self.interval_ns, duration_ns=duration_ns)


class Commands(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="exec"):
    """A client and a server, as `Pattern`; the fields are those of `Programs`."""

    client: tuple[str, ...]
    server: tuple[str, ...]

    def lasting(self, duration_ns: int) -> Programs:
        """The workload of a trial, which the client ends: it has so long at most."""
        return Programs(client=self.client, server=self.server, deadline_ns=duration_ns)


#: What is asked for, without the time that it lasts.
Asked = Pattern | Bursting | Asking | Browsing | Watching


def time_or_size(duration_ns: int | None, transfer_bytes: int | None) -> Workload:
    """The workload of options that have either a time or a size.

    Raises
    ------
    ValueError : they have neither.
    """
    if transfer_bytes is not None:
        return Transfer(bytes=transfer_bytes)
    if duration_ns is None:
        raise ValueError("expected a duration or a size")
    return Bulk(duration_ns=duration_ns)


def workloads_of(transfers: tuple[int, ...], duration_ns: int) -> tuple[Workload, ...]:
    """A transfer of each size (bytes), or without sizes a saturated sender for a time."""
    return tuple(Transfer(bytes=size) for size in transfers) or (Bulk(duration_ns=duration_ns),)
