"""Subflows that the kernel's path manager opens for given endpoints, and the endpoints nearest to a set."""

import itertools
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from mptune.linux.path_manager.ends import MOST
from mptune.linux.path_manager.nearest import Endpoints, Families, Use, nearest, used

FIRST = (0, 0)


def test_without_endpoints_there_is_one_subflow():
    assert used(Endpoints(FIRST, ("none", "none"))) == (((0, 0),), (), ())


def test_subflow_endpoints_reach_the_address_of_the_first_subflow_only():
    pairs = used(Endpoints(FIRST, ("none", "subflow", "subflow")))
    assert pairs.active == ((0, 0), (1, 0), (2, 0))


def test_an_announced_address_gets_one_subflow_from_where_routing_selects_unless_there_is_a_mesh():
    assert used(Endpoints(FIRST, ("none", "subflow"), (1,))).active == ((0, 0), (1, 0), (0, 1))
    assert used(Endpoints(FIRST, ("none", "fullmesh"), (1,))).active == ((0, 0), (1, 0), (1, 1))


def test_a_backup_endpoint_makes_all_its_subflows_standby_the_first_one_too():
    pairs = used(Endpoints(FIRST, ("backup", "subflow")))
    assert pairs.active == ((1, 0),)
    assert pairs.standby == ((0, 0),)


def test_no_more_than_eight_subflows_beside_the_first():
    pairs = used(Endpoints(FIRST, ("fullmesh", "fullmesh", "fullmesh", "fullmesh"), (1, 2, 3)))
    assert len(pairs.active) == 1 + MOST
    assert len(pairs.left_out) == 16 - 1 - MOST
    assert all(pair[1] == 0 for pair in pairs.active[:4])


def test_no_endpoint_is_made_that_opens_nothing():
    wide = nearest((12, 1), FIRST, {(local, 0) for local in range(12)})
    assert sum(use != "none" for use in wide.uses) == MOST
    assert len(used(wide).active) == 1 + MOST
    assert used(wide).left_out == ()
    square = nearest((4, 4), FIRST, set(itertools.product(range(4), range(4))))
    assert {pair[1] for pair in used(square).active} == {0, *square.announced}


def test_the_full_mesh_of_three_by_three_is_exact():
    asked = set(itertools.product(range(3), range(3)))
    endpoints = nearest((3, 3), FIRST, asked)
    assert set(used(endpoints).active) == asked
    assert set(endpoints.uses) == {"fullmesh"}


def test_a_row_a_column_and_one_path_are_exact():
    for asked in ({(0, 0), (1, 0), (2, 0)}, {(0, 0), (0, 1)}, {(0, 0)}, {(1, 0)}, {(1, 0), (2, 0)}):
        assert set(used(nearest((3, 2), FIRST, asked)).active) == asked


def test_a_diagonal_cannot_be_had_and_nothing_unwanted_is_opened_instead():
    pairs = used(nearest((2, 2), FIRST, {(0, 0), (1, 1)}))
    assert set(pairs.active) == {(0, 0)}


def test_endpoints_laminar_give_one_to_one_sets():
    """PCDC's classes (net-next 503): what the kernel could have by routes alone."""
    for size, asked in (
        ((2, 2), {(0, 0), (1, 1)}),
        ((3, 3), {(0, 0), (1, 2), (2, 1)}),
        ((3, 2), {(0, 0), (1, 0), (2, 1)}),
    ):
        endpoints = nearest(size, FIRST, asked, laminar=True)
        assert set(used(endpoints).active) == asked and "laminar" in endpoints.uses
        assert set(used(nearest(size, FIRST, asked)).active) != asked
    # Where others give the set as well, nothing new is taken.
    assert "laminar" not in nearest((2, 1), FIRST, {(0, 0), (1, 0)}, laminar=True).uses


def test_a_kernel_that_takes_more_subflows_gets_them():
    asked = set(itertools.product(range(4), range(4)))
    assert set(used(nearest((4, 4), FIRST, asked, most=64)).active) == asked
    row = {(local, 0) for local in range(12)}
    assert set(used(nearest((12, 1), FIRST, row, most=64)).active) == row


def test_what_matters_most_is_kept():
    """Interface 1 there for 0 here, or interface 2 there for 1 here: announcing both gives more than both."""
    asked = {(0, 0), (0, 1), (1, 0), (1, 2)}
    for matters, other in (((0, 1), (1, 2)), ((1, 2), (0, 1))):
        pairs = used(nearest((2, 3), FIRST, asked, weights={matters: 0.9, other: 0.1}))
        assert set(pairs.active) == asked - {other}


def test_idle_interfaces_with_standby_paths_become_backup():
    endpoints = nearest((3, 1), FIRST, {(0, 0)}, standby=[(1, 0)])
    assert endpoints.uses == ("none", "backup", "none")
    assert used(endpoints).standby == ((1, 0),)


#: Two interfaces and one, each with both addresses: numbers 2 and 3, and 1, are those of IPv6.
BOTH = Families((2, 1), frozenset({(0, 0), (1, 0), (2, 1), (3, 1)}))


def test_an_endpoint_of_the_other_family_needs_an_announced_address_and_a_mesh():
    alone = Endpoints(FIRST, ("none", "subflow", "none", "subflow"), families=BOTH)
    assert used(alone).active == ((0, 0), (1, 0))
    # Without a mesh routing selects where a subflow to an announced address begins.
    announced = Endpoints(FIRST, ("none", "subflow", "none", "subflow"), (1,), families=BOTH)
    assert used(announced).active == ((0, 0), (1, 0), (2, 1))
    mesh = Endpoints(FIRST, ("none", "subflow", "fullmesh", "fullmesh"), (1,), families=BOTH)
    assert used(mesh).active == ((0, 0), (1, 0), (2, 1), (3, 1))
    # A mesh of one family leaves the other one as it is.
    four = Endpoints(FIRST, ("fullmesh", "fullmesh", "none", "none"), (1,), families=BOTH)
    assert used(four).active == ((0, 0), (1, 0), (2, 1))


def test_every_set_of_paths_over_both_families_from_two_interfaces_is_exact():
    for count in range(len(BOTH.pairs)):
        for others in itertools.combinations(sorted(BOTH.pairs - {FIRST}), count):
            asked = {FIRST, *others}
            assert set(used(nearest((4, 2), FIRST, asked, families=BOTH)).active) == asked


def test_a_path_that_does_not_exist_costs_nothing():
    """The second interface has no address of IPv6."""
    families = Families((2, 1), BOTH.pairs - {(3, 1)})
    endpoints = nearest((4, 2), FIRST, families.pairs, families=families)
    assert set(used(endpoints).active) == families.pairs
    assert endpoints.uses[3] == "none"


def missed(endpoints, asked):
    """The numbers of unwanted and of missing subflows."""
    active = set(used(endpoints).active)
    return len(active - asked), len(asked - active)


@given(st.data())
def test_the_nearest_set_is_no_worse_than_any_other_choice(data):
    """Every choice of uses and announcements is tried, but for those the kernel's rules leave in doubt."""
    size = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 2)))
    pairs = list(itertools.product(range(size[0]), range(size[1])))
    asked = data.draw(st.sets(st.sampled_from(pairs), min_size=1))
    initial = data.draw(st.sampled_from(pairs))
    distance = missed(nearest(size, initial, asked), asked)
    others = [remote for remote in range(size[1]) if remote != initial[1]]
    for uses in itertools.product(set(get_args(Use)) - {"laminar"}, repeat=size[0]):
        for announced in ((), tuple(others)):
            if uses[initial[0]] == "backup" and announced and "fullmesh" not in uses:
                continue
            assert distance <= missed(Endpoints(initial, uses, announced), asked)
