"""Path managers on the running kernel: which subflows there are, and which of them carry data."""

import time
from contextlib import ExitStack

import pytest

from tests.plugins.path_world import (
    ANNOUNCED,
    BACKUP,
    DADDR4,
    KIB,
    LOC_ID,
    REM_ID,
    REMOVED,
    SADDR4,
    SUB_CLOSED,
    SUB_ESTABLISHED,
    SUB_PRIORITY,
    Listening,
    World,
    ask,
)
from tests.plugins.trials import SILENT
from tests.plugins.waiting import until

pytestmark = pytest.mark.usefixtures("may_manage_paths")


@pytest.mark.parametrize("ipv6", [False, True], ids=["IPv4", "IPv6"])
def test_fullmesh_uses_every_pair_of_interfaces(world, ipv6):
    with world.managed("fullmesh") as managed, world.transfer(ipv6=ipv6):
        pairs = managed.established(4)
        ends = {(pair["local"]["address"], pair["remote"]["address"]) for pair in pairs}
        assert len(ends) == 4
        assert {":" in local for local, _ in ends} == {ipv6}
        until(lambda: min(managed.acked().values()) > 100 * KIB)
        assert managed.standby() == set()
        assert managed.report()["problems"] == []


def test_more_subflows_than_the_kernels_own_path_manager_allows():
    with ExitStack() as stack:
        world = World(4, stack)
        with world.managed("fullmesh") as managed, world.transfer() as transfer:
            managed.established(16)
            transfer.more(1000 * KIB)
            assert managed.report()["problems"] == []


def test_ndiffports_opens_all_subflows_on_the_initial_path(world):
    with world.managed("ndiffports", ndiffports=3) as managed, world.transfer():
        pairs = managed.established(3)
        assert len({pair["local"]["port"] for pair in pairs}) == 3
        until(lambda: all(statistics["acked_bytes"] > 50 * KIB for _, statistics in managed.kernel()))
        assert set(managed.acked()) == {"0-0"}


@pytest.mark.parametrize("honoured", [False, True])
def test_binder_stays_on_the_initial_path_unless_source_routes_are_honoured(world, honoured):
    with world.managed("binder", lsrr_honoured=honoured) as managed, world.transfer():
        managed.established(2)
        until(lambda: all(statistics["acked_bytes"] > 50 * KIB for _, statistics in managed.kernel()))
        assert set(managed.acked()) == ({"0-0", "1-0"} if honoured else {"0-0"})


def test_default_opens_nothing(world):
    with world.managed("default") as managed, world.transfer() as transfer:
        transfer.more(1000 * KIB)
        assert [path for path, _ in managed.kernel()] == ["0-0"]


def test_standby_subflows_of_pcdc_are_established_and_carry_nothing(world):
    options = {"active": ("0-0", "1-1"), "standby_order": ("1-0", "0-1")}
    with world.managed("pcdc", **options) as managed, world.transfer() as transfer:
        managed.established(4)
        transfer.more(2000 * KIB)
        assert managed.standby() == {"0-1", "1-0"}
        acked = managed.acked()
        assert acked["0-1"] + acked["1-0"] < SILENT * 2000 * KIB
        assert min(acked["0-0"], acked["1-1"]) > 100 * KIB


def test_a_small_transfer_takes_a_path_with_a_smaller_rtt_than_the_initial_one():
    with ExitStack() as stack:
        world = World(2, stack)
        with world.managed("pcdc", transfer_bytes=100 * KIB) as managed:
            world.clog(0)
            with world.transfer():
                managed.established(4)
                until(lambda: len(managed.standby()) == 3)
                rtts = {path: statistics["min_rtt_ns"] for path, statistics in managed.kernel()}
                (active,) = rtts.keys() - managed.standby()
    assert active in ("1-0", "1-1")
    assert rtts[active] < rtts["0-0"]


def test_the_classes_of_pcdc_follow_the_bytes_really_sent(world):
    with world.managed("pcdc", transfer_bytes=None) as managed, world.transfer():
        managed.established(4)
        until(lambda: len(managed.standby()) == 3)
        for sent, standby in ((511 * KIB, 3), (512 * KIB, 2), (1024 * KIB, 0)):
            managed.sent(sent)
            until(lambda: len(managed.standby()) == standby)  # noqa: B023 - called at once


def test_a_withdrawn_path_falls_silent_and_comes_back(world):
    with world.managed("fullmesh") as managed, world.transfer() as transfer:
        managed.established(4)
        until(lambda: min(managed.acked().values()) > 100 * KIB)
        managed.do("withdraw", "1-1")
        assert managed.standby() == {"1-1"}
        # What the subflow held is still sent.
        until(lambda: dict(managed.kernel())["1-1"]["unacked"] == 0)
        before = managed.acked()
        transfer.more(2000 * KIB)
        assert managed.acked()["1-1"] - before["1-1"] <= 256 * KIB
        silent = managed.acked()["1-1"]
        transfer.more(2000 * KIB)
        assert managed.acked()["1-1"] <= silent + SILENT * 2000 * KIB
        silent = managed.acked()["1-1"]
        managed.do("readmit", "1-1")
        assert managed.standby() == set()
        until(lambda: managed.acked()["1-1"] > silent + 100 * KIB)
        changes = [(change["path"], change["backup"]) for change in managed.report()["changes"]]
        assert changes == [("1-1", True), ("1-1", False)]


def test_without_an_active_path_the_other_standby_ones_carry_data(world):
    with world.managed("pcdc", active=("0-0",)) as managed, world.transfer() as transfer:
        managed.established(4)
        managed.do("withdraw", "0-0")
        until(lambda: managed.standby() == {"0-0"})
        until(lambda: dict(managed.kernel())["0-0"]["unacked"] == 0)
        transfer.more(1000 * KIB)
        silent = managed.acked()["0-0"]
        transfer.more(1000 * KIB)
        assert managed.acked()["0-0"] <= silent + SILENT * 1000 * KIB
        managed.do("readmit", "0-0")
        assert managed.standby() == {"0-1", "1-0", "1-1"}


def test_the_best_standby_takes_over_from_a_cut_path_and_gives_way_to_it(world):
    options = {"active": ("0-0",), "standby_order": ("1-1", "0-1", "1-0")}
    with world.managed("pcdc", **options) as managed, world.transfer() as transfer:
        managed.established(4)
        transfer.more(500 * KIB)
        with world.cut("0-0"):
            cut_ns = time.monotonic_ns()
            until(lambda: managed.standby() == {"0-1", "1-0"})
            outage = until(
                lambda: next(
                    (outage for outage in managed.report()["outages"] if outage["take_over_ns"]), None
                )
            )
            transfer.more(1000 * KIB)
        assert (outage["path"], outage["successors"]) == ("0-0", ["1-1"])
        assert outage["last_heard_ns"] < outage["carrying_ns"]
        assert cut_ns < outage["carrying_ns"] < time.monotonic_ns()
        assert outage["take_over_ns"] == outage["carrying_ns"] - outage["last_heard_ns"]
        until(lambda: managed.standby() == {"0-1", "1-0", "1-1"})
        (outage,) = managed.report()["outages"]
        assert outage["restored_ns"] > outage["detected_ns"]
        before = managed.acked()["0-0"]
        until(lambda: managed.acked()["0-0"] > before + 500 * KIB)


def test_a_subflow_that_the_receiver_ends_is_replaced(world):
    options = {"active": ("0-0", "0-1"), "standby_order": ("1-1", "1-0")}
    with (
        Listening(world.sites.remote) as receiver,
        world.managed("pcdc", **options) as managed,
        world.transfer() as transfer,
    ):
        joins = [receiver.next(SUB_ESTABLISHED) for _ in range(3)]
        managed.established(4)
        transfer.more(500 * KIB)
        receiver.destroy(next(join for join in joins if join.address(DADDR4) == "10.64.0.1"))
        until(lambda: managed.standby() == {"1-0"})
        (outage,) = managed.report()["outages"]
        assert (outage["path"], outage["successors"]) == ("0-1", ["1-1"])
        transfer.more(1000 * KIB)
        assert "0-1" not in managed.acked()


def test_an_address_that_the_receiver_removes_is_replaced_until_it_is_back(world):
    options = {"active": ("0-0", "0-1"), "standby_order": ("1-0", "1-1")}
    with world.managed("pcdc", **options) as managed, world.transfer() as transfer:
        managed.established(4)
        transfer.more(500 * KIB)
        managed.receiver.tell({"action": "remove", "address": "10.65.1.1"})
        managed.established(2)
        until(lambda: managed.standby() == set())
        outages = {outage["path"]: outage["successors"] for outage in managed.report()["outages"]}
        assert outages["0-1"] == ["1-0"]
        transfer.more(1000 * KIB)
        assert set(managed.acked()) == {"0-0", "1-0"}
        managed.receiver.tell({"action": "add", "address": "10.65.1.1"})
        managed.established(4)
        until(lambda: managed.standby() == {"1-0", "1-1"})
        transfer.more(1000 * KIB)
        assert managed.report()["problems"] == []
        assert ask(managed.receiver)["problems"] == []


def test_both_kernels_hear_of_standby_priorities_and_addresses(world):
    options = {"active": ("0-0",), "standby_order": ("1-0", "0-1", "1-1")}
    with (
        Listening(world.sites.local) as sender,
        Listening(world.sites.remote) as receiver,
        world.managed("pcdc", **options) as managed,
        world.transfer() as transfer,
    ):
        joins = [receiver.next(SUB_ESTABLISHED) for _ in range(3)]
        assert [join.number(BACKUP) for join in joins] == [1, 1, 1]
        ids = {join.number(LOC_ID) for join in joins if join.address(SADDR4) == "10.65.1.1"}
        (address_id,) = ids
        managed.established(4)
        transfer.more(100 * KIB)
        managed.do("withdraw", "0-0")
        changes = [receiver.next(SUB_PRIORITY) for _ in range(4)]
        active = {change.address(DADDR4) for change in changes if not change.number(BACKUP)}
        assert [change.number(BACKUP) for change in changes].count(1) == 1 and active == {
            "10.64.0.1",
            "10.64.1.1",
        }

        managed.receiver.tell({"action": "remove", "address": "10.65.1.1"})
        assert sender.next(REMOVED).number(REM_ID) == address_id
        ends = {sender.next(SUB_CLOSED).address(DADDR4) for _ in range(2)}
        assert ends == {"10.65.1.1"}
        managed.receiver.tell({"action": "add", "address": "10.65.1.1"})
        announced = sender.next(ANNOUNCED)
        assert (announced.number(REM_ID), announced.address(DADDR4)) == (address_id, "10.65.1.1")
        again = [sender.next(SUB_ESTABLISHED) for _ in range(2)]
        assert {(message.number(REM_ID), message.address(DADDR4)) for message in again} == {
            (address_id, "10.65.1.1")
        }
        assert ask(managed.receiver)["accepted"] == len(managed.reports()) == 1


@pytest.mark.parametrize("ipv6", [False, True], ids=["IPv4", "IPv6"])
def test_a_path_whose_address_is_removed_loses_its_subflow_and_gets_it_back(world, ipv6):
    with world.managed("fullmesh") as managed, world.transfer(ipv6=ipv6) as transfer:
        managed.established(4)
        transfer.more(500 * KIB)
        managed.do("remove", "0-0")
        assert set(managed.acked()) == {"0-1", "1-0", "1-1"}
        transfer.more(1000 * KIB)
        managed.do("remove", "1-1")
        transfer.more(1000 * KIB)
        managed.do("add", "0-0")
        managed.established(3)
        until(lambda: managed.acked()["0-0"] > 100 * KIB)
        assert set(managed.acked()) == {"0-0", "0-1", "1-0"}
        outages = managed.report()["outages"]
        assert [outage["path"] for outage in outages] == ["0-0", "1-1"]
        assert [outage["restored_ns"] is None for outage in outages] == [False, True]
        assert managed.report()["problems"] == []


def test_two_connections_at_once_are_managed_apart(world):
    with world.managed("fullmesh") as managed:
        with world.transfer() as first:
            managed.established(4)
            with world.transfer() as second:
                until(lambda: len(managed.reports()) == 2)
                managed.established(4)
                for transfer in (first, second):
                    transfer.more(200 * KIB)
            until(lambda: managed.reports()[1]["closed_ns"] is not None)
            assert managed.reports()[0]["closed_ns"] is None
            first.more(200 * KIB)
        until(lambda: managed.reports()[0]["closed_ns"] is not None)
        assert [report["problems"] for report in managed.reports()] == [[], []]


def test_with_a_port_only_connections_to_it_are_managed(world):
    with (
        world.managed("fullmesh", ports=[5_999]) as managed,
        world.transfer(port=5_998) as other,
        world.transfer(port=5_999),
    ):
        managed.established(4)
        other.more(200 * KIB)
        assert len(managed.reports()) == 1
        assert ask(managed.receiver)["accepted"] == 1
