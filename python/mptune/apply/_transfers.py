"""A transfer between two machines by an ordinary program: it sets nothing, and gets what the machines give.

No buffer, no congestion control, no path, no local address: the agent's role `transfer` at both ends. What
several of them mean is `mptune.apply.verify`'s business.
"""

import secrets
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import msgspec

from mptune.errors import TrialError
from mptune.linux.talker import Message, Talker
from mptune.testbeds.ordinary import EVERYWHERE

#: Seconds that an end has to begin, and to report after its time.
_STEP_S = 20.0
#: Bytes of what a connection begins with and no other.
_TOKEN_BYTES = 16


class Where(Protocol):
    """A machine in use."""

    name: str

    def start(self, role: str, name: str | None = None) -> Talker:
        """Start the agent in a role."""
        ...


class Course(NamedTuple):
    """Endpoints of a transfer.

    Attributes
    ----------
    opener, other : who opens the connection, and who waits for it.
    address : where the opener reaches the other.
    version : of IP, 4 or 6.
    opener_sends : data go from who opens the connection; otherwise to it.
    mptcp : programs ask for MPTCP.
    """

    opener: Where
    other: Where
    address: str
    version: int
    opener_sends: bool
    mptcp: bool


class Got(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a program's transfers.

    Attributes
    ----------
    mbps : payload in order per second, from the request of the connection on, Mbit/s.
    mptcp : the connection was MPTCP to the end.
    cc : the congestion control of the first subflow, at the sender.
    subflows : "local to remote" of those that carried data, as the sender sees them.
    """

    mbps: float
    bytes: int
    seconds: float
    mptcp: bool
    cc: str
    subflows: tuple[str, ...]


def transfer(
    course: Course,
    seconds: float,
    most_bytes: int,
    guard: Callable[[Sequence[Any]], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Got:
    """Let a program send for a time, and no more than this many bytes.

    Parameters
    ----------
    guard : a context for both machines while the transfer lasts.

    Raises
    ------
    TrialError : there was no connection, nothing arrived, or a machine is gone.
    """
    order: dict[str, Any] = {
        "mptcp": course.mptcp,
        "duration_ns": round(seconds * 1e9),
        "most_bytes": most_bytes,
        "token": secrets.token_hex(_TOKEN_BYTES),
    }
    with (
        course.other.start("transfer") as listener,
        course.opener.start("transfer") as opener,
        guard([course.opener, course.other]),
    ):
        here = EVERYWHERE[course.version]
        listener.tell({**order, "listen": here, "sends": not course.opener_sends})
        port = listener.expect("listening", _STEP_S)["port"]
        opener.tell({**order, "connect": course.address, "port": port, "sends": course.opener_sends})
        sender, receiver = (opener, listener) if course.opener_sends else (listener, opener)
        sent, received = _results(sender, receiver, opener, seconds + _STEP_S)
    for end in (received, sent):
        if end["failed"]:
            raise TrialError(str(end["failed"]), "unreachable")
    elapsed_s = received["elapsed_ns"] / 1e9
    return Got(
        mbps=received["bytes"] * 8e-6 / elapsed_s,
        bytes=received["bytes"],
        seconds=elapsed_s,
        mptcp=sent["mptcp"],
        cc=sent["cc"],
        subflows=tuple(_path(subflow) for subflow in sent["subflows"] if subflow["bytes"] > 1),
    )


def _path(subflow: Mapping[str, Any]) -> str:
    return f"{subflow['local']} to {subflow['remote']}"


def _results(sender: Talker, receiver: Talker, opener: Talker, within_s: float) -> tuple[Message, Message]:
    """Results of both ends; the opening side knows best why there was no connection."""
    results: dict[Talker, Message] = {}
    end = time.monotonic() + within_s
    while len(results) < 2:
        waiting = [one for one in (sender, receiver) if one not in results]
        select.select(waiting, [], [], max(0.0, end - time.monotonic()))
        for talker in waiting:
            for message in talker.take():
                if message.get("event") == "error":
                    raise TrialError(f"{talker.name}: {message.get('reason')}", "refused")
                if message.get("event") == "result":
                    results[talker] = message
            if talker not in results and talker.ended:
                raise TrialError(talker.death(), talker.kind)
        if opener in results and results[opener]["failed"]:
            raise TrialError(f"{opener.name}: {results[opener]['failed']}", "unreachable")
        if time.monotonic() > end:
            silent = " and ".join(talker.name for talker in (sender, receiver) if talker not in results)
            raise TrialError(f"{silent}: no result within {within_s:g} s")
    return results[sender], results[receiver]
