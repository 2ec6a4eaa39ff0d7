"""A recorded trial on the running kernel: every packet is accounted for, and TCP's own counts agree."""

from functools import partial

import numpy as np
import pytest

from mptune.capture import FATES, export
from mptune.capture._model import ACK, NONE, SYN
from mptune.capture.connections import examine
from mptune.capture.series import curves
from tests.plugins import trials
from tests.plugins.reruns import spoiled
from tests.plugins.trials import SECOND

pytestmark = pytest.mark.usefixtures("testbed")

#: What the connection begins with, bytes (`config.rs`).
_TOKEN = 16


@pytest.fixture
def recorded(testbed, two):
    """An observation with its run: two seconds, long enough to overflow a queue."""
    observation, run = testbed.record(partial(trials.trial, two)(duration_ns=2 * SECOND, cc="reno"))
    return observation, run


@pytest.mark.measures("when the kernel is asked for its counts, of a connection that is still sending")
def test_every_packet_is_recorded_and_the_kernel_counts_the_same(recorded, two):
    observation, run = recorded
    if "overloaded" in observation.metadata:
        spoiled(str(observation.metadata["overloaded"]))
    packets = run.packets
    arrived = packets[packets["fate"] == FATES.index("arrived")]
    assert run.unrecorded == 0
    assert len(arrived) == observation.metadata["emulator_packets"]
    assert (arrived["left"] > arrived["entered"]).all()
    assert (np.diff(packets["entered"].astype("i8")) >= 0).all()
    assert len(packets[packets["fate"] == FATES.index("dropped")]) > 0

    labels = tuple(path.label for path in two.paths)
    series = curves(run, labels)
    for subflow in observation.subflows:
        repeats = len(series.subflows[subflow.path].repeats)
        assert abs(repeats - subflow.retransmitted) <= 2 + 0.02 * subflow.retransmitted, subflow.path
        delivered = series.subflows[subflow.path].delivered[-1]
        assert delivered >= subflow.bytes * 0.98
    in_order = (observation.in_order_bytes + _TOKEN) * 0.98
    assert series.in_order[-1] >= in_order
    acknowledged = packets["data_ack"][packets["data_ack"] != NONE].max()
    assert acknowledged >= in_order, "the last segments wait for a delayed acknowledgement"


def test_both_ends_of_a_connection_are_read(recorded, two):
    """Handshakes, positions, mappings and windows as the kernel writes them."""
    observation, run = recorded
    packets = run.packets
    syns = packets[(packets["flags"] & SYN > 0) & (packets["route"] % 2 == 0)]
    assert len(syns) == len(observation.subflows) == len(two.paths)
    data = packets[(packets["length"] > 0) & (packets["route"] % 2 == 0)]
    assert (data["data"] != NONE).all()
    acks = packets[(packets["route"] % 2 == 1) & (packets["flags"] & (SYN | ACK) == ACK)]
    known = acks[acks["data_ack"] != NONE]
    # What was acknowledged had been sent without holes, on one subflow or another.
    first, index = np.unique(data["data"], return_index=True)
    ends = np.maximum.accumulate(first + data["length"][index])
    holes = first[1:] > ends[:-1]
    assert first[0] == 0 and not holes[first[1:] < known["data_ack"].max()].any()
    assert len(known) > 0.9 * len(acks)
    assert int(known["window"].max()) > 2**16, "scaled"


def test_samples_are_those_of_the_subflows(recorded, two):
    _, run = recorded
    for path in range(len(two.paths)):
        samples = run.samples[run.samples["path"] == path]
        assert len(samples) > 100 and (samples["cwnd"] > 0).all()
        assert (np.diff(samples["t"]) > 0).all() and np.isfinite(samples["ssthresh"][-1])


def test_its_capture_tells_what_the_recording_has(testbed, two, tmp_path):
    """Packets, mappings and repetitions of the kernel, written as packets of the wire and read again."""
    trial = partial(trials.trial, two)(duration_ns=SECOND, cc="reno")
    _, run = testbed.record(trial)
    export.write(trial, run, tmp_path / "run.pcapng")
    (connection,) = examine(tmp_path / "run.pcapng").analysis.connections
    assert connection.whole and not connection.fallback
    sent = run.packets[(run.packets["route"] % 2 == 0) & (run.packets["length"] > 0)]
    seen = np.zeros(int((sent["data"] + sent["length"]).max()), bool)
    for start, length in zip(sent["data"].tolist(), sent["length"].tolist(), strict=True):
        seen[start : start + length] = True
    assert connection.there.sent_bytes == np.count_nonzero(seen)
    known = run.packets["data_ack"][(run.packets["route"] % 2 == 1) & (run.packets["data_ack"] != NONE)]
    assert connection.there.acked_bytes == int(known.max())
    series = curves(run, tuple(path.label for path in two.paths))
    assert len(connection.subflows) == len(two.paths)
    for subflow in connection.subflows:
        assert subflow.there.unmapped == 0 and subflow.handshake_ms is not None
    repeats = sorted(len(subflow.repeats) for subflow in series.subflows.values())
    assert sorted(subflow.there.retransmitted for subflow in connection.subflows) == repeats
