"""A recorded trial on the running kernel: every packet is accounted for, and TCP's own counts agree."""

from functools import partial

import numpy as np
import pytest

from mptune.capture import FATES
from mptune.capture._model import ACK, NONE, SYN
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
