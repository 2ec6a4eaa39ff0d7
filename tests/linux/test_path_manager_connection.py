"""A managed connection in the hands of an obedient kernel, and of one that is not."""

import dataclasses
import errno
import itertools
import socket
from typing import Any

import pytest

from mptune.errors import InputError
from mptune.linux import addresses
from mptune.linux.assignment import SATURATED, Assignment, KernelPath, Policy, kernel_paths
from mptune.linux.managed import Create, ManagedConnection, SetPriority
from mptune.linux.mptcp_messages import Endpoint, Pair, SubflowEvent
from mptune.linux.sock_diag import Statistics
from mptune.testbeds import ScriptedAction, Trial
from mptune.testbeds.simulated import SimulatedTestbed

MS = 1_000_000
SECOND = 1_000 * MS
KIB = 1024


@dataclasses.dataclass
class Seen:
    """What the kernel tells of a subflow."""

    backup: bool
    timeouts: int = 0
    min_rtt_ns: int = 10 * MS
    silent_ms: int = 0
    acked_bytes: int = 1
    unacked: int = 0


class Kernel:
    """Carries out orders at once, and counts 1 ms per report."""

    def __init__(self, assignment, initial="0-0", *, ipv6=False):
        self.now_ns = 0
        self.orders = []
        self.subflows = {}
        self.ports = itertools.count(40_000)
        self.withdrawn: set[int] = set()
        self.refused = {}
        path = assignment.number(initial, "initial")
        local, remote = assignment.paths[path].pairs[ipv6]
        pair = Pair(Endpoint(local, next(self.ports)), Endpoint(remote, 5001))
        self.subflows[pair] = Seen(backup=False)
        self.assignment = assignment
        self.connection = ManagedConnection(assignment, pair, path, self.withdrawn, 0)

    def establish(self):
        """The connection, and then every subflow that is asked for."""
        self._do(self.connection.on_established(self.seen(), self._tick()))
        return self

    def look(self):
        self._do(self.connection.on_statistics(self.seen(), self._tick()))

    def send(self, sent):
        self._do(self.connection.on_bytes_sent(sent))

    def withdraw(self, *paths):
        self.withdrawn.clear()
        self.withdrawn.update(self.assignment.number(path, "path") for path in paths)
        self._do(self.connection.on_withdrawal())

    def tell(self, kind, pair, error=0):
        event = SubflowEvent(
            kind=kind, token=1, pair=pair, local_id=0, remote_id=0, backup=False, error=error
        )
        self._do(self.connection.on_subflow(event, self.seen(), self._tick()))

    def close(self, path, error=errno.ECONNRESET):
        pair = self.pair(path)
        del self.subflows[pair]
        self.tell("sub_closed", pair, error)

    def seen(self):
        return {pair: Statistics(**dataclasses.asdict(seen)) for pair, seen in self.subflows.items()}

    def pair(self, path):
        number = self.assignment.number(path, "path")
        return next(one.pair for one in self.connection.subflows if one.path == number)

    def __getitem__(self, path):
        return self.subflows[self.pair(path)]

    def standby(self):
        """Paths that are standby in the kernel."""
        subflows = self.connection.subflows
        labels = {one.pair: self.connection.label(one) for one in subflows}
        return {labels[pair] for pair, seen in self.subflows.items() if seen.backup}

    def _tick(self):
        self.now_ns += MS
        return self.now_ns

    def _do(self, orders):
        for order in orders:
            self.orders.append(order)
            if reason := self.refused.get(type(order)):
                self.connection.on_refused(order, reason, self.now_ns)
                continue
            if isinstance(order, SetPriority):
                assert self.subflows[order.pair].backup != order.backup, "it changes nothing"
                self.subflows[order.pair].backup = order.backup
            self.connection.on_done(order, self.now_ns)
        for order in orders:
            if isinstance(order, Create) and Create not in self.refused:
                local = Endpoint(order.local.address, next(self.ports))
                self._join(Pair(local, order.remote), order.backup)

    def _join(self, pair, backup):
        self.subflows[pair] = Seen(backup=backup)
        self.tell("sub_established", pair)


def paths(locals_, remotes):
    return tuple(
        KernelPath(
            label=f"{i}-{j}",
            local=i,
            remote=j,
            pairs=(
                (f"10.64.{i}.1", f"10.65.{j}.1"),
                (f"fd64:0:{i}::1", f"fd65:0:{j}::1"),
            ),
        )
        for i in range(locals_)
        for j in range(remotes)
    )


def pcdc(**options):
    return Assignment(pm="pcdc", paths=paths(2, 2), **{"transfer_bytes": SATURATED, **options})


def creates(kernel):
    return [order for order in kernel.orders if isinstance(order, Create)]


def test_nothing_is_ordered_before_the_connection_is_established():
    kernel = Kernel(Assignment(pm="fullmesh", paths=paths(2, 2)))
    kernel.withdraw("0-0")
    kernel.look()
    assert kernel.orders == []
    kernel.establish()
    assert len(creates(kernel)) == 3
    assert kernel.standby() == {"0-0"}


@pytest.mark.parametrize("ipv6", [False, True])
def test_subflows_are_opened_between_the_addresses_of_their_paths(ipv6):
    kernel = Kernel(Assignment(pm="fullmesh", paths=paths(2, 2)), "1-0", ipv6=ipv6).establish()
    family = socket.AF_INET6 if ipv6 else socket.AF_INET
    assert {order.local.family for order in creates(kernel)} == {family}
    assert {order.remote.port for order in creates(kernel)} == {5001}
    ends = {(order.local.address, order.remote.address) for order in creates(kernel)}
    assert ends == {path.pairs[ipv6] for path in paths(2, 2) if path.label != "1-0"}


def test_an_address_has_one_number_and_the_first_subflows_is_0():
    kernel = Kernel(Assignment(pm="fullmesh", paths=paths(3, 2)), "1-0").establish()
    numbers: dict[str, set[int]] = {}
    for order in creates(kernel):
        numbers.setdefault(order.local.address, set()).add(order.address_id)
    assert numbers["10.64.1.1"] == {0}
    assert len(numbers) == len(set.union(*numbers.values())) == 3


def test_standby_subflows_join_as_such():
    kernel = Kernel(pcdc(active=("0-0", "1-1"))).establish()
    assert kernel.standby() == {"0-1", "1-0"}
    assert all(isinstance(order, Create) for order in kernel.orders)


def test_a_small_transfer_takes_the_path_with_the_smallest_rtt():
    kernel = Kernel(pcdc(transfer_bytes=100 * KIB))
    kernel.subflows[kernel.pair("0-0")].min_rtt_ns = 50 * MS
    kernel.establish()
    # Joined with 10 ms each, the first of them carries the data.
    assert kernel.standby() == {"0-0", "1-0", "1-1"}


def test_the_classes_follow_the_bytes_sent():
    kernel = Kernel(pcdc(transfer_bytes=None)).establish()
    for sent, active in ((1, 1), (512 * KIB - 1, 1), (512 * KIB, 2), (1024 * KIB, 4)):
        kernel.send(sent)
        assert len(kernel.standby()) == 4 - active, sent


def test_three_timeouts_in_a_row_are_a_loss_and_progress_ends_it():
    kernel = Kernel(pcdc(active=("0-0",), standby_order=("1-0", "0-1", "1-1"))).establish()
    for timeouts in (1, 2):
        kernel["0-0"].timeouts = timeouts
        kernel.look()
        assert kernel.standby() == {"0-1", "1-0", "1-1"}
    kernel["0-0"].timeouts = 3
    kernel.look()
    assert kernel.standby() == {"0-1", "1-1"}
    (outage,) = kernel.connection.outages
    assert (outage.path, outage.successors, outage.restored_ns) == ("0-0", ("1-0",), None)
    kernel["0-0"].timeouts = 0
    kernel.look()
    assert kernel.standby() == {"0-1", "1-0", "1-1"}
    assert outage.restored_ns == kernel.now_ns


def test_the_take_over_lasts_from_the_last_sign_of_life_to_data_on_a_successor():
    kernel = Kernel(pcdc(active=("0-0",), standby_order=("1-0",))).establish()
    kernel.now_ns = 10 * SECOND
    kernel["0-0"].timeouts, kernel["0-0"].silent_ms = 3, 1500
    kernel.look()
    heard_ns = kernel.now_ns - 1500 * MS
    (outage,) = kernel.connection.outages
    assert (outage.last_heard_ns, outage.take_over_ns) == (heard_ns, None)
    assert kernel.connection.troubled(kernel.now_ns)
    kernel["0-0"].silent_ms += 1
    kernel["1-0"].unacked = 10
    kernel.look()
    assert outage.take_over_ns is None
    kernel["1-0"].acked_bytes += 1448
    kernel.look()
    assert outage.carrying_ns == kernel.now_ns
    assert outage.take_over_ns == kernel.now_ns - heard_ns
    assert not kernel.connection.troubled(kernel.now_ns)


def test_a_standby_that_the_kernel_used_by_itself_counts_from_then():
    kernel = Kernel(pcdc(active=("0-0",), standby_order=("1-0",))).establish()
    kernel.now_ns = 10 * SECOND
    for timeouts, silent_ms, acked in ((1, 300, 1), (2, 700, 5000), (3, 1500, 9000)):
        kernel["0-0"].timeouts, kernel["0-0"].silent_ms = timeouts, silent_ms
        kernel["1-0"].acked_bytes = acked
        kernel.look()
        if timeouts == 2:
            carrying_ns = kernel.now_ns
    assert kernel.connection.outages[0].carrying_ns == carrying_ns


def test_a_closed_subflow_is_replaced_for_good():
    kernel = Kernel(pcdc(active=("0-0", "0-1"), standby_order=("1-1", "1-0"))).establish()
    kernel.now_ns = 10 * SECOND
    kernel.close("0-1")
    kernel.look()
    assert kernel.standby() == {"1-0"}
    assert [outage.successors for outage in kernel.connection.outages] == [("1-1",)]
    assert kernel.connection.problems == []


def test_joins_that_fail_are_problems_with_their_reasons():
    assignment = Assignment(pm="fullmesh", paths=paths(2, 2))
    kernel = Kernel(assignment)
    kernel.refused[Create] = "no route"
    kernel.establish()
    assert kernel.connection.problems == [f"{path}: no route" for path in ("0-1", "1-0", "1-1")]

    kernel = Kernel(assignment)
    orders = kernel.connection.on_established(kernel.seen(), 1)
    for order, error in zip(orders, (errno.ECONNREFUSED, errno.ETIMEDOUT, 0), strict=True):
        assert isinstance(order, Create)
        kernel.tell("sub_closed", Pair(Endpoint(order.local.address, 9), order.remote), error)
    reasons = kernel.connection.problems
    assert "10.65.1.1: the receiver must listen on all its addresses" in reasons[0]
    assert "timed out" in reasons[1]
    assert "receiver refused" in reasons[2]
    assert {subflow.state for subflow in kernel.connection.subflows[1:]} == {"refused"}


def test_a_subflow_that_ends_with_its_handshake_is_a_problem():
    kernel = Kernel(Assignment(pm="fullmesh", paths=paths(2, 1))).establish()
    kernel.close("1-0", error=0)
    assert "accepts no more" in kernel.connection.problems[0]


def test_a_refused_priority_is_tried_again_and_a_problem_only_if_it_lasts():
    kernel = Kernel(Assignment(pm="fullmesh", paths=paths(2, 1))).establish()
    kernel.refused[SetPriority] = "subflow not found"
    kernel.withdraw("1-0")
    kernel.look()
    assert kernel.connection.problems == []
    assert kernel.connection.troubled(kernel.now_ns)
    kernel.now_ns += SECOND
    kernel.look()
    kernel.look()
    assert kernel.connection.problems == ["1-0: subflow not found"]
    kernel.refused.clear()
    kernel.look()
    assert kernel.standby() == {"1-0"}


def test_a_priority_that_the_kernel_has_otherwise_is_set_again():
    kernel = Kernel(pcdc(active=("0-0",))).establish()
    kernel["1-1"].backup = False
    kernel.look()
    assert kernel.standby() == {"0-1", "1-0", "1-1"}


def test_withdrawal_overrules_the_policy_and_leaves_its_view_alone():
    kernel = Kernel(pcdc(active=("0-0", "0-1"))).establish()
    kernel.withdraw("0-1")
    assert kernel.standby() == {"0-1", "1-0", "1-1"}
    kernel.withdraw("0-1", "0-0")
    # No active one is left: the others are the last resort, the withdrawn ones are not.
    assert kernel.standby() == {"0-0", "0-1"}
    kernel.withdraw()
    assert kernel.standby() == {"1-0", "1-1"}


def test_a_subflow_of_the_peers_is_managed_too():
    kernel = Kernel(pcdc(active=("0-0",))).establish()
    pair = Pair(Endpoint("10.64.1.1", 7), Endpoint("10.65.1.1", 5001))
    kernel._join(pair, False)
    assert kernel.subflows[pair].backup
    count = len(kernel.connection.subflows)
    kernel._join(Pair(Endpoint("192.0.2.1", 7), Endpoint("10.65.1.1", 5001)), False)
    assert len(kernel.connection.subflows) == count


def test_what_an_assignment_cannot_be_is_named():
    for assignment, words in (
        (Assignment(pm="fullmash", paths=paths(1, 1)), "path manager: pm: one of default"),
        (pcdc(active=("9-9",)), "path manager: active: one of 0-0, 0-1, 1-0, 1-1 expected, found '9-9'"),
        (pcdc(ndiffports=0), "path manager: ndiffports: 1 to 64"),
    ):
        with pytest.raises(InputError, match=words):
            Policy(assignment)


def test_the_initial_path_is_the_policys():
    assert Policy(pcdc(active=("1-0", "0-1"))).initial_path("0-0") == "1-0"
    assert Policy(pcdc()).initial_path("0-1") == "0-1"


def test_paths_of_a_topology_have_the_addresses_of_the_namespaces(network):
    found = kernel_paths(network)
    assert [path.label for path in found] == ["A-X", "B-X", "C-X"]
    labels = addresses.paths(network)
    assert all(labels[pair] == path.label for path in found for pair in path.pairs)


@pytest.mark.parametrize(
    ("pm", "options", "transfer_bytes"),
    [
        ("default", {}, None),
        ("fullmesh", {}, None),
        ("ndiffports", {"ndiffports": 3}, None),
        ("binder", {}, None),
        ("pcdc", {"active": ("B-X", "C-X")}, None),
        ("pcdc", {"active": ("A-X", "C-X"), "standby_order": ("B-X",)}, None),
        ("pcdc", {}, 900 * KIB),
        ("pcdc", {"class_bytes": (100, 200)}, 900 * KIB),
    ],
)
def test_the_same_subflows_as_in_the_simulator(network, pm, options, transfer_bytes):
    size: dict[str, Any] = (
        {"duration_ns": 2 * SECOND} if transfer_bytes is None else {"transfer_bytes": transfer_bytes}
    )
    trial = Trial(topology=network, pm=pm, cc="reno", buffer_bytes=1 << 22, seed=1, **size, **options)
    simulated = [(one.path, one.active) for one in SimulatedTestbed().run(trial).subflows]

    assignment = Assignment(
        pm=pm,
        paths=kernel_paths(network),
        transfer_bytes=SATURATED if transfer_bytes is None else transfer_bytes,
        **options,
    )
    kernel = Kernel(assignment, Policy(assignment).initial_path(network.initial_path)).establish()
    subflows = kernel.connection.subflows
    managed = [(kernel.connection.label(one), not kernel.subflows[one.pair].backup) for one in subflows]
    assert managed == simulated


def test_the_same_successor_as_in_the_simulator(network):
    options: dict[str, Any] = {"active": ("A-X",), "standby_order": ("C-X", "B-X")}
    trial = Trial(
        topology=network,
        pm="pcdc",
        cc="reno",
        buffer_bytes=1 << 20,
        seed=1,
        duration_ns=10 * SECOND,
        script=(ScriptedAction(at_ns=SECOND, path="A-X", action="down"),),
        **options,
    )
    last = {one.path: sum(one.bins[-10:]) for one in SimulatedTestbed().run(trial).subflows}
    assert [path for path, carried in last.items() if carried] == ["C-X"]

    assignment = Assignment(pm="pcdc", paths=kernel_paths(network), transfer_bytes=SATURATED, **options)
    kernel = Kernel(assignment, "A-X").establish()
    kernel["A-X"].timeouts = 3
    kernel.look()
    assert kernel.standby() == {"B-X"}
