"""Steps of a recorded trial: they count what the simulator itself counted."""

import pytest

from mptune.capture.steps import steps
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.topology import load
from mptune.trial import Bulk, Trial

SECOND = 10**9


@pytest.fixture(scope="module")
def recorded():
    network = load("UNIS-HiN")
    trial = Trial(
        topology=network,
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=2**24,
        seed=3,
        workload=Bulk(duration_ns=4 * SECOND),
    )
    return (*SimulatedTestbed().record(trial), tuple(path.label for path in trial.topology.paths))


def test_retransmissions_add_up_to_the_simulators_own_count(recorded):
    observation, run, labels = recorded
    taken = steps(run, labels, SECOND // 2)
    for subflow in observation.subflows:
        mine = [step.retransmitted for step in taken if step.subflow == subflow.path]
        assert sum(mine) == subflow.retransmitted
    assert any(step.retransmitted for step in taken)


def test_rtts_lie_between_their_ends_and_not_below_the_smallest(recorded):
    observation, run, labels = recorded
    smallest = {subflow.path: subflow.min_rtt_ns / 1e6 for subflow in observation.subflows}
    for step in steps(run, labels, SECOND // 2):
        assert smallest[step.subflow] - 1e-6 <= step.min_rtt_ms <= step.rtt_ms + 1e-9
        assert step.rtt_ms <= step.max_rtt_ms + 1e-9


def test_a_recording_that_lacks_packets_ends_before_them(recorded):
    _, run, labels = recorded
    half = type(run)(
        packets=run.packets[: len(run.packets) // 2],
        samples=run.samples,
        seed=run.seed,
        duration_ns=run.duration_ns,
        in_order_bytes=run.in_order_bytes,
        unrecorded=len(run.packets) - len(run.packets) // 2,
    )
    last_s = float(half.packets["entered"][-1] - half.packets["entered"][0]) / SECOND
    assert 0 < max(step.t_s + 0.5 for step in steps(half, labels, SECOND // 2)) <= last_s


def test_a_run_without_packets_has_no_steps(recorded):
    _, run, labels = recorded
    empty = type(run)(
        packets=run.packets[:0],
        samples=run.samples[:0],
        seed=0,
        duration_ns=SECOND,
        in_order_bytes=0,
    )
    assert steps(empty, labels, SECOND // 2) == []
