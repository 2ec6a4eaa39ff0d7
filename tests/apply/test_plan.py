"""From an answer to settings of two machines."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mptune import testbeds
from mptune.apply.plan import HostPlan, check, outline, plan, resolve
from mptune.errors import InputError, MptuneError
from mptune.linux import bpf
from mptune.topology import load
from tests.apply.worlds import DUAL, HOME, NETWORK, altered

Make = Callable[..., Path]

F, M = "10.0.1.2", "10.0.2.2"
ALL = ["F-T", "F-V", "M-T", "M-V"]


def of_kind(host: HostPlan, kind: str) -> list[dict]:
    return [setting for setting in host.settings if setting["kind"] == kind]


def endpoints(host: HostPlan) -> dict[str, list[str]]:
    return {
        endpoint["address"]: endpoint["flags"]
        for endpoint in of_kind(host, "endpoint")
        if not endpoint.get("absent")
    }


def limits(host: HostPlan) -> list[tuple[int, int]]:
    return [(limits["subflows"], limits["add_addr_accepted"]) for limits in of_kind(host, "limits")]


def sysctls(host: HostPlan) -> dict[str, str]:
    return {sysctl["name"]: sysctl["value"] for sysctl in of_kind(host, "sysctl")}


def mptcp(
    pm: str, subflows: list[str], standby: list[str] | None = None, **more: object
) -> dict[str, object]:
    """An answer with a path manager."""
    return {"protocol": "mptcp", "opm": pm, "subflows": subflows, "standby": standby or [], **more}


@pytest.mark.parametrize("strategy", ["grid", "adaptive"])
def test_real_runs_can_be_planned(runs: Path, strategy: str):
    sender, receiver = plan(runs / strategy)
    assert (sender.site, sender.part) == ("H", "sender")
    assert (receiver.site, receiver.part) == ("S", "receiver")
    assert len(sender.settings) == len(sender.why)
    check(sender)
    check(receiver)


@pytest.mark.parametrize("pm", testbeds.names("path_managers"))
def test_every_path_manager_can_be_planned(run: Make, pm: str):
    outlined = outline(run(**mptcp(pm, ALL if pm in ("fullmesh", "pcdc") else ["F-T"])))
    assert outlined.used[0] == "F-T"


def test_the_full_mesh_is_exact(run: Make):
    outlined = outline(run(**mptcp("fullmesh", ALL)))
    sender, receiver = outlined.hosts
    assert set(outlined.used) == set(ALL)
    assert endpoints(sender) == {F: ["subflow", "fullmesh"], M: ["subflow", "fullmesh"]}
    assert endpoints(receiver) == {"198.51.100.7": ["signal"]}
    assert limits(sender) == [(3, 1)] and limits(receiver) == [(3, 0)]
    assert not [difference for difference in sender.differs if difference.what == "subflows"]


def test_default_opens_nothing_and_leaves_the_other_side_alone(run: Make):
    sender, receiver = plan(run(**mptcp("default", ["F-T"])))
    assert not endpoints(sender) and not endpoints(receiver)
    assert limits(sender) == [(0, 0)] and limits(receiver) == []


def test_standby_interfaces_become_backup(run: Make):
    outlined = outline(run(**mptcp("pcdc", ["F-T"], ["M-T", "F-V"])))
    assert endpoints(outlined.hosts[0]) == {M: ["subflow", "backup"]}
    assert (outlined.used, outlined.standby) == (("F-T",), ("M-T",))
    assert any(note.startswith("Not kept in reserve: F-V") for note in outlined.hosts[0].notes)


def test_an_interface_that_must_not_carry_is_demoted_where_connections_begin(run: Make):
    outlined = outline(run(**mptcp("pcdc", ["M-T"])))
    assert endpoints(outlined.hosts[0]) == {F: ["subflow", "backup"], M: ["subflow"]}
    assert outlined.used == ("M-T",)


def test_a_set_that_endpoints_cannot_express_is_reported(run: Make):
    sender, receiver = plan(run(**mptcp("pcdc", ["F-T", "M-V"])))
    (differs,) = (difference for difference in sender.differs if difference.what == "subflows")
    assert differs.asked == "F-T, M-V" and differs.got != differs.asked
    assert "Endpoints belong to interfaces, not to paths." in differs.because
    assert not [difference for difference in receiver.differs if difference.what == "subflows"]


def test_a_better_beginning_is_named(run: Make):
    outlined = outline(run(**mptcp("pcdc", ["F-V", "M-V"])))
    (differs,) = (difference for difference in outlined.hosts[0].differs if difference.what == "subflows")
    assert "Connections that begin on F-V could have exactly the answer's subflows." in differs.because


@pytest.mark.parametrize("pm", ["ndiffports", "binder"])
def test_several_subflows_on_one_path_cannot_be_had(run: Make, pm: str):
    sender, _ = plan(run(**mptcp(pm, ["F-T"])))
    (differs,) = (difference for difference in sender.differs if difference.what == "subflows")
    assert differs.got == "F-T" and "one subflow for each pair of addresses" in differs.because


def test_plain_tcp_touches_no_mptcp(run: Make):
    sender, receiver = plan(run(protocol="tcp", opm="tcp", subflows=["M-T"], standby=[], buffer_mode="auto"))
    assert {setting["kind"] for setting in (*sender.settings, *receiver.settings)} == {"sysctl", "route"}
    assert not any(name.startswith("net.mptcp") for name in (*sysctls(sender), *sysctls(receiver)))
    assert [route["device"] for route in of_kind(sender, "route")] == ["wwan0"]
    assert "route to the address of T by M" in sender.notes[0]


def test_the_other_direction_is_a_download(run: Make):
    """The file's sender still opens the connections; congestion control and send buffer are the server's."""
    outlined = outline(
        run(reverse=True, **mptcp("fullmesh", ["T-F", "T-M", "V-F", "V-M"], buffer_mode="auto"))
    )
    server, home = outlined.hosts
    assert (server.site, server.part, home.site) == ("S", "sender", "H")
    assert outlined.opener == "receiver"
    assert endpoints(home) == {F: ["subflow", "fullmesh"], M: ["subflow", "fullmesh"]}
    assert endpoints(server) == {"198.51.100.7": ["signal"]}
    assert of_kind(server, "route") and not of_kind(home, "route")
    assert "net.ipv4.tcp_wmem" in sysctls(server) and "net.ipv4.tcp_rmem" in sysctls(home)


def test_the_side_that_opens_connections_can_be_given(run: Make):
    outlined = outline(run(**mptcp("fullmesh", ALL)), "receiver")
    sender, receiver = outlined.hosts
    assert set(endpoints(receiver)) == {"203.0.113.7", "198.51.100.7"}
    assert endpoints(sender) == {M: ["signal"]}
    assert of_kind(sender, "route") and not of_kind(receiver, "route")


# What is written of the machines.


def test_interfaces_without_addresses_are_named_by_file_and_key(run: Make, runs: Path):
    topology = msgspec.to_builtins(load("UiT-HAW"))
    place = run(**mptcp("fullmesh", ["P-D", "T-D"]))
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"topology": topology}))
    sender, _ = plan(place)
    assert endpoints(sender) == {"<ipv4 of T>": ["subflow"]}
    with pytest.raises(InputError) as error:
        check(sender)
    assert error.value.exit_code == 2
    assert str(error.value).startswith("UiT-HAW.toml: sites.UiT.interfaces.T.ipv4: expected an IPv4 address")


def test_a_device_without_an_address_waits_for_the_machine(run: Make):
    sender, _ = plan(run(network=NETWORK.replace('ipv4 = "10.0.2.2"\n', ""), **mptcp("fullmesh", ALL)))
    assert "<ipv4 of M>" in endpoints(sender)
    with pytest.raises(MptuneError, match="wwan0 was not read") as error:
        check(sender)
    assert error.value.exit_code == 1
    resolved = resolve(sender, HOME)
    check(resolved)
    assert set(endpoints(resolved)) == {F, M}


def test_an_interface_with_ipv6_alone(run: Make):
    six = NETWORK.replace('ipv4 = "10.0.2.2"', 'ipv6 = "2001:db8::2"').replace('device = "wwan0"\n', "")
    sender, _ = plan(run("four", network=six, **mptcp("fullmesh", ALL)))
    with pytest.raises(InputError, match=r"interfaces\.M\.ipv4: expected an IPv4 address"):
        check(sender)
    for four, other in {"10.0.1.2": "1:2", "203.0.113.7": "7", "198.51.100.7": "8"}.items():
        six = six.replace(f'ipv4 = "{four}"', f'ipv6 = "2001:db8::{other}"')
    sender, receiver = plan(run("six", network=six, **mptcp("fullmesh", ALL, family="ipv6")))
    assert set(endpoints(sender)) == {"2001:db8::1:2", "2001:db8::2"}
    assert set(endpoints(receiver)) == {"2001:db8::8"}
    assert {route["to"] for route in of_kind(sender, "route")} == {"::/0"}


def test_an_answer_over_both_families_has_endpoints_routes_and_limits_of_both(run: Make):
    every = ["F-T", "M-T", "F-T/6", "M-T/6"]
    sender, receiver = plan(run(network=DUAL, **mptcp("fullmesh", every, family="both")))
    assert endpoints(sender) == {
        "10.0.2.2": ["subflow"],
        "2001:db8:1::2": ["subflow", "fullmesh"],
        "2001:db8:2::2": ["subflow", "fullmesh"],
    }
    assert endpoints(receiver) == {"2001:db8:7::7": ["signal"]}
    assert limits(sender) == [(3, 1)]
    assert not sender.differs or sender.differs[0].what != "subflows"
    assert {(route["device"], route["to"]) for route in of_kind(sender, "route")} == {
        (device, to) for device in ("eth1", "wwan0") for to in ("default", "::/0")
    }
    assert any("::ffff:192.0.2.1" in note for note in sender.notes)
    assert any("M over IPv6 joins to every address of server." in why for why in sender.why)


def test_an_answer_over_both_families_that_is_beyond_the_kernels_limit_is_named(run: Make):
    wide = DUAL
    for number in range(3, 7):
        wide = wide.replace(
            "[sites.S]",
            f'[[sites.H.interfaces]]\nisp = "N"\nabbr = "N{number}"\ndevice = "n{number}"\nup = "1 Mbit/s"\n'
            f'ipv4 = "10.0.{number}.2"\nipv6 = "2001:db8:{number}::2"\ndown = "1 Mbit/s"\n[sites.S]',
            1,
        )
    wide = wide.replace("[[core.segments]]", '[core]\nrtt = "50 ms"\n[[core.segments]]', 1)
    every = [f"{abbr}-T{six}" for six in ("", "/6") for abbr in ("F", "M", "N3", "N4", "N5", "N6")]
    sender, _ = plan(run(network=wide, **mptcp("fullmesh", every, family="both")))
    (difference,) = [difference for difference in sender.differs if difference.what == "subflows"]
    assert "The kernel opens 8 subflows beside the first at most." in difference.because


def test_behind_an_address_translation_who_opens_uses_its_own_address_and_who_announces_the_public_one(
    run: Make,
):
    network = NETWORK.replace('"10.0.2.2"', '"192.0.2.99"')
    sender, _ = plan(run("opens", network=network, **mptcp("fullmesh", ALL)))
    resolved = resolve(sender, HOME)
    assert set(endpoints(resolved)) == {F, M}
    assert "M is behind an address translation: 192.0.2.99 outside, 10.0.2.2 here." in resolved.notes
    announcing = outline(run("announces", network=network, **mptcp("fullmesh", ALL)), "receiver").hosts[0]
    assert endpoints(resolve(announcing, HOME)) == {"192.0.2.99": ["signal"]}


# What is read of them.


def test_who_accepts_keeps_the_higher_limits_that_it_has(run: Make):
    """Who opens gets the answer's: more would let other endpoints take part."""
    sender, receiver = plan(run(**mptcp("fullmesh", ALL)))
    for now, expected in (((8, 2), (8, 2)), ((2, 0), (3, 0)), ((3, 1), (3, 1))):
        present = msgspec.structs.replace(HOME, limits=now)
        assert limits(resolve(receiver, present)) == [expected]
        assert limits(resolve(sender, present)) == [(3, 1)]
    unread = resolve(receiver, msgspec.structs.replace(HOME, limits=None))
    assert "the MPTCP limits" in unread.unread and limits(unread) == [(3, 0)]


def test_limits_of_growing_buffers_keep_what_is_there(run: Make):
    sender, receiver = plan(run(buffer_mode="auto", obs_bytes=700_416))
    assert sysctls(sender)["net.ipv4.tcp_wmem"] == "* * 700416"
    assert sysctls(resolve(sender, HOME))["net.ipv4.tcp_wmem"] == "4096 16384 700416"
    assert sysctls(resolve(receiver, HOME))["net.ipv4.tcp_rmem"] == "4096 131072 700416"
    assert not [difference for difference in sender.differs if difference.what == "buffer"]


def test_no_size_is_above_the_limit(run: Make):
    _, receiver = plan(run(buffer_mode="auto", obs_bytes=65_536))
    assert sysctls(resolve(receiver, HOME))["net.ipv4.tcp_rmem"] == "4096 65536 65536"


def test_a_fixed_buffer_is_for_programs_to_set_and_only_made_possible(run: Make):
    sender, _ = plan(run("large", buffer_mode="fixed", obs_bytes=1 << 20))
    assert sysctls(sender)["net.core.wmem_max"] == ">=1048576"
    assert sysctls(resolve(sender, HOME))["net.core.wmem_max"] == "1048576"
    (differs,) = (difference for difference in sender.differs if difference.what == "buffer")
    assert "mptune exec --run" in differs.because
    small, _ = plan(run("small", buffer_mode="fixed", obs_bytes=1 << 16))
    assert sysctls(resolve(small, HOME))["net.core.wmem_max"] == "212992"


@pytest.mark.needs("bpf")
def test_a_congestion_control_that_the_kernel_lacks_becomes_a_program(run: Make):
    sender, receiver = plan(run(occ="olia"))
    (program,) = of_kind(sender, "congestion")
    assert program["name"] == "mptune_olia"
    assert {route["congctl"] for route in of_kind(sender, "route")} == {"mptune_olia"}
    assert not of_kind(receiver, "congestion") and not of_kind(receiver, "route")
    has = msgspec.structs.replace(HOME, congestion_controls=("cubic", "olia"))
    resolved = resolve(sender, has)
    assert not of_kind(resolved, "congestion")
    assert {route["congctl"] for route in of_kind(resolved, "route")} == {"olia"}


def test_what_neither_kernel_nor_program_has_is_left_to_a_module(run: Make):
    assert bpf.lacking("bbr") is not None
    without = msgspec.structs.replace(
        HOME,
        congestion_controls=("cubic",),
        sysctls={**HOME.sysctls, "net.ipv4.tcp_congestion_control": "cubic"},
    )
    resolved = resolve(plan(run(occ="bbr"))[0], without)
    assert any("tcp_bbr" in note for note in resolved.notes)


def test_congestion_control_goes_to_the_route_that_each_address_takes(run: Make):
    sender, _ = plan(run(**mptcp("fullmesh", ALL, occ="cubic")))
    routes = of_kind(resolve(sender, HOME), "route")
    assert [(route["device"], route["table"], route["via"]) for route in routes] == [
        ("eth1", 254, "10.0.1.1"),
        ("wwan0", 102, "10.0.2.1"),
    ]
    assert {route["to"] for route in routes} == {"default"}


def test_a_network_that_both_are_in_is_narrower_than_the_default_route(run: Make):
    near = NETWORK.replace('"203.0.113.7"', '"10.0.1.7"')
    sender, _ = plan(run(network=near, **mptcp("default", ["F-T"], occ="cubic")))
    (route,) = of_kind(resolve(sender, HOME), "route")
    assert (route["to"], route["via"], route["device"]) == ("10.0.1.0/24", None, "eth1")


def test_without_a_route_it_is_set_for_the_whole_host_and_reported(run: Make):
    sender, _ = plan(run(**mptcp("fullmesh", ALL, occ="cubic")))
    first, second = HOME.interfaces
    present = msgspec.structs.replace(HOME, interfaces=(first, {**second, "default_routes": []}))
    resolved = resolve(sender, present)
    assert not of_kind(resolved, "route")
    assert sysctls(resolved)["net.ipv4.tcp_congestion_control"] == "cubic"
    why = dict(zip((setting.get("name") for setting in resolved.settings), resolved.why, strict=True))
    assert why["net.ipv4.tcp_congestion_control"].startswith(
        "For the whole host: no route leads to server by M"
    )


def test_what_every_connection_has_anyway_is_reported(run: Make):
    resolved = resolve(plan(run(occ="bbr"))[0], HOME)
    assert of_kind(resolved, "route")
    assert "bbr is what every connection has here anyway (net.ipv4.tcp_congestion_control)." in resolved.notes


@pytest.mark.parametrize("cc", ["olia", "cubic"])
@pytest.mark.parametrize("mode", ["fixed", "auto"])
def test_a_machine_on_which_the_settings_were_made_gets_the_same_again(run: Make, cc: str, mode: str):
    """Otherwise applying a run twice would put back what the first time has set."""
    sender, _ = plan(run(**mptcp("fullmesh", ALL, occ=cc, buffer_mode=mode, obs_bytes=1 << 20)))
    for present in (HOME, msgspec.structs.replace(HOME, interfaces=HOME.interfaces[:1])):
        first = resolve(sender, present)
        known = [program["name"] for program in of_kind(first, "congestion")]
        after = msgspec.structs.replace(
            present,
            sysctls={**present.sysctls, **sysctls(first)},
            congestion_controls=(*present.congestion_controls, *known),
        )
        assert resolve(sender, after).settings == first.settings


def test_the_kernel_manages_paths_where_that_can_be_chosen(run: Make):
    sender, _ = plan(run(**mptcp("fullmesh", ALL)))
    older = {name: value for name, value in HOME.sysctls.items() if name != "net.mptcp.path_manager"}
    assert sysctls(resolve(sender, HOME))["net.mptcp.path_manager"] == "kernel"
    assert "net.mptcp.path_manager" not in sysctls(
        resolve(sender, msgspec.structs.replace(HOME, sysctls=older))
    )


# What cannot be planned.


def test_another_stack_is_reported(run: Make):
    sender, _ = plan(run(stack="MPTCP v0.9x"))
    assert [difference.asked for difference in sender.differs if difference.what == "stack"] == [
        "MPTCP v0.9x"
    ]


def test_runs_without_one_answer_are_refused(run: Make, tmp_path: Path):
    with pytest.raises(InputError, match="expected a run directory"):
        plan(tmp_path)
    sweep = run("sweep")
    (sweep / "result.json").unlink()
    with pytest.raises(InputError, match=r"expected a run with an answer \(mptune optimise\), found a sweep"):
        plan(sweep)
    elsewhere = run("elsewhere")
    config = json.loads((elsewhere / "config.json").read_text())
    (elsewhere / "config.json").write_text(json.dumps(config | {"topology": {}}))
    with pytest.raises(InputError, match="measurements made elsewhere name no machines"):
        plan(elsewhere)
    sizes = run("sizes", options={"transfers": [65536], "confirm_runs": 2})
    (sizes / "result.json").write_text(json.dumps({"sizes": [], "answer": [], "warnings": []}))
    with pytest.raises(InputError, match="found one for each size of transfer"):
        plan(sizes)


def test_planning_reads_the_run_and_nothing_else(runs: Path, tmp_path: Path):
    """The same directory elsewhere gives the same settings."""
    there = altered(runs / "grid", tmp_path / "copy")
    assert [host.settings for host in plan(there)] == [host.settings for host in plan(runs / "grid")]
