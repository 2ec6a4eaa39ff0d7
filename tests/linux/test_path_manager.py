"""Subflows that come up between two ends, reasons for the others, and lines that mend them, by hand.

That the kernel does the same is tests/kernel/test_prediction.py's matter.
"""

import itertools
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mptune.linux.path_manager import End, Endpoint, Limits, Network, commands, end_of, mend, predict
from mptune.linux.path_manager.commands import after
from mptune.linux.path_manager.nearest import FLAGS, Endpoints, Use, used
from mptune.linux.path_manager.prediction import because

OURS = ("10.0.0.2", "10.1.0.2", "10.2.0.2")
THEIRS = ("192.0.2.1", "198.51.100.1", "203.0.113.1")
FIRST = (OURS[0], THEIRS[0])
AMPLE = Limits(subflows=8, add_addr_accepted=8)


def end(addresses=OURS, *endpoints, limits=AMPLE, **more):
    """An end whose endpoints are pairs of an address and flags."""
    made = tuple(
        Endpoint(address=address, flags=tuple(flags.split()), id=number)
        for number, (address, flags) in enumerate(endpoints, 1)
    )
    return End(addresses=addresses, endpoints=made, limits=limits, **more)


def server(*endpoints, **more):
    return end(THEIRS, *endpoints, **more)


def pairs(prediction):
    return [(one.client, one.server) for one in prediction.subflows]


def reason(client, other, pair, network=None):
    network = network or Network()
    return because(client, other, FIRST, pair, network, predict(client, other, FIRST, network))


# ---- what comes up --------------------------------------------------------------------------------


def test_the_limits_of_both_ends_count():
    client = end(OURS, (OURS[1], "subflow"), (OURS[2], "subflow"))
    assert pairs(predict(client, server(), FIRST)) == [FIRST, (OURS[1], THEIRS[0]), (OURS[2], THEIRS[0])]
    for ours, theirs in ((1, 8), (8, 1)):
        limited = msgspec.structs.replace(client, limits=Limits(subflows=ours))
        found = predict(limited, server(limits=Limits(subflows=theirs)), FIRST)
        assert found.numbers == (2,)


def test_an_announced_address_takes_an_end_that_listens_to_it():
    client, other = end(limits=Limits()), server((THEIRS[1], "signal"))
    assert predict(client, other, FIRST).numbers == (1,)
    assert "add_addr_accepted 0" in reason(client, other, (OURS[0], THEIRS[1]))
    assert pairs(predict(end(), other, FIRST)) == [FIRST, (OURS[0], THEIRS[1])]


def test_a_server_that_forbids_joins_to_its_first_address_is_joined_at_others_alone():
    """The client's endpoints go to the announced address although it accepts none (Linux 6.18)."""
    client = end(OURS, (OURS[1], "subflow"), limits=Limits())
    barred = server(joins=False)
    assert predict(client, barred, FIRST).numbers == (1,)
    assert "allow_join_initial_addr_port" in reason(client, barred, (OURS[1], THEIRS[0]))
    announcing = server((THEIRS[1], "signal"), joins=False)
    assert pairs(predict(client, announcing, FIRST)) == [FIRST, (OURS[1], THEIRS[1])]
    older = msgspec.structs.replace(client, release=(6, 12))
    assert predict(older, announcing, FIRST).numbers == (1,)


def test_what_a_server_opens_by_itself_is_refused_and_may_take_the_place_of_a_join():
    """net-next 331, 587: an endpoint subflow of the server goes to a port at which nobody listens."""
    client = end(OURS, (OURS[1], "subflow"))
    other = server((THEIRS[1], "subflow"), limits=Limits(subflows=1))
    found = predict(client, other, FIRST)
    assert found.numbers == (1, 2) and pairs(found) == [FIRST, (OURS[1], THEIRS[0])]
    assert "nothing listens" in reason(client, other, (OURS[0], THEIRS[1]))


def test_a_port_of_the_clients_own_is_where_a_server_can_join():
    listening = Endpoint(address=OURS[1], flags=("signal",), id=1, port=4000)
    client = End(addresses=OURS, endpoints=(listening,), limits=AMPLE)
    found = predict(client, server(), FIRST)
    # None while the program has not accepted the connection.
    assert found.numbers == (1, 2)
    assert [(one.client, one.opener) for one in found.subflows] == [(OURS[0], "client"), (OURS[1], "server")]


def test_an_address_behind_nat_is_reached_at_its_outer_one_alone():
    """net-next 337: what the server announces has to be what the client can reach."""
    outside = {"10.9.0.5": "192.0.2.1", "10.9.1.5": "198.51.100.1"}
    lost = Network(blocked={(OURS[0], "10.9.1.5"): "lost"})
    wrong = end(tuple(outside), ("10.9.1.5", "signal"), outside=outside)
    assert predict(end(), wrong, FIRST, lost).numbers == (1,)
    wanted = (OURS[0], "10.9.1.5")
    assert "10.9.1.5, which is not reached from outside" in reason(end(), wrong, wanted, lost)
    mended = mend(end(), wrong, FIRST, {wanted}, lost)
    assert commands(mended.server, wrong) == ["ip mptcp endpoint add 198.51.100.1 signal"]
    assert pairs(mended.prediction) == [(OURS[0], "10.9.0.5"), wanted]


def test_what_is_lost_in_silence_keeps_its_place_within_the_limit():
    client = end(OURS, (OURS[1], "subflow"), (OURS[2], "subflow"), limits=Limits(subflows=1))
    lost = Network(blocked={(OURS[1], THEIRS[0]): "a firewall drops it"})
    assert predict(client, server(), FIRST, lost).numbers == (1,)
    assert reason(client, server(), (OURS[1], THEIRS[0]), lost) == "a firewall drops it"
    assert "limit of 1 subflow" in reason(client, server(), (OURS[2], THEIRS[0]), lost)


def test_addresses_of_another_family_need_a_socket_of_ipv6():
    client = end((*OURS, "2001:db8::2"), ("2001:db8::2", "subflow fullmesh"))
    other = end((*THEIRS, "2001:db8:1::1"), ("2001:db8:1::1", "signal"))
    assert predict(client, other, FIRST).numbers == (1,)
    both = predict(client, other, FIRST, Network(dual=True))
    assert pairs(both) == [FIRST, ("2001:db8::2", "2001:db8:1::1")]


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ({"enabled": False}, {}, "MPTCP is off at the client"),
        ({}, {"enabled": False}, "MPTCP is off at the server"),
        ({"managed": False}, {}, "does not manage paths at the client"),
        ({"limits": Limits(subflows=0)}, {}, "the client's limit is 0"),
        ({}, {"managed": False}, "the kernel does not manage paths there"),
    ],
)
def test_what_is_off_is_named(ours, theirs, words):
    client = end(OURS, (OURS[1], "subflow"), **ours)
    other = server(**theirs)
    assert predict(client, other, FIRST).numbers == (1,)
    assert words in reason(client, other, (OURS[1], THEIRS[0]))


def test_endpoints_laminar_answer_one_announcement_each():
    """net-next 503."""
    told = [(address, "signal") for address in THEIRS[1:]]
    client = end(OURS, (OURS[1], "laminar"), (OURS[2], "laminar"))
    assert pairs(predict(client, server(*told), FIRST)) == [FIRST, (OURS[1], THEIRS[1]), (OURS[2], THEIRS[2])]
    one = end(OURS, (OURS[1], "laminar"))
    assert pairs(predict(one, server(*told), FIRST)) == [FIRST, (OURS[1], THEIRS[1])]


@given(st.data())
def test_the_short_form_for_ample_limits_says_the_same(data):
    """`nearest.used`, with which sets of endpoints are compared."""
    uses = data.draw(st.tuples(*[st.sampled_from(get_args(Use))] * 3))
    announced = data.draw(st.sampled_from([(), (1,), (2,), (1, 2)]))
    short = used(Endpoints((0, 0), uses, announced))
    client = end(OURS, *((OURS[at], " ".join(FLAGS[use])) for at, use in enumerate(uses) if use != "none"))
    found = predict(client, server(*((THEIRS[at], "signal") for at in announced)), FIRST)
    expected = {
        ((OURS[pair[0]], THEIRS[pair[1]]), pair in short.standby) for pair in (*short.active, *short.standby)
    }
    assert {((one.client, one.server), one.backup) for one in found.subflows} == expected


# ---- what mends it --------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.data())
def test_the_lines_give_every_path_whatever_was_set_before(data):
    def drawn(addresses, flags):
        chosen = data.draw(
            st.lists(st.tuples(st.sampled_from(addresses), st.sampled_from(flags)), max_size=3)
        )
        limits = Limits(subflows=data.draw(st.integers(0, 3)), add_addr_accepted=data.draw(st.integers(0, 2)))
        return end(addresses, *dict(chosen).items(), limits=limits)

    client = drawn(OURS[:2], ("subflow", "subflow fullmesh", "signal", "subflow backup"))
    other = drawn(THEIRS[:2], ("signal", "subflow", "signal subflow"))
    wanted = set(itertools.product(OURS[:2], THEIRS[:2]))
    mended = mend(client, other, FIRST, wanted)
    assert wanted <= mended.prediction.surely
    changed = after(client, mended.client), after(other, mended.server)
    assert predict(*changed, FIRST).surely == mended.prediction.surely
    for before, rows, now in zip((client, other), (mended.client, mended.server), changed, strict=True):
        assert commands(rows, now) == []
        assert (commands(rows, before) == []) == (before == now)


def test_what_is_there_already_needs_no_line():
    client = end(OURS, (OURS[1], "subflow"))
    mended = mend(client, server(), FIRST, {FIRST, (OURS[1], THEIRS[0])})
    assert (mended.client, mended.server) == ((), ())


def test_lines_change_what_can_be_changed_and_add_the_rest():
    wanted = set(itertools.product(OURS[:2], THEIRS[:2]))
    client = end(OURS, (OURS[1], "subflow"), limits=Limits())
    mended = mend(client, server(), FIRST, wanted, devices={OURS[0]: "eth0", OURS[1]: "eth1"})
    assert commands(mended.client, client) == [
        "ip mptcp endpoint add 10.0.0.2 dev eth0 subflow fullmesh",
        "ip mptcp endpoint change id 1 fullmesh",
        "ip mptcp limits set subflows 3 add_addr_accepted 1",
    ]
    assert commands(mended.server, server()) == ["ip mptcp endpoint add 198.51.100.1 signal"]


@pytest.mark.parametrize(("subflows", "endpoints", "number"), [(8, 8, 9), (64, 255, 12)])
def test_lines_ask_for_as_much_as_the_kernels_take(subflows, endpoints, number):
    many = tuple(f"10.{index}.0.2" for index in range(12))
    takes = {"most_subflows": subflows, "most_endpoints": endpoints, "limits": Limits()}
    wanted = {(address, THEIRS[0]) for address in many}
    mended = mend(end(many, **takes), server(**takes), (many[0], THEIRS[0]), wanted)
    assert mended.prediction.numbers == (number,)
    assert [row["subflows"] for row in mended.server] == [number - 1]


def test_settings_that_are_off_come_first():
    off = server(enabled=False, managed=False, joins=False, limits=Limits())
    client = end(OURS, (OURS[1], "subflow"), managed=False, release=(6, 12))
    mended = mend(client, off, FIRST, {FIRST, (OURS[1], THEIRS[0])})
    assert commands(mended.client, client) == ["sysctl -w net.mptcp.pm_type=0"]
    assert commands(mended.server, off) == [
        "sysctl -w net.mptcp.enabled=1",
        "sysctl -w net.mptcp.path_manager=kernel",
        "sysctl -w net.mptcp.allow_join_initial_addr_port=1",
    ]


# ---- what a host reports --------------------------------------------------------------------------


def test_an_end_is_read_from_what_its_agent_reports():
    row = {"address": "10.0.0.2", "id": 4, "port": 0, "flags": ["subflow"], "device": "eth0"}
    looked = {
        "kernel": "7.3.4+deb14-amd64",
        "sysctls": {"net.mptcp.enabled": "1", "net.mptcp.path_manager": "userspace"},
        "endpoints": [row],
        "limits": {"subflows": 2, "add_addr_accepted": 0},
        "most": {"endpoints": 255, "subflows": 64},
    }
    found = end_of(looked, OURS)
    assert found is not None and found.release == (7, 3) and found.has_laminar and not found.managed
    assert found.joins and found.limits == Limits() and found.most_subflows == 64
    assert found.endpoints == (Endpoint(address="10.0.0.2", flags=("subflow",), id=4, device="eth0"),)
    assert end_of({**looked, "endpoints": None}, OURS) is None
