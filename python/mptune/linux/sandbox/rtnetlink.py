"""Devices, addresses, routes and rules of the current network namespace, set over rtnetlink.

The messages are pyroute2's, the socket is `mptune.linux.sandbox.netlink`'s. It knows no trial: the caller
decides what to set.
"""

import errno
import os
import socket
from typing import Any

from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from mptune.linux.sandbox import sysctls
from mptune.linux.sandbox.netlink import Netlink

NETLINK_ROUTE = 0  # include/uapi/linux/netlink.h
_NLM_F_EXCL, _NLM_F_CREATE = 0x200, 0x400

# include/uapi/linux/rtnetlink.h, if_link.h, if_addr.h, fib_rules.h
_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE, _RTM_NEWRULE = 16, 20, 24, 32
_IFF_UP = 0x1
_IFA_F_NODAD = 0x02
_RTN_UNICAST, _RTPROT_STATIC, _RT_SCOPE_UNIVERSE = 1, 4, 0
_FR_ACT_TO_TBL = 1


def configure(device: str, *, mtu: int, queue_packets: int, ipv4: str, ipv6: str, table: int) -> None:
    """Bring a device up, give it its addresses, and route packets from them by its own routing table.

    Parameters
    ----------
    mtu : bytes.
    queue_packets : length of the device's queue.
    ipv6 : ignored if IPv6 is switched off in the kernel.
    table : routing table of this device alone.

    Raises
    ------
    OSError : there is no such device.
    TrialError : the kernel refuses something.
    """
    try:
        index = socket.if_nametoindex(device)
    except OSError:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), device) from None
    families = [(socket.AF_INET, ipv4, 32)]
    if sysctls.file("net.ipv6").exists():
        families.append((socket.AF_INET6, ipv6, 128))
    with Netlink(None, NETLINK_ROUTE) as routes:
        _ask(routes, f"{device}: up", _RTM_NEWLINK, _link(index, mtu, queue_packets), flags=0)
        for family, address, length in families:
            for what, kind, message in (
                ("address", _RTM_NEWADDR, _address(family, index, address, length)),
                ("route", _RTM_NEWROUTE, _route(family, index, table)),
                ("rule", _RTM_NEWRULE, _rule(family, address, length, table)),
            ):
                _ask(routes, f"{device}: {what} {address}", kind, message)


def _ask(
    routes: Netlink, name: str, kind: int, message: Any, flags: int = _NLM_F_CREATE | _NLM_F_EXCL
) -> None:
    routes.request(name, message, kind, flags)


def _link(index: int, mtu: int, queue_packets: int) -> Any:
    message = ifinfmsg()
    message["index"], message["flags"], message["change"] = index, _IFF_UP, _IFF_UP
    message["attrs"] = [("IFLA_MTU", mtu), ("IFLA_TXQLEN", queue_packets)]
    return message


def _address(family: int, index: int, address: str, length: int) -> Any:
    message = ifaddrmsg()
    message["family"], message["index"], message["prefixlen"] = family, index, length
    message["flags"] = _IFA_F_NODAD if family == socket.AF_INET6 else 0
    message["attrs"] = [("IFA_LOCAL", address), ("IFA_ADDRESS", address)]
    return message


def _route(family: int, index: int, table: int) -> Any:
    """The default route of a table, by the device."""
    message = rtmsg()
    message["family"], message["table"], message["type"] = family, table, _RTN_UNICAST
    message["proto"], message["scope"] = _RTPROT_STATIC, _RT_SCOPE_UNIVERSE
    message["attrs"] = [("RTA_TABLE", table), ("RTA_OIF", index)]
    return message


def _rule(family: int, address: str, length: int, table: int) -> Any:
    """Packets from an address use a table; the priority is the number of the table."""
    message = fibmsg()
    message["family"], message["src_len"], message["table"] = family, length, table
    message["action"] = _FR_ACT_TO_TBL
    message["attrs"] = [("FRA_TABLE", table), ("FRA_SRC", address), ("FRA_PRIORITY", table)]
    return message
