"""Predictions of throughput that were learnt from simulated trials."""

import msgspec
import numpy as np
import pytest

from mptune.optimisation.learnt_features import VERSION, fair_bps, of_configuration, of_subflows
from mptune.optimisation.learnt_prior import SHIPPED, LearntPrior, shipped
from mptune.strategy import Arm
from mptune.topology import Topology
from mptune.trial import Combination

KIB = 1024


def arm(network: Topology, pm: str, cc: str = "cubic", *labels: str) -> Arm:
    active = labels or tuple(path.label for path in network.paths)
    return Arm(Combination(pm, cc, labels), frozenset(active))


def test_paths_share_an_access_link_evenly(network: Topology) -> None:
    rates = fair_bps(network.paths)
    for local in {path.local_index for path in network.paths}:
        through = sum(
            rate for path, rate in zip(network.paths, rates, strict=True) if path.local_index == local
        )
        assert through <= network.sender.interfaces[local].up_bps * (1 + 1e-9)
    (alone,) = fair_bps(network.paths[:1])
    assert alone == pytest.approx(network.paths[0].rate_bps)


def test_a_path_gets_what_another_cannot_use(network: Topology) -> None:
    first, second = network.paths[:2]
    slow = msgspec.structs.replace(
        first, core=msgspec.structs.replace(first.core, rate_bps=first.rate_bps // 10, queue_bytes=10**5)
    )
    beside = msgspec.structs.replace(second, local=first.local, local_index=first.local_index)
    rates = fair_bps([slow, beside])
    assert rates[0] == pytest.approx(first.rate_bps // 10)
    assert rates[1] == pytest.approx(min(second.rate_bps, first.local.up_bps - rates[0]))


def test_throughput_is_predicted_to_rise_from_a_tiny_buffer_to_a_large_one(network: Topology) -> None:
    buffers = [32 * KIB, 128 * KIB, 4096 * KIB]
    prior = LearntPrior(network, grown=False)
    for row in prior.rows([arm(network, "fullmesh"), arm(network, "tcp", "reno", "A-X")], buffers):
        assert row[0] < row[1] < row[2]


def test_a_prediction_does_not_exceed_the_rate(network: Topology) -> None:
    (row,) = LearntPrior(network, grown=True).rows([arm(network, "tcp", "cubic", "A-X")], [2**20, 2**25])
    path = next(path for path in network.paths if path.label == "A-X")
    assert max(row) <= path.rate_bps / 1e6


def test_arms_do_not_depend_on_each_other(network: Topology) -> None:
    arms = [arm(network, "fullmesh", cc) for cc in ("reno", "vegas")]
    prior = LearntPrior(network, grown=False)
    both = prior.rows(arms, [2**18, 2**20])
    assert both == prior.rows(arms[:1], [2**18, 2**20]) + prior.rows(arms[1:], [2**18, 2**20])


@pytest.mark.parametrize("cc", ["bbr", "balia"])
def test_nothing_is_predicted_of_an_unknown_congestion_control(network: Topology, cc: str) -> None:
    arms = [arm(network, "fullmesh"), arm(network, "fullmesh", cc)]
    assert LearntPrior(network, grown=False).rows(arms, [2**20]) == ()


def test_nothing_is_predicted_of_unknown_subflows(network: Topology) -> None:
    unknown = Arm(Combination("ndiffports", "cubic"))
    assert LearntPrior(network, grown=False).rows([unknown], [2**20]) == ()


def test_the_shipped_file_belongs_to_these_features(network: Topology) -> None:
    learnt = shipped()
    subflows = of_subflows(network, frozenset(path.label for path in network.paths))
    row = of_configuration(subflows, "cubic", 2**20, mesh=True, plain=False, grown=False)
    assert learnt.features == VERSION
    assert len(row) == len(learnt.centre) == len(learnt.spread) == learnt.shapes[0][0] - 1
    assert np.isfinite(row).all()
    assert 0 < learnt.error[0] < learnt.error[1] < 1
    assert SHIPPED.stat().st_size <= 5_000_000
