"""Values to infer of a topology, and the topology with other values."""

import pytest

from mptune.calibration.parameters import KINDS, USUAL, parameters, with_values
from mptune.topology import TcpBackground, load, shipped


def test_only_assumed_values_are_inferred() -> None:
    topology = load("UNIS-HiN")
    inferred = parameters(topology)
    for parameter in inferred:
        if parameter.kind != "tcp":
            assert topology.provenance[parameter.key].assumed is not None
    keys = {parameter.key for parameter in inferred}
    assert "sites.UNIS.interfaces.U.up" in keys and "core.segments.U-U.loss" in keys
    assert "sites.HiN.interfaces.P.down" not in keys  # published
    # The sender's down link carries acknowledgements only.
    assert not any(key.endswith(("UNIS.interfaces.U.down", "UNIS.interfaces.U.queue_down")) for key in keys)


def test_a_link_that_cannot_limit_the_data_has_none() -> None:
    keys = {parameter.key for parameter in parameters(load("UiB-HiN"))}
    # 1 Gbit/s, and behind it 249 + 2 + 2 Mbit/s.
    assert not any(key.startswith("sites.UiB.interfaces.U") or key == "background.UiB U up" for key in keys)
    assert "background.UiB B up" in keys


def test_kinds_can_be_chosen() -> None:
    assert {parameter.kind for parameter in parameters(load("UNIS-HiN"), ("loss", "queue"))} == {
        "loss",
        "queue",
    }


@pytest.mark.parametrize("name", shipped())
def test_values_have_the_digits_of_their_words_within_the_bounds_of_a_file(name: str) -> None:
    for parameter in parameters(load(name)):
        for u in (-3.5, -1.0, 0.3, 3.5):
            value = parameter.value(u)
            assert parameter.rounded(value) == value
            assert parameter.value(u) >= parameter.value(u - 1)
            if parameter.kind == "loss":
                assert 0 < value < 10**9
        assert parameter.kind in KINDS


def test_values_change_what_they_name() -> None:
    topology = load("UNIS-HiN")
    by_key = {parameter.key: parameter for parameter in parameters(topology)}
    rate = by_key["sites.HiN.interfaces.U.down"]
    tcp = by_key["background.HiN U down"]
    rtt = by_key["core.segments.U-U.rtt"]
    changed = with_values(topology, {rate: 200_000_000, tcp: 2, rtt: 40_000_000})
    assert changed.receiver.interfaces[0].down_bps == 200_000_000
    # The queue keeps its 30 ms.
    assert changed.receiver.interfaces[0].queue_down_bytes == pytest.approx(200e6 / 8 * 0.03, rel=0.01)
    assert changed.background == (TcpBackground(path="U-U", cc="cubic"),) * 2
    assert changed.path("U-U", "").base_rtt_ns == 40_000_000
    assert changed.path("T-B", "") == topology.path("T-B", "")


def test_a_core_that_limits_nothing_can_get_a_bottleneck_with_others() -> None:
    topology = load("UiB-HU")
    assert not any(parameter.kind == "core" for parameter in parameters(topology, USUAL))
    by_key = {parameter.key: parameter for parameter in parameters(topology, KINDS)}
    rate, others = by_key["core.segments.U-C.rate"], by_key["background.core U-C"]
    changed = with_values(topology, {rate: 8_000_000, others: 1})
    core = changed.path("U-C", "").core
    assert core.rate_bps == 8_000_000 and core.queue_bytes == 100_000
    assert changed.background == (TcpBackground(path="U-C", cc="cubic"),)
    assert changed.path("B-C", "") == topology.path("B-C", "")
    assert rate.value(rate.quantile) > rate.stated  # unless the data show otherwise, nothing is limited
