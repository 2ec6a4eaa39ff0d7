"""The workload: what the program sends that uses the connection. A union of structs, each with its kind.

It is independent of the network and of MPTCP. Simulator and agent read the same structs as JSON
(`crates/mptune-core/src/workload`). A file has everything that concerns its workload alone: the struct of a
trial, its metrics, its words in reports, and how a user writes it.
"""

from typing import Any, get_args

from mptune.trial.workloads._base import DEADLINE_NS, BaseWorkload, Written, check_within
from mptune.trial.workloads._criteria import Times
from mptune.trial.workloads.bulk import Bulk, Saturating
from mptune.trial.workloads.messages import Messages, Pattern, series_of
from mptune.trial.workloads.onoff import Bursting, OnOff
from mptune.trial.workloads.page import Browsing, Page
from mptune.trial.workloads.programs import Commands, Programs
from mptune.trial.workloads.requests import Asking, Requests
from mptune.trial.workloads.transfer import Sized, Transfer
from mptune.trial.workloads.video import Video, Watching

__all__ = [
    "DEADLINE_NS",
    "KINDS",
    "TIMED",
    "WRITTEN",
    "WRITTEN_IN_A_MIX",
    "Asked",
    "AskedSingle",
    "Asking",
    "BaseWorkload",
    "Browsing",
    "Bulk",
    "Bursting",
    "Commands",
    "Messages",
    "OnOff",
    "Page",
    "Pattern",
    "Programs",
    "Requests",
    "Saturating",
    "Single",
    "Sized",
    "Timed",
    "Times",
    "Transfer",
    "Video",
    "Watching",
    "Written",
    "check_within",
    "kind_and_rest",
    "series_of",
    "time_or_size",
    "workloads_of",
]

#: Workloads that are judged by the time of each of their parts.
Timed = Messages | Requests | Page | OnOff | Video
#: The same, and a saturated sender, as a user writes them.
Asked = Saturating | Pattern | Asking | Browsing | Bursting | Watching

#: Workload of one connection.
Single = Bulk | Transfer | Timed
#: Requested workload of one connection, without its duration.
AskedSingle = Saturating | Sized | Asked


def _by_kind(union: Any) -> dict[str, Any]:
    """The structs of a union by their kinds."""
    return {str(kind.__struct_config__.tag): kind for kind in get_args(union)}


#: By their kinds: workloads that are judged by times, all of one connection and of programs, and as written.
TIMED: dict[str, type[Timed]] = _by_kind(Timed)
KINDS: dict[str, type[Single | Programs]] = _by_kind(Single | Programs)
WRITTEN: dict[str, type[Asked]] = _by_kind(Asked)
WRITTEN_IN_A_MIX: dict[str, type[AskedSingle]] = _by_kind(AskedSingle)


def kind_and_rest(text: str) -> tuple[str, str | None]:
    """The kind of a written workload, and what is behind it; None if nothing is."""
    kind, more, rest = text.strip().partition(":" if ":" in text else ",")
    return kind, rest if more else None


def time_or_size(duration_ns: int | None, transfer_bytes: int | None) -> Bulk | Transfer:
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


def workloads_of(transfers: tuple[int, ...], duration_ns: int) -> tuple[Bulk | Transfer, ...]:
    """A transfer of each size (bytes), or without sizes a saturated sender for a time."""
    return tuple(Transfer(bytes=size) for size in transfers) or (Bulk(duration_ns=duration_ns),)
