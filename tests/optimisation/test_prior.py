"""Worth of the simulator's predictions for a real testbed."""

import math

import msgspec
import pytest

from mptune.optimisation.prior import Prior
from mptune.strategy import Arm
from mptune.trial import Bulk, Combination, Configuration

SECOND = 10**9


@pytest.fixture
def prior(network, made_up_error, monkeypatch):
    """Of a network that counts as compared, with Cubic only."""
    compared = msgspec.structs.replace(made_up_error.compared, products=(0.0, 1e3), total_bps=(1e6, 1e9))
    learnt = msgspec.structs.replace(made_up_error, compared=compared)
    monkeypatch.setattr("mptune.optimisation.prior.shipped", lambda: learnt)

    def configuration(arm, size):
        return Configuration(pm=arm.pm, cc=arm.cc, buffer_bytes=size, workload=Bulk(duration_ns=SECOND))

    def worths(records):
        return [record.throughput_mbps for record in records]

    return Prior(network, configuration, Bulk(duration_ns=10 * SECOND), 1, worths)


def arms(*combinations):
    return [Arm(combination) for combination in combinations]


def test_its_error_is_that_of_its_kind(prior):
    """On three paths a spread of a tenth, with a half and nine tenths within 0.6 and 1.6 of it."""
    error = prior.error(arms(Combination("fullmesh", "cubic")), [2**18, 2**20])
    assert error == pytest.approx((math.expm1(0.06), math.expm1(0.16)))


def test_its_error_is_the_median_over_what_is_compared(prior):
    """With one path a spread of a tenth / e; arms that were not compared do not count."""
    known = [
        Combination("default", "cubic"),
        Combination("default", "cubic"),
        Combination("fullmesh", "cubic"),
    ]
    unknown = [Combination("fullmesh", "vegas")] * 5
    half, _ = prior.error(arms(*known, *unknown), [2**20])
    assert half == pytest.approx(math.expm1(0.06 / math.e))


def test_nothing_is_assumed_of_what_was_not_compared(prior):
    assert prior.error(arms(Combination("fullmesh", "vegas")), [2**20]) is None
