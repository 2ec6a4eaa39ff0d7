"""One connection between two ends, event by event, as the kernel's path manager of each treats it.

The rules are those of net/mptcp/pm_kernel.c and net/mptcp/pm.c (Linux 6.18 and 7.3; pm_netlink.c before
6.16); each function names the kernel's. No time passes: what is in flight waits in a list, and an *order*
decides what arrives next. Packets on different paths may arrive in any order, so that one question can have
several outcomes (`mptune.linux.path_manager.prediction`).

What is lost in silence keeps its place within the limit, as a SYN is repeated for minutes.
"""

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Literal

import msgspec

from mptune.linux.path_manager.ends import End, Endpoint, Network

Role = Literal["client", "server"]
Kind = Literal["established", "announced", "echoed", "arrives", "joined", "refused"]

#: Room for the subflows that one event opens (MPTCP_PM_ADDR_MAX).
_AT_ONCE = 8


class Join(msgspec.Struct, kw_only=True, eq=False):
    """A subflow, from the SYN on, as who opened it sees it.

    Attributes
    ----------
    local, remote : its own address, and the one that it sends to.
    port : that it sends to; 0 for the one where the connection began.
    local_id, remote_id : numbers of both addresses.
    backup : either end asked for standby.
    fate : "" while it is wanted or there; why not otherwise.
    """

    opener: Role
    local: str
    remote: str
    port: int = 0
    local_id: int = 0
    remote_id: int = 0
    backup: bool = False
    fate: str = ""


class Event(msgspec.Struct, kw_only=True, eq=False):
    """Something in flight to one of the two."""

    kind: Kind
    to: "Half"
    join: Join | None = None
    address: tuple[int, str, int] = (0, "", 0)


#: Takes one event out of those in flight: the number of it.
Order = Callable[[list[Event]], int]


class Half:
    """The path manager of one end of the connection (struct mptcp_pm_data)."""

    def __init__(self, end: End, role: Role, other: End, first: Join, network: Network) -> None:
        self.end, self.role, self.network = end, role, network
        self.flight: list[Event] = []
        self.peer: Half = self
        # As the kernel sees them from here.
        self.local = first.local if role == "client" else end.own(first.remote) or first.remote
        self.remote = first.remote if role == "client" else other.seen(first.local)
        self.endpoints = list(end.endpoints)
        self.free = {endpoint.id for endpoint in self.endpoints}
        self.first_id = 0
        self.accounted = False
        self.announcements = self.accepted = self.used = self.extra = 0
        self.denied = not other.joins
        self.subflows: list[Join] = []
        limit = end.limits.subflows if end.managed else 0
        self.limit, self.limit_accepted = limit, end.limits.add_addr_accepted if limit else 0
        # mptcp_pm_data_reset
        opens = limit > 0 and self.count("subflow") > 0
        self.pending = end.managed and (opens or self.count("signal") > 0)
        self.accepts_addresses = self.limit_accepted > 0
        self.accepts_subflows = limit > 0
        self.first_backup = self.has_heard = False
        # mptcp_subflow_create_socket: nothing can be opened for a connection that no program has accepted.
        self.taken = True

    def count(self, flag: str) -> int:
        """Endpoints with a flag (mptcp_pm_get_endp_signal_max and its like)."""
        return sum(flag in endpoint.flags for endpoint in self.end.endpoints)

    def matches(self, local: str, remote: str) -> bool:
        """mptcp_pm_addr_families_match."""
        versions = {ip_address(local).version, ip_address(remote).version}
        return len(versions) == 1 and (self.network.dual or versions == {ip_address(self.remote).version})

    # Events.

    def take(self, event: Event) -> None:
        """mptcp_pm_kernel_worker, and what leads to it."""
        if event.kind == "arrives":
            assert event.join is not None
            self._arrives(event.join)
        elif event.kind == "refused":
            assert event.join is not None
            self._refused(event.join)
        elif event.kind == "announced":
            self._announced(*event.address)
        elif self.pending:
            self._create()

    def _send(self, kind: Kind, join: Join | None = None, address: tuple[int, str, int] = (0, "", 0)) -> None:
        """Put something in flight to the peer."""
        self.flight.append(Event(kind=kind, to=self.peer, join=join, address=address))

    def _account_first(self) -> None:
        """mptcp_mpc_endpoint_setup."""
        if not self.accounted:
            self.accounted = True
            own = self._endpoint_of(self.local)
            if own is not None:
                self.free.discard(own.id)
                self.first_id = own.id
                self.first_backup = "backup" in own.flags

    def _endpoint_of(self, address: str) -> Endpoint | None:
        """Its endpoint of an address, for the connection's port."""
        of_address = (each for each in self.endpoints if each.address == address and not each.port)
        return next(of_address, None)

    def _available(self, flag: str) -> Endpoint | None:
        """select_local_address, select_signal_address."""
        available = (each for each in self.endpoints if flag in each.flags and each.id in self.free)
        return next(available, None)

    def _create(self) -> None:
        """mptcp_pm_create_subflow_or_signal_addr."""
        self._account_first()
        both: Endpoint | None = None
        if self.announcements < self.count("signal") and (told := self._available("signal")) is not None:
            self.free.discard(told.id)
            self.announcements += 1
            number = 0 if told.id == self.first_id else told.id
            self._send("announced", address=(number, told.address, told.port))
            both = told if "subflow" in told.flags else None
        if not self._is_c_flag():
            while self.used < self.count("subflow") and self.extra < self.limit:
                local, both = both or self._available("subflow"), None
                if local is None:
                    break
                self.free.discard(local.id)
                self.used += local.id != self.first_id
                number = 0 if local.id == self.first_id else local.id
                for join in list(self._targets(local, number)):
                    self._connect(join, local)
        if both is not None and both.id != self.first_id and self.end.mesh_alone:
            self.used += 1
        self._is_pending()

    def _targets(self, local: Endpoint, number: int) -> Iterator[Join]:
        """fill_remote_addresses_vec."""
        if "fullmesh" not in local.flags:
            if not self.denied and self.matches(local.address, self.remote):
                self.extra += 1
                yield self._join(local, number, self.remote, 0)
            return
        known = {self._there(subflow) for subflow in self.subflows if self._here(subflow) == number}
        known |= {0} if number == 0 else set()
        theirs = [(self._there(subflow), self._towards(subflow), subflow.port) for subflow in self.subflows]
        opened = 0
        for remote_id, remote, port in ((0, self.remote, 0), *theirs):
            barred = remote_id in known or (self.denied and not remote_id)
            if barred or not self.matches(local.address, remote):
                continue
            known.add(remote_id)
            self.extra += 1
            opened += 1
            yield self._join(local, number, remote, remote_id, port)
            if self.extra >= self.limit or opened == _AT_ONCE:
                return

    def _towards(self, join: Join) -> str:
        """Address of the peer in a subflow, as it is seen from here."""
        return join.remote if join.opener == self.role else self.peer.end.seen(join.local)

    def _join(self, local: Endpoint, number: int, remote: str, remote_id: int, port: int = 0) -> Join:
        return Join(
            opener=self.role,
            local=local.address,
            remote=remote,
            port=port,
            local_id=number,
            remote_id=remote_id,
            backup="backup" in local.flags,
        )

    def _is_c_flag(self) -> bool:
        """mptcp_pm_add_addr_c_flag_case: who may not join the first address answers one announcement."""
        return (
            self.denied
            and self.used == 0
            and self.end.limits.add_addr_accepted == 0
            and self.extra < self.limit
            and self.end.has_laminar  # the same release
        )

    def _is_pending(self) -> bool:
        """mptcp_pm_nl_check_work_pending."""
        if self.extra == self.limit or not any(endpoint.id in self.free for endpoint in self.endpoints):
            self.pending = False
            return False
        return True

    # Announced addresses.

    def _announced(self, number: int, address: str, port: int) -> None:
        """mptcp_pm_add_addr_received, and mptcp_pm_nl_add_addr_received."""
        self.has_heard = True
        self._send("echoed")
        foreign = number == 0 and address != self.remote
        deaf = number > 0 and not self.accepts_addresses and not self._is_c_flag()
        if foreign or deaf or not self.end.managed:
            return
        self._account_first()
        there = [(self.remote, 0), *((self._towards(subflow), subflow.port) for subflow in self.subflows)]
        if any(
            there_address == address and (not port or there_port == port)
            for there_address, there_port in there
        ):
            return
        joins = list(self._answers(number, address, port))
        opened = [self._connect(join, local) for join, local in joins]
        if any(opened):
            self.accepted += number > 0
            if self.accepted >= self.limit_accepted or self.extra >= self.limit:
                self.accepts_addresses = False

    def _answers(self, number: int, address: str, port: int) -> Iterator[tuple[Join, Endpoint | None]]:
        """fill_local_addresses_vec."""
        c_flag = number > 0 and self._is_c_flag()
        if self.count("fullmesh"):
            meshed = list(self._meshed(number, address, port, c_flag=c_flag))
            if meshed or self.end.mesh_alone:
                yield from meshed
                return
        if self.count("laminar"):
            yield from self._laminar(number, address, port)
        elif c_flag:
            yield from self._unused(number, address, port)
        else:
            local = self.selected(address)
            if local is not None and self.matches(local, address):
                self.extra += 1
                yield Join(opener=self.role, local=local, remote=address, remote_id=number, port=port), None

    def _meshed(
        self, number: int, address: str, port: int, *, c_flag: bool
    ) -> Iterator[tuple[Join, Endpoint]]:
        """fill_local_addresses_vec_fullmesh."""
        opened = 0
        for endpoint in list(self.endpoints):
            if "fullmesh" not in endpoint.flags or not self.matches(endpoint.address, address):
                continue
            if c_flag and "subflow" in endpoint.flags:
                self.free.discard(endpoint.id)
                self.used += endpoint.id != self.first_id
            self.extra += 1
            opened += 1
            yield (
                self._join(
                    endpoint, 0 if endpoint.id == self.first_id else endpoint.id, address, number, port
                ),
                endpoint,
            )
            if self.extra >= self.limit or opened == _AT_ONCE:
                return

    def _laminar(self, number: int, address: str, port: int) -> Iterator[tuple[Join, Endpoint]]:
        """fill_local_laminar_endp."""
        taken = {0, *(self._here(subflow) for subflow in self.subflows)}
        for endpoint in list(self.endpoints):
            own = 0 if endpoint.id == self.first_id else endpoint.id
            if "laminar" in endpoint.flags and own not in taken and self.matches(endpoint.address, address):
                if "subflow" in endpoint.flags:
                    self.free.discard(endpoint.id)
                    self.used += endpoint.id != self.first_id
                self.extra += 1
                # The kernel gives it its own number, also where that is the first address's.
                yield self._join(endpoint, endpoint.id, address, number, port), endpoint
                return

    def _here(self, join: Join) -> int:
        """Number of the own address of a subflow."""
        return join.local_id if join.opener == self.role else join.remote_id

    def _there(self, join: Join) -> int:
        """Number of the peer's address."""
        return join.remote_id if join.opener == self.role else join.local_id

    def _unused(self, number: int, address: str, port: int) -> Iterator[tuple[Join, Endpoint]]:
        """fill_local_addresses_vec_c_flag."""
        opened = 0
        while self.used < self.count("subflow") and (endpoint := self._available("subflow")) is not None:
            self.free.discard(endpoint.id)
            if not self.matches(endpoint.address, address) or endpoint.id == self.first_id:
                continue
            self.used += 1
            self.extra += 1
            opened += 1
            yield self._join(endpoint, endpoint.id, address, number, port), endpoint
            if self.extra >= self.limit or opened == _AT_ONCE:
                return

    def selected(self, remote: str) -> str | None:
        """The own address that routing selects."""
        if remote in self.network.selected:
            return self.network.selected[remote]
        version = ip_address(remote).version
        own = (
            address for address in (self.local, *self.end.addresses) if ip_address(address).version == version
        )
        return next(own, None)

    # Subflows.

    def _connect(self, join: Join, local: Endpoint | None) -> bool:
        """__mptcp_subflow_connect; False if it fails at once."""
        if local is None:
            number = self._number(join.local)
            if number is None:
                return self._failed(join, "no number is left for its own address")
            join.local_id = number
            join.backup = self._is_backup(join.local)
        if not self.taken:
            return self._failed(join, "the program has not accepted the connection yet")
        if join.local not in self.end.addresses:
            return self._failed(join, f"{join.local} is not an address of this end")
        self.subflows.append(join)
        self.attempts.append(join)
        join.fate = self.network.blocked.get((join.local, join.remote), "")
        if not join.fate:
            self._send("arrives", join)
        return True

    attempts: list[Join]

    def _failed(self, join: Join, fate: str) -> bool:
        join.fate = fate
        self.attempts.append(join)
        self._closed()
        return False

    def _number(self, address: str) -> int | None:
        """mptcp_pm_get_local_id: 0 for the first address; without an endpoint it gets one (implicit)."""
        if address == self.local:
            return 0
        known = self._endpoint_of(address)
        if known is not None:
            return known.id
        if len(self.endpoints) >= self.end.most_endpoints:
            return None
        number = max((endpoint.id for endpoint in self.endpoints), default=0) + 1
        self.endpoints.append(Endpoint(address=address, flags=("implicit",), id=number))
        self.free.add(number)
        return number

    def _is_backup(self, address: str) -> bool:
        """mptcp_pm_is_backup: it asks for the address, also of the first one."""
        known = next((endpoint for endpoint in self.endpoints if endpoint.address == address), None)
        return known is not None and "backup" in known.flags

    def _arrives(self, join: Join) -> None:
        """subflow_check_req, and mptcp_pm_allow_new_subflow when the handshake ends."""
        own = self.end.own(join.remote)
        if own is None:
            join.fate = f"{join.remote} is not reached from outside"
            return
        if not self._listens(own, join.port):
            self._refuse(join, "nothing listens at the port from which the connection was opened")
            return
        number = self._number(own)
        if number is None:
            self._refuse(join, f"no number is left for {own}")
        elif not self.accepts_subflows or self.extra >= self.limit:
            self._refuse(join, self._full())
        else:
            self.extra += 1
            self.accepts_subflows = self.extra < self.limit
            join.remote_id = number
            join.backup |= self._is_backup(own)
            self.subflows.append(join)
            self.flight.append(Event(kind="joined", to=self))
            self._send("joined")

    def _full(self) -> str:
        if not self.end.managed:
            return "the kernel does not manage paths there"
        return f"its limit of {self.limit} subflow{'' if self.limit == 1 else 's'} is reached"

    def _listens(self, own: str, port: int) -> bool:
        """The program that accepts, or the kernel for an endpoint with a port."""
        if port:
            return any((endpoint.address, endpoint.port) == (own, port) for endpoint in self.end.endpoints)
        return self.role == "server"

    def _refuse(self, join: Join, fate: str) -> None:
        join.fate = fate
        self._send("refused", join)

    def _refused(self, join: Join) -> None:
        """mptcp_pm_subflow_check_next."""
        self.subflows.remove(join)
        self._closed()
        if self._is_pending():
            self._create()

    def _closed(self) -> None:
        """__mptcp_pm_close_subflow."""
        self.extra -= 1
        if self.extra < self.limit:
            self.accepts_subflows = True


class Connection:
    """Both halves. It begins on `first`: the client's own address, and the server's as the client sees it."""

    def __init__(self, client: End, server: End, first: tuple[str, str], network: Network) -> None:
        join = Join(opener="client", local=first[0], remote=first[1])
        self.client = Half(client, "client", server, join, network)
        self.server = Half(server, "server", client, join, network)
        self.attempts: list[Join] = []
        self._flight: list[Event] = []
        self.client.peer, self.server.peer = self.server, self.client
        for half in (self.client, self.server):
            half.attempts, half.flight = self.attempts, self._flight

    def run(self, order: Order, *, taken: bool = True) -> None:
        """Until nothing is in flight any more.

        Parameters
        ----------
        taken : the program has accepted the connection before the server's kernel opens anything.
        """
        self.server.taken = taken
        for half in (self.client, self.server):
            self._flight.append(Event(kind="established", to=half))
        while self._flight:
            event = self._flight.pop(order(self._flight))
            event.to.take(event)
