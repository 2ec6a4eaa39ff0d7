"""Who opens a trial's connection on a guest's kernel, and what that leaves as it was."""

import msgspec
import pytest

from mptune.testbeds import create
from mptune.trial import Bulk, Messages, Mix, Page, Part, Requests, ScriptedAction, Video

pytestmark = pytest.mark.needs("guest")

MS, SECOND = 10**6, 10**9
#: RFC 9293: flags of a recording's packets.
SYN, ACK = 1 << 1, 1 << 4
ASKING = Requests(request_bytes=400, response_bytes=60_000, think_ns=50 * MS, duration_ns=SECOND)
PAGE = Page(page_bytes=5_000, objects=3, object_bytes=1_000, think_ns=50 * MS, duration_ns=SECOND)
VIDEO = Video(ladder_bps=(800_000,), segment_ns=SECOND, buffer_ns=4 * SECOND, duration_ns=3 * SECOND)
CALLS = Messages(bytes=200, interval_ns=50 * MS, duration_ns=SECOND)
#: Bytes of the payload of every workload in which a client asks, by its parts.
PARTS = {ASKING: 60_000, PAGE: 8_000, VIDEO: 100_000}


def syns(run):
    """Directions of the SYNs that open subflows: "forth" is the way of the data."""
    opening = run.packets[run.packets["flags"] & (SYN | ACK) == SYN]
    return [("forth", "back")[route % 2] for route in opening["route"].tolist()]


@pytest.mark.parametrize("workload", PARTS)
def test_a_client_opens_its_connection_and_all_its_subflows(testbed, trial, workload):
    observation, run = testbed.record(trial(workload=workload))
    assert observation.failed is None
    assert syns(run) == ["back", "back"]
    assert {subflow.path for subflow in observation.subflows} == {"W-X", "N-X"}
    # What tells the connection from others is no payload.
    assert observation.in_order_bytes == PARTS[workload] * len(observation.delays_ns) == sum(observation.bins)
    assert observation.metadata["path_manager_problems"] == ""


@pytest.mark.parametrize("workload", [Bulk(duration_ns=SECOND), CALLS])
def test_who_sends_without_being_asked_opens_it(testbed, trial, workload):
    observation, run = testbed.record(trial(workload=workload))
    assert observation.failed is None
    assert syns(run) == ["forth", "forth"]


def test_the_guard_is_where_the_data_are(testbed, trial):
    _, run = testbed.record(trial(workload=ASKING, pm="guard"))
    assert set(syns(run)) == {"forth"}


def test_the_request_leaves_as_soon_as_the_client_is_connected(testbed, trial):
    """The trial's clock is the client's: its handshake takes a round trip, and the request leaves at once."""
    one = msgspec.structs.replace(ASKING, response_bytes=1_000, think_ns=990 * MS)
    observation = testbed.run(trial(workload=one, pm="default"))
    (response_ns,) = observation.delays_ns
    assert observation.duration_ns == pytest.approx(2 * response_ns, rel=0.05)
    simulated = create("simulated").run(trial(workload=one, pm="default"))
    assert observation.duration_ns == pytest.approx(simulated.duration_ns, abs=MS)


def test_standby_subflows_of_the_client_are_standby_at_the_server(testbed, trial):
    asked = trial(workload=ASKING, pm="pcdc", pm_options={"active": ("N-X",)}, initial_path="N-X")
    observation = testbed.run(asked)
    assert observation.failed is None
    carried = {subflow.path: subflow.bytes for subflow in observation.subflows}
    assert carried == {"N-X": observation.in_order_bytes, "W-X": 0}


def test_the_servers_congestion_control_and_buffers_are_those_of_the_trial(testbed, trial):
    asked = trial(workload=ASKING, cc="reno", buffer_bytes=300_000, receive_buffer_bytes=200_000)
    metadata = testbed.run(asked).metadata
    assert metadata["cc_effective"] == "reno"
    assert metadata["effective_sender_sndbuf"] == 600_000
    assert metadata["effective_receiver_rcvbuf"] == 400_000


def test_in_a_mix_each_connection_has_its_own_opener(testbed, trial):
    parts = (Part(workload=CALLS), Part(workload=ASKING), Part(workload=Bulk(duration_ns=SECOND)))
    observation = testbed.run(trial(workload=Mix(parts=parts)))
    assert observation.failed is None
    calls, asked, bulk = ((part.connections) for part in observation.parts)
    assert [len(one.delays_ns) for one in calls] == [20]
    assert [one.bytes for one in asked] == [60_000 * len(asked[0].delays_ns)]
    assert bulk[0].bytes > 0
    assert observation.metadata["path_manager_problems"] == ""


def test_plain_tcp_is_opened_by_its_client_too(testbed, trial):
    observation, run = testbed.record(trial(workload=ASKING, protocol="tcp", pm="default"))
    assert observation.failed is None and syns(run) == ["back"]
    assert observation.in_order_bytes == 60_000 * len(observation.delays_ns)


def test_a_path_that_the_script_takes_away_is_taken_from_the_client(testbed, trial):
    script = (ScriptedAction(at_ns=300 * MS, path="W-X", action="remove"),)
    observation = testbed.run(trial(workload=ASKING, script=script))
    assert observation.failed is None
    assert observation.in_order_bytes == 60_000 * len(observation.delays_ns)
    removed = {subflow.path: subflow for subflow in observation.subflows}["W-X"]
    assert 0 < removed.bytes < observation.in_order_bytes / 2
