"""The main job between hosts of which not everything is known: the same answer, without what needs it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune import testbeds, theory
from mptune.errors import InputError
from mptune.impact import ImpactOptions
from mptune.impact._paired import settle_ns
from mptune.optimisation.budget import Budget
from mptune.optimisation.job import Job
from mptune.optimisation.main_job import left_out, optimise
from mptune.optimisation.options import OptimiseOptions
from mptune.result.making import result_document
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.topology import Topology, load
from tests.plugins import two_hosts

SECOND, MIB = 10**9, 2**20
OPTIONS = OptimiseOptions(
    pms=("fullmesh", "pcdc"),
    ccs=("cubic",),
    buffers=tuple(i * MIB for i in (2, 4, 6, 8, 10, 12)),
    runs=2,
    duration_ns=SECOND,
    impact=ImpactOptions(runs=2, window_ns=SECOND, buffer_bytes=12 * MIB),
    confirm_runs=2,
    off_by=0.0,
    resamples=0,
    extend=False,
)


@pytest.fixture
def hosts(tmp_path: Path) -> Topology:
    return load(two_hosts.write(tmp_path))


@pytest.fixture
def real(fake_testbed: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A testbed in real time, for which the simulator could predict something."""
    monkeypatch.setattr(type(fake_testbed), "only_stack", "linux", raising=False)
    monkeypatch.setitem(testbeds.TESTBEDS, "fake", type(fake_testbed))
    return fake_testbed


def test_it_answers_without_prediction_and_traditional_buffers(hosts: Topology, real: Any) -> None:
    result = optimise(hosts, TrialRunner(real), OPTIONS)
    assert result.subflows == ("A-X", "B-X")
    assert result.traditional == {}
    assert result.warnings[0] == (
        "The traditional buffers and the simulator's prediction are left out: sites.S.interfaces.A.down and "
        "7 more are not known; `mptune probe` measures them."
    )
    document = result_document(result)
    assert document["traditional"] == {}
    assert document["traditional_mib"] is document["share_of_traditional"] is None
    assert result.reached is not None
    assert {step.prior for step in result.reached.steps} == {""}
    assert {trial.topology.missing for trial in real.trials} == {two_hosts.MISSING}


def test_the_simulator_predicts_only_what_it_knows(hosts: Topology, network: Topology, real: Any) -> None:
    def job(topology: Topology) -> Job:
        return Job(topology, TrialRunner(real), OPTIONS, Reporter(quiet=True))

    assert job(network).has_prior and not job(hosts).has_prior
    real_time = msgspec.structs.replace(OPTIONS, prior=False)
    assert not replace(job(hosts), options=real_time).wants_prior


def test_buffers_of_impact_factors_are_emptied_long_before_a_window_ends(
    hosts: Topology, network: Topology, real: Any
) -> None:
    """Otherwise a subflow that was withdrawn goes on with what is queued, and seems to matter little."""

    def impact(topology: Topology) -> ImpactOptions:
        options = msgspec.structs.replace(OPTIONS, budget_ns=60 * SECOND)
        return Budget(topology, options, real.set_up_s).impact

    rate_bps = sum(interface.up_bps for interface in network.sender.interfaces)
    rate_bps = min(rate_bps, sum(interface.down_bps for interface in network.receiver.interfaces))
    factors = impact(network)
    assert 4 * factors.buffer_bytes * 8 / rate_bps <= factors.length_ns / 1e9
    assert factors.buffer_bytes >= theory.traditional(network)["eq1"]
    assert impact(hosts).buffer_bytes == OPTIONS.impact.buffer_bytes


def test_what_is_left_out_is_named_with_its_reason(hosts: Topology, network: Topology) -> None:
    assert left_out(network, prediction=True) == []
    partial = msgspec.structs.replace(hosts, missing=two_hosts.MISSING[:1])
    assert left_out(partial) == [
        "The traditional buffers are left out: sites.S.interfaces.A.down is not known; `mptune probe` "
        "measures it."
    ]


def test_the_formulas_themselves_refuse(hosts: Topology) -> None:
    with pytest.raises(InputError, match=r"A\.down: expected a rate, needed by the formulas"):
        theory.traditional(hosts)


def test_paths_that_may_be_the_fastest_are_rivals(hosts: Topology, fake_testbed: Any) -> None:
    """Of A-X it is known that it has 41 Mbit/s; of the others nothing."""
    options = msgspec.structs.replace(OPTIONS, strategy="grid", sets="signs", tcp=False, off_by=0.2)
    result = optimise(hosts, TrialRunner(fake_testbed), options)
    alone = {
        finalist.combination.subflows
        for finalist in result.finalists
        if len(finalist.combination.subflows) == 1
    }
    assert alone == {("B-X",), ("C-X",)}


@pytest.mark.parametrize(("rtt", "settled"), [("300 us", 2 * SECOND), ("400 ms", 4 * SECOND)])
def test_settling_takes_as_long_as_the_known_paths_need(
    hosts: Topology, tmp_path: Path, rtt: str, settled: int
) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(file.read_text().replace("300 us", rtt))
    assert settle_ns(load(file), ImpactOptions(window_ns=20 * SECOND)) == settled
