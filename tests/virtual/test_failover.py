"""Cost of a dead path to messages: a kernel in virtual time beside the simulator, by the hosts' timeouts."""

import itertools
import statistics
from collections.abc import Sequence

import msgspec
import pytest

from mptune.testbeds import create
from mptune.topology import load
from mptune.trial import Messages, Observation, ScriptedAction, Trial
from mptune.trial.stacks import STACKS

pytestmark = pytest.mark.needs("guest")

MS, SECOND = 10**6, 10**9
INTERVAL_MS = 20
SEEDS = (1, 2, 3)
#: Timeouts, and largest difference of the medians (the table in docs/how-to/messages.md: 32 %).
TIMEOUTS = [(4, 200_000), (1, 200_000), (1, 100_000)]
APART = 0.35


def dying(seed: int, stale_loss_cnt: int, rto_min_us: int) -> Trial:
    sent = Messages(bytes=200, interval_ns=INTERVAL_MS * MS, duration_ns=3 * SECOND)
    return Trial(
        topology=load("UiT-HAW"),
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=2**20,
        seed=seed,
        workload=sent,
        script=(ScriptedAction(at_ns=SECOND, path="P-D", action="down"),),
        stale_loss_cnt=stale_loss_cnt,
        rto_min_us=rto_min_us,
    )


def longest_gap_ms(observations: Sequence[Observation], interval_ms: int = INTERVAL_MS) -> float:
    """The median over the seeds."""
    gaps = []
    for observation in observations:
        assert observation.failed is None
        arrivals = [
            number * interval_ms + delay_ns / MS for number, delay_ns in enumerate(observation.delays_ns)
        ]
        gaps.append(max(after - before for before, after in itertools.pairwise(arrivals)))
    return statistics.median(gaps)


@pytest.mark.parametrize(
    ("scenario", "interval_ms"), [("UiT-HAW", 20), ("UiT-HAW", 100), ("CLOUD-HOME.hybrid", 20)]
)
def test_a_dead_path_whose_only_alternative_is_on_standby_costs_as_much(
    side_by_side, scenario: str, interval_ms: int
) -> None:
    """Half a second on Linux 7.3: it waits for a second silent period, and 291 ms were simulated."""
    topology = load(scenario)
    active, other = (path.label for path in topology.paths)
    sent = Messages(bytes=200, interval_ns=interval_ms * MS, duration_ns=3 * SECOND)
    trials = {
        seed: Trial(
            topology=topology,
            pm="pcdc",
            pm_options={"active": (active,), "standby_order": (other,)},
            initial_path=active,
            cc="cubic",
            buffer_bytes=2**20,
            seed=seed,
            workload=sent,
            script=(ScriptedAction(at_ns=SECOND, path=active, action="down"),),
        )
        for seed in SEEDS
    }
    real = longest_gap_ms(list(side_by_side(trials).values()), interval_ms)
    simulator, stack = create("simulated"), STACKS["linux-7.3"]
    twins = [msgspec.structs.replace(trial, accounting=stack.accounting) for trial in trials.values()]
    simulated = longest_gap_ms([simulator.run(twin) for twin in twins], interval_ms)
    assert real > 2 * 200 and simulated == pytest.approx(real, rel=0.1)


def test_a_dead_path_costs_as_much_in_the_simulator(side_by_side) -> None:
    trials = {(*told, seed): dying(seed, *told) for told in TIMEOUTS for seed in SEEDS}
    kernel = side_by_side(trials)
    release = kernel[(*TIMEOUTS[0], SEEDS[0])].metadata["kernel"]
    stack = STACKS["linux-7.3" if str(release).startswith("Linux 7") else "linux"]
    simulator = create("simulated")
    costs = []
    for told in TIMEOUTS:
        real = longest_gap_ms([kernel[(*told, seed)] for seed in SEEDS])
        twins = [
            msgspec.structs.replace(trials[(*told, seed)], accounting=stack.accounting) for seed in SEEDS
        ]
        simulated = longest_gap_ms([simulator.run(twin) for twin in twins])
        assert simulated == pytest.approx(real, rel=APART), told
        costs.append(real)
    assert costs[0] > 1.4 * costs[1] > 1.4 * 1.2 * costs[2], costs
