"""Reports as the agent makes them, and an agent that sends what a test gives it."""

import json
import os
from collections.abc import Mapping
from typing import Any

from mptune.linux.talker import GRACE_S, Message, Talker

SECOND = 1_000_000_000
MBYTE = 1_000_000


def subflow(number: int = 1, **others: Any) -> dict[str, Any]:
    """An active subflow on device eth<number>, which has done nothing yet."""
    return {
        "local": f"10.0.{number}.2:{40000 + number}",
        "remote": "10.9.0.1:443",
        "device": f"eth{number}",
        "local_id": number - 1,
        "remote_id": 0,
        "backup": False,
        "state": "established",
        "cc": "cubic",
        "rtt_ns": 20_000_000 * number,
        "min_rtt_ns": 10_000_000 * number,
        "cwnd": 10,
        "acked_bytes": 1,
        "received_bytes": 0,
        "retransmitted_bytes": 0,
        "lost": 0,
        "unacked": 0,
        "delivery_rate_bps": None,
        "busy_ns": 0,
        "rwnd_limited_ns": 0,
        "sndbuf_limited_ns": 0,
        "timeouts": 0,
    } | others


def connection(token: int = 1, *subflows: dict[str, Any], **others: Any) -> dict[str, Any]:
    """A connection of curl; with one subflow unless others are given."""
    return {
        "token": token,
        "local": f"10.0.1.2:{40000 + token}",
        "remote": "10.9.0.1:443",
        "family": "ipv4",
        "state": "established",
        "pid": 77,
        "command": "curl",
        "fallback": False,
        "path_manager": "kernel",
        "sent_bytes": 0,
        "received_bytes": 0,
        "acked_bytes": 0,
        "reinjected_bytes": 0,
        "subflows": list(subflows) or [subflow()],
    } | others


def report(at_s: float, *connections: dict[str, Any], **others: Any) -> Message:
    """Everything at a moment."""
    at_ns = round(at_s * SECOND)
    fields = {"at_ns": at_ns, "may_change": True, "limits": [], "connections": list(connections)}
    return {"event": "connections", **fields, **others}


class FakeAgent(Talker):
    """Sends what it is given and remembers its orders."""

    def __init__(self) -> None:
        super().__init__("watch")
        self.told: list[dict[str, object]] = []
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)

    def say(self, message: Message) -> None:
        """Let it send something."""
        os.write(self._write, json.dumps(message).encode() + b"\n")

    def die(self) -> None:
        """Let it end."""
        os.close(self._write)

    def fileno(self) -> int:
        return self._read

    def tell(self, message: Mapping[str, object]) -> None:
        self.told.append(dict(message))

    def close(self) -> None:
        pass

    def end(self, grace_s: float = GRACE_S) -> None:
        os.close(self._read)

    def death(self) -> str:
        return "watch ended with status 1"

    @property
    def killed(self) -> bool:
        return False

    def _receive(self) -> None:
        try:
            read = os.read(self._read, 1 << 20)
        except BlockingIOError:
            return
        self._ended = not read
        self._messages.extend(json.loads(line) for line in read.splitlines())
