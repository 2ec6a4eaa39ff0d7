"""Several connections at once on a guest's kernel, and TCP connections of others in the same queues."""

import statistics
from functools import partial

import msgspec
import pytest

from mptune.topology import TcpBackground, load
from mptune.trial import Bulk, Messages, Mix, Part, Requests
from tests.plugins import trials, two_paths

pytestmark = pytest.mark.needs("guest")

MS, SECOND = 10**6, 10**9
CALLS = Messages(bytes=200, interval_ns=50 * MS, duration_ns=2 * SECOND)


@pytest.fixture
def trial(tmp_path):
    """A trial of a second over 40 and 20 Mbit/s, with changes."""
    file = tmp_path / "two.toml"
    file.write_text(two_paths.WIDE_AND_NARROW)
    return partial(trials.trial, load(file))


def mix(*parts):
    return Mix(parts=tuple(Part(workload=one, connections=count) for count, one in parts))


def test_workloads_of_a_mix_run_at_the_same_time_and_each_is_whole(testbed, trial):
    asking = Requests(request_bytes=400, response_bytes=10_000, think_ns=50 * MS, duration_ns=2 * SECOND)
    workload = mix((2, CALLS), (1, Bulk(duration_ns=2 * SECOND)), (1, asking))
    observation = testbed.run(trial(workload=workload))
    assert observation.failed is None
    calls, bulk, asked = observation.parts
    assert [len(one.delays_ns) for one in calls.connections] == [40, 40]
    assert observation.delays_ns == [ns for one in calls.connections for ns in one.delays_ns]
    assert observation.in_order_bytes == 2 * 40 * 200 == sum(observation.bins)
    (sender,) = bulk.connections
    # It may fill 60 Mbit/s; what the others have of that is little.
    assert sender.bytes * 8 > 10e6 and sender.duration_ns <= 2 * SECOND
    (client,) = asked.connections
    assert len(client.delays_ns) > 5 and client.bytes == 10_000 * len(client.delays_ns)
    # Its queue is theirs as well.
    assert statistics.median(observation.delays_ns) > 11 * MS
    assert len({subflow.path for subflow in observation.subflows}) == len(observation.subflows)


def test_many_connections_fill_the_paths_together(testbed, trial):
    observation = testbed.run(trial(workload=mix((8, Bulk(duration_ns=3 * SECOND)))))
    assert observation.failed is None and observation.duration_ns == pytest.approx(3 * SECOND, rel=0.01)
    (crowd,) = observation.parts
    assert len(crowd.connections) == 8 and all(one.bytes for one in crowd.connections)
    assert sum(one.bytes for one in crowd.connections) == observation.in_order_bytes
    assert 30e6 < observation.throughput_bps < 60e6


def test_a_tcp_connection_of_others_shares_the_path_for_its_time(testbed, trial):
    """20 Mbit/s, from the first second to the second, of which both have a part."""
    network = trial().topology
    other = TcpBackground(path="N-X", cc="cubic", start_ns=SECOND, stop_ns=2 * SECOND)
    later = TcpBackground(path="N-X", cc="cubic", start_ns=60 * SECOND)
    shared = msgspec.structs.replace(network, background=(other, later))
    plain = {"protocol": "tcp", "pm": "default", "initial_path": "N-X", "duration_ns": 3 * SECOND}
    observation = testbed.run(msgspec.structs.replace(trial(**plain), topology=shared))
    assert observation.failed is None and observation.parts == []
    ours, never = observation.background
    assert ours.path == "N-X" and ours.duration_ns == pytest.approx(SECOND, rel=0.02)
    assert 1e6 < ours.bytes * 8 < 20e6
    assert (never.bytes, never.duration_ns) == (0, 0)
    per_second = [8 * sum(observation.bins[first : first + 10]) for first in (0, 10, 20)]
    assert per_second[1] < 0.95 * max(per_second[0], per_second[2])
