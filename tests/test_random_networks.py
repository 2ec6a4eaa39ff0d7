"""The random networks of benchmarks/decision/regret.py: what they promise, and one network a seed."""

import msgspec
import pytest

from benchmarks.shared import random_networks as drawn
from mptune.testbeds import create
from mptune.trial import Bulk, Trial
from mptune.trial.stacks import STACKS

NETWORKS = [drawn.random_network(seed) for seed in range(200)]
PATHS = [path for network in NETWORKS for path in network.paths]


def within(values, low, high):
    """All values lie within the limits and use most of the range on a logarithmic scale."""
    span = high / low
    assert low <= min(values) and max(values) <= high
    assert min(values) < low * span**0.1 and max(values) > low * span**0.9


def test_two_to_eight_paths_of_all_interface_pairs():
    assert {len(network.paths) for network in NETWORKS} == set(range(2, 9))
    for network in NETWORKS:
        pairs = {(path.local_index, path.remote_index) for path in network.paths}
        assert len(pairs) == len(network.sender.interfaces) * len(network.receiver.interfaces)


def test_rates_rtts_and_losses_fill_their_ranges():
    within([path.rate_bps for path in PATHS], 2e6, 300e6)
    within([path.base_rtt_ns for path in PATHS], 5e6, 200e6)
    lossy = [path.loss_ppb for path in PATHS if path.loss_ppb]
    within(lossy, 0.0001 * 1e9, 0.005 * 1e9)
    assert len(lossy) == pytest.approx(len(PATHS) / 2, rel=0.15)


def test_queues_are_half_to_four_bandwidth_delay_products():
    own = [path for path in PATHS if path.core.rate_bps is not None]
    assert all(path.queue_bytes >= min(15_000, 0.49 * path.bdp_bytes) for path in own)
    within([path.queue_bytes / path.bdp_bytes for path in own if path.queue_bytes > 15_000], 0.49, 4.01)


def test_bottlenecks_are_shared_in_half_of_the_networks():
    shared = [network for network in NETWORKS if network.paths[0].core.rate_bps is None]
    assert len(shared) == pytest.approx(len(NETWORKS) / 2, rel=0.25)


def test_a_seed_gives_one_network():
    assert drawn.random_network(7) == NETWORKS[7]
    assert len({str(network.paths) for network in NETWORKS}) == len(NETWORKS)


@pytest.mark.parametrize("stack", ["linux", "v0.9x"])
def test_a_trial_runs_and_keeps_within_the_rates(stack):
    network = NETWORKS[3]
    trial = Trial(
        topology=network,
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=2**22,
        seed=1,
        workload=Bulk(duration_ns=5 * 10**9),
        **msgspec.structs.asdict(STACKS[stack]),
    )
    observed = create("simulated").run(trial)
    assert 0 < observed.throughput_bps < sum(path.rate_bps for path in network.paths)
