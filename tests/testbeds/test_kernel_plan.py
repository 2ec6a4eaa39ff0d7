"""A trial as its processes receive it."""

import msgspec
import pytest

from mptune.errors import InputError
from mptune.linux.addresses import NamedInterface, interfaces
from mptune.linux.assignment import SATURATED
from mptune.testbeds import _kernel_plan
from mptune.testbeds._kernel_plan import links, stall_ns
from mptune.topology import load
from mptune.trial import (
    BIN_NS,
    Bulk,
    Messages,
    Mix,
    Page,
    Part,
    PathParameters,
    Requests,
    ScriptedAction,
    Trial,
    Video,
)
from tests.plugins import two_hosts
from tests.plugins.trials import with_workload

SECOND = 1_000_000_000


@pytest.fixture
def trial(network):
    def make(**changes):
        settings = {
            "topology": network,
            "pm": "pcdc",
            "cc": "olia",
            "buffer_bytes": 2**20,
            "seed": 7,
            "duration_ns": 5 * SECOND,
        }
        return Trial(**with_workload({**settings, **changes}))

    return make


def plan(trial, kernel_cc):
    return _kernel_plan.plan(trial, kernel_cc, interfaces(trial.topology))


def check(trial):
    _kernel_plan.check(trial, "namespaces")


def settings(trial):
    return links(trial, interfaces(trial.topology)).settings


def test_the_initial_path_is_a_pair_of_addresses(trial):
    assert plan(trial(), "olia").initial == ("10.64.0.1", "10.65.0.1")
    assert plan(trial(initial_path="C-X"), "olia").initial == ("10.64.2.1", "10.65.0.1")


def test_over_ipv6_the_connection_begins_and_is_joined_at_ipv6_addresses(trial):
    made = plan(trial(initial_path="C-X", family="ipv6"), "olia")
    assert made.initial == ("fd64:0:2::1", "fd65::1")
    assert (made.address, made.joins) == ("fd65::1", ("fd65::1",))


def test_over_both_families_a_path_has_the_addresses_of_its_own(trial):
    asked = trial(initial_path="C-X/6", pm="fullmesh", family="both")
    made = plan(asked, "olia")
    assert made.initial == ("fd64:0:2::1", "fd65::1")
    assert (made.address, made.joins) == ("fd65::1", ("10.65.0.1", "fd65::1"))
    pairs = {path.label: path.pairs for path in made.assignment.paths}
    assert pairs["C-X"] == (("10.64.2.1", "10.65.0.1"),)
    assert pairs["C-X/6"] == (("fd64:0:2::1", "fd65::1"),)
    assert made.meter["both_families"] and not plan(trial(), "olia").meter["both_families"]


def test_over_one_family_no_path_has_addresses_of_the_other(trial):
    """A connection over IPv6 could have subflows over IPv4."""
    paths = plan(trial(family="ipv6"), "olia").assignment.paths
    assert all(":" in address for path in paths for pair in path.pairs for address in pair)


def test_both_families_need_a_path_of_each(trial):
    asked = trial(pm="fullmesh", family="both")
    only4 = NamedInterface(side="remote", index=0, device="eth0", ipv4="192.0.2.1")
    words = "--family: expected one family, found both: no path has IPv6 addresses at both ends"
    with pytest.raises(InputError, match=words):
        _kernel_plan.plan(asked, "olia", {**interfaces(asked.topology), "remote": (only4,)})


def test_a_receiver_behind_nat_is_reached_at_one_address_and_listens_on_another(trial):
    asked = trial(pm="fullmesh")
    hidden = NamedInterface(
        side="remote", index=0, device="eth0", ipv4="192.168.0.2", public={"ipv4": "192.0.2.1"}
    )
    named = {**interfaces(asked.topology), "remote": (hidden,)}
    made = _kernel_plan.plan(asked, "olia", named)
    assert made.initial == ("10.64.0.1", "192.0.2.1")
    assert (made.address, made.joins) == ("192.168.0.2", ("192.168.0.2",))
    assert made.assignment.paths[2].pairs == (("10.64.2.1", "192.0.2.1"),)


def test_an_interface_without_an_address_of_the_family_is_named(trial):
    asked = trial(pm="fullmesh", family="ipv6")
    only4 = NamedInterface(side="remote", index=0, device="eth0", ipv4="192.0.2.1")
    with pytest.raises(InputError, match=r"ipv6: expected an address of eth0 on the remote site, found none"):
        _kernel_plan.plan(asked, "olia", {**interfaces(asked.topology), "remote": (only4,)})


def test_without_one_the_path_manager_chooses_it(trial):
    """PCDC begins on a path of the optional set (crates/mptune-core/src/pathmanager/pcdc.rs)."""
    assert plan(trial(pm_options={"active": ("B-X", "C-X")}), "olia").initial == ("10.64.1.1", "10.65.0.1")


def test_the_kernels_name_of_the_congestion_control_is_used(trial):
    made = plan(trial(), "mptune_olia")
    assert made.meter["cc"] == "mptune_olia"
    assert made.meter["buffer_bytes"] == 2**20 and made.meter["workload"] == {
        "kind": "bulk",
        "duration_ns": 5 * SECOND,
        "ends_early": False,
    }
    assert links(trial(), interfaces(trial().topology)).seed == made.meter["seed"] == 7


def test_a_saturated_sender_has_no_end_and_a_transfer_has(trial):
    assert plan(trial(), "olia").assignment.transfer_bytes == SATURATED
    made = plan(trial(transfer_bytes=1000, deadline_ns=9 * SECOND), "olia")
    assert made.assignment.transfer_bytes == 1000
    assert plan(trial(size_known=False), "olia").assignment.transfer_bytes is None
    assert made.limit_s == 9 and made.meter["workload"]["deadline_ns"] == 9 * SECOND


def test_messages_have_a_size_and_the_pause_between_two_is_no_stall(trial):
    messages = Messages(bytes=200, interval_ns=4 * SECOND, duration_ns=9 * SECOND, patience_ns=SECOND)
    made = plan(trial(workload=messages), "olia")
    assert made.assignment.transfer_bytes == 600 and made.limit_s == 10
    assert made.meter["workload"] == {
        "kind": "messages",
        "bytes": 200,
        "interval_ns": 4 * SECOND,
        "duration_ns": 9 * SECOND,
        "patience_ns": SECOND,
        "both_ways": False,
    }
    assert made.meter["stall_ns"] == stall_ns(trial()) + 4 * SECOND


@pytest.mark.parametrize(
    "workload",
    [
        Requests(request_bytes=1, response_bytes=1, think_ns=2 * SECOND, duration_ns=4 * SECOND),
        Page(page_bytes=1, objects=1, object_bytes=1, think_ns=2 * SECOND, duration_ns=4 * SECOND),
    ],
)
def test_thinking_is_no_stall(trial, workload):
    check(trial(workload=workload))
    assert stall_ns(trial(workload=workload)) == stall_ns(trial()) + 2 * SECOND


ASKED = (
    Requests(request_bytes=1, response_bytes=1, think_ns=SECOND, duration_ns=4 * SECOND),
    Page(page_bytes=1, objects=1, object_bytes=1, think_ns=SECOND, duration_ns=4 * SECOND),
    Video(ladder_bps=(1_000_000,), segment_ns=SECOND, buffer_ns=9 * SECOND, duration_ns=4 * SECOND),
)


@pytest.mark.parametrize("workload", ASKED)
def test_a_client_opens_its_connection_to_the_server_that_sends(trial, workload):
    asked = trial(workload=workload, pm="fullmesh", initial_path="C-X")
    named = interfaces(asked.topology)
    made = _kernel_plan.plan(asked, "olia", named, clients_open=True)
    assert made.openers == [made.opener] == ["remote"]
    assert made.initial == ("10.65.0.1", "10.64.2.1")
    assert (made.address, made.joins) == ("10.64.2.1", ("10.64.0.1", "10.64.1.1", "10.64.2.1"))
    # Paths are still named and numbered from the sender, who may be the only one that reaches the other.
    assert made.assignment == plan(asked, "olia").assignment
    assert plan(asked, "olia").opener == "local"


def test_data_without_requests_are_sent_by_who_opens(trial):
    messages = Messages(bytes=200, interval_ns=SECOND, duration_ns=4 * SECOND, both_ways=True)
    for asked in (trial(), trial(transfer_bytes=1000), trial(workload=messages)):
        made = _kernel_plan.plan(asked, "olia", interfaces(asked.topology), clients_open=True)
        assert (made.opener, made.initial) == ("local", ("10.64.0.1", "10.65.0.1"))


@pytest.mark.parametrize("pm", ["guard", "reserve"])
def test_a_path_manager_that_looks_at_sent_data_is_at_the_sender(trial, pm):
    asked = trial(workload=ASKED[0], pm=pm)
    made = _kernel_plan.plan(asked, "olia", interfaces(asked.topology), clients_open=True)
    assert made.openers == ["local"]


def test_each_connection_of_a_mix_is_opened_by_its_own_opener(trial):
    bulk = Bulk(duration_ns=4 * SECOND)
    mix = Mix(parts=(Part(workload=bulk), Part(workload=ASKED[0], connections=2)))
    asked = trial(workload=mix, pm="fullmesh")
    made = _kernel_plan.plan(asked, "olia", interfaces(asked.topology), clients_open=True)
    assert made.openers == ["local", "remote"]
    assert [one.opener for one in made.beside] == ["remote", "remote"]
    assert made.beside[0].initial == made.initial[::-1]


def test_two_plans_of_a_trial_differ_by_their_token_alone(trial):
    first, other = (plan(trial(), "olia") for _ in range(2))
    tokens = {made.meter["token"] for made in (first, other)}
    assert len(tokens) == 2 and all(len(bytes.fromhex(token)) == 16 for token in tokens)
    same = {**other.meter, "token": first.meter["token"]}
    assert msgspec.structs.replace(other, meter=same) == first


def test_the_script_is_put_in_order_of_time(trial):
    script = (
        ScriptedAction(at_ns=2 * SECOND, path="A-X", action="up"),
        ScriptedAction(at_ns=1 * SECOND, path="B-X", action="standby"),
    )
    events = plan(trial(script=script), "olia").script
    assert [(event.at_s, event.action, event.path, event.label) for event in events] == [
        (1.0, "standby", 1, "B-X"),
        (2.0, "up", 0, "A-X"),
    ]


def test_plain_tcp_is_a_plain_socket_without_a_path_manager(trial):
    assert plan(trial(), "olia").meter["mptcp"] is True
    assert plan(trial(protocol="tcp", pm="default"), "olia").meter["mptcp"] is False
    with pytest.raises(InputError, match="--pm: expected default with protocol tcp, found pcdc"):
        check(trial(protocol="tcp", cc="cubic"))
    remove = ScriptedAction(at_ns=SECOND, path="A-X", action="remove")
    with pytest.raises(InputError, match="script: expected only down and up"):
        check(trial(protocol="tcp", pm="default", cc="cubic", script=(remove,)))


def test_ecn_is_a_setting_of_both_sites(trial):
    assert settings(trial()) == {}
    assert settings(trial(rto_min_us=20_000, stale_loss_cnt=1)) == {
        "net.mptcp.stale_loss_cnt": "1",
        "net.ipv4.tcp_rto_min_us": "20000",
    }
    assert settings(trial(ecn=False)) == {"net.ipv4.tcp_ecn": "0"}


def test_only_a_cut_needs_fine_bins(trial):
    cut = ScriptedAction(at_ns=SECOND, path="A-X", action="down")
    assert plan(trial(), "olia").meter["bin_ns"] == BIN_NS
    assert BIN_NS % plan(trial(script=(cut,)), "olia").meter["bin_ns"] == 0
    assert plan(trial(script=(cut,)), "olia").meter["bin_ns"] < BIN_NS


def test_patience_covers_slow_paths_and_what_the_script_cuts(trial):
    assert stall_ns(trial()) == 3 * SECOND
    cut = ScriptedAction(at_ns=1 * SECOND, path="A-X", action="down")
    assert stall_ns(trial(script=(cut,))) == 7 * SECOND


def test_patience_covers_links_that_pass_nothing_for_seconds(trial, tmp_path):
    file = two_hosts.write(tmp_path)
    steps = 'schedule = [{ at = "1 s", up = "0 bit/s" }, { at = "5 s", up = "41 Mbit/s" }]'
    file.write_text(file.read_text().replace('abbr = "A"', f'abbr = "A"\n{steps}'))
    assert stall_ns(trial(topology=load(file))) > 2 * 4 * SECOND + stall_ns(trial())


@pytest.mark.parametrize(
    ("rtt", "missing", "patience"),
    [
        ("600 ms", "core.segments.B-X.rtt", 12 * SECOND),
        ("300 us", "core.segments.B-X.rtt", 10 * SECOND),
        ("300 us", None, 3 * SECOND),
    ],
)
def test_an_rtt_that_nobody_knows_may_be_long(trial, tmp_path, rtt, missing, patience):
    """No path gets less patience than an RTT of half a second needs; a known longer one counts."""
    file = two_hosts.write(tmp_path)
    known = f'rtt = "{rtt}"\n'
    if missing is None:
        file.write_text(file.read_text().replace("[[core.segments]]", f"[core]\n{known}[[core.segments]]"))
    file.write_text(file.read_text().replace('value = "300 us"', f'value = "{rtt}"'))
    topology = load(file)
    assert (missing in topology.missing) == (missing is not None)
    assert stall_ns(trial(topology=topology)) == patience


@pytest.mark.parametrize("key", ["active", "standby_order"])
def test_unknown_labels_are_refused_with_the_known_ones(trial, key):
    with pytest.raises(InputError, match=r"A-X, B-X, C-X.*'D-X'"):
        plan(trial(pm="pcdc", pm_options={key: ("D-X",)}), "olia")
    with pytest.raises(InputError, match=r"script: .*A-X, B-X, C-X.*'D-X'"):
        plan(trial(script=(ScriptedAction(at_ns=0, path="D-X", action="down"),)), "olia")


def test_buffers_that_grow_are_limited_by_sysctls_and_set_by_no_program(trial):
    fixed, grows = settings(trial()), settings(trial(buffer_mode="auto"))
    limits = {name: text for name, text in grows.items() if name not in fixed}
    assert plan(trial(buffer_mode="auto"), "olia").meter["buffer_bytes"] is None and set(limits) == {
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    }
    assert {text.split()[2] for text in limits.values()} == {str(2**20)}
    check(trial(cc="reno", buffer_mode="auto", buffer_bytes=2**31 - 1))
    with pytest.raises(InputError, match="--buffer: expected at most 2147483647 bytes"):
        check(trial(cc="reno", buffer_mode="auto", buffer_bytes=2**31))


def test_a_program_is_told_of_paths_by_their_addresses(trial):
    caps = PathParameters(caps={"C-X": 2_000_000})
    made = trial(cc="cubic+cap", path_parameters=caps)
    (told,) = _kernel_plan.told(made, interfaces(made.topology))
    assert told == {"local": "10.64.2.1", "remote": "10.65.0.1", "cap_bps": 2_000_000}
    unknown = trial(cc="cubic+cap", path_parameters=PathParameters(caps={"D-X": 1}))
    with pytest.raises(InputError, match="path parameters: expected a path of"):
        _kernel_plan.told(unknown, interfaces(unknown.topology))
    with pytest.raises(InputError, match="--caps: expected a congestion control with the path policy cap"):
        check(trial(cc="cubic", path_parameters=caps))
