"""The network as a driver of a guest's kernel, against the same network as a process of the guest.

Both are the same code. What differs is time: a process takes system calls, some hundred nanoseconds each on
the guest's clock, from a packet's sending to its entry and from its arrival to its delivery.
"""

import pytest

from mptune.capture import ARRIVED
from mptune.guest import machine
from mptune.testbeds.virtual import VirtualTestbed
from mptune.topology import load
from mptune.trial import ScriptedAction
from tests.plugins import trials, two_paths
from tests.plugins.two_paths import Uplink

pytestmark = pytest.mark.needs("current-guest")

MS = 1_000_000


@pytest.fixture(scope="session")
def as_process():
    return VirtualTestbed(driver=False)


@pytest.fixture
def fast(tmp_path):
    """A gigabit and a half of two paths: above what is delivered segment by segment."""
    file = tmp_path / "fast.toml"
    uplinks = (Uplink(name, "750 Mbit/s", "4 ms", "1 MB") for name in ("Alpha", "Beta"))
    file.write_text(two_paths.text(*uplinks).replace('"200 Mbit/s"', '"2 Gbit/s"'))
    return load(file)


def by_path(observation):
    return {subflow.path: subflow.bytes for subflow in observation.subflows}


def packets(observation):
    return observation.metadata["emulator_packets"]


@pytest.fixture
def both(testbed, as_process):
    """Runs a trial either way; neither fails."""

    def run(trial):
        observations = testbed.run(trial), as_process.run(trial)
        assert [one.failed for one in observations] == [None, None]
        assert [one.metadata.get("emulator_in_kernel") for one in observations] == [True, None]
        return observations

    return run


def test_a_transfer_takes_the_same_time(both, trial):
    kernel, process = both(trial(pm="default", transfer_bytes=3_000_000, buffer_bytes=100_000))
    assert kernel.completion_ns == pytest.approx(process.completion_ns, rel=1e-3)
    assert packets(kernel) == pytest.approx(packets(process), rel=0.01)


@pytest.mark.parametrize("changes", [{}, {"family": "ipv6"}, {"pm": "default", "cc": "reno"}])
def test_paths_carry_the_same(both, trial, changes):
    kernel, process = both(trial(duration_ns=2 * trials.SECOND, **changes))
    # A microsecond can decide which packet a full queue drops.
    assert kernel.throughput_bps == pytest.approx(process.throughput_bps, rel=0.03)
    assert set(by_path(kernel)) == set(by_path(process))


def test_queues_delay_losses_and_the_wire_are_the_same(both, trial):
    """Slow links, where nothing is so close in time that a microsecond decides."""
    kernel, process = both(trial(topology=load("UiT-HAW"), duration_ns=10 * trials.SECOND))
    assert by_path(kernel) == pytest.approx(by_path(process), rel=0.01)
    assert packets(kernel) == pytest.approx(packets(process), rel=0.01)


def test_segments_are_joined_above_a_gigabit(both, trial, fast):
    kernel, process = both(trial(topology=fast, duration_ns=300 * MS, buffer_bytes=8 * 2**20))
    assert kernel.throughput_bps == pytest.approx(process.throughput_bps, rel=0.05)
    assert packets(kernel) == pytest.approx(packets(process), rel=0.05)


def test_an_outage_ends_where_the_script_ends_it(both, trial):
    script = (
        ScriptedAction(at_ns=500 * MS, path="W-X", action="down"),
        ScriptedAction(at_ns=1500 * MS, path="W-X", action="up"),
    )
    kernel, process = both(trial(duration_ns=4 * trials.SECOND, script=script))
    assert kernel.throughput_bps == pytest.approx(process.throughput_bps, rel=0.02)
    cut = both(trial(transfer_bytes=4_000_000, script=script[:1]))
    assert [one.in_order_bytes for one in cut] == [4_000_000] * 2
    assert by_path(cut[0])["W-X"] == pytest.approx(by_path(cut[1])["W-X"], rel=0.02)


def test_a_recording_has_the_same_packets(testbed, as_process, trial):
    asked = trial(pm="default", transfer_bytes=1_000_000, buffer_bytes=100_000)
    (_, kernel), (_, process) = testbed.record(asked), as_process.record(asked)
    assert kernel.unrecorded == process.unrecorded == 0
    assert len(kernel.packets) == pytest.approx(len(process.packets), rel=0.02)
    payloads = [run.packets[run.packets["fate"] == ARRIVED]["length"].sum() for run in (kernel, process)]
    assert payloads[0] == payloads[1] >= 1_000_000


def test_a_panic_of_the_model_is_a_failed_trial(testbed, trial, monkeypatch):
    command = machine._command
    monkeypatch.setattr(machine, "_command", lambda *words: [*command(*words), "mptune_network.fault=1"])
    observation = testbed.run(trial())
    assert observation.failed.kind == "died"
    assert "mptune-network: panicked at" in str(observation.failed)
