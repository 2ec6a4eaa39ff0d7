"""Stacks: what they are called, what a testbed with one of them refuses, and that they differ."""

import msgspec
import pytest

from mptune.testbeds import create, names
from mptune.trial import Bulk, Trial, stacks
from mptune.trial.stacks import DEFAULT_STACK, MEMBERS, STACKS, VERSION_0_1, describe, refusal, title


def members(stack, **changes):
    return msgspec.structs.asdict(STACKS[stack]) | changes


def test_a_trial_that_names_no_stack_has_the_default_one(network):
    plain = Trial(
        topology=network, pm="fullmesh", cc="reno", buffer_bytes=2**20, seed=1, workload=Bulk(duration_ns=1)
    )
    assert plain.members == members(DEFAULT_STACK) and set(MEMBERS) == set(plain.members)


@pytest.mark.parametrize("stack", STACKS)
def test_members_are_names_that_the_core_knows(stack):
    assert STACKS[stack].scheduler in names("schedulers")
    assert STACKS[stack].accounting in names("accountings")
    assert describe(members(stack)) == stack


def test_what_differs_from_the_nearest_stack_is_named():
    assert describe(members("linux", tso=True)) == "linux with tso on"
    assert describe(members("v0.9x", opportunistic=False)) == "v0.9x with opportunistic off"
    assert describe(msgspec.structs.asdict(VERSION_0_1)) == "linux with scheduler minrtt, accounting payload"
    assert title(members("linux"), "7.1") == "Linux 7.1's MPTCP"
    assert title(members("v0.9x", scheduler="ecf")) == "MPTCP v0.9x with scheduler ecf"


def test_another_release_is_one_line(monkeypatch):
    older = msgspec.structs.replace(STACKS["linux"], scheduler="minrtt")
    monkeypatch.setattr(stacks, "STACKS", {**STACKS, "linux-6.1": older})
    assert describe(msgspec.structs.asdict(older)) == "linux-6.1"
    assert title(msgspec.structs.asdict(older)) == "Linux 6.1's MPTCP"
    assert title(members("linux")) == f"Linux {stacks.LINUX_VERSION}'s MPTCP"


def test_a_testbed_with_one_stack_refuses_others_by_name_and_single_members_by_theirs():
    assert refusal(members("linux"), "linux", "x") is None
    assert refusal(members("v0.9x"), "linux", "x") == (
        "stack",
        "expected linux, the only one of the testbed x, found v0.9x",
    )
    assert refusal(members("linux", opportunistic=True), "linux", "x") == (
        "opportunistic",
        "expected off, the only one of the testbed x, found on",
    )


def test_a_kernel_can_be_set_to_do_without_ecn():
    plain = members("linux", ecn=False)
    assert refusal(plain, "linux", "x") is None
    assert describe(plain) == "linux with ecn off"
    refused = refusal(members("linux", ecn=False, tso=True), "linux", "x")
    assert refused is not None and refused[0] == "tso"


def test_the_stack_decides_where_a_small_buffer_meets_unlike_paths(network):
    """Linux charges memory instead of payload, and gives slow subflows data: less comes through."""
    slow = msgspec.structs.replace(network.paths[1].core, forward_ns=100_000_000, reverse_ns=100_000_000)
    paths = list(network.paths)
    paths[1] = msgspec.structs.replace(paths[1], core=slow)
    unlike = msgspec.structs.replace(network, paths=tuple(paths))
    settings = {
        name: create("simulated").run(
            Trial(
                topology=unlike,
                pm="fullmesh",
                cc="reno",
                buffer_bytes=192 << 10,
                seed=1,
                workload=Bulk(duration_ns=5 * 10**9),
                **members(name),
            )
        )
        for name in STACKS
    }
    assert settings["linux"].throughput_bps < 0.8 * settings["v0.9x"].throughput_bps
