"""Trials in guests: the same bytes from the same seed, and what the kernel does in real time too."""

import statistics
import threading

import msgspec
import pytest

from mptune.capture import ARRIVED
from mptune.errors import InputError, MptuneError
from mptune.guest import builtin, kernels, machine
from mptune.testbeds import create
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.testbeds.virtual import VirtualTestbed
from mptune.topology import load
from mptune.trial import Messages, OnOff, PlannedTrial, Requests, Video
from mptune.trial.objectives import metric_named
from mptune.trial.path_parameters import PathParameters
from mptune.trial.records import record
from tests.plugins import trials, unlike_paths
from tests.virtual import busy

pytestmark = pytest.mark.needs("guest")

#: Of flows: the handshake, and for the first what follows at once.
FIRST_PACKETS = {"mptcp": {0: 12, 1: 4}, "tcp": {0: 12}}


def by_path(observation):
    return {subflow.path: subflow.bytes for subflow in observation.subflows}


def test_the_same_seed_gives_the_same_observation_also_side_by_side(testbed, trial):
    with_another = [trial(seed=5), trial(seed=5), trial(seed=6)]
    results = {}

    def run(number):
        results[number] = msgspec.json.encode(testbed.run(with_another[number]))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize("cc", ["cubic", "bbr"])
def test_what_happens_before_a_trial_does_not_matter(testbed, trial, begun_by, cc):
    """Other machines have other programs, and Python compiles what it imports, or does not."""
    order = trial(cc=cc, seed=5, duration_ns=4 * trials.SECOND)
    here = testbed.run(order)
    begun_by(busy)
    assert msgspec.json.encode(testbed.run(order)) == msgspec.json.encode(here)


def test_a_trial_on_the_guests_kernel(testbed, trial):
    observation = testbed.run(trial(duration_ns=3 * trials.SECOND))
    assert observation.failed is None and observation.testbed == testbed.name
    assert observation.metadata["fallback"] is False and "overloaded" not in observation.metadata
    assert observation.metadata["kernel"] == testbed.kernel.version
    # Payload of 30 Mbit/s, without the start.
    assert 20e6 < observation.throughput_bps < 30e6 * 1408 / 1460
    carried = by_path(observation)
    assert set(carried) == {"W-X", "N-X"} and carried["W-X"] > carried["N-X"] > 0


def test_it_is_what_the_simulator_expects(testbed, trial):
    """Without losses there is little that could differ."""
    deep = trial(pm="default", transfer_bytes=3_000_000, buffer_bytes=100_000)
    kernel, simulated = testbed.run(deep), SimulatedTestbed().run(deep)
    assert kernel.completion_ns == pytest.approx(simulated.completion_ns, rel=0.02)


@pytest.mark.parametrize("response", [1_000, 5_000, 20_000])
def test_responses_take_as_long_as_the_simulator_expects(testbed, trial, response):
    """The request goes one way, the response the other, in windows of their own."""
    requests = Requests(
        request_bytes=400, response_bytes=response, think_ns=100_000_000, duration_ns=3 * trials.SECOND
    )
    asked = trial(workload=requests)
    kernel, simulated = testbed.run(asked), SimulatedTestbed().run(asked)
    assert len(kernel.delays_ns) == pytest.approx(len(simulated.delays_ns), abs=1)
    # In the long run: now and then a burst is split otherwise, and a response takes both paths.
    medians = [statistics.median(observation.delays_ns) for observation in (kernel, simulated)]
    assert medians[0] == pytest.approx(medians[1], rel=0.02)


def test_sizes_and_bursts_of_lists_are_those_of_the_simulator(testbed, trial):
    """The server draws the sizes that the client expects, and both those that the simulator draws."""
    sizes = tuple(range(1_000, 41_000, 1_000))
    asking = Requests(
        request_bytes=400,
        response_bytes=20_500,
        response_sizes=sizes,
        think_ns=trials.SECOND,
        duration_ns=6 * trials.SECOND,
    )
    listed = tuple((number * trials.SECOND // 2, 1_000 * (number + 1)) for number in range(5))
    bursts = OnOff(
        mean_bytes=3_000, mean_gap_ns=trials.SECOND // 2, listed=listed, duration_ns=2 * trials.SECOND
    )
    for asked in (trial(workload=asking), trial(workload=bursts)):
        kernel, simulated = testbed.run(asked), SimulatedTestbed().run(asked)
        assert kernel.failed is None and len(kernel.delays_ns) == len(simulated.delays_ns) > 3
        assert kernel.in_order_bytes == simulated.in_order_bytes
        assert kernel.pieces == simulated.pieces
    assert [(one.at_ns, one.bytes) for one in kernel.pieces] == list(listed[:4])


@pytest.mark.parametrize("ladder_bps", [(1_000_000, 2_000_000, 50_000_000), (40_000_000, 80_000_000)])
def test_a_video_is_played_as_the_simulator_expects(testbed, trial, ladder_bps):
    """The path plays the lower bitrates without a stall, and lacks a share of 40 Mbit/s.

    Of three runs the median: a segment after one that lost many packets may wait for a timer.
    """
    length_ns = trials.SECOND // 2
    video = Video(
        ladder_bps=ladder_bps, segment_ns=length_ns, buffer_ns=8 * length_ns, duration_ns=10 * trials.SECOND
    )
    stalled: list[float] = []
    bitrate: list[float] = []
    for bed in (testbed, SimulatedTestbed()):
        found = []
        for run in range(3):
            asked = trial(workload=video, pm="default", seed=run + 1)
            observation = bed.run(asked)
            assert observation.failed is None
            found.append(record(PlannedTrial(purpose="sweep", run=run, trial=asked), observation))
        for word, medians in (("video:stalled", stalled), ("video:bitrate", bitrate)):
            medians.append(statistics.median(metric_named(word).of(one) or 0 for one in found))
    assert stalled[0] == pytest.approx(stalled[1], abs=2)
    assert bitrate[0] == pytest.approx(bitrate[1], rel=0.05)
    assert (stalled[0] > 10) == (ladder_bps[0] > 30_000_000)


@pytest.mark.parametrize(("size", "interval_ms"), [(200, 20), (200, 50), (1400, 10), (20_000, 50)])
def test_messages_are_delayed_as_the_simulator_expects(testbed, trial, size, interval_ms):
    """Which path each takes is decided by what is not acknowledged of the one before, on either side."""
    messages = Messages(bytes=size, interval_ns=interval_ms * 1_000_000, duration_ns=5 * trials.SECOND)
    asked = trial(workload=messages)
    kernel, simulated = testbed.run(asked), SimulatedTestbed().run(asked)
    assert by_path(kernel) == by_path(simulated)
    # The first follows the token.
    assert kernel.delays_ns[1:] == pytest.approx(simulated.delays_ns[1:], abs=300_000)


def test_a_path_manager_and_a_script_work_in_it(testbed, trial):
    script = trials.cut("W-X", at_ns=500_000_000)
    observation = testbed.run(trial(transfer_bytes=4_000_000, script=script))
    assert observation.failed is None and observation.in_order_bytes == 4_000_000
    assert by_path(observation)["N-X"] > 2_000_000


def test_subflows_of_both_families(testbed, trial):
    observation = testbed.run(trial(family="both", transfer_bytes=4_000_000))
    assert observation.failed is None
    assert set(by_path(observation)) == {"W-X", "N-X", "W-X/6", "N-X/6"}


def test_every_packet_is_recorded_and_the_same_ones_again(testbed, trial):
    asked = trial(transfer_bytes=1_000_000)
    (observation, run), (_, again) = testbed.record(asked), testbed.record(asked)
    assert observation.failed is None and run.unrecorded == 0
    assert run.packets.tobytes() == again.packets.tobytes() and len(run.samples) > 50
    payload = run.packets[run.packets["fate"] == ARRIVED]["length"].sum()
    assert payload >= observation.in_order_bytes == run.in_order_bytes == 1_000_000


@pytest.mark.parametrize("protocol", ["mptcp", "tcp"])
def test_the_first_packets_are_those_of_the_simulator(testbed, trial, protocol):
    """Handshakes and the first window: their order, sizes and times."""
    order = trial(protocol=protocol, pm="fullmesh" if protocol == "mptcp" else "default")
    sides = [bed.record(order)[1].packets for bed in (testbed, SimulatedTestbed())]
    for flow, first in FIRST_PACKETS[protocol].items():
        kernel, simulated = (side[side["flow"] == flow][:first] for side in sides)
        assert kernel[["size", "route"]].tolist() == simulated[["size", "route"]].tolist()
        apart = kernel["entered"].astype(int) - simulated["entered"].astype(int)
        assert abs(apart).max() < 1_000_000


def test_more_memory_changes_nothing(testbed, trial, monkeypatch):
    """With 512 MiB Linux 6.12 stalls here: the limits of the network's memory follow from the machine's."""
    asked = trial(topology=load("UiT-HAW"), buffer_bytes=16 * 2**20, duration_ns=5 * trials.SECOND)
    enough = testbed.run(asked)
    monkeypatch.setattr(machine, "MEMORY", "4G")
    more = testbed.run(asked)
    assert enough.failed is None and (enough.bins, enough.subflows) == (more.bins, more.subflows)


def test_a_guest_has_the_memory_for_tcp_of_two_hosts(testbed, trial):
    """HU-UDE's answer gave 0.7 Mbit/s where both ends shared what a machine of 2 GiB has, 187 MiB."""
    settings = {"pm": "pcdc", "pm_options": {"active": ("C-D", "CU-D")}, "cc": "hybla", "seed": 2}
    asked = trial(
        topology=load("HU-UDE"), buffer_bytes=89_024_102, duration_ns=15 * trials.SECOND, **settings
    )
    observation = testbed.run(asked)
    assert observation.failed is None
    assert observation.in_order_bytes * 8 / observation.duration_ns > 0.02  # Gbit/s
    pruned = {"PruneCalled", "OfoPruned", "RcvPruned", "TCPRcvQDrop"}
    assert not [name for name in observation.metadata if name.split()[-1] in pruned]


def test_fixed_buffers_for_which_a_guest_has_no_memory_are_refused(testbed, trial):
    expected = r"--buffer: expected at most 171 MiB, for which there is room: both ends share 1 GiB .*found 1"
    with pytest.raises(InputError, match=expected):
        testbed.check(trial(buffer_bytes=180 * 2**20))
    testbed.check(trial(buffer_bytes=170 * 2**20))
    # Limits of buffers that grow, which take what they need.
    testbed.check(trial(buffer_bytes=180 * 2**20, buffer_mode="auto"))


def test_what_its_kernel_lacks_is_refused(testbed, trial, monkeypatch):
    there = set(testbed.kernel.congestion_controls) - {"olia"}
    lacking = msgspec.structs.replace(testbed.kernel, congestion_controls=tuple(sorted(there)))
    monkeypatch.setattr(testbed, "kernel", lacking)
    with pytest.raises(
        InputError, match=r"--cc: expected one of .*cubic.*found 'olia', which Linux .* lacks"
    ):
        testbed.run(trial(cc="olia"))


@pytest.mark.parametrize("cc", [*builtin.names(pairs=True)])
def test_every_congestion_control_of_the_programs_is_in_it(testbed, cc):
    assert cc in testbed.kernel.congestion_controls


def test_a_kernel_of_an_earlier_mptune_gets_no_parameters_of_paths(trial):
    testbed = VirtualTestbed()
    testbed.kernel = msgspec.structs.replace(testbed.kernel, recipe="0" * 16)
    parameters = PathParameters(weights={"W-X": 2})
    with pytest.raises(InputError, match=r"path parameters: .*of this version.*mptune kernel build"):
        testbed.run(trial(cc="cubic+weight", path_parameters=parameters))
    assert testbed.run(trial(cc="cubic+weight")).failed is None


def test_an_interrupt_ends_a_running_trial(trial):
    testbed = VirtualTestbed()
    timer = threading.Timer(1.0, testbed.interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        testbed.run(trial(duration_ns=600 * trials.SECOND))


def test_a_kernel_that_does_not_boot_is_a_failed_trial(testbed, trial, monkeypatch):
    command = machine._command
    # No file system of that kind.
    without_root = lambda *words: [word.replace("hostfs", "none") for word in command(*words)]  # noqa: E731
    monkeypatch.setattr(machine, "_command", without_root)
    observation = testbed.run(trial())
    assert observation.failed.kind == "died" and "Kernel panic" in str(observation.failed)


def test_effects_on_the_wire_reach_a_guest(testbed, tmp_path):
    plain = unlike_paths.network(tmp_path, (20, 20))
    file = tmp_path / "network.toml"
    burst = 'gilbert_elliott = { enter = "1 %", leave = "20 %" }'
    file.write_text(file.read_text().replace('rtt = "20 ms"', f'rtt = "20 ms"\n{burst}'))
    whole, part = (
        unlike_paths.mbps(testbed.run(unlike_paths.trial(network, "cubic", 1_000_000)))
        for network in (plain, load(file))
    )
    assert 0 < part < 0.8 * whole


def test_the_release_can_be_named(testbed):
    named = create(f"virtual:{testbed.kernel.release}")
    assert isinstance(named, VirtualTestbed) and named.kernel == testbed.kernel
    with pytest.raises((InputError, MptuneError), match=r"mptune kernel build 99\.9"):
        create("virtual:99.9")


@pytest.mark.parametrize("name", ["virtual:", "virtual:x", "virtual:../x", "namespaces:7.3", "virtual:7.3.4"])
def test_a_name_with_something_else_is_refused(name):
    with pytest.raises(InputError, match=r"--testbed: expected"):
        create(name)


def test_facts_of_the_kernel_are_kept_with_it(testbed):
    facts = machine.facts(testbed.kernel.program)
    assert facts.version == testbed.kernel.version
    assert set(facts.congestion_controls) == set(testbed.kernel.congestion_controls) >= {"cubic", "reno"}
    assert kernels.find(testbed.kernel.release) == testbed.kernel
