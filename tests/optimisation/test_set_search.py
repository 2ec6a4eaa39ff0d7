"""The search for sets of subflows, on throughputs that are known for every set."""

import itertools
import random
from collections.abc import Callable

import pytest

from mptune.optimisation.set_search import SetSearch
from mptune.topology import Topology, load
from mptune.trial import Combination

#: Six paths over two by three interfaces.
NETWORK = load("UNIS-HiN")
LABELS = tuple(path.label for path in NETWORK.paths)
CCS = ("reno", "cubic", "vegas")

Value = Callable[[Combination], float]


def set_of(combination: Combination, optional: dict[str, tuple[str, ...]]) -> frozenset[str]:
    return frozenset(
        LABELS if combination.pm == "fullmesh" else combination.subflows or optional[combination.cc]
    )


def searched(
    value: Callable[[frozenset[str], str], float],
    start: list[Combination],
    optional: dict[str, tuple[str, ...]],
    mesh: bool = True,
) -> tuple[list[Combination], list[Combination]]:
    """Questions of the search, in order, and its result."""
    search = SetSearch(NETWORK, CCS, optional, mesh=mesh)
    worth = {combination: value(set_of(combination, optional), combination.cc) for combination in start}
    search.start(worth)
    everything: list[Combination] = []
    while asked := search.ask():
        everything += asked
        search.tell(
            {combination: value(set_of(combination, optional), combination.cc) for combination in asked}
        )
    return everything, search.found(start)


def shared(sets: frozenset[str], cc: str) -> float:
    """Paths from an interface share 100 Mbit/s; each beyond the first costs 5. Vegas gets a fifth more."""
    interfaces = {label.split("-")[0] for label in sets}
    return (100 * len(interfaces) - 5 * (len(sets) - len(interfaces))) * (1.2 if cc == "vegas" else 1.0)


OWN = {"reno": LABELS[:1], "cubic": LABELS[:1], "vegas": LABELS[:2]}
ASKED = [Combination(pm, cc) for pm in ("fullmesh", "pcdc") for cc in CCS]


def test_subflows_that_share_a_bottleneck_are_distinguished_from_useless_ones() -> None:
    """No subflow is worth anything beside all the others; one of each interface is best."""
    _, (best, *_) = searched(shared, ASKED, OWN)
    assert best.cc == "vegas" and len(best.subflows) == 2
    assert len({label.split("-")[0] for label in best.subflows}) == 2


@pytest.mark.parametrize("seed", range(20))
def test_the_best_set_of_a_rugged_network_is_nearly_reached(seed: int) -> None:
    """Every subflow has a worth of its own and every pair an effect, of either sign."""
    draw = random.Random(seed)
    worth = {label: draw.uniform(20, 100) for label in LABELS}
    pairs = {pair: draw.gauss(0, 20) for pair in itertools.combinations(LABELS, 2)}
    factor = {cc: draw.uniform(0.8, 1.0) for cc in CCS}

    def value(sets: frozenset[str], cc: str) -> float:
        total = sum(worth[label] for label in sorted(sets))
        total += sum(effect for pair, effect in sorted(pairs.items()) if set(pair) <= sets)
        return max(0.0, total) * factor[cc]

    asked, results = searched(value, ASKED, OWN)
    everywhere = [frozenset(some) for n in range(1, 7) for some in itertools.combinations(LABELS, n)]
    best = max(value(sets, cc) for sets in everywhere for cc in CCS)
    candidates = [value(set_of(combination, OWN), combination.cc) for combination in [*ASKED, *results]]
    assert max(candidates) >= 0.97 * best
    assert len(asked) == len(set(asked)) < len(everywhere) * len(CCS)


def test_sets_have_the_names_of_the_sweep() -> None:
    """PCDC's own set and that of all subflows are combinations that are swept anyway."""
    asked, results = searched(shared, ASKED, OWN)
    for combination in asked:
        assert combination.pm in ("fullmesh", "pcdc") and len(combination.subflows) < len(LABELS)
        assert combination.subflows == () or combination.subflows != OWN[combination.cc]
        assert list(combination.subflows) == sorted(combination.subflows, key=LABELS.index)
    assert not set(results) & set(ASKED)


def test_all_subflows_together_need_full_mesh() -> None:
    start = [Combination("pcdc", cc) for cc in CCS]
    asked, _ = searched(lambda sets, cc: float(len(sets)), start, OWN, mesh=False)
    assert not [combination for combination in asked if combination.pm == "fullmesh"]
    asked, _ = searched(lambda sets, cc: float(len(sets)), start, OWN)
    assert [combination for combination in asked if combination.pm == "fullmesh"]


def test_a_search_without_anything_to_start_from_ends_at_once() -> None:
    assert searched(shared, [Combination("default", "cubic")], OWN) == ([], [])


def test_where_there_are_few_sets_all_are_tried(network: Topology) -> None:
    """The best set has no neighbour that is any better than the worst."""
    search = SetSearch(network, CCS, {}, mesh=True)
    search.start({Combination("fullmesh", cc): 10.0 for cc in CCS})
    asked = search.ask()
    assert len(asked) == len(set(asked)) == (2**3 - 1) * len(CCS)
    best = Combination("pcdc", "vegas", ("A-X", "C-X"))
    search.tell({combination: 100.0 if combination == best else 1.0 for combination in asked})
    assert search.ask() == [] and search.found([]) == [best]


def test_full_mesh_under_two_names_takes_one_place() -> None:
    """PCDC's own set may be that of all subflows; both names would lead to the same neighbours."""
    own = dict.fromkeys(CCS, LABELS)
    rank = {"reno": 3.0, "cubic": 2.0, "vegas": 1.0}
    asked, _ = searched(lambda sets, cc: rank[cc] if len(sets) == len(LABELS) else 0.5, ASKED, own)
    assert {combination.cc for combination in asked if len(combination.subflows) == len(LABELS) - 1} == set(
        CCS
    )
