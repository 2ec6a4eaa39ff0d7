"""Making the learnt prior: what is drawn, what is learnt, and how far it is off elsewhere."""

import numpy as np
import pytest

from benchmarks.decision import learning
from benchmarks.decision._training import Course, trained
from benchmarks.shared.random_networks import random_network
from mptune.trial import SENDER


def test_a_network_learns_a_corner_and_a_seed_repeats_it() -> None:
    chance = np.random.default_rng(1)
    inputs = chance.standard_normal((2048, 3)).astype(np.float32)
    targets = np.maximum(inputs[:, 0], inputs[:, 1])
    first, second = (trained(inputs, targets, 7, Course(layers=(16,), epochs=150)) for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))
    hidden = np.maximum(inputs @ first[0][:-1] + first[0][-1], 0)
    answers = (hidden @ first[1][:-1] + first[1][-1])[:, 0]
    assert float(np.sqrt(np.mean((answers - targets) ** 2))) < 0.2 * float(targets.std())


def test_configurations_are_drawn_within_their_network() -> None:
    network = random_network(learning.FIRST)
    labels = {path.label for path in network.paths}
    ones = list(learning.drawn(network, learning.FIRST))
    assert ones == list(learning.drawn(network, learning.FIRST))
    assert {SENDER, "fixed"} == {one.mode for one in ones}
    for one in ones:
        assert set(one.subflows) <= labels
        assert bool(one.subflows) == (one.pm != "fullmesh")
        assert one.buffer_bytes % 1024 == 0 < one.buffer_bytes


def test_errors_are_shares_of_the_largest_throughput_once_the_level_is_known() -> None:
    shares, mbps = np.array([1.0, 0.5, 0.5, 0.25]), np.array([10.0, 10.0, 100.0, 100.0])
    data = learning.Data(np.zeros((4, 1)), shares, mbps, np.array([1, 1, 2, 2]))
    assert learning.apart(3 * shares * mbps, data) == pytest.approx(np.zeros(4))
    even = learning.apart(np.ones(4), data)
    # Of 10 and 5 Mbit/s, 7.5 each are expected; of 50 and 25, 37.5.
    assert even == pytest.approx(np.full(4, 0.25))
