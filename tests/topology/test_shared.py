"""Segments that several paths share: what files say of them, and what they do to the paths together."""

from collections.abc import Callable

import msgspec
import pytest

from mptune import _core
from mptune.errors import InputError
from mptune.optimisation.rules import shared as shared_links
from mptune.optimisation.set_search import SetSearch
from mptune.testbeds import create
from mptune.topology import Topology, from_document, from_tables, perturbed, place, rewritten, together_bps
from mptune.trial import Bulk, Trial
from mptune.trial.stacks import STACKS

MS, S = 10**6, 10**9

#: Two lines of 40 Mbit/s to two others; 1-3 and 2-4 have no interface in common.
TWO = """
name = "two"
sender = "A"
receiver = "B"
[sites.A]
name = "A"
interfaces = [
    { isp = "One", abbr = "1", up = "40 Mbit/s", down = "40 Mbit/s" },
    { isp = "Two", abbr = "2", up = "40 Mbit/s", down = "40 Mbit/s" },
]
[sites.B]
name = "B"
interfaces = [
    { isp = "Three", abbr = "3", up = "40 Mbit/s", down = "40 Mbit/s" },
    { isp = "Four", abbr = "4", up = "40 Mbit/s", down = "40 Mbit/s" },
]
[core]
rtt = "20 ms"
"""

#: What 1-3 and 2-4 share.
SHARED = """
[[core.shared]]
name = "transit"
paths = ["1-3", "2-4"]
rate = "20 Mbit/s"
delay = "2 ms"
"""

Load = Callable[..., Topology]


@pytest.fixture
def made(tmp_path) -> Load:
    """The network of two lines with more text."""
    from mptune.topology import load

    def make(more: str = "") -> Topology:
        file = tmp_path / "two.toml"
        file.write_text(TWO + more)
        return load(file)

    return make


def throughput_mbps(topology: Topology, **changes) -> float:
    """Of 1-3 and 2-4 together, in 10 s."""
    trial = Trial(
        topology=topology,
        pm="pcdc",
        pm_options={"active": ("1-3", "2-4")},
        cc="cubic",
        buffer_bytes=4 * 2**20,
        seed=1,
        workload=Bulk(duration_ns=10 * S),
        **(msgspec.structs.asdict(STACKS["v0.9x"]) | changes),
    )
    return create("simulated").run(trial).throughput_bps / 1e6


def test_two_paths_have_the_rate_of_their_shared_segment_together(made: Load) -> None:
    """Headers take 3 to 5 % of it, slow start some more; without it they have 80 Mbit/s."""
    assert 17 < throughput_mbps(made(SHARED)) < 20
    assert 60 < throughput_mbps(made()) < 80


def test_the_rtt_of_a_path_is_that_of_the_file_and_a_delay_comes_on_top(made: Load) -> None:
    topology = made(SHARED)
    assert {path.base_rtt_ns for path in topology.paths} == {20 * MS}
    assert topology.path("1-3", "").core.forward_ns == 20 * MS // 2 - MS - 2 * MS
    assert topology.path("1-4", "").core.forward_ns == 20 * MS // 2 - MS
    longer = made(SHARED + '[[core.segments]]\npath = "1-3"\ndelay = "9 ms"\n')
    assert longer.path("1-3", "").base_rtt_ns == 2 * (9 + 2 + 1) * MS


def test_its_links_are_crossed_in_order_and_the_other_way_round_by_acks(made: Load) -> None:
    topology = made(SHARED + '[[core.shared]]\nname = "sea"\npaths = ["2-4", "1-4"]\n')
    names = [link["name"] for link in topology.network()["links"]]
    (path,) = (path for path in topology.network()["paths"] if path["label"] == "2-4")
    assert [names[link] for link in path["forward"]] == [
        "A 2 up", "transit forward", "sea forward", "2-4 forward", "B 4 down",
    ]  # fmt: skip
    assert [names[link] for link in path["reverse"]] == [
        "B 4 up", "2-4 back", "sea back", "transit back", "A 2 down",
    ]  # fmt: skip
    # Whatever another path crosses first, the order of the file holds.
    assert [one.name for one in topology.path("1-4", "").shared] == ["sea"]


def test_the_slowest_link_of_a_path_may_be_shared_and_losses_add_up(made: Load) -> None:
    topology = made(SHARED + 'loss = "1 %"\nqueue = "64 KiB"\n')
    path = topology.path("1-3", "")
    assert (path.rate_bps, path.queue_bytes) == (20_000_000, 65_536)
    assert path.loss_ppb == 10_000_000 and topology.path("1-4", "").loss_ppb == 0
    assert together_bps([path, topology.path("2-4", "")]) == 20_000_000
    assert together_bps([path, topology.path("1-4", "")]) == 60_000_000


def test_without_a_rate_it_only_states_what_is_shared(made: Load) -> None:
    plain, stated = made(), made('[[core.shared]]\nname = "sea"\npaths = ["1-3", "2-4"]\n')
    assert [path.rate_bps for path in stated.paths] == [path.rate_bps for path in plain.paths]
    assert together_bps(stated.paths) == together_bps(plain.paths)
    assert stated.provenance["core.shared.sea.rate"].assumed


def test_files_without_one_have_the_same_network_and_json_as_ever(made: Load) -> None:
    topology = made()
    assert all("shared" not in path for path in msgspec.to_builtins(topology)["paths"])
    assert len(topology.network()["links"]) == 2 * 4 + 2 * 4
    assert all(len(path["forward"]) == 3 for path in topology.network()["paths"])


def test_background_traffic_can_be_on_it(made: Load) -> None:
    udp = '[[background]]\nkind = "udp"\nlink = "transit forward"\nrate = "10 Mbit/s"\n'
    busy = made(SHARED + udp)
    (link,) = (link for link in busy.network()["links"] if link["name"] == "transit forward")
    assert link["udp"][0]["rate_bps"] == 10_000_000
    assert throughput_mbps(busy) < 0.7 * throughput_mbps(made(SHARED))
    back = busy.reversed().background
    assert [getattr(flow, "link", "") for flow in back] == ["transit forward"]


def test_twice_reversed_and_read_back_from_a_run_it_is_the_same(made: Load) -> None:
    topology = made(SHARED)
    assert topology.reversed().reversed() == topology
    assert [one.name for one in topology.reversed().path("4-2", "").shared] == ["transit"]
    document = msgspec.json.decode(msgspec.json.encode(topology))
    assert from_document(document, "run", "topology") == topology


def test_a_run_in_which_it_has_two_rates_is_refused(made: Load) -> None:
    document = msgspec.to_builtins(made(SHARED))
    crossing = [path for path in document["paths"] if path.get("shared")]
    crossing[1]["shared"] = [crossing[1]["shared"][0] | {"rate_bps": 1_000_000}]
    with pytest.raises(InputError, match=r"core\.shared: expected one segment of each name, found two"):
        from_document(document, "run", "topology")


def test_its_values_vary_for_all_its_paths_alike(made: Load) -> None:
    topology = made(SHARED)
    other = perturbed(topology, 0.5, 1)
    first, second = (other.path(label, "").shared for label in ("1-3", "2-4"))
    assert first == second != topology.path("1-3", "").shared
    rate = place(topology, "core.shared.transit.rate")
    assert rate is not None and rate.paths == ("1-3", "2-4")
    slower = rate.changed(10_000_000)
    assert [slower.path(label, "").rate_bps for label in ("1-3", "2-4", "1-4")] == [10**7, 10**7, 4 * 10**7]


def test_a_later_hour_has_its_schedule(made: Load) -> None:
    steps = 'schedule = [{ at = "1 h", rate = "5 Mbit/s" }]\n'
    later = made(SHARED + steps).later(2 * 3600 * S)
    assert together_bps([later.path("1-3", ""), later.path("2-4", "")]) == 5_000_000


def test_it_is_written_again_with_the_file(made: Load, tmp_path) -> None:
    from mptune.tables import parse_toml

    topology = made(SHARED)
    again = rewritten(tmp_path / "two.toml", {}, name="two")
    assert from_tables(parse_toml(again.encode(), "again"), "again", "two.toml").paths == topology.paths


def test_sets_of_subflows_are_looked_for_across_it(made: Load) -> None:
    """A subflow may be exchanged for one that shares an interface or a segment with it."""
    plain, topology = made(), made(SHARED)
    for network, meets in ((plain, False), (topology, True)):
        assert network.path("1-3", "").meets(network.path("2-4", "")) is meets
        assert SetSearch(network, ["cubic"], {}, mesh=True)._share("1-3", "2-4") is meets
    assert shared_links(topology)["transit"] == "1-3" and "transit" not in shared_links(plain)


def test_the_core_takes_as_many_as_files_may_have(made: Load) -> None:
    labels = '["1-3", "1-4", "2-3", "2-4"]'
    many = made("".join(f'[[core.shared]]\nname = "s{n}"\npaths = {labels}\n' for n in range(8)))
    assert throughput_mbps(many) > 60
    assert "cubic" in _core.congestion_controls()


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ('paths = ["1-3", "2-4"]', "core.shared[0].name", "expected, but missing"),
        ('name = "x"\npaths = ["1-3"]', "core.shared[0].paths", "at least two paths, found 1-3"),
        ('name = "x"\npaths = []', "core.shared[0].paths", "at least two paths, found none"),
        ('name = "x"\npaths = ["1-3", "3-1"]', "core.shared[0].paths[1]", "interface pair of the two sites"),
        ('name = "x"\npaths = ["1-3", "1-3"]', "core.shared[0].paths[1]", "each path once, found 1-3 twice"),
        ('name = "x-y"\npaths = ["1-3", "2-4"]', "core.shared[0].name", "letters and digits only"),
        ('name = "x"\npaths = ["1-3", "2-4"]\nrtt = "1 ms"', "core.shared[0].rtt", "unknown key"),
        ('name = "x"\npaths = ["1-3", "2-4"]\nqueue = "1 MiB"', "core.shared.x.queue", "a rate, a trace"),
        (
            'name = "x"\npaths = ["1-3", "2-4"]\ndelay = "50 ms"',
            "core.rtt",
            "at least the 102 ms of the path's access links and shared segments, found 20 ms",
        ),
    ],
)
def test_what_cannot_be_ends_in_one_line(made: Load, text: str, key: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        made(f"[[core.shared]]\n{text}\n")
    assert caught.value.args and key in str(caught.value) and expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_are_unique_and_there_are_not_too_many(made: Load) -> None:
    with pytest.raises(InputError, match="unique name, found 'transit' twice"):
        made(SHARED + SHARED)
    with pytest.raises(InputError, match="at most 8 shared segments, found 9"):
        made("".join(f'[[core.shared]]\nname = "s{n}"\npaths = ["1-3", "2-4"]\n' for n in range(9)))
