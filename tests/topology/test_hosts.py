"""Files of two real hosts: how they are reached, what was measured of them, and what nobody knows."""

import contextlib
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.errors import InputError
from mptune.topology import UNKNOWN, Known, Topology, load, perturbed, shipped
from mptune.topology._load import from_tables
from tests.plugins import two_hosts

MBPS, US = 10**6, 1000
Load = Callable[..., Topology]


@pytest.fixture
def hosts(tmp_path: Path) -> Load:
    """Load the file with each (old, new) text replaced everywhere."""

    def load_hosts(*replacements: tuple[str, str]) -> Topology:
        file = two_hosts.write(tmp_path)
        text = file.read_text()
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        file.write_text(text)
        return load(file)

    return load_hosts


def tables() -> dict[str, Any]:
    return tomllib.loads(two_hosts.TEXT)


def exchanged(raw: dict[str, Any]) -> dict[str, Any]:
    """The tables as a person would rewrite them for the other direction."""
    raw = raw | {"sender": "R", "receiver": "S", "name": raw["name"] + "-reversed"}
    segments = [
        segment | {"path": "-".join(reversed(segment["path"].split("-")))}
        for segment in raw["core"]["segments"]
    ]
    return raw | {"core": raw["core"] | {"segments": segments}}


def test_sites_and_interfaces_have_how_they_are_reached(hosts: Load) -> None:
    topology = hosts()
    assert (topology.sender.ssh, topology.receiver.ssh) == ("me@laptop.example", "server")
    fibre, cable, mobile = topology.sender.interfaces
    assert [interface.device for interface in (fibre, cable, mobile)] == ["eth0", "eth1", "wwan0"]
    assert (mobile.metered, mobile.max_data_bytes) == (True, 2 * 10**9)
    assert (cable.metered, cable.max_data_bytes) == (False, None)


def test_an_interface_has_a_price_and_what_a_contract_has_in_a_month(hosts: Load) -> None:
    paid = ("metered = true\n", 'metered = true\nprice_per_gb = 2\nmonthly_data = "10 GB"\n')
    cable, mobile = hosts(paid).sender.interfaces[1:]
    assert (mobile.price_per_gb, mobile.monthly_bytes) == (2.0, 10**10)
    assert (cable.price_per_gb, cable.monthly_bytes) == (0.0, None)


def test_a_limit_needs_no_meter(hosts: Load) -> None:
    mobile = hosts(("metered = true\n", "")).sender.interfaces[2]
    assert (mobile.metered, mobile.max_data_bytes) == (False, 2 * 10**9)


def test_what_is_left_out_is_listed_and_has_neither_value_nor_origin(hosts: Load) -> None:
    topology = hosts()
    assert topology.missing == two_hosts.MISSING
    assert not set(topology.missing) & topology.provenance.keys()
    cable = topology.sender.interfaces[1]
    assert {cable.up_bps, cable.down_bps, cable.queue_up_bytes, cable.queue_down_bytes} == {UNKNOWN}
    core = topology.path("B-X", "").core
    assert {core.forward_ns, core.reverse_ns, core.jitter_ns} == {UNKNOWN}
    # Nothing counts as assumed that would follow from a value nobody knows.
    derived = [f"sites.S.interfaces.B.queue_{way}" for way in ("up", "down")]
    assert not {*derived, "core.segments.B-X.jitter"} & topology.provenance.keys()
    assert {"sites.S.interfaces.A.queue_up", "core.segments.A-X.jitter"} <= topology.provenance.keys()


NOTHING = Known(None, None, None, None)


@pytest.mark.parametrize(
    ("change", "rate", "rtt"),
    [
        (("", ""), 41 * MBPS, 300 * US),
        (('down = "1 Gbit/s"', ""), None, 300 * US),
        (('up = { value = "41 Mbit/s", measured = "2026-11-22, 5 probes" }', ""), None, 300 * US),
        (('rtt = { value = "300 us", measured = "2026-11-22, smallest of 20" }', ""), 41 * MBPS, None),
    ],
)
def test_a_path_is_known_as_far_as_its_links_in_data_direction(
    hosts: Load, change: tuple[str, str], rate: int | None, rtt: int | None
) -> None:
    topology = hosts(change)
    path = topology.path("A-X", "")
    known = topology.known(path)
    assert (known.rate_bps, known.base_rtt_ns) == (rate, rtt)
    assert known.queue_bytes == (None if rate is None else path.local.queue_up_bytes)
    assert known.bdp_bytes == (None if rate is None or rtt is None else path.bdp_bytes)
    assert [topology.known(topology.path(label, "")) for label in ("B-X", "C-X")] == [NOTHING, NOTHING]


@pytest.mark.parametrize("name", shipped())
def test_everything_is_known_of_a_scenario(name: str) -> None:
    topology = load(name)
    topology.check_known("nobody")
    for path in topology.paths:
        numbers = path.rate_bps, path.base_rtt_ns, path.queue_bytes, path.bdp_bytes
        assert topology.known(path) == numbers


def test_what_computes_refuses_and_names_the_first_that_is_missing(hosts: Load) -> None:
    topology = hosts()
    with pytest.raises(InputError) as error:
        topology.check_known("the simulator")
    assert str(error.value) == (
        "hosts.toml: sites.S.interfaces.A.down: expected a rate, needed by the simulator; "
        "`mptune probe` measures it"
    )
    only_rtts = msgspec.structs.replace(topology, missing=topology.missing[-2:])
    with pytest.raises(InputError, match=r"core\.segments\.B-X\.rtt: expected an RTT, needed by the formul"):
        only_rtts.check_known("the formulas")


@pytest.mark.parametrize("site", ["me@laptop.example", "server"])
def test_both_must_be_real_hosts_or_everything_is_needed(hosts: Load, site: str) -> None:
    with pytest.raises(InputError) as error:
        hosts((f'ssh = "{site}"\n', ""))
    assert "sites.S.interfaces.A.down: expected a rate, or trace_down instead, or ssh at both sites" in str(
        error.value
    )


def test_an_rtt_is_needed_too_between_others() -> None:
    raw = tables()
    del raw["sites"]["R"]["ssh"]
    for site in raw["sites"].values():
        for interface in site["interfaces"]:
            interface |= {"up": "1 Mbit/s", "down": "1 Mbit/s"}
    raw["core"]["segments"][0]["rtt"] = "10 ms"
    with pytest.raises(InputError, match=r"core\.segments\.B-X\.rtt: expected, here or in \[core\], or ssh"):
        from_tables(raw, "x.toml", "x.toml")


def test_delays_are_those_of_paths_unless_access_links_have_their_own(hosts: Load) -> None:
    """An RTT of 0.3 ms is less than two access links of a city have."""
    topology = hosts()
    path = topology.path("A-X", "")
    assert (path.base_rtt_ns, path.local.delay_ns, path.remote.delay_ns) == (300 * US, 0, 0)
    assert topology.provenance["sites.S.interfaces.A.delay"].default
    own = hosts(('device = "eth0"', 'device = "eth0"\ndelay = "100 us"')).path("A-X", "")
    assert (own.base_rtt_ns, own.local.delay_ns) == (300 * US, 100 * US)


def test_rates_and_one_rtt_are_all_that_has_to_be_known() -> None:
    raw = tables()
    for site in raw["sites"].values():
        for interface in site["interfaces"]:
            interface |= {"up": "10 Mbit/s", "down": "10 Mbit/s"}
    raw["core"] = {"rtt": "1 ms"}
    topology = from_tables(raw, "x.toml", "x.toml")
    assert topology.missing == ()
    assert all(link["rate_bps"] != UNKNOWN for link in topology.network()["links"])


@pytest.mark.parametrize(
    ("old", "new", "key", "expected"),
    [
        ('"server"', '"-oProxyCommand=x"', "sites.R.ssh", 'without blanks or a leading "-", found \'-oProxy'),
        ('"server"', '""', "sites.R.ssh", "expected a host for ssh"),
        ('"server"', '"a b"', "sites.R.ssh", "without blanks"),
        ('"server"', '"a\\tb"', "sites.R.ssh", "without blanks"),
        ('"server"', '"a\\nb"', "sites.R.ssh", "without blanks"),
        ('"server"', '"a\\u00a0b"', "sites.R.ssh", "without blanks"),
        ('"server"', '"a\\u0000"', "sites.R.ssh", "without blanks"),
        ('"server"', "3", "sites.R.ssh", "expected text, found a whole number"),
        ('"eth0"', '"sixteen-letters0"', "sites.S.interfaces.A.device", "at most 15 bytes, found 'sixteen-"),
        ('"eth0"', '"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"', "sites.S.interfaces.A.device", "15"),
        ('"eth0"', '"eth/0"', "sites.S.interfaces.A.device", 'without blanks, "/" or ":"'),
        ('"eth0"', '"eth:0"', "sites.S.interfaces.A.device", 'without blanks, "/" or ":"'),
        ('"eth0"', '"eth 0"', "sites.S.interfaces.A.device", 'without blanks, "/" or ":"'),
        ('"eth0"', '".."', "sites.S.interfaces.A.device", "expected a network device"),
        ('"eth0"', '""', "sites.S.interfaces.A.device", "expected a network device"),
        ('"eth0"', "0", "sites.S.interfaces[0].device", "expected text, found a whole number"),
        ("metered = true", 'metered = "yes"', "sites.S.interfaces[2].metered", "expected true or false"),
        ('"2 GB"', '"0 B"', "sites.S.interfaces.C.max_data", "more than 0, found '0 B'"),
        ('"2 GB"', '"-2 GB"', "sites.S.interfaces.C.max_data", "not negative"),
        ('"2 GB"', '"2"', "sites.S.interfaces.C.max_data", "without a unit"),
        ('"2 GB"', "2", "sites.S.interfaces.C.max_data", 'text such as "2 GB", found 2'),
        ('"2 GB"', '{ value = "2 GB" }', "sites.S.interfaces.C.max_data", 'text such as "2 GB", found {'),
        ('"eth1"', '"eth0"', "sites.S.interfaces.B", "other addresses than those of A, found the same"),
        (
            'measured = "2026-11-22, 5 probes"',
            'measured = "m", assumed = "a"',
            "sites.S.interfaces.A.up",
            "either assumed or measured, found both",
        ),
        (
            'measured = "2026-11-22, 5 probes"',
            'measured = "m", source = "s"',
            "sites.S.interfaces.A.up",
            "either source or measured, found both",
        ),
        (
            'measured = "2026-11-22, 5 probes"',
            'measured = "m", source = "s", assumed = "a"',
            "sites.S.interfaces.A.up",
            "either assumed or source or measured, found all of them",
        ),
        (
            'isp = "Fibre"',
            'isp = "Fibre"\nmeasured = "m"\nassumed = "a"',
            "sites.S.interfaces.A",
            "found both",
        ),
        (
            '"2026-11-22, 5 probes"',
            '""',
            "sites.S.interfaces.A.up.measured",
            "when and how it was measured, found empty text",
        ),
        (
            'device = "eth1"',
            'discipline_up = "codel"',
            "sites.S.interfaces.B.discipline_up",
            "expected a rate beside it, but missing",
        ),
        (
            'device = "eth1"',
            'schedule = [{ at = "1 s", up = "1 Mbit/s" }]',
            "sites.S.interfaces.B.schedule[0].up",
            "expected a link with a fixed rate",
        ),
    ],
)
def test_one_line_names_file_key_and_what_was_expected(
    hosts: Load, tmp_path: Path, old: str, new: str, key: str, expected: str
) -> None:
    with pytest.raises(InputError) as error:
        hosts((old, new))
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'hosts.toml'}: {key}: ")
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "text", ["user@host", "host", "ssh://me@host:2222", "fe80::1%eth0", "a-b", "käse.example"]
)
def test_whatever_ssh_understands_is_a_host(hosts: Load, text: str) -> None:
    assert hosts(('"server"', f'"{text}"')).receiver.ssh == text


@pytest.mark.parametrize("text", ["eth0.100", "wlp0s20f3", "fifteen-letters", "br-lan@x"])
def test_whatever_the_kernel_takes_is_a_device(hosts: Load, text: str) -> None:
    assert hosts(('"eth0"', f'"{text}"')).sender.interfaces[0].device == text


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        ('ipv6 = "fd00::1"', 'ipv6 = "fd00:0::1"', True),
        ('device = "e"\nipv4 = "192.0.2.1"', 'device = "e"\nipv4 = "192.0.2.1"', True),
        ('device = "e"\nipv4 = "192.0.2.1"', 'device = "e"\nipv4 = "192.0.2.2"', False),
        ('device = "e"\nipv4 = "192.0.2.1"', 'device = "f"\nipv4 = "192.0.2.1"', False),
        ('device = "e"', 'device = "e"\nipv4 = "192.0.2.1"', False),
        ("", "", False),
    ],
)
def test_interfaces_differ_in_device_or_addresses(hosts: Load, first: str, other: str, same: bool) -> None:
    changes = ('device = "eth0"', first), ('device = "eth1"', other)
    with pytest.raises(InputError, match="found the same") if same else contextlib.nullcontext():
        hosts(*changes)


def test_the_nearest_table_states_what_was_measured(hosts: Load) -> None:
    rows = (
        ('isp = "Cable"', 'isp = "Cable"\nmeasured = "5 probes"\nup = "5 Mbit/s"\nloss = "0.1 %"'),
        ('device = "eth1"', 'down = { value = "9 Mbit/s", assumed = "its contract" }'),
        ('name = "Server"', 'name = "Server"\nsource = "its page"'),
    )
    provenance = hosts(*rows).provenance
    for name in ("up", "loss"):
        value = provenance[f"sites.S.interfaces.B.{name}"]
        assert (value.measured, value.source, value.assumed, value.default) == ("5 probes", None, None, False)
    contract = provenance["sites.S.interfaces.B.down"]
    assert (contract.measured, contract.source, contract.assumed) == (None, None, "its contract")
    page = provenance["sites.R.interfaces.X.down"]
    assert (page.measured, page.source) == (None, "its page")
    assert provenance["sites.S.interfaces.A.up"].measured == "2026-11-22, 5 probes"
    assert provenance["sites.S.interfaces.B.queue_up"].assumed  # a default is not measured


RATES = [f"sites.{key}" for key in ("S.A.up", "S.A.down", "S.B.up", "S.C.down", "R.X.up", "R.X.down")]


def known_as(given_: set[str]) -> dict[str, Any]:
    """Tables in which only these rates and RTTs are given."""
    raw = tables()
    for site, table in raw["sites"].items():
        for interface in table["interfaces"]:
            for way in ("up", "down"):
                interface.pop(way, None)
                if f"sites.{site}.{interface['abbr']}.{way}" in given_:
                    interface[way] = "7 Mbit/s"
    raw["core"]["segments"] = [{"path": label, "rtt": "9 ms"} for label in sorted(given_ & {"A-X", "C-X"})]
    return raw


@given(st.sets(st.sampled_from([*RATES, "A-X", "C-X"])))
def test_in_reverse_it_is_the_file_rewritten(given_: set[str]) -> None:
    raw = known_as(given_)
    topology = from_tables(raw, "x.toml", "x.toml")
    turned = topology.reversed()
    assert turned == from_tables(exchanged(raw), "x.toml", "x.toml")
    assert turned.reversed() == topology
    assert len(topology.missing) == 8 + 3 - len(given_)
    assert len(turned.missing) == len(topology.missing)


def test_what_is_not_known_stays_so_later_and_in_other_networks(hosts: Load) -> None:
    schedule = 'schedule = [{ at = "5 s", delay = "3 ms" }]'
    topology = hosts(('device = "eth1"', schedule))
    later, other = topology.later(2 * 10**9), perturbed(topology, 0.2, 1)
    for changed in (later, other):
        assert changed != topology
        assert changed.missing == topology.missing
        assert [changed.known(path) for path in changed.paths[1:]] == [NOTHING, NOTHING]
    assert other.known(other.paths[0]).rate_bps not in (None, 41 * MBPS)


def test_it_survives_being_stored(hosts: Load) -> None:
    topology = hosts()
    assert msgspec.json.decode(msgspec.json.encode(topology), type=Topology) == topology


@pytest.mark.parametrize("name", ["UNIS-HiN", "CLOUD-HOME.hybrid"])
def test_the_json_of_others_has_nothing_of_it(name: str) -> None:
    """A store recognises trials by it, those of earlier versions too."""
    text = msgspec.json.encode(load(name)).decode()
    for word in ("ssh", "device", "metered", "max_data_bytes", "missing", "measured"):
        assert f'"{word}":' not in text
    assert '"source":null' in text  # as it always was


#: Keys of a link, with values that they may have.
LINK = {
    "queue_up": "100 kB",
    "bucket_up": {"rate": "1 Mbit/s", "burst": "10 kB"},
    "discipline_down": "red",
    "gilbert_elliott": {"enter": "1 %", "leave": "50 %"},
    "duplicate": "1 %",
    "delay": "1 ms",
    "jitter": "1 ms",
    "schedule": [{"at": "1 s", "loss": "1 %"}],
    "up": "1 Mbit/s",
    "down": {"value": "1 Mbit/s", "measured": "now"},
}


@given(st.sets(st.sampled_from(sorted(LINK))))
def test_effects_need_no_rate_but_for_a_discipline(keys: set[str]) -> None:
    raw = tables()
    raw["sites"]["S"]["interfaces"][1] |= {key: LINK[key] for key in keys}
    refused = "discipline_down" in keys and "down" not in keys
    with pytest.raises(InputError, match="a rate beside it") if refused else contextlib.nullcontext():
        topology = from_tables(raw, "x.toml", "x.toml")
        assert ("sites.S.interfaces.B.up" in topology.missing) == ("up" not in keys)
        assert topology.network()["links"]
