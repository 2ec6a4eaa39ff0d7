"""Rates of devices: token buckets (tbf), or else netem.

Machines that run tests have the first and need not have the second; a guest's kernel has the second alone.
"""

import errno
from typing import Any

import pyroute2
from pyroute2.netlink.rtnl.tcmsg import plugins

_ROOT = 0x10000
#: A full packet with its Ethernet header, bytes: the queue of netem counts packets.
_PACKET = 1514


def limit(routes: Any, device: str, rate_bps: int, *, burst: int, queue: int, command: str = "add") -> None:
    """Give a device of the namespace of `routes` a rate, or with the command "change" another one.

    Parameters
    ----------
    burst, queue : bytes that may leave at once, and that wait at most.
    """
    index = routes.link_lookup(ifname=device)[0]
    try:
        routes.tc(command, "tbf", index, _ROOT, rate=rate_bps // 8, burst=burst, limit=queue)
    except pyroute2.NetlinkError as error:
        if error.code not in (errno.ENOENT, errno.EINVAL):
            raise
        # It would take what the kernel sends at once for one packet.
        routes.link("set", index=index, gso_max_segs=1)
        # pyroute2 takes the word for an attribute of every discipline otherwise.
        plugins["netem"].fix_request = lambda context: context.pop("rate")
        routes.tc(command, "netem", index, _ROOT, rate=rate_bps // 8, limit=queue // _PACKET)
