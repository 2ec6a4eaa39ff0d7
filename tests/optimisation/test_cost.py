"""Cost: prices of interfaces times what subflows carried, and contracts that last."""

from typing import Any

import msgspec
import pytest

from mptune.errors import InputError
from mptune.optimisation import cost
from mptune.optimisation.by_objective import optimise_by_objective
from mptune.result.making_by_objective import objective_document
from mptune.runner.runner import TrialRunner
from mptune.topology import Topology
from mptune.trial import Record, SubflowRecord
from tests.optimisation.formulas import Calls, changed, testbed

__all__ = ["testbed"]


def priced(network: Topology, prices: dict[str, float], **others: Any) -> Topology:
    """The network with prices by interface of the sender, and other values of A."""

    def of(interface: Any) -> Any:
        more = others if interface.abbr == "A" else {}
        return msgspec.structs.replace(interface, price_per_gb=prices.get(interface.abbr, 0.0), **more)

    interfaces = tuple(map(of, network.sender.interfaces))
    return msgspec.structs.replace(
        network,
        sender=msgspec.structs.replace(network.sender, interfaces=interfaces),
        paths=tuple(
            msgspec.structs.replace(path, local=interfaces[path.local_index]) for path in network.paths
        ),
    )


def trial_record(carried: dict[str, float]) -> Record:
    """A trial whose subflows carried so much, Mbit/s."""
    return Record(
        purpose="confirm",
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=1,
        run=0,
        seed=1,
        withdrawn=None,
        throughput_mbps=sum(carried.values()),
        completion_s=None,
        failed=None,
        subflows=tuple(
            SubflowRecord(path=path, active=True, throughput_mbps=mbps, rtt_ms=None, retransmitted=0)
            for path, mbps in carried.items()
        ),
    )


def test_a_gigabyte_costs_the_mean_of_what_carries_it(network: Topology) -> None:
    """A quarter over A at 4, the rest over B for nothing: 1. 8 Mbit/s are 3.6 GB an hour."""
    one = trial_record({"A-X": 2.0, "B-X": 6.0})
    assert cost.metric(network) is None and list(cost.sentences(network, [one])) == []
    paid = priced(network, {"A": 4.0})
    metric = cost.metric(paid)
    assert metric is not None and metric.of(one) == pytest.approx(1.0)
    assert metric.of(trial_record({})) is None
    assert list(cost.sentences(paid, [one])) == ["It costs 1.00 per GB, 3.60 an hour of this workload."]


def test_a_contract_is_used_up_or_not(network: Topology) -> None:
    """2 Mbit/s are 0.9 GB an hour."""
    one = trial_record({"A-X": 2.0, "B-X": 6.0})
    for limit, told in ((9 * 10**9, "last for 10.0 h with it"), (10**12, "are not used up with it")):
        (sentence,) = cost.sentences(priced(network, {}, monthly_bytes=limit), [one])
        assert sentence.endswith(f"a month of A {told}.")


def test_the_cheapest_is_found_and_its_price_is_shown(network: Topology, testbed: Calls) -> None:
    """A is the quickest and costs 5, C costs 1: calls over C alone, unless delay decides."""
    paid = priced(network, {"A": 5.0, "B": 2.0, "C": 1.0})
    cheap = optimise_by_objective(paid, TrialRunner(testbed, 1), changed(objective="cost"))
    assert (cheap.objective, cheap.unit) == ("cost", "per GB") and cheap.recommended.active == ("C-X",)
    both = optimise_by_objective(paid, TrialRunner(testbed, 1), changed(objective="delay:p99,cost"))
    assert both.recommended.active == ("A-X",) and both.second == "cost"
    assert [round(point.mean) for point in both.front] == [20, 50]
    figure = next(one for one in both.figures if one.name == "cost")
    assert figure.ours is not None and figure.ours.mean == pytest.approx(5.0)
    answer = objective_document(both)["answer"]
    assert any(sentence.startswith("It costs 5.00 per GB, ") for sentence in answer)


def test_cost_without_a_price_is_refused(network: Topology, testbed: Calls) -> None:
    with pytest.raises(InputError, match="expected a price_per_gb of an interface"):
        optimise_by_objective(network, TrialRunner(testbed, 1), changed(objective="cost"))
    assert testbed.trials == []
