"""Path management of the kernel's connections by a policy of the core.

`KernelPathManager` watches one network namespace from a thread, by the kernel's events and a look at the
subflows every 100 ms, and carries out what the policy wants for every connection opened from there. It
decides nothing: `mptune.linux.managed` translates, the policies are Rust. `mptune.linux.path_manager` is
the same as a process.
"""

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from mptune.errors import MptuneError, TrialError
from mptune.linux import sysctls
from mptune.linux.assignment import Assignment, Policy
from mptune.linux.managed import ManagedConnection, Order, SetPriority
from mptune.linux.managed_report import ConnectionReport, report
from mptune.linux.mptcp_messages import ConnectionClosed, ConnectionEvent, Event, Pair, SubflowEvent
from mptune.linux.mptcp_netlink import Commands, Events
from mptune.linux.netlink import Refused, inside
from mptune.linux.path_lookup import find_path
from mptune.linux.sock_diag import SockDiag, Statistics

#: Between two looks at the subflows, milliseconds; and while one is in trouble, for the take-over time.
_LOOK_MS = 100
_CLOSE_LOOK_MS = 20

#: Longest time the thread may take to end, seconds.
_END_S = 5.0


class KernelPathManager:
    """Runs a policy for every connection that is opened from a namespace after `start`.

    A context manager; or `start`, then `stop`, which raises what went wrong in between. All methods may be
    called from any thread.

    Parameters
    ----------
    sender : path of the data sender's network namespace ("/proc/<pid>/ns/net"); None for the present one.
        `net.mptcp.path_manager` must be "userspace" there.
    receiver : path of the receiver's, if it is on this machine: something has to listen to its events for
        the kernel to accept more than its own path manager would (8 further subflows at most).

    Raises
    ------
    InputError : the assignment names no policy, or paths that are not there.
    """

    def __init__(self, assignment: Assignment, *, sender: str | None, receiver: str | None = None) -> None:
        Policy(assignment)
        self._assignment = assignment
        self._sender, self._receiver = sender, receiver
        self._withdrawn: set[int] = set()
        self._live: dict[int, ManagedConnection] = {}
        self._all: list[ManagedConnection] = []
        self._glance: dict[Pair, Statistics] | None = None
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()
        if error is None:
            self._raise_failure()

    def start(self) -> None:
        """Begin to watch.

        Raises
        ------
        TrialError : a namespace cannot be entered, or its kernel settings do not allow path management.
        """
        try:
            for side, namespace in (("sender", self._sender), ("receiver", self._receiver)):
                if side == "sender" or namespace is not None:
                    _check_settings(side, namespace)
            self._events = self._held.enter_context(Events(self._sender))
            self._commands = self._held.enter_context(Commands(self._sender))
            self._diag = self._held.enter_context(SockDiag(self._sender))
            if self._receiver is not None:
                self._held.enter_context(Events(self._receiver))
            self._wake, self._failed = self._signal(), self._signal()
        except BaseException:
            self._held.close()
            raise
        self._thread = threading.Thread(target=self._run, name="mptune path manager", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the sockets; connections keep their subflows.

        Raises
        ------
        TrialError : path management had failed before.
        """
        self._release()
        self._raise_failure()

    def on_bytes_sent(self, sent: int) -> None:
        """So many payload bytes of the connection were really sent: the classes of pcdc follow them.

        Raises
        ------
        TrialError : path management has failed.
        """
        self._each(lambda connection: connection.on_bytes_sent(sent))

    def withdraw(self, path: str) -> None:
        """Take a path out of service: its subflows become standby until `readmit`.

        When it returns the kernel has switched, and MP_PRIO is on its way to the peer; only a subflow whose
        join is just ending may follow some looks later. Data that a subflow holds already is still sent.

        Raises
        ------
        InputError : there is no such path.
        TrialError : path management has failed.
        """
        self._set_withdrawn(path, True)

    def readmit(self, path: str) -> None:
        """Put a withdrawn path back into service.

        Raises
        ------
        InputError : there is no such path.
        TrialError : path management has failed.
        """
        self._set_withdrawn(path, False)

    def fileno(self) -> int:
        """Descriptor that becomes readable when path management fails, for select(2)."""
        return self._failed

    def report(self) -> tuple[ConnectionReport, ...]:
        """Every connection so far, in the order of creation."""
        with self._lock:
            return tuple(report(connection) for connection in self._all)

    # The thread

    def _run(self) -> None:
        try:
            self._watch()
        except BaseException as error:
            self._failure = error
            os.eventfd_write(self._failed, 1)

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._events, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        look_at_ns = time.monotonic_ns()
        while True:
            wait_ms = max(0, (look_at_ns - time.monotonic_ns()) // 1_000_000 + 1) if self._live else None
            ready = {descriptor for descriptor, _ in poll.poll(wait_ms)}
            if self._wake in ready:
                return
            with self._lock:
                self._glance = None
                if self._events.fileno() in ready:
                    for event in self._events.take():
                        self._on_event(event)
                if time.monotonic_ns() >= look_at_ns:
                    self._look()
                    look_at_ns = time.monotonic_ns()
                    troubled = any(one.troubled(look_at_ns) for one in self._live.values())
                    look_at_ns += (_CLOSE_LOOK_MS if troubled else _LOOK_MS) * 1_000_000

    def _on_event(self, event: Event) -> None:
        if isinstance(event, ConnectionEvent):
            self._on_connection(event)
        elif isinstance(event, ConnectionClosed):
            closed = self._live.pop(event.token, None)
            if closed is not None:
                closed.on_closed(time.monotonic_ns())
        elif isinstance(event, SubflowEvent) and event.token in self._live:
            connection = self._live[event.token]
            self._carry_out(event.token, connection.on_subflow(event, self._seen(), time.monotonic_ns()))

    def _on_connection(self, event: ConnectionEvent) -> None:
        now_ns = time.monotonic_ns()
        if event.kind == "created":
            path = None if event.server_side else find_path(self._assignment.paths, event.pair)
            if path is not None:
                connection = ManagedConnection(self._assignment, event.pair, path, self._withdrawn, now_ns)
                self._live[event.token] = connection
                self._all.append(connection)
        elif event.token in self._live:
            orders = self._live[event.token].on_established(self._seen(), now_ns)
            self._carry_out(event.token, orders)

    def _look(self) -> None:
        """See how the subflows of all connections are doing."""
        if not self._live:
            return
        seen, now_ns = self._seen(), time.monotonic_ns()
        for token, connection in self._live.items():
            self._carry_out(token, connection.on_statistics(seen, now_ns))

    def _seen(self) -> dict[Pair, Statistics]:
        """All subflows, looked at once for everything that is due at the same time."""
        if self._glance is None:
            families = {connection.family for connection in self._live.values()}
            self._glance = self._diag.established(sorted(families))
        return self._glance

    def _carry_out(self, token: int, orders: list[Order]) -> None:
        connection = self._live[token]
        if orders:
            self._glance = None
        for order in orders:
            try:
                if isinstance(order, SetPriority):
                    self._commands.set_backup(token, order.pair, order.backup)
                else:
                    self._commands.create(
                        token,
                        order.local,
                        order.remote,
                        address_id=order.address_id,
                        backup=order.backup,
                    )
            except Refused as error:
                connection.on_refused(order, str(error), time.monotonic_ns())
            else:
                connection.on_done(order, time.monotonic_ns())

    # The callers' side

    def _each(self, act: Callable[[ManagedConnection], list[Order]]) -> None:
        with self._lock:
            self._raise_failure()
            for token, connection in self._live.items():
                self._carry_out(token, act(connection))

    def _set_withdrawn(self, path: str, withdrawn: bool) -> None:
        number = self._assignment.number(path, "path")
        with self._lock:
            (self._withdrawn.add if withdrawn else self._withdrawn.discard)(number)
        self._each(ManagedConnection.on_withdrawal)

    def _signal(self) -> int:
        descriptor = os.eventfd(0, os.EFD_CLOEXEC)
        self._held.callback(os.close, descriptor)
        return descriptor

    def _raise_failure(self) -> None:
        if self._failure is not None:
            expected = isinstance(self._failure, (MptuneError, OSError))
            reason = str(self._failure) if expected else repr(self._failure)
            raise TrialError(reason) from self._failure

    def _release(self) -> None:
        if self._thread is None:
            return
        os.eventfd_write(self._wake, 1)
        self._thread.join(_END_S)
        if self._thread.is_alive():
            raise TrialError(f"the path manager's thread does not end within {_END_S:g} s")
        self._thread = None
        self._held.close()


def _check_settings(side: str, namespace: str | None) -> None:
    """The userspace path manager must be chosen before the connection begins."""
    name, value = inside(namespace, _chosen)
    if value not in ("userspace", "1"):
        raise TrialError(f"{name} in the {side}'s namespace: userspace (1) expected, found {value}")


def _chosen() -> tuple[str, str | None]:
    """The setting, by the name it has on this kernel: `path_manager` since Linux 6.15."""
    name = "net.mptcp.path_manager"
    value = sysctls.read(name)
    return (name, value) if value is not None else ("net.mptcp.pm_type", sysctls.read("net.mptcp.pm_type"))
