"""A policy and its paths as the agent receives them: labels become numbers, paths get their addresses."""

import msgspec
import pytest

from mptune.errors import InputError
from mptune.linux import addresses, assignment
from mptune.linux.assignment import SATURATED, Assignment, KernelPath, kernel_paths

PATHS = tuple(
    KernelPath(
        label=f"{i}-{j}",
        local=i,
        remote=j,
        pairs=((f"10.64.{i}.1", f"10.65.{j}.1"), (f"fd64:0:{i}::1", f"fd65:0:{j}::1")),
    )
    for i in range(2)
    for j in range(2)
)


def pcdc(**options):
    return Assignment(pm="pcdc", paths=PATHS, transfer_bytes=SATURATED, pm_options=options)


def test_from_the_other_site_the_same_paths_begin_with_its_addresses():
    there = assignment.seen_from("remote", pcdc(active=("1-0",)))
    assert assignment.seen_from("local", pcdc()) == pcdc()
    path = there.paths[2]
    assert path.pairs == (("10.65.0.1", "10.64.1.1"), ("fd65:0:0::1", "fd64:0:1::1"))
    ends = [(path.label, path.local, path.remote) for path in there.paths]
    assert ends == [(path.label, path.local, path.remote) for path in PATHS]
    assert (
        assignment.document(there)["pm_options"] == assignment.document(pcdc(active=("1-0",)))["pm_options"]
    )


def test_the_initial_path_is_the_policys():
    assert assignment.start(pcdc(active=("1-0", "0-1")), "0-0").initial_path == "1-0"
    assert assignment.start(pcdc(), "0-1").initial_path == "0-1"


def test_the_policy_states_at_how_many_bytes_it_wants_a_report():
    kib = 1024
    assert assignment.start(pcdc(), "0-0").thresholds == [512 * kib, 1024 * kib]
    assert assignment.start(Assignment(pm="fullmesh", paths=PATHS), "0-0").thresholds == []


def test_paths_of_a_topology_have_the_addresses_of_the_namespaces(network):
    paths = kernel_paths(network, addresses.interfaces(network))
    assert [path.label for path in paths] == ["A-X", "B-X", "C-X"]
    assert paths[2].pairs == (("10.64.2.1", "10.65.0.1"), ("fd64:0:2::1", "fd65::1"))


def test_the_agent_gets_paths_by_their_numbers():
    document = assignment.document(pcdc(active=("1-0",), standby_order=("1-1", "0-1")))
    assert document["pm_options"] == {"active": [2], "standby_order": [3, 1]}
    assert [path["label"] for path in document["paths"]] == ["0-0", "0-1", "1-0", "1-1"]


@pytest.mark.parametrize("tell", [assignment.document, lambda assigned: assignment.start(assigned, "0-0")])
def test_a_path_that_is_not_there_is_named_with_those_that_are(tell):
    with pytest.raises(InputError, match=r"path manager: active: .*0-0, 0-1, 1-0, 1-1.*'9-9'"):
        tell(pcdc(active=("9-9",)))


def test_the_agent_knows_which_paths_are_metered(network):
    metered = msgspec.structs.replace(network.paths[0].local, metered=True)
    first = msgspec.structs.replace(network.paths[0], local=metered)
    topology = msgspec.structs.replace(network, paths=(first, *network.paths[1:]))
    assigned = Assignment(pm="reserve", paths=kernel_paths(topology, addresses.interfaces(network)))
    document = assignment.document(assigned)
    assert [path.get("metered", False) for path in document["paths"]] == [True, False, False]
    assert assignment.start(assigned, "A-X").initial_path == "B-X"


def test_what_an_assignment_cannot_be_is_named():
    for wrong, words in (
        (Assignment(pm="fullmash", paths=PATHS), r"path manager: pm: .*one of default.*fullmash"),
        (pcdc(ndiffports=0), r"path manager: pm_options: .*one of active.*ndiffports"),
        (
            Assignment(pm="ndiffports", paths=PATHS, pm_options={"ndiffports": 0}),
            r"path manager: ndiffports: .*1 to 64.*0",
        ),
    ):
        with pytest.raises(InputError, match=words):
            assignment.start(wrong, "0-0")
