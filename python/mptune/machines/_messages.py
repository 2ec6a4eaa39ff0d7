"""Messages that a host may send: parsing and checks of its lines.

A host may be broken, or in other hands: a line is JSON of a known kind with fields of the right types, and of
bounded length, or it is the end of the session. Who reads a message afterwards finds the types that are
declared here; a field that a message of a role lacks is the host's refusal, too, and no `KeyError`.
"""

from typing import Any, Never

import msgspec

from mptune._text import quoted
from mptune.errors import TrialError
from mptune.linux.talker import Message

#: Bytes until the host has greeted: what login shells print, and the greeting.
GREETING_BYTES = 1 << 20
#: Bytes of a later line. The results of a trial are one line, and so are all connections of a machine that is
#: watched: thousands of them take a few MiB.
LINE_BYTES = 8 << 20
#: Messages of one role that nobody has taken, and lines that nobody has asked for, in a session.
QUEUED, UNASKED = 10_000, 10_000
#: Bytes of them.
QUEUED_BYTES = 64 << 20
#: Bytes kept of what ssh writes to its standard error: the last ones, which have the reason of its end.
STDERR_BYTES = 64 << 10


class Misbehaved(Exception):
    """A host violates the protocol of this version's agent; the text describes the violation."""


class Lines:
    """Lines in a stream of bytes, none of them longer than `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._rest = bytearray()
        self._searched = 0

    def add(self, chunk: bytes) -> None:
        """Add what was read."""
        self._rest += chunk

    def next(self) -> bytes | None:
        """The next whole line, without its line feed.

        Raises
        ------
        Misbehaved : it is too long.
        """
        end = self._rest.find(b"\n", self._searched)
        if max(end, len(self._rest) if end < 0 else 0) > self.most:
            raise Misbehaved(f"it sent a line of more than {self.most} bytes")
        if end < 0:
            self._searched = len(self._rest)
            return None
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        self._searched = 0
        return line


class Told(dict[str, Any]):
    """An object of a host's message; a key that it lacks is the host's fault."""

    def __init__(self, fields: dict[str, Any], host: str) -> None:
        super().__init__(fields)
        self._host = host

    def __missing__(self, key: str) -> Never:
        raise TrialError(f"{self._host}: expected a message with {key}, found none in it", "refused")


class _Hello(msgspec.Struct):
    event: str
    version: str
    protocol: int
    net_admin: bool
    pid: int = 0
    uid: int = 0
    machine: str = ""
    kernel: str = ""
    hostname: str = ""
    recovered: list[str] = []
    kept: dict[str, str] = {}


class _Said(msgspec.Struct):
    id: int
    line: dict[str, Any]


class _Ended(msgspec.Struct):
    id: int
    status: int | None = None
    signal: int | None = None
    stderr: str | None = None


class _Reason(msgspec.Struct):
    reason: str
    id: int | None = None


class _Before(msgspec.Struct):
    id: int
    before: dict[str, str]


class _Kept(msgspec.Struct):
    id: int
    kept: dict[str, str]


class _Address(msgspec.Struct):
    ip: str
    prefix: int = 0


class _Route(msgspec.Struct):
    via: str | None = None
    family: str = ""
    table: int = 0
    metric: int = 0


class _Rule(msgspec.Struct):
    table: int = 0
    family: str = ""
    priority: int = 0
    from_: str | None = msgspec.field(name="from", default=None)


class _Interface(msgspec.Struct):
    device: str
    up: bool
    mtu: int
    addresses: list[_Address]
    default_routes: list[_Route]
    rp_filter: int | None = None


class _Controls(msgspec.Struct):
    available: list[str]
    allowed: list[str]


class _Leaves(msgspec.Struct):
    device: str | None = None


class Facts(msgspec.Struct):
    """The facts of a host, as far as they are used (`look.rs` of the agent's role `host`)."""

    interfaces: list[_Interface]
    rules: list[_Rule]
    kernel: str
    machine: str
    mptcp: str | None
    path_manager: str | None
    congestion_controls: _Controls
    bpf: str | None
    sysctls: dict[str, str | None]
    rmem_max: int | None
    wmem_max: int | None
    processors: int
    load: float | None
    offloads: dict[str, list[str]]
    leaves: list[_Leaves]
    rp_filter_all: int | None = None
    memory_available: int | None = None


class _Looked(Facts):
    id: int = 0


#: Kind of message -> its fields.
_KINDS: dict[str, type[msgspec.Struct]] = {
    "hello": _Hello,
    "said": _Said,
    "ended": _Ended,
    "set": _Before,
    "restored": _Kept,
    "looked": _Looked,
    "refused": _Reason,
    "error": _Reason,
}


def message_of(line: bytes, host: str) -> Message:
    """The message in a line.

    Parameters
    ----------
    host : for messages.

    Raises
    ------
    Misbehaved : it is none, or not of this version.
    """
    try:
        message = msgspec.json.decode(line)
        if not isinstance(message, dict):
            raise Misbehaved("it sent a line that is no message")
        event = message.get("event")
        if not isinstance(event, str) or event not in _KINDS:
            raise Misbehaved(f"it sent a message of an unknown kind: {quoted(event)}")
        msgspec.convert(message, _KINDS[event])
        if event == "said" and not isinstance(message["line"].get("event"), str):
            raise Misbehaved("it passed on a message without a kind")
        message_: Message = _parsed(message, host)
    except msgspec.ValidationError as error:
        raise Misbehaved(f"it sent a message that is not as expected: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Misbehaved(f"it sent a line that is no JSON: {quoted(line[:100])}") from None
    except RecursionError:
        raise Misbehaved("it sent a message of too many brackets inside each other") from None
    return message_


def _parsed(thing: Any, host: str) -> Any:
    if isinstance(thing, dict):
        return Told({key: _parsed(value, host) for key, value in thing.items()}, host)
    return [_parsed(entry, host) for entry in thing] if isinstance(thing, list) else thing
