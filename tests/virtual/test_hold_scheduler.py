"""hold as a scheduler of a guest's kernel: its gain, and its twin in the simulator."""

from pathlib import Path

import msgspec
import pytest

from mptune.errors import InputError
from mptune.testbeds import create
from mptune.testbeds.virtual import VirtualTestbed as Virtual
from mptune.topology import load
from mptune.trial import Bulk, Trial
from tests.plugins.unlike_paths import WHOLE, mbps, network, trial

NETWORKS = Path(__file__).parents[2] / "benchmarks" / "networks"

pytestmark = [pytest.mark.needs("guest"), pytest.mark.needs("current-guest")]


def scheduled(plain: Trial) -> Trial:
    return msgspec.structs.replace(plain, scheduler="hold")


def test_it_keeps_a_slow_path_from_holding_up_a_quick_one_with_every_window_algorithm(side_by_side, tmp_path):
    unlike = network(tmp_path, (20, 20), (5, 200))
    trials = {cc: scheduled(trial(unlike, cc, 156_250)) for cc in ("cubic", "reno", "olia")}
    observations = side_by_side(trials)
    gained = {cc: mbps(seen) for cc, seen in observations.items()}
    assert min(gained.values()) > 0.9 * WHOLE, gained
    assert {seen.metadata["scheduler"] for seen in observations.values()} == {"hold"}


def test_it_leaves_equal_paths_and_large_buffers_alone(side_by_side, tmp_path):
    alike, unlike = network(tmp_path, (20, 30), (20, 30)), network(tmp_path, (20, 20), (5, 200))
    plain = {"alike": trial(alike, "cubic", 1_000_000), "large": trial(unlike, "cubic", 2_500_000)}
    ours = {f"{name} ours": scheduled(each) for name, each in plain.items()}
    gained = {name: mbps(seen) for name, seen in side_by_side({**plain, **ours}).items()}
    for name in plain:
        assert gained[f"{name} ours"] > 0.97 * gained[name], gained


def test_what_the_connection_repeats_takes_the_quickest_idle_path(side_by_side):
    """On the first one, which is slow and held, each would take its RTT, and the buffer is full meanwhile."""
    trials = {
        str(seed): Trial(
            topology=load(str(NETWORKS / "three-pruned.toml")),
            pm="fullmesh",
            cc="reno",
            scheduler="hold",
            buffer_bytes=136 << 10,
            seed=seed,
            workload=Bulk(duration_ns=10 * 10**9),
        )
        for seed in (1, 5, 6)
    }
    for seed, seen in side_by_side(trials).items():
        assert seen.in_order_bytes * 8 / 10 > 22e6, seed


def test_the_simulator_has_the_same_rule(side_by_side, tmp_path):
    trials = {
        f"{rate} {size}": scheduled(trial(network(tmp_path, (20, 20), (rate, 200)), "cubic", size))
        for rate, size in ((5, 156_250), (5, 2_500_000), (10, 300_000))
    }
    simulated = create("simulated")
    for name, seen in side_by_side(trials).items():
        assert mbps(simulated.run(trials[name])) == pytest.approx(mbps(seen), rel=0.1), name


def test_a_kernel_without_it_is_named(tmp_path):
    plain = scheduled(trial(network(tmp_path, (20, 20), (5, 200)), "cubic", 156_250))
    lacking = Virtual()
    lacking.kernel = msgspec.structs.replace(lacking.kernel, schedulers=("default",))
    with pytest.raises(InputError, match=r"--scheduler: expected one of kernel, found 'hold'"):
        lacking.check(plain)
