"""The description the core gets: which links there are, and which of them a packet crosses."""

import json
from collections.abc import Callable

from mptune.topology import Topology

Change = Callable[..., Topology]


def test_paths_share_the_access_links_of_their_interfaces_only(changed: Change) -> None:
    network = changed().network()
    names = [link["name"] for link in network["links"]]
    assert len(set(names)) == len(names) == 2 * 3 + 2 * 2
    ways = [(path["forward"], path["reverse"]) for path in network["paths"]]
    assert [[names[link] for link in way] for way in ways[0]] == [
        ["A 1 up", "1-3 forward", "B 3 down"],
        ["B 3 up", "1-3 back", "A 1 down"],
    ]
    (forward1, reverse1), (forward2, reverse2) = ways
    assert set(forward1) & set(forward2) == {names.index("B 3 down")}
    assert set(reverse1) & set(reverse2) == {names.index("B 3 up")}


def test_a_path_is_metered_if_one_of_its_interfaces_is(changed: Change) -> None:
    topology = changed(('abbr = "1"\n', 'abbr = "1"\nmetered = true\n'))
    metered = [path["label"] for path in topology.network()["paths"] if path.get("metered")]
    assert metered == [path.label for path in topology.paths if path.local_index == 0]
    assert len(metered) < len(topology.paths)


def test_links_carry_the_numbers_of_their_direction(changed: Change) -> None:
    topology = changed()
    links = {link["name"]: link for link in topology.network()["links"]}
    assert links["A 1 up"] == {
        "name": "A 1 up",
        "rate_bps": 100_000_000,
        "delay_ns": 1_000_000,
        "jitter_ns": 0,
        "queue_bytes": 262_144,
        "loss_ppb": 1_000_000,
    }
    assert links["A 1 down"]["rate_bps"] == 50_000_000
    assert links["1-3 forward"]["loss_ppb"] == 2_000_000
    assert links["1-3 back"]["loss_ppb"] == 0
    assert links["1-3 back"]["jitter_ns"] == 2_000_000
    assert links["2-3 forward"]["rate_bps"] is None
    assert links["2-3 forward"]["queue_bytes"] is None


def test_delays_of_a_route_there_and_back_are_the_base_rtt(changed: Change) -> None:
    topology = changed()
    network = topology.network()
    for path, described in zip(topology.paths, network["paths"], strict=True):
        crossed = described["forward"] + described["reverse"]
        assert sum(network["links"][link]["delay_ns"] for link in crossed) == path.base_rtt_ns


def test_description_is_plain_json(changed: Change) -> None:
    network = changed().network()
    assert json.loads(json.dumps(network)) == network
    assert network["lsrr_honoured"] is False
