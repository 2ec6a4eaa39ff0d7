"""The finalist that survives fresh trials and networks that are off."""

import pytest

from mptune.decision.robustness import change, finalists, is_beaten, survivor, without_mptcp
from mptune.trial import Combination

MODEL, PATH, MESH = (
    Combination("pcdc", "reno"),
    Combination("pcdc", "reno", ("A-X",)),
    Combination("fullmesh", "cubic"),
)


def chosen(stated, others, sacrifice=0.07):
    others = {combination: others.get(combination, []) for combination in stated}
    return survivor(MODEL, stated, finalists(2**20, stated, others), sacrifice)


def test_the_favourite_stays_if_nobody_is_clearly_faster():
    """Faster by less than a percent, or by luck, is no reason."""
    assert chosen({MODEL: [100.0, 101.0, 99.0], PATH: [100.5, 101.5, 99.5]}, {}) == MODEL
    assert chosen({MODEL: [100.0, 101.0, 99.0], PATH: [140.0, 80.0, 110.0]}, {}) == MODEL


def test_a_faster_one_with_the_same_buffer_wins():
    assert chosen({MODEL: [100.0, 101.0, 99.0], PATH: [104.0, 105.0, 102.0]}, {}) == PATH


def test_a_needle_loses_against_what_holds_in_other_networks():
    stated = {MODEL: [100.0] * 3, PATH: [97.0] * 3, MESH: [50.0] * 3}
    others = {MODEL: [99.0, 40.0, 98.0], PATH: [96.0, 95.0, 97.0], MESH: [50.0, 50.0, 50.0]}
    assert chosen(stated, others) == PATH
    worst = {finalist.combination: finalist.worst for finalist in finalists(2**20, stated, others)}
    assert worst == {MODEL: 40 / 95, PATH: pytest.approx(96 / 99), MESH: pytest.approx(50 / 99)}
    sentence = change(MODEL, PATH, finalists(2**20, stated, others), 0.2)
    assert "pcdc on A-X with reno gave 97.0" in sentence and "at least 97% instead of 42%" in sentence


def test_where_nobody_holds_everywhere_the_best_on_average_wins():
    """The average is geometric: half in one network is not made up for by a little more in the other."""
    others = {MODEL: [100.0, 50.0], PATH: [50.0, 100.0], MESH: [80.0, 80.0]}
    assert chosen({other: [100.0, 100.0] for other in others}, others) == MESH


def test_a_single_bad_network_does_not_outweigh_all_the_others():
    """Where nobody holds everywhere, a favourite that is far better in most networks stays."""
    stated = {MODEL: [150.0, 150.0], PATH: [116.0, 116.0]}
    others = {MODEL: [150.0] * 7 + [65.0], PATH: [110.0] * 7 + [100.0]}
    assert chosen(stated, others) == MODEL


FAMILIAR = MODEL._replace(cc="cubic")


@pytest.mark.parametrize(
    ("throughput", "elsewhere", "expected"),
    [(99.5, 99.5, FAMILIAR), (98.5, 99.5, MODEL), (99.5, 97.0, MODEL), (99.5, 60.0, MODEL)],
    ids=["as good", "slower", "slower elsewhere", "fails elsewhere"],
)
def test_of_equally_good_ones_the_congestion_control_is_the_one_that_every_kernel_runs(
    throughput, elsewhere, expected
):
    stated = {MODEL: [100.0] * 3, FAMILIAR: [throughput] * 3, PATH: [80.0] * 3}
    others = {MODEL: [100.0, 100.0], FAMILIAR: [elsewhere, elsewhere], PATH: [80.0, 80.0]}
    assert chosen(stated, others) == expected
    if expected == FAMILIAR:
        sentence = change(MODEL, FAMILIAR, finalists(2**20, stated, others), 0.2)
        assert "cubic, which every kernel has, gives as much with the same buffer: 99.5" in sentence


def test_a_favourite_that_fails_is_not_the_answer():
    assert chosen({MODEL: [0.0, 0.0], PATH: [90.0, 90.0]}, {}) == PATH
    ranked = finalists(2**20, {MODEL: [0.0, 0.0], PATH: [90.0, 90.0]}, {MODEL: [], PATH: []})
    assert ranked[0].throughput is None and "every fresh trial of it failed" in change(
        MODEL, PATH, ranked, 0.2
    )


TCP = Combination.plain_tcp("K-C", "cubic")


def beaten(stated, others, sacrifice=0.07):
    return is_beaten(MODEL, TCP, stated, finalists(2**20, stated, others), sacrifice)


@pytest.mark.parametrize(
    ("rates", "others", "expected"),
    [
        ([104.0, 105.0, 103.0], ([99.0, 100.0], [100.0, 99.0]), True),
        ([100.5, 101.5, 99.5], ([99.0, 100.0], [100.0, 99.0]), False),
        ([150.0, 60.0, 130.0], ([99.0, 100.0], [100.0, 99.0]), False),
        ([104.0, 105.0, 103.0], ([99.0, 100.0], [100.0, 80.0]), False),
        ([104.0, 105.0, 103.0], ([70.0, 100.0], [100.0, 80.0]), True),
    ],
    ids=["faster", "hardly faster", "by luck", "fails elsewhere", "fails less than MPTCP"],
)
def test_plain_tcp_beats_mptcp_only_where_it_is_clearly_faster_and_holds(rates, others, expected):
    stated = {MODEL: [100.0, 101.0, 99.0], TCP: rates}
    assert beaten(stated, dict(zip((MODEL, TCP), others, strict=True))) == expected


def test_plain_tcp_as_the_answer_has_its_reason_and_price():
    stated = {MODEL: [0.0, 0.0], TCP: [90.0, 90.0]}
    sentence = without_mptcp(MODEL, TCP, finalists(2**20, stated, {MODEL: [], TCP: []}))
    assert "plain TCP on K-C with cubic gave 90.0" in sentence and "--no-tcp" in sentence
    assert "every trial of the best MPTCP, pcdc with reno, failed" in sentence
