"""Commands to the kernel's path management and events from it, in one network namespace.

The kernel obeys a command only for connections that began while `net.mptcp.path_manager` was "userspace"
in that namespace, and only from whoever has CAP_NET_ADMIN over it. What is commanded is decided elsewhere
(`mptune.linux.path_manager`).
"""

import errno
from types import TracebackType
from typing import Self

from pyroute2.netlink import ctrlmsg, genlmsg

from mptune.errors import TrialError
from mptune.linux import mptcp_messages as messages
from mptune.linux import netlink
from mptune.linux.mptcp_messages import Endpoint, Event, Pair
from mptune.linux.netlink import Refused

_GENL_ID_CTRL = 16  # include/uapi/linux/genetlink.h
_CTRL_CMD_GETFAMILY = 3

#: What a refusal means, by errno; of others the kernel's own words are told.
_MEANING = {
    errno.EPERM: "needs CAP_NET_ADMIN over the network namespace",
    errno.ENOENT: "this kernel has no such netlink family: it needs CONFIG_MPTCP",
    errno.EADDRNOTAVAIL: "the address is on no interface of the namespace",
    errno.ENETUNREACH: "no route leaves from this address",
    errno.EHOSTUNREACH: "no route leads to this address",
    errno.ESRCH: "there is no such subflow",
}


class _Family:
    """A socket that speaks to the family; see the subclasses."""

    def __init__(self, namespace: str | None) -> None:
        self._netlink = netlink.Netlink(namespace, netlink.NETLINK_GENERIC)
        try:
            self._number, self._groups = self._find()
        except BaseException:
            self._netlink.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()

    def _ask(self, name: str, message: genlmsg, kind: int) -> list[bytes]:
        try:
            return self._netlink.request(name, message, kind, 0)
        except Refused as error:
            if error.number not in _MEANING:
                raise
            raise Refused(error.request, error.number, _MEANING[error.number]) from None

    def _find(self) -> tuple[int, dict[str, int]]:
        """Number of the family, and of its multicast groups by name."""
        message = ctrlmsg()
        message["cmd"] = _CTRL_CMD_GETFAMILY
        message["version"] = 1
        message["attrs"] = [("CTRL_ATTR_FAMILY_NAME", messages.FAMILY)]
        answer = ctrlmsg(self._ask(f"netlink family {messages.FAMILY}", message, _GENL_ID_CTRL)[0])
        answer.decode()
        groups = {
            group.get_attr("CTRL_ATTR_MCAST_GRP_NAME"): group.get_attr("CTRL_ATTR_MCAST_GRP_ID")
            for group in answer.get_attr("CTRL_ATTR_MCAST_GROUPS") or []
        }
        return answer.get_attr("CTRL_ATTR_FAMILY_ID"), groups


class Events(_Family):
    """Everything that happens to MPTCP connections in a namespace, from now on.

    Parameters
    ----------
    namespace : its path; None for the present one.

    Raises
    ------
    TrialError : the namespace cannot be entered, or the kernel knows no events of MPTCP.
    """

    def __init__(self, namespace: str | None) -> None:
        super().__init__(namespace)
        try:
            if messages.EVENTS not in self._groups:
                raise TrialError(f"netlink family {messages.FAMILY}: no events: it needs Linux 5.12")
            self._netlink.join(self._groups[messages.EVENTS])
        except BaseException:
            self._netlink.close()
            raise

    def fileno(self) -> int:
        """Descriptor that is readable when there is an event, for poll(2)."""
        return self._netlink.fileno()

    def take(self) -> list[Event]:
        """Events that have arrived, without waiting.

        Raises
        ------
        TrialError : the kernel dropped some.
        """
        parsed = (messages.parse(message) for message in self._netlink.take())
        return [event for event in parsed if event is not None]


class Commands(_Family):
    """Commands for the connections of a namespace; each raises `Refused` when the kernel does.

    Parameters
    ----------
    namespace : its path; None for the present one.

    Raises
    ------
    TrialError : the namespace cannot be entered, or the kernel has no MPTCP.
    """

    def create(
        self, token: int, local: Endpoint, remote: Endpoint, *, address_id: int, backup: bool = False
    ) -> None:
        """Open a subflow; the event that follows tells the local port, or the failure of the join.

        Parameters
        ----------
        local : address it leaves from; without a port the kernel picks one.
        remote : address and port of the receiver.
        address_id : what MP_JOIN calls the local address, the same for every subflow from it; 0 for that
            of the first subflow (RFC 8684 section 3.2).
        backup : join as standby.
        """
        flags = messages.BACKUP if backup else 0
        message = messages.command(
            messages.SUBFLOW_CREATE,
            token=token,
            local=local,
            remote=remote,
            address_id=address_id,
            flags=flags,
        )
        self._do(f"subflow {local.address} to {remote.address}", message)

    def destroy(self, token: int, pair: Pair) -> None:
        """Close a subflow."""
        message = messages.command(
            messages.SUBFLOW_DESTROY, token=token, local=pair.local, remote=pair.remote
        )
        self._do(f"end of subflow {pair.local.address} to {pair.remote.address}", message)

    def set_backup(self, token: int, pair: Pair, backup: bool) -> None:
        """Make a subflow standby or active, here and, by MP_PRIO, at the peer.

        It takes effect for what is handed to the subflow from now on; what it already holds is still sent.
        """
        flags = messages.BACKUP if backup else 0
        message = messages.command(
            messages.SET_FLAGS, token=token, local=pair.local, remote=pair.remote, flags=flags
        )
        self._do(f"priority of subflow {pair.local.address} to {pair.remote.address}", message)

    def announce(self, token: int, address: Endpoint, *, address_id: int) -> None:
        """Tell the peer about an address (ADD_ADDR), which it then may open subflows to."""
        message = messages.command(
            messages.ANNOUNCE, token=token, local=address, address_id=address_id, flags=messages.SIGNAL
        )
        self._do(f"announcement of {address.address}", message)

    def remove(self, token: int, *, address_id: int) -> None:
        """Take an announced address back (REMOVE_ADDR), which ends its subflows."""
        self._do(
            f"removal of address {address_id}",
            messages.command(messages.REMOVE, token=token, removed_id=address_id),
        )

    def _do(self, name: str, message: messages.Command) -> None:
        self._ask(name, message, self._number)
