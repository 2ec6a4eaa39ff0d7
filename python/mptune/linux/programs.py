"""A measurement of real programs: a client and a server of the user's, and what their connections did.

It stands where `mptune.linux.meter` stands in a trial. The agent's role `program` starts and ends each, with
all that it starts in turn; the preloaded library makes their sockets and describes their connections
(`mptune.linux.preload`). Programs that take no library are refused before anything is measured.
"""

import os
import select
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from mptune.errors import Failure, FailureKind, InputError, TrialError
from mptune.linux import preload
from mptune.linux.preload import program as examined
from mptune.linux.preload.statistics import Connection, Statistics, Subflow, read
from mptune.linux.talker import Message, Talker, last_words

#: The port in the environment of the programs; it needs no privilege.
PORT: Final = 5201

#: Seconds that a server has until it listens.
LISTEN_S: Final = 20.0
#: Seconds to end a program, and everything that it started.
_END_S = 10.0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Programs of a trial.

    Attributes
    ----------
    client, server : words of the command lines.
    protocol : "mptcp", or "tcp" to leave sockets as they are.
    kernel_cc : the kernel's name of the congestion control.
    buffer_bytes : SO_SNDBUF and SO_RCVBUF of every socket; None leaves them to autotuning.
    limit_s : the client has so long.
    """

    client: tuple[str, ...]
    server: tuple[str, ...]
    protocol: Literal["mptcp", "tcp"]
    kernel_cc: str
    buffer_bytes: int | None
    limit_s: float


def check(lines: Iterable[Sequence[str]]) -> None:
    """Refuse command lines that cannot be started and measured.

    Raises
    ------
    InputError : there is no such program, or no library can be preloaded into it.
    """
    for words in lines:
        _file(words)


def _file(words: Sequence[str]) -> str:
    """The file of a program.

    Raises
    ------
    InputError : as of `check`.
    """
    try:
        found = examined.find(words[0])
    except InputError as error:
        raise InputError("--workload", "", error.expected) from None
    if found.obstacle is not None:
        expected = f"{found.path}: expected a program that takes a preloaded library, found {found.detail}"
        raise InputError("--workload", "", expected)
    return str(found.path.absolute())


class Programs:
    """Two programs and their measurement; the verbs are those of `mptune.linux.meter.Meter`.

    Parameters
    ----------
    client, server : roles `program`; the caller ends them.
    job : what runs.
    files : of the client's statistics, and of the server's.
    """

    def __init__(self, client: Talker, server: Talker, job: Job, files: tuple[Path, Path]) -> None:
        self._client, self._server = client, server
        self._job, self._files = job, files
        self._ends: Mapping[str, str] = {}
        self._until = 0.0
        self._result: Message | None = None
        self._messages: deque[Message] = deque()

    @property
    def halves(self) -> tuple[Talker, Talker]:
        """Both processes; readable when there is something to `take`, for select(2)."""
        return self._client, self._server

    @property
    def port(self) -> int | None:
        """Connections to any port are the trial's: programs may have several."""
        return None

    def listen(self, job: Mapping[str, Any], address: str, joins: Sequence[str]) -> None:
        """Start the server, and wait until it listens; parameters as of `Meter.listen`.

        Raises
        ------
        TrialError : it cannot be started, ends, or does not listen in time.
        """
        self._ends = {"MPTUNE_SERVER": address, "MPTUNE_PORT": str(PORT)}
        self._start(self._server, self._job.server, self._files[1], listens=True)
        end = time.monotonic() + LISTEN_S
        while (left := end - time.monotonic()) > 0:
            for message in self._server.take():
                if message["event"] == "listening":
                    return
                raise TrialError(f"server: {_ending(message)} before it listened", _kind(message))
            if self._server.ended:
                raise TrialError(self._server.death(), self._server.kind)
            select.select([self._server], [], [], left)
        self._server.tell({"action": "stop"})
        words = last_words(self._server.expect("stopped", _END_S)["stderr"])
        raise TrialError(f"server: it did not listen within {LISTEN_S:g} s{words}", "incomplete")

    def connect(self, local: str, remote: str) -> None:
        """Start the client, which is told both addresses."""
        self._ends = {**self._ends, "MPTUNE_CLIENT": local, "MPTUNE_SERVER": remote}
        self._start(self._client, self._job.client, self._files[0], listens=False)
        self._until = time.monotonic() + self._job.limit_s

    def _start(self, role: Talker, words: Sequence[str], file: Path, *, listens: bool) -> None:
        job = self._job
        environment = {
            **preload.environment(os.environ, job.protocol, job.kernel_cc, job.buffer_bytes),
            **preload.collecting(file),
            **preload.forcing(),
            **self._ends,
        }
        role.tell({"command": [_file(words), *words], "environment": environment, "listens": listens})

    def take(self) -> list[Message]:
        """Messages since the last call: the result, once the client has ended or its time is over."""
        if self._result is None:
            for message in self._client.take():
                self._conclude(message)
        if self._result is None and self._until and time.monotonic() > self._until:
            self._client.tell({"action": "stop"})
            late = self._client.expect("stopped", _END_S)
            self._conclude(late)
        messages, self._messages = list(self._messages), deque()
        return messages

    def check(self) -> None:
        """Notice that the client's process is gone; the server may end when it has served.

        Raises
        ------
        TrialError : how.
        """
        if self._client.ended and self._result is None:
            raise TrialError(self._client.death(), self._client.kind)

    def salvage(self) -> Message | None:
        """Of a failed trial nothing is known."""
        return None

    def _conclude(self, ending: Message) -> None:
        """The result, now that the client is over: `ending` is the report of its end."""
        self._result = {}
        self._server.tell({"action": "stop"})
        served = self._end_of_server()
        ours, theirs = read(self._files[0]), read(self._files[1])
        elapsed_ns = int(ending.get("elapsed_ns", self._job.limit_s * 1e9))
        failed = _failure(self._job, ending, served, ours)
        self._result = _result(self._job, elapsed_ns, ours, theirs, failed)
        for name, message in (("client", ending), ("server", served)):
            self._result["programs"][f"{name}_ended"] = _ending(message)
        self._messages.append({"event": "result", **self._result})

    def _end_of_server(self) -> Message:
        """Its last message, at the latest now.

        Raises
        ------
        TrialError : its process does not answer.
        """
        end = time.monotonic() + _END_S
        while (left := end - time.monotonic()) > 0:
            for message in self._server.take():
                if message["event"] in ("exited", "stopped", "error"):
                    return message
            if self._server.ended:
                break
            select.select([self._server], [], [], left)
        raise TrialError(self._server.death(), self._server.kind)


def _kind(message: Message) -> FailureKind:
    return "refused" if message["event"] == "error" else "died"


def _ending(message: Message) -> str:
    """Ending of a program as a part of a sentence, with its last words."""
    if message["event"] == "error":
        return f"it cannot be started: {message['reason']}"
    words = last_words(message.get("stderr", ""))
    if message["event"] == "stopped":
        return "was ended" + words
    if message["signal"] is not None:
        return f"was killed by signal {message['signal']}{words}"
    return f"ended with status {message['status']}{words}"


def _failure(job: Job, ending: Message, served: Message, found: Statistics) -> Failure | None:
    """Why there is no usable number."""
    if ending["event"] == "stopped":
        words = last_words(ending.get("stderr", ""))
        return Failure("incomplete", f"client: it did not end within {job.limit_s:g} s{words}")
    if ending["event"] == "error" or ending["status"] != 0:
        reasons = [f"client: {_ending(ending)}"]
        if served["event"] == "exited" and served["status"] != 0:
            reasons.append(f"server: {_ending(served)}")
        return Failure(_kind(ending), "; ".join(reasons))
    known = [connection for connection in found.connections if connection.kind is not None]
    if not known:
        if found.failed:
            return Failure("unreachable", f"client: nobody answered its {found.failed} connections")
        return Failure("unreachable", "client: it opened no TCP connection that the preloaded library saw")
    multipath = sum(connection.kind == "mptcp" for connection in known)
    if job.protocol == "mptcp" and not multipath:
        return Failure("fallback", f"none of the client's {len(known)} connections used MPTCP")
    if job.protocol == "tcp" and multipath:
        wanted = "made MPTCP sockets itself, where plain TCP is measured"
        return Failure("refused", f"client: it {wanted}")
    return None


def _result(
    job: Job, elapsed_ns: int, ours: Statistics, theirs: Statistics, failed: Failure | None
) -> dict[str, Any]:
    """The measurement, as `mptune.linux.meter_report.join` has it; bytes are those of both directions."""
    connections = ours.connections
    accepted = {(connection.remote, connection.local): connection for connection in theirs.connections}
    sizes = [
        _payload(connection, accepted.get((connection.local, connection.remote)))
        for connection in connections
    ]
    kinds = [connection.kind for connection in connections]
    reinjected = [connection.reinjected_bytes for connection in (*connections, *theirs.connections)]
    return {
        "duration_ns": elapsed_ns,
        "in_order_bytes": sum(sizes),
        "bins": [],
        "completion_ns": elapsed_ns if failed is None else None,
        "failed": None if failed is None else failed.reason,
        "failed_kind": None if failed is None else failed.kind,
        "fallback": any(kind == "fallback" for kind in kinds),
        "requested": {"sndbuf": job.buffer_bytes, "rcvbuf": job.buffer_bytes},
        "cc_effective": next((connection.cc for connection in connections if connection.cc), None),
        "reinjected_bytes": sum(size or 0 for size in reinjected),
        "subflows": _subflows(ours, theirs),
        "cpu_ns": 0,
        "programs": {
            "connections": len(kinds),
            "connections_mptcp": sum(kind == "mptcp" for kind in kinds),
            "connections_fallback": sum(kind == "fallback" for kind in kinds),
            "connections_tcp": sum(kind == "tcp" for kind in kinds),
            "connection_bytes": " ".join(map(str, sizes[:_SHOWN])),
        },
    }


#: Connections whose bytes are shown one by one.
_SHOWN = 100


def _payload(one: Connection | Subflow, far: Connection | Subflow | None) -> int:
    """Payload bytes of both directions, by the end that knows of more: the other one may have closed."""
    ends = [(one.acked_bytes, one.received_bytes)]
    if far is not None:
        ends.append((far.received_bytes, far.acked_bytes))
    return sum(max(size or 0 for size in way) for way in zip(*ends, strict=True))


def _subflows(ours: Statistics, theirs: Statistics) -> list[dict[str, Any]]:
    """The subflows of all connections, those between the same addresses as one, as the client sees them."""
    far = {
        (flow.remote, flow.local): flow
        for connection in theirs.connections
        for flow in connection.subflows
        if flow.local and flow.remote
    }
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    for connection in ours.connections:
        for flow in connection.subflows:
            if flow.local is None or flow.remote is None:
                continue
            pair = _host(flow.local), _host(flow.remote)
            row = joined.setdefault(pair, _empty(*pair))
            _count(row, flow, far.get((flow.local, flow.remote)))
    return list(joined.values())


def _empty(local: str, remote: str) -> dict[str, Any]:
    counted = ("bytes", "srtt_ns", "min_rtt_ns", "retransmitted", "timeouts")
    return {"local": local, "remote": remote, "bins": [], **dict.fromkeys(counted, 0)}


def _count(row: dict[str, Any], flow: Subflow, far: Subflow | None) -> None:
    """Add a subflow; RTTs are those of the side that sent more, as it knows them."""
    row["bytes"] += _payload(flow, far)
    for side in (flow, far):
        if side is not None:
            row["retransmitted"] += side.retransmitted_segments or 0
            row["timeouts"] += side.timeouts or 0
    sends = (flow.acked_bytes or 0) >= (flow.received_bytes or 0)
    teller = flow if sends or far is None else far
    row["srtt_ns"] = teller.rtt_ns or row["srtt_ns"]
    lowest = [size for size in (row["min_rtt_ns"], flow.min_rtt_ns, far and far.min_rtt_ns) if size]
    row["min_rtt_ns"] = min(lowest, default=0)


def _host(end: str) -> str:
    """Address of "10.64.0.1:5000" or "[fd64::1]:5000"."""
    return end.rpartition(":")[0].strip("[]")
