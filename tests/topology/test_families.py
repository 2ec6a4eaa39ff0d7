"""Paths over both address families: their labels, the links they share, and files that give addresses."""

import msgspec
import pytest

from mptune.errors import InputError
from mptune.topology import BOTH, from_document, load, perturbed, place
from mptune.trial import Bulk, Trial

SIX = 'ipv6 = "2001:db8::1"'
FOUR = 'ipv4 = "192.0.2.1"'


@pytest.fixture
def both(changed):
    """The small file, whose interfaces have no addresses, over both families."""
    return changed((FOUR, "")).over(BOTH)


def labels(topology) -> list[str]:
    return [path.label for path in topology.paths]


def test_every_pair_is_a_path_in_each_family_over_the_same_links(both):
    assert labels(both) == ["1-3", "2-3", "1-3/6", "2-3/6"]
    assert [path.family for path in both.paths] == ["ipv4"] * 2 + ["ipv6"] * 2
    network = both.network()
    routes = {path["label"]: (path["forward"], path["reverse"]) for path in network["paths"]}
    assert routes["1-3"] == routes["1-3/6"] != routes["2-3"]
    assert len(network["links"]) == 2 * 3 + 2 * 2
    assert network["paths"][2]["family"] == "ipv6"


def test_over_one_family_nothing_changes(changed):
    topology = changed()
    assert topology.over("ipv4") is topology.over("ipv6") is topology
    assert "family" not in topology.network()["paths"][0]
    assert b"family" not in msgspec.json.encode(topology)


def test_over_both_twice_is_over_both_once(both):
    assert both.over(BOTH) is both


def test_an_address_in_the_file_says_that_there_is_none_of_the_other_family(changed):
    dual = [('isp = "One"', f'isp = "One"\n{SIX.replace("::1", "::2")}'), (FOUR, f"{FOUR}\n{SIX}")]
    topology = changed(*dual).over(BOTH)
    # Interface 1 of A has only IPv6, interface 2 is not known to lack any.
    assert labels(topology) == ["2-3", "1-3/6", "2-3/6"]
    assert topology.initial_path == "1-3/6"
    assert topology.known(topology.paths[1]).base_rtt_ns is not None


@pytest.mark.parametrize(("line", "family"), [(FOUR, "ipv6"), (SIX, "ipv4")])
def test_a_file_that_lacks_a_family_is_refused(changed, line, family):
    with pytest.raises(InputError) as refused:
        changed((FOUR, line)).over(BOTH)
    assert str(refused.value) == (
        f"small.toml: {family}: expected {family.replace('ip', 'IP')} addresses at both sites for both "
        "families, found none"
    )


def test_more_paths_than_the_core_has_are_refused(changed):
    interfaces = "".join(
        f'[[sites.A.interfaces]]\nisp = "n"\nabbr = "n{n}"\nup = "1 Mbit/s"\ndown = "1 Mbit/s"\n'
        for n in range(31)
    )
    wide = changed((FOUR, ""), ("[sites.B]", f"{interfaces}[sites.B]"))
    with pytest.raises(InputError, match="expected at most 64 paths over both families, found 66"):
        wide.over(BOTH)


def test_reverse_is_the_same_before_and_after(changed):
    topology = changed((FOUR, ""))
    there = topology.reversed().over(BOTH)
    assert labels(there) == ["3-1", "3-2", "3-1/6", "3-2/6"]
    assert topology.over(BOTH).reversed() == there
    assert there.reversed() == topology.over(BOTH)


def test_a_background_flow_stays_on_its_path(changed):
    flow = '[[background]]\nkind = "tcp"\npath = "1-3"\n[core]'
    only_six = ('isp = "One"', f'isp = "One"\n{SIX}')
    topology = changed(("[core]", flow), (FOUR, f"{FOUR}\n{SIX.replace('::1', '::2')}"), only_six).over(BOTH)
    numbers = [flow["path"] for flow in topology.network()["background"]]
    assert [labels(topology)[number] for number in numbers] == ["1-3/6"]


def test_what_was_written_is_read(both):
    assert from_document(msgspec.to_builtins(both), "file", "key") == both
    broken = msgspec.to_builtins(both)
    broken["paths"][0]["family"] = "ipv6"
    with pytest.raises(InputError, match="expected every pair of interfaces"):
        from_document(broken, "file", "key")


def test_a_segment_is_changed_for_both_of_its_paths(both):
    where = place(both, "core.segments.1-3.rtt")
    assert where is not None
    assert where.paths == ("1-3", "1-3/6")
    changed = where.changed(200_000_000)
    assert [path.base_rtt_ns for path in changed.paths[::2]] == [200_000_000] * 2
    drawn = perturbed(both, 0.3, 1)
    assert drawn.paths[0].core == drawn.paths[2].core != both.paths[0].core
    assert drawn.paths == perturbed(load_single(both), 0.3, 1).over(BOTH).paths


def load_single(both):
    """The paths over IPv4 under their names, as the file has them."""
    alone = [msgspec.structs.replace(path, family=None, segment=None) for path in both.paths[:2]]
    return msgspec.structs.replace(both, paths=tuple(alone))


def test_a_trial_over_both_has_the_paths_of_both():
    trial = Trial(
        topology=load("UiT-HAW"),
        pm="fullmesh",
        cc="reno",
        buffer_bytes=1 << 20,
        seed=1,
        workload=Bulk(duration_ns=10**9),
        family=BOTH,
    )
    assert labels(trial.topology) == ["P-D", "T-D", "P-D/6", "T-D/6"]
