"""The reports of sender and receiver, joined to the result of one measurement.

The receiver measures payload, series and completion, and knows why it ended. The sender adds what only it
knows: RTTs, retransmissions, congestion windows and controls. Times count from the `connect` call of the half
that opened the connection.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from mptune.errors import Failure, FailureKind, TrialError
from mptune.trial import Piece

Message = dict[str, Any]

#: Endings of a half without a usable number and with a cause of their own -> kind of failure.
_FAILURES: Mapping[str, FailureKind] = {
    "failed": "died",
    "unreachable": "unreachable",
    "incomplete": "incomplete",
    "corrupt": "corrupt",
    "stalled": "stalled",
    "fallback": "fallback",
}
#: A half noticed that the connection ended; the other one may know why.
_LOST = "lost"


#: An address with its port.
_End = Annotated[str, msgspec.Meta(pattern=r":\d{1,5}$", max_length=100)]


class _Ending(msgspec.Struct):
    kind: str
    reason: str = ""


class _Flow(msgspec.Struct):
    """Fields that each half may report of a subflow."""

    local: _End
    remote: _End
    local_id: int | None = None
    remote_id: int | None = None
    bytes: int = 0
    bins: list[int] = []
    srtt_ns: int | None = None
    min_rtt_ns: int | None = None
    rto_ns: int | None = None
    retransmitted: int | None = None
    cwnd: int | None = None
    probes: int | None = None
    timeouts: int | None = None
    busy_ns: int | None = None
    rwnd_limited_ns: int | None = None
    sndbuf_limited_ns: int | None = None
    backup: bool | None = None
    closed: bool | None = None
    cc: str | None = None


class _Report(msgspec.Struct):
    """Fields that each half may report; one lacks those that only the other knows."""

    ending: _Ending
    connected: bool | None = None
    subflows: list[_Flow] = []
    duration_ns: int = 0
    in_order_bytes: int = 0
    bins: list[int] = []
    expected_bytes: int | None = None
    completion_ns: int | None = None
    delays_ns: list[int] = []
    pieces: list[Piece] = []
    late_ns: int | None = None
    corrupt_at: int | None = None
    counters: dict[str, int] = {}
    counters_since_progress: dict[str, int] = {}
    buffers: dict[str, int] = {}
    cc: str | None = None
    reinjected_bytes: int | None = None
    plain: bool = False
    samples: list[dict[str, Any]] = []
    cpu_ns: int = 0
    busy_share: float | None = None
    strangers: int = 0


def check(half: str, report: Message) -> None:
    """Refuse a report with values of other types: a half may be on somebody else's machine.

    Raises
    ------
    TrialError : naming the half.
    """
    try:
        msgspec.convert(report, _Report)
    except msgspec.ValidationError as error:
        raise TrialError(f"{half}: its report is not as expected: {error}", "refused") from None


def join(job: Mapping[str, Any], sender: Message | None, receiver: Message) -> dict[str, Any]:
    """Make one result of two.

    Parameters
    ----------
    job : instructions for both.
    sender : None if it died.

    Returns
    -------
    dict : duration_ns, in_order_bytes, bins (bytes each), expected_bytes, completion_ns, delays_ns (of
        messages), pieces (`mptune.trial.Piece`), late_ns (the largest lateness of one that found room when
        it was written; None without messages), failed (a sentence or None) and failed_kind, corrupt_at,
        fallback, requested and effective (buffers, bytes), cc_effective, reinjected_bytes (None before
        Linux 6.5), subflows, samples (of the sender's subflows), counters, cpu_ns, busy_share (of the
        processors of either host; None if unknown), strangers (connections of others at who accepts).
    """
    sent = sender or {}
    connected = receiver["connected"]
    plain = sent.get("plain", False)
    single = plain or not job.get("mptcp", True)
    subflows = join_subflows(sent.get("subflows", []), receiver["subflows"], single=single)
    ending = _ending([receiver["ending"], *([sender["ending"]] if sender else [])])
    failed = failure(job, ending, sent, receiver)
    lateness = [half["late_ns"] for half in (sent, receiver) if half.get("late_ns") is not None]
    return {
        # Without a connection, the duration is how long the opener tried; a receiver that accepts has none.
        "duration_ns": receiver["duration_ns"]
        if connected or receiver["duration_ns"]
        else sent.get("duration_ns", 0),
        "in_order_bytes": receiver["in_order_bytes"],
        "bins": receiver["bins"],
        "expected_bytes": receiver["expected_bytes"],
        "completion_ns": receiver["completion_ns"],
        # Of messages both ways those back follow the others.
        "delays_ns": [*receiver.get("delays_ns", []), *sent.get("delays_ns", [])],
        "pieces": receiver.get("pieces", []),
        "late_ns": max(lateness, default=None),
        "failed": None if failed is None else failed.reason,
        "failed_kind": None if failed is None else failed.kind,
        "corrupt_at": receiver["corrupt_at"],
        "fallback": plain or ending["kind"] == "fallback",
        "requested": {"sndbuf": job["buffer_bytes"], "rcvbuf": job["buffer_bytes"]},
        "effective": _effective({"sender": sent, "receiver": receiver}),
        "cc_effective": sent.get("cc"),
        "reinjected_bytes": sent.get("reinjected_bytes", 0),
        "subflows": subflows,
        "samples": sent.get("samples", []),
        "counters": {"sender": sent.get("counters", {}), "receiver": receiver["counters"]},
        "cpu_ns": sent.get("cpu_ns", 0) + receiver["cpu_ns"],
        "busy_share": {"sender": sent.get("busy_share"), "receiver": receiver.get("busy_share")},
        "strangers": receiver.get("strangers", 0) + sent.get("strangers", 0),
    }


def _ending(endings: list[Message]) -> Message:
    """The ending that counts: a failure, otherwise a lost connection, otherwise the receiver's."""
    for kinds in (tuple(_FAILURES), (_LOST,)):
        for ending in endings:
            if ending["kind"] in kinds:
                return ending
    return endings[0]


def _effective(halves: Mapping[str, Message]) -> dict[str, int]:
    """Buffers in effect at both ends; Linux shows twice the requested size."""
    buffers = {name: half.get("buffers", {}) for name, half in halves.items()}
    return {f"{name}_{kind}": size for name, sizes in buffers.items() for kind, size in sizes.items()}


def failure(job: Mapping[str, Any], ending: Message, sender: Message, receiver: Message) -> Failure | None:
    """Why there is no usable number; for a stall also the counters during it and the subflows that probe."""
    arrived, kind = receiver["in_order_bytes"], ending["kind"]
    if kind == "stalled":
        reasons = [ending["reason"], *_silence({"receiver": receiver, "sender": sender})]
        return Failure("stalled", "; ".join(reasons))
    if kind in _FAILURES or kind == _LOST:
        return Failure(_FAILURES.get(kind, "died"), ending["reason"])
    if arrived == 0:
        return Failure("unreachable", "no byte arrived")
    if kind == "stopped" and (size := _size(job["workload"])) is not None:
        return Failure("incomplete", f"stopped after {arrived} of {size} bytes")
    return None


def _size(workload: Mapping[str, int]) -> int | None:
    """Payload bytes of a transfer, or of all messages; None of a saturated sender."""
    size = workload.get("bytes")
    if size is not None and "interval_ns" in workload:
        size *= -(-workload["duration_ns"] // workload["interval_ns"])
    return size


def _silence(halves: Mapping[str, Message]) -> list[str]:
    """Probable reasons for silence: unanswered probes and timeouts."""
    reasons = []
    for name, half in halves.items():
        moved = half.get("counters_since_progress", {})
        if moved:
            reasons.append(f"{name}: " + ", ".join(f"{counter} +{by}" for counter, by in moved.items()))
    for flow in halves["sender"].get("subflows", []):
        if flow["probes"]:
            ends = f"{_address(flow['local'])} to {_address(flow['remote'])}"
            reasons.append(f"{ends}: {flow['probes']} probes without an answer")
    return reasons


def join_subflows(sender: list[Message], receiver: list[Message], *, single: bool = False) -> list[Message]:
    """Each subflow once, in the order in which the sender saw them.

    Both ends are joined by addresses and ports; where something between them has translated these, by the
    numbers of the addresses, which MPTCP exchanges. A subflow that only one end saw, because it was closed
    before the other looked, has zeros for the values of the other end.

    Parameters
    ----------
    single : it is plain TCP, which exchanges no numbers and has one connection.
    """
    unmatched = list(receiver)
    by_place: dict[int, Message] = {}
    for ends, mirrored in ((_ends, _mirrored_ends), (_numbers, _mirrored_numbers)):
        for index, ours in enumerate(sender):
            ends_of_ours = ends(ours)
            if index in by_place or ends_of_ours is None:
                continue
            # Ends may be used again after a subflow closed; both see the same order.
            theirs = next((row for row in unmatched if mirrored(row) == ends_of_ours), None)
            if theirs is not None:
                unmatched.remove(theirs)
                by_place[index] = theirs
    if single and len(sender) == len(unmatched) == 1 and not by_place:
        by_place[0] = unmatched.pop()
    joined = [_subflow(ours["local"], ours["remote"], ours, by_place.get(i)) for i, ours in enumerate(sender)]
    return joined + [_subflow(entry["remote"], entry["local"], None, entry) for entry in unmatched]


def _ends(flow: Message) -> tuple[Any, Any] | None:
    return flow["local"], flow["remote"]


def _mirrored_ends(flow: Message) -> tuple[Any, Any] | None:
    return flow["remote"], flow["local"]


def _numbers(flow: Message) -> tuple[Any, Any] | None:
    """Numbers of both addresses; None for plain TCP, and if the kernel does not report them."""
    numbers = flow.get("local_id"), flow.get("remote_id")
    return None if None in numbers else numbers


def _mirrored_numbers(flow: Message) -> tuple[Any, Any] | None:
    numbers = _numbers(flow)
    return None if numbers is None else numbers[::-1]


def _subflow(local: str, remote: str, sender: Message | None, receiver: Message | None) -> Message:
    """One subflow; `local` is the sender's end."""
    known = sender or {"backup": None, "cc": None, "timeouts": None, "closed": True}
    limits = ("busy_ns", "rwnd_limited_ns", "sndbuf_limited_ns")
    keys = ("srtt_ns", "min_rtt_ns", "rto_ns", "retransmitted", "cwnd", "probes", *limits)
    return {
        "local": _address(local),
        "local_port": _port(local),
        "remote": _address(remote),
        # Its own address as the receiver sees it, which something in between may have translated.
        "seen": _address(receiver["remote"] if receiver else local),
        "remote_port": _port(remote),
        "bytes": receiver["bytes"] if receiver else 0,
        "bins": receiver["bins"] if receiver else [],
        **{key: known.get(key, 0) for key in keys},
        **{key: known[key] for key in ("timeouts", "backup", "cc", "closed")},
    }


def _address(end: str) -> str:
    """Address of "10.64.0.1:5000" or "[fd64::1]:5000"."""
    return end.rpartition(":")[0].strip("[]")


def _port(end: str) -> int:
    return int(end.rpartition(":")[2])
