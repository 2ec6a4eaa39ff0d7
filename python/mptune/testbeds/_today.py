"""Settings of a host today that nobody chose, by the release of its kernel or as read from it.

Linux opens no second subflow by itself: its own path manager has no endpoints until somebody adds them
(net/mptcp/pm_kernel.c; `ip-mptcp(8)`). Buffers grow up to `tcp_wmem[2]` and `tcp_rmem[2]`, whose defaults
are in `tcp_init` of net/ipv4/tcp.c, for machines that have memory enough.
"""

from collections.abc import Mapping

import msgspec

from mptune.trial.memory import largest_fixed, pressure_of
from mptune.trial.stacks import release_of

#: `tcp_wmem[2]`, and `tcp_rmem[2]` from Linux 6.16 on and before, bytes.
_SEND, _RECEIVE, _RECEIVED_BEFORE = 4 << 20, 32 << 20, 6 << 20
_SINCE = 6, 16

#: The congestion control of a kernel that is told none (net/ipv4/Kconfig).
_CC = "cubic"


class Today(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of whoever sends and receives.

    Attributes
    ----------
    cc : the congestion control of connections that ask for none.
    send_bytes, receive_bytes : limits up to which buffers grow.
    fixed_bytes : the largest size of fixed buffers that their memory for TCP has room for.
    whose : "Linux 6.18's defaults", "this machine's settings".
    """

    cc: str = _CC
    send_bytes: int = _SEND
    receive_bytes: int = _RECEIVE
    fixed_bytes: int = largest_fixed()
    whose: str


def of_release(release: str) -> Today:
    """The defaults of a release, such as "6.18" or "6.18.44-1-amd64"; empty is the fork before upstream's."""
    if not release:
        return Today(receive_bytes=_RECEIVED_BEFORE, whose="Linux's defaults")
    major, minor = (int(part) for part in release.partition("-")[0].split(".")[:2])
    receive = _RECEIVE if (major, minor) >= _SINCE else _RECEIVED_BEFORE
    return Today(receive_bytes=receive, whose=f"Linux {major}.{minor}'s defaults")


def of_stack(members: Mapping[str, object]) -> Today:
    """The defaults of the release that a stack follows."""
    return of_release(release_of(members))


def read_from(sender: Mapping[str, str], receiver: Mapping[str, str], whose: str) -> Today:
    """Settings of both ends from their sysctls; a kernel's defaults for those that are missing."""
    send, receive = largest(sender, "net.ipv4.tcp_wmem"), largest(receiver, "net.ipv4.tcp_rmem")
    return Today(
        cc=sender.get("net.ipv4.tcp_congestion_control", _CC),
        send_bytes=_SEND if send is None else send,
        receive_bytes=_RECEIVE if receive is None else receive,
        fixed_bytes=min(largest_fixed(pressure_of(end)) for end in (sender, receiver)),
        whose=whose,
    )


def largest(sysctls: Mapping[str, str], name: str) -> int | None:
    """The last of the three sizes of `tcp_wmem` or `tcp_rmem`, bytes; None if it is not known."""
    sizes = sysctls.get(name, "").split()
    return int(sizes[2]) if len(sizes) == 3 else None
