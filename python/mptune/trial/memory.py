"""Memory that a host has for TCP, and what a connection with fixed buffers takes of it at most.

The kernel charges all TCP sockets of a machine to one account (`sk_memory_allocated` in include/net/sock.h),
whatever their own limits are. Above the second value of net.ipv4.tcp_mem it prunes receive queues and offers
small windows, above the third it drops what arrives: larger buffers then give less instead of more. On HU-UDE
fixed buffers of 84.9 MiB gave 0.77 Mbit/s where both ends had 187 MiB, and 45 Mbit/s where they had enough.
"""

from collections.abc import Mapping

__all__ = ["BOTH_PAGES", "BOTH_PRESSURE", "HOST_BYTES", "fits", "largest_fixed", "pages_of", "pressure_of"]

#: Memory that a host is taken to have where it is not known, bytes.
HOST_BYTES = 8 << 30

_PAGE = 4096

#: A size is doubled (`setsockopt` in net/core/sock.c). What a sender's connection holds is charged once more
#: to the subflow that has sent it (`mptcp_sendmsg_frag` in net/mptcp/protocol.c).
_AT_SENDER, _AT_RECEIVER = 4, 2


def pages_of(host_bytes: int) -> tuple[int, int, int]:
    """net.ipv4.tcp_mem of a host with so much memory (`tcp_init_mem` in net/ipv4/tcp.c), pages."""
    limit = host_bytes // _PAGE // 16
    least = limit // 4 * 3
    return least, limit, 2 * least


#: Memory that such a host's kernel charges before it prunes, bytes.
_PRESSURE = pages_of(HOST_BYTES)[1] * _PAGE

#: The same of one kernel that is both hosts: net.ipv4.tcp_mem, pages, and memory that it charges, bytes.
BOTH_PAGES, BOTH_PRESSURE = pages_of(2 * HOST_BYTES), 2 * _PRESSURE


def pressure_of(sysctls: Mapping[str, str], page_bytes: int = _PAGE) -> int | None:
    """Memory of all TCP sockets at which a kernel prunes, by its sysctls, bytes; None if they lack it."""
    pages = sysctls.get("net.ipv4.tcp_mem", "").split()
    return int(pages[1]) * page_bytes if len(pages) == 3 else None


def largest_fixed(pressure_bytes: int | None = None, *, both_ends: bool = False) -> int:
    """The largest size of a host's fixed buffers that its memory for TCP has room for, bytes.

    Parameters
    ----------
    pressure_bytes : of `pressure_of`; None is that of `HOST_BYTES`.
    both_ends : of the connection are on that host.
    """
    shares = _AT_SENDER + _AT_RECEIVER if both_ends else max(_AT_SENDER, _AT_RECEIVER)
    return (_PRESSURE if pressure_bytes is None else pressure_bytes) // shares


def fits(send_bytes: int, receive_bytes: int, pressure_bytes: int) -> bool:
    """True if both ends of a connection with fixed buffers have room on one host."""
    return _AT_SENDER * send_bytes + _AT_RECEIVER * receive_bytes <= pressure_bytes
