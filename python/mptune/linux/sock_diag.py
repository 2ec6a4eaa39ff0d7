"""What the kernel knows of every established TCP connection in a namespace, MPTCP's subflows among them.

One dump over SOCK_DIAG (include/uapi/linux/{sock_diag,inet_diag,tcp}.h) answers for all of them in a fraction
of a millisecond, without their descriptors: it sees the connections of other processes too. It only looks.

The answers are taken apart by hand: this is done many times a second on a machine that is measuring, and
pyroute2's classes, which decode every field, need 0.1 ms for each connection.
"""

import errno
import ipaddress
import socket
import struct
from collections.abc import Iterable
from functools import lru_cache
from types import TracebackType
from typing import Self

import msgspec

from mptune.linux import netlink
from mptune.linux.mptcp_messages import Endpoint, Pair, plain
from mptune.linux.netlink import Refused

_SOCK_DIAG_BY_FAMILY = 20
_ESTABLISHED = 1 << 1  # include/net/tcp_states.h
#: struct inet_diag_req_v2: family, protocol, extensions, states; no particular socket.
_REQUEST = struct.Struct("=BBBxI48x")
#: struct inet_diag_msg after the netlink header: family, ports, addresses; attributes follow.
_ANSWER = struct.Struct("=16xB3x")
_ENDS = struct.Struct("!HH16s16s")
_ATTRIBUTES = 16 + 72

_INET_DIAG_INFO = 2
_INET_DIAG_ULP_INFO = 19
_INET_ULP_INFO_MPTCP = 3
_MPTCP_SUBFLOW_ATTR_FLAGS = 8
_MPTCP_SUBFLOW_FLAG_BKUP_LOC = 1 << 5

#: struct tcp_info: retransmits, unacked, last_ack_recv, bytes_acked, min_rtt.
_INFO = struct.Struct("=2xB21xI28xI60xQ20xI")
#: `tcpi_min_rtt` before the first sample.
_NO_SAMPLE = 0xFFFFFFFF


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """One connection.

    Attributes
    ----------
    timeouts : consecutive retransmission timeouts without progress. (`tcpi_backoff` counts zero-window
        probes too, which are no sign of a dead path.)
    min_rtt_ns : smallest RTT seen, nanoseconds; 0 before the first sample.
    silent_ms : since the last acknowledgement arrived, milliseconds.
    acked_bytes : acknowledged so far; the SYN counts as one.
    unacked : segments under way.
    backup : this side made it standby; None when it is no subflow of MPTCP.
    """

    timeouts: int
    min_rtt_ns: int
    silent_ms: int
    acked_bytes: int
    unacked: int
    backup: bool | None


class SockDiag:
    """Looks into one network namespace.

    Parameters
    ----------
    namespace : its path; None for the present one.
    """

    def __init__(self, namespace: str | None) -> None:
        self._netlink = netlink.Netlink(namespace, netlink.NETLINK_SOCK_DIAG)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()

    def established(self, families: Iterable[socket.AddressFamily]) -> dict[Pair, Statistics]:
        """Every established TCP connection of these address families.

        Raises
        ------
        Refused : the kernel does not answer such questions (CONFIG_INET_DIAG).
        """
        return {_pair(data): _statistics(data) for family in families for data in self._dump(family)}

    def _dump(self, family: socket.AddressFamily) -> list[bytes]:
        extensions = 1 << (_INET_DIAG_INFO - 1)
        body = _REQUEST.pack(family, socket.IPPROTO_TCP, extensions, _ESTABLISHED)
        try:
            return self._netlink.request("socket statistics", body, _SOCK_DIAG_BY_FAMILY, netlink.NLM_F_DUMP)
        except Refused as error:
            if error.number == errno.ENOENT:
                raise Refused(error.request, error.number, "this kernel lacks CONFIG_INET_DIAG") from None
            raise


def _pair(message: bytes) -> Pair:
    (family,) = _ANSWER.unpack_from(message)
    sport, dport, source, destination = _ENDS.unpack_from(message, _ANSWER.size)
    length = 4 if family == socket.AF_INET else 16
    return Pair(Endpoint(_text(source[:length]), sport), Endpoint(_text(destination[:length]), dport))


@lru_cache(maxsize=1024)
def _text(address: bytes) -> str:
    return plain(str(ipaddress.ip_address(address)))


def _statistics(message: bytes) -> Statistics:
    attributes = netlink.attributes(message, _ATTRIBUTES)
    timeouts, unacked, silent_ms, acked_bytes, min_rtt_us = _INFO.unpack_from(attributes[_INET_DIAG_INFO])
    return Statistics(
        timeouts=timeouts,
        min_rtt_ns=0 if min_rtt_us == _NO_SAMPLE else min_rtt_us * 1000,
        silent_ms=silent_ms,
        acked_bytes=acked_bytes,
        unacked=unacked,
        backup=_backup(attributes.get(_INET_DIAG_ULP_INFO)),
    )


def _backup(ulp_info: bytes | None) -> bool | None:
    """Whether a subflow is standby; None for what is no subflow."""
    mptcp = None if ulp_info is None else netlink.attributes(ulp_info).get(_INET_ULP_INFO_MPTCP)
    if mptcp is None:
        return None
    (flags,) = struct.unpack("=I", netlink.attributes(mptcp)[_MPTCP_SUBFLOW_ATTR_FLAGS])
    return bool(flags & _MPTCP_SUBFLOW_FLAG_BKUP_LOC)
