"""`python -m mptune.linux.probe`: what can be done inside a namespace, tried by doing it.

Reads one JSON line, {"namespace": path}, and answers with one: {"event": "probed", "mptcp": null, ...},
where null means "works" and text is the error. It is a separate process because a thread that entered a
namespace cannot be used for anything else.
"""

import errno
import fcntl
import json
import os
import socket
import struct
import sys
from collections.abc import Callable

from mptune.linux.sandbox import syscalls, sysctls

_IPPROTO_MPTCP = 262  # include/uapi/linux/in.h
_SOL_MPTCP = 284  # include/linux/socket.h
_MPTCP_SUBFLOW_ADDRS, _MPTCP_FULL_INFO = 3, 4  # include/uapi/linux/mptcp.h
_TUNSETIFF = 0x400454CA  # include/uapi/linux/if_tun.h
_IFF_TUN_NO_PI = 0x0001 | 0x1000


def main() -> int:
    """Answer one question."""
    syscalls.die_with_parent()
    descriptor = os.open(json.loads(sys.stdin.readline())["namespace"], os.O_RDONLY | os.O_CLOEXEC)
    syscalls.setns(descriptor, syscalls.CLONE_NEWNET)
    os.close(descriptor)
    tried = {name: _try(attempt) for name, attempt in _ATTEMPTS.items()}
    sys.stdout.write(json.dumps({"event": "probed", **tried}) + "\n")
    return 0


def mptcp_obstacle() -> str | None:
    """Why this process gets no MPTCP socket, in the kernel's words; None if it does."""
    return _try(_mptcp)


def _try(attempt: Callable[[], None]) -> str | None:
    try:
        attempt()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _mptcp() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_MPTCP).close()


def _ipv6() -> None:
    """MPTCP over IPv6: a kernel can lack it (CONFIG_MPTCP_IPV6), or IPv6 itself (ipv6.disable=1)."""
    socket.socket(socket.AF_INET6, socket.SOCK_STREAM, _IPPROTO_MPTCP).close()
    if sysctls.read("net.ipv6.conf.all.disable_ipv6") != "0":
        raise OSError("no addresses (net.ipv6.conf.all.disable_ipv6)")


def _statistics() -> None:
    """Statistics of each subflow (Linux 5.16)."""
    _option(_MPTCP_SUBFLOW_ADDRS)


def _full_statistics() -> None:
    """The same in one call, with more of the connection (Linux 6.5)."""
    _option(_MPTCP_FULL_INFO)


def _option(name: int) -> None:
    """A socket option of MPTCP that needs more room than it gets: EINVAL where the kernel knows it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_MPTCP) as connection:
        try:
            connection.getsockopt(_SOL_MPTCP, name, 1)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise


def _path_manager() -> None:
    """Path management from user space: Linux 5.19, called `path_manager` since 6.15."""
    if sysctls.read("net.mptcp.path_manager") != "userspace" and sysctls.read("net.mptcp.pm_type") != "1":
        raise OSError("no userspace path manager")


def _tun() -> None:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", b"probe", _IFF_TUN_NO_PI))
    finally:
        os.close(descriptor)


_ATTEMPTS: dict[str, Callable[[], None]] = {
    "mptcp": _mptcp,
    "statistics": _statistics,
    "full_statistics": _full_statistics,
    "path_manager": _path_manager,
    "tun": _tun,
    "ipv6": _ipv6,
}


if __name__ == "__main__":
    sys.exit(main())
