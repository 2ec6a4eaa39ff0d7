"""A netlink socket inside a given network namespace: requests, their answers, and refusals in one line.

It knows no message types. pyroute2's own sockets are not used: each runs an event loop, and enters a
namespace by forking, which a program with threads must not do.
"""

import errno
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from mptune.errors import TrialError
from mptune.linux.sandbox import syscalls

T = TypeVar("T")

# include/uapi/linux/netlink.h
NETLINK_SOCK_DIAG = 4
NETLINK_GENERIC = 16
NLM_F_REQUEST = 0x01
NLM_F_ACK = 0x04
NLM_F_DUMP = 0x300
_NLM_F_ACK_TLVS = 0x200
_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_NLMSGERR_ATTR_MSG = 1
_SOL_NETLINK = 270
_NETLINK_ADD_MEMBERSHIP = 1
_NETLINK_CAP_ACK = 10
_NETLINK_EXT_ACK = 11
_NLA_TYPE_MASK = 0x3FFF

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence number, port
_ATTRIBUTE = struct.Struct("=HH")  # length, type

#: The kernel answers a request within the system call; longer than this means that something is broken.
_ANSWER_S = 5.0
#: Room for bursts of events, bytes: thousands of them.
_RECEIVE_BUFFER = 1 << 20
_LARGEST_DATAGRAM = 1 << 16


class Refused(TrialError):
    """The kernel refused a request; `number` is the errno, `words` the kernel's explanation, if any."""

    def __init__(self, request: str, number: int, words: str) -> None:
        self.request, self.number, self.words = request, number, words
        text = os.strerror(number) + (f" ({words})" if words else "")
        super().__init__(f"{request}: {text}")


def inside(namespace: str | None, call: Callable[[], T]) -> T:
    """Call a function inside a network namespace, in a thread of its own that ends with the call.

    Sockets opened there stay in the namespace, and may be used by any thread afterwards.

    Parameters
    ----------
    namespace : its path ("/proc/<pid>/ns/net"); None for the present one.

    Raises
    ------
    TrialError : the namespace cannot be entered.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            if namespace is not None:
                _enter(namespace)
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="mptune namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _enter(namespace: str) -> None:
    try:
        descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            syscalls.setns(descriptor, syscalls.CLONE_NEWNET)
        finally:
            os.close(descriptor)
    except OSError as error:
        remedy = "; needs root, or the user namespace that owns it" if error.errno == errno.EPERM else ""
        raise TrialError(f"{namespace}: cannot be entered: {error.strerror}{remedy}") from None


class Netlink:
    """A socket of one netlink protocol. Requests are answered in order; events wait until taken.

    Parameters
    ----------
    namespace : path of the network namespace; None for the present one.
    protocol : `NETLINK_GENERIC` or `NETLINK_SOCK_DIAG`.
    """

    def __init__(self, namespace: str | None, protocol: int) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self._socket = inside(namespace, lambda: socket.socket(socket.AF_NETLINK, kind, protocol))
        self._sequence = 0
        try:
            for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK):
                self._socket.setsockopt(_SOL_NETLINK, option, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            self._socket.bind((0, 0))
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def fileno(self) -> int:
        """Descriptor that is readable when there is something to `take`, for poll(2)."""
        return self._socket.fileno()

    def join(self, group: int) -> None:
        """Receive the messages of a multicast group from now on."""
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, group)

    def request(self, name: str, message: Any, kind: int, flags: int) -> list[bytes]:
        """Send a message and return the answers: none for a command, many for a dump.

        Parameters
        ----------
        name : what is asked for, for the error message.
        message : one of pyroute2's, or the bytes that follow the header.
        kind, flags : for the header; an acknowledgement is always asked for.

        Raises
        ------
        Refused : the kernel answers with an error.
        TrialError : it does not answer.
        """
        body = message if isinstance(message, bytes) else encoded(message)
        self._sequence += 1
        flags |= NLM_F_REQUEST | NLM_F_ACK
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, self._sequence, 0) + body)
        return list(self._answers(name))

    def take(self) -> list[bytes]:
        """Messages that have arrived, without waiting.

        Raises
        ------
        TrialError : the kernel dropped some, because they were not taken in time.
        """
        taken: list[bytes] = []
        while True:
            try:
                data = self._socket.recv(_LARGEST_DATAGRAM, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return taken
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    raise TrialError("netlink: the kernel dropped events: they came too fast") from None
                raise
            taken.extend(_messages(data))

    def _answers(self, name: str) -> Iterator[bytes]:
        while True:
            ready, _, _ = select.select([self._socket], [], [], _ANSWER_S)
            if not ready:
                raise TrialError(f"{name}: no answer from the kernel within {_ANSWER_S:g} s")
            for message in _messages(self._socket.recv(_LARGEST_DATAGRAM)):
                _, kind, flags, sequence, _ = _HEADER.unpack_from(message)
                if sequence != self._sequence:
                    continue
                if kind not in (_NLMSG_ERROR, _NLMSG_DONE):
                    yield message
                    continue
                (status,) = struct.unpack_from("=i", message, _HEADER.size)
                if status < 0:
                    raise Refused(name, -status, _words(message) if flags & _NLM_F_ACK_TLVS else "")
                return


def encoded(message: Any) -> bytes:
    """Payload of a pyroute2 message, after the header."""
    message.encode()
    return bytes(message.data)[_HEADER.size :]


def attributes(message: bytes, offset: int = 0) -> dict[int, bytes]:
    """The attributes from an offset on: values by type, without the flags that a type may carry."""
    values = {}
    while offset + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, offset)
        values[kind & _NLA_TYPE_MASK] = message[offset + _ATTRIBUTE.size : offset + length]
        offset += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return values


def _messages(datagram: bytes) -> Iterator[bytes]:
    """The messages of a datagram, each padded to 4 bytes in there."""
    offset = 0
    while offset + _HEADER.size <= len(datagram):
        (length,) = struct.unpack_from("=I", datagram, offset)
        yield datagram[offset : offset + length]
        offset += max(_HEADER.size, (length + 3) & ~3)


def _words(message: bytes) -> str:
    """The kernel's own explanation in an error message (extended acknowledgement), or nothing.

    In an error the attributes follow the status and the header of the request (NETLINK_CAP_ACK leaves out
    its rest), at the end of a dump the status alone.
    """
    _, kind, *_ = _HEADER.unpack_from(message)
    offset = _HEADER.size + 4 + (_HEADER.size if kind == _NLMSG_ERROR else 0)
    return attributes(message, offset).get(_NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode(errors="replace")
