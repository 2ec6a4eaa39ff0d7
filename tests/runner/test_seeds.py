"""Seeds: what shares one and what must not."""

from hypothesis import given
from hypothesis import strategies as st

from mptune.runner.planning import plan_trials
from mptune.runner.seeds import BASELINE, PURPOSES, seed_for
from mptune.topology import Topology
from mptune.trial import Bulk, Configuration


def test_purposes_and_runs_never_share_a_seed() -> None:
    seeds = [seed_for(1, purpose, run) for purpose in PURPOSES if purpose != BASELINE for run in range(1000)]
    assert len(set(seeds)) == len(seeds)


def test_an_answer_and_what_it_is_shown_beside_are_measured_run_by_run() -> None:
    beside, confirming = ([seed_for(1, name, run) for run in range(9)] for name in (BASELINE, "confirm"))
    assert beside == confirming


@given(st.integers(0, 2**63), st.sampled_from(PURPOSES), st.integers(0, 10**6))
def test_seeds_are_exact_as_json_numbers(base: int, purpose: str, run: int) -> None:
    assert float(seed_for(base, purpose, run)) == seed_for(base, purpose, run) < 2**53


def test_neighbouring_base_seeds_share_nothing() -> None:
    """A campaign repeated with the next seed is a new sample, not the old one shifted by a run."""
    first, second = ({seed_for(base, "sweep", run) for run in range(100)} for base in (1, 2))
    assert not first & second


def test_configurations_share_the_seed_of_a_run(network: Topology) -> None:
    second = Bulk(duration_ns=10**9)
    configurations = [
        Configuration(pm="fullmesh", cc=cc, buffer_bytes=10**6, workload=second) for cc in ("reno", "cubic")
    ]
    planned = plan_trials(network, configurations, purpose="sweep", runs=3, base_seed=5)
    seeds = {cc: [plan.trial.seed for plan in planned if plan.trial.cc == cc] for cc in ("reno", "cubic")}
    assert seeds["reno"] == seeds["cubic"]
    assert len(set(seeds["reno"])) == 3
