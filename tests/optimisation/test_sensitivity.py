"""Values on which an answer depends, on a testbed of formulas where that is known."""

from typing import Any

import msgspec
import pytest

from mptune.errors import InputError
from mptune.impact import ImpactOptions
from mptune.optimisation.main_job import optimise
from mptune.optimisation.options import OptimiseOptions
from mptune.optimisation.sensitivity import MOST_VALUES
from mptune.result.making import result_document
from mptune.runner.runner import TrialRunner
from mptune.topology import Provenance, Topology
from mptune.trial import Trial

SECOND = 1_000_000_000
MIB = 2**20
OPTIONS = OptimiseOptions(
    pms=("fullmesh", "pcdc"),
    ccs=("cubic", "reno"),
    buffers=tuple(i * MIB for i in range(1, 9)),
    runs=3,
    duration_ns=SECOND,
    impact=ImpactOptions(design="eq5", runs=2, window_ns=SECOND, buffer_bytes=8 * MIB),
    confirm_runs=3,
    strategy="grid",
    selection="global",
    sets="signs",
    extend=False,
    tcp=False,
    sensitivity=True,
)
GUESS = Provenance(value="", assumed="a guess")


@pytest.fixture
def guessed(network: Topology) -> Topology:
    """The toy network, with a rate and an RTT that are assumed."""
    keys = ("sites.S.interfaces.A.up", "core.segments.B-X.rtt")
    return msgspec.structs.replace(network, provenance=dict.fromkeys(keys, GUESS))


def test_only_the_value_that_matters_would_change_the_answer(guessed: Topology, fake_testbed: Any) -> None:
    """What PCDC gains is lost where A is slow; the RTT of B changes nothing at all."""

    def fragile(trial: Trial, at_s: float) -> float:
        slow = trial.topology.sender.interfaces[0].up_bps < 84_000_000
        return 1 / 3 if slow and trial.pm == "pcdc" else 1.0

    fake_testbed.drift = fragile
    plain = optimise(guessed, TrialRunner(fake_testbed), msgspec.structs.replace(OPTIONS, sensitivity=False))
    assert plain.sensitivity is None and "sensitivity" not in result_document(plain)
    result = optimise(guessed, TrialRunner(fake_testbed), OPTIONS)
    assert result.optimum.pm == "pcdc"
    sensitivity = result.sensitivity
    assert sensitivity is not None
    first, second = sensitivity.values
    assert (first.key, second.key) == ("sites.S.interfaces.A.up", "core.segments.B-X.rtt")
    below, above = first.ends
    assert below.instead is not None and below.instead.startswith("fullmesh")
    assert below.throughput_mbps == pytest.approx(sensitivity.throughput_mbps / 3, rel=0.05)
    assert not below.is_largest and above.is_largest and above.instead is None
    assert all(end.instead is None for end in second.ends)
    varied = [record for record in result.records if record.purpose == "vary"]
    # The network as stated and four ends, each with the same configurations and seeds.
    assert len(varied) == sensitivity.trials == 5 * (1 + len(sensitivity.contenders)) * sensitivity.runs
    seeds = {trial.seed for trial in fake_testbed.trials[-sensitivity.trials :]}
    assert len(seeds) == sensitivity.runs
    document = result_document(result)["sensitivity"]
    assert [value["key"] for value in document["values"]] == [first.key, second.key]
    assert result.optimum == plain.optimum


def test_the_number_of_values_is_bounded_and_the_rest_is_counted(
    guessed: Topology, fake_testbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mptune.optimisation.sensitivity.MOST_VALUES", 1)
    assert MOST_VALUES > 1
    sensitivity = optimise(guessed, TrialRunner(fake_testbed), OPTIONS).sensitivity
    assert sensitivity is not None and len(sensitivity.values) == sensitivity.left_out == 1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"off_by": 0.0}, "--off-by above 0"),
        ({"strategy": "adaptive", "selection": "robust", "budget_ns": 60 * SECOND}, "without a budget"),
        ({"every_ns": 3600 * SECOND, "for_ns": 7200 * SECOND}, "without a repetition"),
    ],
)
def test_where_it_cannot_be_is_refused_before_anything_runs(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        msgspec.structs.replace(OPTIONS, **changes).check()
