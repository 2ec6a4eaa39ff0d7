"""Trials on a guest's kernel: subflows, standby paths, scripts of events, both families.

That trials work on this machine's kernel, and leave nothing behind, is in tests/kernel/test_testbed.py.
"""

import statistics

import msgspec
import pytest

from mptune.testbeds import create
from mptune.topology import load
from mptune.trial import BIN_NS, Messages, OnOff, Page, Requests, ScriptedAction
from tests.plugins import trials, two_paths
from tests.plugins.trials import SECOND, SILENT

pytestmark = pytest.mark.needs("guest")

MS = 1_000_000


@pytest.fixture
def two_file(tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(two_paths.WIDE_AND_NARROW)
    return file


@pytest.fixture
def two(two_file):
    return load(two_file)


@pytest.fixture
def observed(testbed):
    return testbed.run


@pytest.fixture
def measured(observed, trial):
    """The observation of a trial of a second, with changes."""
    return lambda **changes: observed(trial(**changes))


@pytest.fixture
def trial(two):
    return lambda **changes: trials.trial(two, **changes)


def by_path(observation):
    return {subflow.path: subflow for subflow in observation.subflows}


def steady_bps(observation):
    """Throughput of the median second behind the first: one with a timeout in it moves it little."""
    per_second = SECOND // BIN_NS
    starts = range(per_second, len(observation.bins) - per_second + 1)
    return 8 * statistics.median(sum(observation.bins[start : start + per_second]) for start in starts)


def test_two_paths_have_the_rate_of_the_segment_they_share_together(observed, two_file, tmp_path):
    """20 Mbit/s, although their access links have 40 and 20; both carry data."""
    file = tmp_path / "shared.toml"
    segment = 'name = "transit"\npaths = ["W-X", "N-X"]\nrate = "20 Mbit/s"'
    file.write_text(f"{two_file.read_text()}\n[[core.shared]]\n{segment}\n")
    observation = observed(trials.trial(load(file), duration_ns=2 * SECOND))
    assert observation.failed is None
    assert 0 < observation.throughput_bps < 20e6
    assert all(subflow.bytes > 0 for subflow in observation.subflows) and len(observation.subflows) == 2


@pytest.mark.parametrize("initial", ["W-X", "N-X"])
def test_the_first_subflow_is_on_the_path_that_was_asked_for(measured, initial):
    observation = measured(pm="default", initial_path=initial, transfer_bytes=100_000)
    assert [subflow.path for subflow in observation.subflows] == [initial]


def test_over_ipv6_every_subflow_is_ipv6_and_the_simulator_agrees(measured, trial):
    changes = {"family": "ipv6", "cc": "reno", "duration_ns": 4 * SECOND}
    observation = measured(**changes)
    assert observation.failed is None and observation.metadata["fallback"] is False
    assert observation.metadata["addresses W-X"] == "fd64::1 to fd65::1"
    assert observation.metadata["addresses N-X"] == "fd64:0:1::1 to fd65::1"
    assert {path for path, subflow in by_path(observation).items() if subflow.bytes} == {"W-X", "N-X"}
    assert observation.metadata["emulator_unroutable"] == 0
    simulated = create("simulated").run(trial(**changes))
    assert steady_bps(observation) == pytest.approx(steady_bps(simulated), rel=0.15)


def test_over_ipv6_packets_are_no_longer(measured):
    """Plain TCP on one path: 1428 bytes of payload in a packet of 1500, where IPv4 has 1448."""
    plain = {"protocol": "tcp", "pm": "default", "initial_path": "N-X", "duration_ns": 4 * SECOND}
    observation = measured(family="ipv6", **plain)
    assert observation.failed is None
    assert steady_bps(observation) == pytest.approx(20e6 * 1428 / 1500, rel=0.005)


def test_a_path_removed_and_announced_again_over_ipv6_is_joined_again(measured):
    script = (
        ScriptedAction(at_ns=500 * MS, path="W-X", action="remove"),
        ScriptedAction(at_ns=1500 * MS, path="W-X", action="add"),
    )
    observation = measured(family="ipv6", transfer_bytes=8_000_000, script=script)
    assert observation.failed is None and observation.in_order_bytes == 8_000_000
    assert observation.metadata["path_manager_problems"] == ""
    wide = [subflow for subflow in observation.subflows if subflow.path == "W-X"]
    assert len(wide) == 2 and all(subflow.bytes for subflow in wide)


def test_ndiffports_opens_its_subflows_on_one_path(measured):
    observation = measured(pm="ndiffports", pm_options={"ndiffports": 3})
    assert [subflow.path for subflow in observation.subflows] == ["W-X"] * 3


def test_standby_subflows_are_there_and_silent(measured):
    subflows = by_path(measured(pm="pcdc", pm_options={"active": ("W-X",), "standby_order": ("N-X",)}))
    assert subflows["W-X"].active and not subflows["N-X"].active
    assert subflows["N-X"].bytes < SILENT * subflows["W-X"].bytes and subflows["N-X"].min_rtt_ns > 0


@pytest.mark.parametrize(("smallest", "first"), [("W-X", "W-X"), ("N-X", "N-X")])
def test_a_small_transfer_begins_on_the_path_with_the_smallest_measured_rtt(measured, smallest, first):
    """Whatever the topology's own initial path is, which is the wide one."""
    rtts = {label: 10 * MS if label == smallest else 500 * MS for label in ("W-X", "N-X")}
    observation = measured(pm="pcdc", pm_options={"rtt_ns": rtts}, transfer_bytes=4096)
    assert observation.failed is None and observation.in_order_bytes == 4096
    assert observation.subflows[0].path == first
    assert by_path(observation)[first].bytes == 4096


def test_a_transfer_of_unknown_size_gets_further_subflows_beyond_the_limits_of_its_class(measured):
    """In the first class one subflow carries all of it; beyond that the other one too."""
    options = {"pm": "pcdc", "pm_options": {"class_bytes": (100_000, 200_000)}, "size_known": False}
    small = by_path(measured(transfer_bytes=50_000, **options))
    assert small["W-X"].bytes + small["N-X"].bytes == 50_000 and small["N-X"].bytes < SILENT * 50_000
    large = by_path(measured(transfer_bytes=4_000_000, **options))
    assert large["W-X"].bytes > 1_000_000 and large["N-X"].bytes > 100_000
    assert large["N-X"].active


def test_a_withdrawn_path_is_silent_until_it_is_readmitted(measured):
    script = (
        ScriptedAction(at_ns=1 * SECOND, path="W-X", action="standby"),
        ScriptedAction(at_ns=2 * SECOND, path="W-X", action="active"),
    )
    wide = by_path(measured(duration_ns=3 * SECOND, script=script))["W-X"].bins
    # Not each tenth of a second: behind a retransmission that is lost, nothing is in order for a while.
    assert sum(wide[5:10]) > 0
    # What the subflow held when it was withdrawn has left it by then.
    assert sum(wide[15:20]) < SILENT * sum(wide[5:10])
    assert sum(wide[25:30]) > 0


def test_a_cut_and_restored_path_loses_no_byte(measured):
    """The wide path is away for a second. A transfer is complete when all was received and compared."""
    script = (
        ScriptedAction(at_ns=700 * MS, path="W-X", action="down"),
        ScriptedAction(at_ns=1700 * MS, path="W-X", action="up"),
    )
    observation = measured(transfer_bytes=10_000_000, script=script)
    assert observation.failed is None
    assert observation.in_order_bytes == 10_000_000
    assert 0 < observation.metadata["takeover_ms"] < 1e-6 * observation.completion_ns
    wide = by_path(observation)["W-X"].bins
    assert sum(wide[:7]) > 0 and sum(wide[9:17]) == 0


def test_times_count_from_the_request_of_the_connection(measured, two):
    """One segment arrives after the handshake and one way more, by a clock that never saw the request."""
    rtt_ns = next(path.base_rtt_ns for path in two.paths if path.label == "W-X")
    took_ns = [
        measured(pm="default", initial_path="W-X", transfer_bytes=1000).completion_ns for _ in range(5)
    ]
    # Of a busy machine only the undisturbed one counts.
    assert min(took_ns) == pytest.approx(1.5 * rtt_ns, abs=2 * MS)


def test_a_standby_path_takes_over(measured):
    script = (ScriptedAction(at_ns=700 * MS, path="W-X", action="down"),)
    options = {"pm": "pcdc", "pm_options": {"active": ("W-X",), "standby_order": ("N-X",)}}
    observation = measured(transfer_bytes=6_000_000, script=script, **options)
    assert observation.failed is None and observation.in_order_bytes == 6_000_000
    assert by_path(observation)["N-X"].bytes > 1_000_000
    assert observation.metadata["takeover_ms"] > 0
    assert "N-X" in str(observation.metadata["outage W-X"])


def test_a_removed_address_ends_its_subflow_and_an_added_one_brings_it_back(measured):
    script = (
        ScriptedAction(at_ns=600 * MS, path="N-X", action="remove"),
        ScriptedAction(at_ns=1600 * MS, path="N-X", action="add"),
    )
    observation = measured(pm="fullmesh", duration_ns=2600 * MS, script=script)
    assert observation.failed is None
    first, again = (subflow for subflow in observation.subflows if subflow.path == "N-X")
    assert sum(first.bins[:5]) > 0 and sum(first.bins[9:]) == 0
    assert sum(again.bins[:15]) == 0 and sum(again.bins[20:]) > 0


def test_a_path_that_stays_away_is_a_stall(measured):
    script = (ScriptedAction(at_ns=500 * MS, path="W-X", action="down"),)
    observation = measured(pm="default", duration_ns=SECOND * 3 // 2, script=script)
    # The script makes the testbed patient: the trial ends before the patience does.
    assert observation.failed is None and sum(observation.bins[7:]) == 0
    observation = measured(pm="default", transfer_bytes=10**7, deadline_ns=2 * SECOND, script=script)
    assert observation.failed is not None and observation.failed.kind == "incomplete"
    assert 0 < observation.in_order_bytes < 10**7


#: A client that asks for 5,000 bytes at a time.
ASKING = Requests(
    request_bytes=400, response_bytes=5_000, think_ns=50 * MS, duration_ns=SECOND, patience_ns=SECOND
)

#: 200 bytes 40 times a second: each is acknowledged before the next is due, on the path of 20 ms.
MESSAGES = Messages(bytes=200, interval_ns=25 * MS, duration_ns=SECOND, patience_ns=SECOND)


PAUSING = """
name = "pausing"
sender = "S"
receiver = "R"
[sites.S]
name = "S"
[[sites.S.interfaces]]
isp = "A"
abbr = "A"
up = "20 Mbit/s"
down = "20 Mbit/s"
schedule = [
    { at = "2 s", up = "0 bit/s", down = "0 bit/s" },
    { at = "6 s", up = "20 Mbit/s", down = "20 Mbit/s" },
]
[sites.R]
name = "R"
[[sites.R.interfaces]]
isp = "X"
abbr = "X"
up = "100 Mbit/s"
down = "100 Mbit/s"
[core]
delay = "10 ms"
"""


def test_a_link_that_passes_nothing_for_seconds_is_no_stall(observed, tmp_path):
    """TCP goes on at its next timeout, and in the simulator too."""
    (tmp_path / "pausing.toml").write_text(PAUSING)
    asked = trials.trial(
        load(tmp_path / "pausing.toml"), protocol="tcp", pm="default", duration_ns=12 * SECOND
    )
    seen = observed(asked)
    assert seen.failed is None and sum(seen.bins[25:60]) == 0 < sum(seen.bins[100:])
    simulated = create("simulated").run(asked)
    assert seen.throughput_bps == pytest.approx(simulated.throughput_bps, rel=0.05)


def test_messages_take_as_long_as_the_faster_path_and_the_same_again(observed, trial):
    asked = trial(workload=MESSAGES)
    observation = observed(asked)
    assert observation.failed is None and "overloaded" not in observation.metadata
    assert len(observation.delays_ns) == 40
    assert all(10 * MS < delay_ns < 11 * MS for delay_ns in observation.delays_ns)
    assert observed(asked).delays_ns == observation.delays_ns


def test_messages_both_ways_take_the_slower_path_too_as_in_the_simulator(observed, trial):
    """ACKs wait for the messages that go back: to the scheduler the faster path is busy meanwhile."""
    both = msgspec.structs.replace(MESSAGES, both_ways=True, duration_ns=3 * SECOND)
    observation, simulated = (bed(trial(workload=both)) for bed in (observed, create("simulated").run))
    assert observation.failed is None and "overloaded" not in observation.metadata
    there, back = observation.delays_ns[:120], observation.delays_ns[120:]
    assert len(there) == len(back) == 120
    for way in (there, back):
        assert all(10 * MS < delay_ns < 11 * MS or 20 * MS < delay_ns < 21 * MS for delay_ns in way)
    expected = statistics.mean(simulated.delays_ns)
    assert 12 * MS < statistics.mean(observation.delays_ns) == pytest.approx(expected, rel=0.1)


def test_messages_beyond_the_rate_wait_for_room_and_their_delays_grow(measured):
    """24 Mbit/s on a path of 20, through a buffer that has room for one of them at a time."""
    heavy = msgspec.structs.replace(MESSAGES, bytes=75_000)
    observation = measured(workload=heavy, pm="default", initial_path="N-X", buffer_bytes=2**16)
    assert observation.failed is None and observation.in_order_bytes == 40 * 75_000
    delays_ns = observation.delays_ns
    assert delays_ns == sorted(delays_ns) and delays_ns[0] > 40 * MS
    # The last byte arrives when all of them took their time on the path.
    assert delays_ns[-1] > 40 * 75_000 * 8 * SECOND // 20_000_000 - 39 * 25 * MS


def test_responses_take_a_round_trip_and_the_same_again(observed, trial):
    """5,000 bytes on the path of 20 ms; the client thinks for 50 ms."""
    asked = trial(workload=ASKING)
    observation = observed(asked)
    assert observation.failed is None and "overloaded" not in observation.metadata
    assert observation.in_order_bytes == 5_000 * len(observation.delays_ns)
    assert len(observation.delays_ns) == 15
    assert all(20 * MS < time_ns < 26 * MS for time_ns in observation.delays_ns)
    assert observed(asked).delays_ns == observation.delays_ns


PAGE = Page(page_bytes=5_000, objects=3, object_bytes=1_000, think_ns=50 * MS, duration_ns=SECOND)


def test_pages_take_two_round_trips(measured):
    observation = measured(workload=PAGE, pm="default")
    assert observation.failed is None
    assert observation.in_order_bytes == 8_000 * len(observation.delays_ns)
    assert all(40 * MS < time_ns < 50 * MS for time_ns in observation.delays_ns)


def test_each_object_of_a_page_is_a_choice_of_the_scheduler_as_in_the_simulator(measured, trial):
    """From the second page on one of them takes the slower path: the quicker one has data outstanding."""
    pages = measured(workload=PAGE).delays_ns
    assert all(52 * MS < time_ns < 56 * MS for time_ns in pages[1:])
    assert pages == pytest.approx(create("simulated").run(trial(workload=PAGE)).delays_ns, rel=0.01)


def test_messages_that_do_not_arrive_fail_the_trial_which_has_the_delays_of_the_others(measured):
    observation = measured(workload=MESSAGES, pm="default", script=trials.cut("W-X", 500 * MS))
    assert observation.failed is not None and observation.failed.kind == "incomplete"
    # Of those that were due by the cut, from 20 ms on, when the connection was established, all arrive.
    assert len(observation.delays_ns) == 20
    assert observation.duration_ns == pytest.approx(2 * SECOND, abs=MS)


def test_bursts_are_those_that_the_simulator_draws(measured, trial):
    """Of the same seed: their sizes and times; each takes at least the way."""
    bursts = OnOff(mean_bytes=20_000, mean_gap_ns=200 * MS, duration_ns=3 * SECOND)
    observation = measured(workload=bursts)
    assert observation.failed is None
    assert observation.in_order_bytes == sum(piece.bytes for piece in observation.pieces)
    assert observation.pieces == create("simulated").run(trial(workload=bursts)).pieces
    assert len(observation.delays_ns) == len(observation.pieces) > 4
    assert all(taken_ns > 10 * MS for taken_ns in observation.delays_ns)
