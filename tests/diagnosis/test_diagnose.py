"""The account of what is missing: pure, of made-up trials."""

from typing import Any

import msgspec
import pytest

from mptune.diagnosis.causes import CAUSES
from mptune.diagnosis.diagnose import account, diagnose
from mptune.diagnosis.evidence import Evidence, Experiment, Figures, Flow, PathFacts, Settings
from mptune.diagnosis.plan import expected
from mptune.errors import MptuneError

LABELS = ("A-X", "B-X")
SETTINGS = Settings(pm="fullmesh", cc="cubic", send_bytes=100_000, receive_bytes=100_000, autotuned=True)


def flow(mbps: float, rtt_ms: float = 20, **more: Any) -> Flow:
    return Flow(mbps=mbps, bytes=round(mbps * 1e6), sent=10_000, rtt_ms=rtt_ms, min_rtt_ms=15, **more)


def trial(total: float | None = None, **flows: Flow | float) -> Figures:
    by_label = {
        {"a": "A-X", "b": "B-X"}[name]: one if isinstance(one, Flow) else flow(one)
        for name, one in flows.items()
    }
    mbps = sum(one.mbps for one in by_label.values()) if total is None else total
    return Figures(mbps=mbps, seconds=5, bytes=1, flows=by_label)


def tcp(label: str, buffers: Any = "now") -> Experiment:
    return Experiment(tcp=True, paths=(label,), buffers=buffers)


def mptcp(*paths: str, **more: Any) -> Experiment:
    return Experiment(paths=paths or LABELS, **more)


def evidence(
    trials: dict[Experiment, Figures], *, rates: tuple[float | None, ...] = (None, None), stripped: str = ""
) -> Evidence:
    paths = tuple(
        PathFacts(label=label, rate_mbps=rate, stripped=stripped if label == "B-X" else "")
        for label, rate in zip(LABELS, rates, strict=True)
    )
    return Evidence(paths=paths, settings=SETTINGS, trials=trials)


ALONE = {tcp("A-X"): trial(a=10), tcp("B-X"): trial(b=flow(5))}
LARGE = {tcp("A-X", "large"): trial(a=10), tcp("B-X", "large"): trial(b=5)}


def test_nothing_is_missing_where_the_sum_arrives():
    found = diagnose(evidence(ALONE | {mptcp(): trial(a=9.8, b=4.9)}))
    assert found.is_healthy and not found.findings and found.missing_mbps == pytest.approx(0.3)


def test_the_plan_ends_after_three_trials_where_nothing_is_missing():
    known = evidence({})
    assert expected(known) == [tcp("A-X"), tcp("B-X"), mptcp()]
    assert expected(evidence(ALONE | {mptcp(): trial(a=9.8, b=4.9)})) == []


def test_the_plan_is_the_same_for_the_same_numbers_in_any_order():
    trials = ALONE | {mptcp(): trial(a=4, b=1)}
    turned = dict(reversed(trials.items()))
    assert expected(evidence(trials)) == expected(evidence(turned)) != []


def test_larger_buffers_that_bring_everything_are_the_cause():
    trials = ALONE | LARGE | {mptcp(): trial(a=6, b=3), mptcp(buffers="large"): trial(a=9.9, b=5)}
    found = diagnose(evidence(trials))
    (cause,) = found.findings
    assert cause.kind == "buffer" and cause.mbps == pytest.approx(5.9) and "tcp_wmem" in cause.remedy
    assert found.unexplained_mbps == pytest.approx(0.1)


def test_a_receive_buffer_that_brings_everything_alone_is_the_receivers_window():
    trials = ALONE | LARGE | {mptcp(): trial(a=6, b=3), mptcp(buffers="large"): trial(a=9.9, b=5)}
    trials |= {mptcp(buffers="receive"): trial(a=9.9, b=5), mptcp(buffers="send"): trial(a=6, b=3)}
    (cause,) = diagnose(evidence(trials)).findings
    assert cause.kind == "receive window" and "tcp_wmem" not in cause.remedy


def test_a_far_path_without_which_there_is_more_blocks_the_head_of_the_line():
    trials = {tcp("A-X"): trial(a=10), tcp("B-X"): trial(b=flow(1, 500))}
    trials |= {
        mptcp(): trial(a=3, b=0.5),
        mptcp("A-X"): trial(a=9.8),
        mptcp(buffers="large"): trial(a=9.9, b=1),
    }
    (cause,) = diagnose(evidence(trials)).findings
    assert cause.kind == "head-of-line" and cause.paths == ("B-X",) and "leave B-X out" in cause.remedy


def test_two_paths_that_give_less_than_their_sum_with_any_buffer_share_a_link():
    trials = ALONE | LARGE | {mptcp(): trial(a=6, b=4), mptcp(buffers="large"): trial(a=6, b=4.2)}
    (cause,) = diagnose(evidence(trials)).findings
    assert cause.kind == "shared bottleneck" and cause.mbps == pytest.approx(4.8) and cause.paths == LABELS


def test_a_link_that_passes_what_both_paths_carry_is_no_bottleneck_for_a_little_that_is_missing():
    trials = ALONE | LARGE | {mptcp(): trial(a=8.7, b=4.6), mptcp(buffers="large"): trial(a=8.8, b=4.5)}

    def found(*wide: str) -> list[str]:
        paths = tuple(PathFacts(label=label, over=("R.X",), wide=wide) for label in LABELS)
        diagnosis = diagnose(Evidence(paths=paths, settings=SETTINGS, trials=trials))
        return [f"{cause.kind}: {cause.because}, {cause.remedy}" for cause in diagnosis.findings]

    (shared,) = found()
    assert "both cross R.X" in shared and "fewer subflows" not in shared, "one path alone has less"
    assert not any("shared bottleneck" in cause for cause in found("R.X"))


@pytest.mark.parametrize(("four", "kind"), [(8.0, "loss"), (5.1, "policing")])
def test_four_subflows_tell_losses_from_a_policer(four: float, kind: str):
    losing = flow(5, retransmitted=100)
    trials = {tcp("A-X"): trial(a=10), tcp("B-X"): trial(b=losing), mptcp(): trial(a=10, b=5)}
    trials |= {mptcp("B-X", buffers="large", subflows="four"): trial(b=four)}
    (cause,) = diagnose(evidence(trials, rates=(10, 20))).findings
    assert cause.kind == kind and cause.paths == ("B-X",)
    assert cause.mbps == pytest.approx(20 * 1448 / 1500 - 5)


def test_what_waits_for_lost_segments_in_ample_buffers_is_missing_because_of_the_losses():
    """Enlarging what holds many times what is on the way is no remedy; where it holds less, it is one."""
    trials = ALONE | {tcp("B-X"): trial(b=flow(5, retransmitted=100))}
    trials |= {mptcp(): trial(a=8, b=5), mptcp(buffers="large"): trial(a=10, b=5)}
    trials |= {mptcp(buffers="receive"): trial(a=10, b=5), mptcp(buffers="send"): trial(a=8, b=5)}
    trials |= {mptcp("B-X", buffers="large", subflows="four"): trial(b=9)}
    short = evidence(trials, rates=(10, 20))
    ample = msgspec.structs.replace(SETTINGS, send_bytes=4_000_000, receive_bytes=6_000_000)
    kinds = [
        [cause.kind for cause in diagnose(known).findings]
        for known in (short, msgspec.structs.replace(short, settings=ample))
    ]
    assert kinds == [["loss", "receive window"], ["loss"]]


def test_a_trial_of_a_few_round_trips_does_not_tell_a_policer():
    """Four subflows are in slow start as long as one is: the empty queue decides."""
    for min_rtt_ms, kind in ((15, "policing"), (500, "loss")):
        losing = msgspec.structs.replace(flow(5, 1.1 * min_rtt_ms, retransmitted=100), min_rtt_ms=min_rtt_ms)
        trials = {tcp("A-X"): trial(a=flow(10, 490)), tcp("B-X"): trial(b=losing)}
        trials |= {mptcp(): trial(a=10, b=5), mptcp("B-X", buffers="large", subflows="four"): trial(b=5.5)}
        (cause,) = diagnose(evidence(trials, rates=(10, 20))).findings
        assert cause.kind == kind


def test_what_overflows_a_full_queue_is_no_loss_of_the_line():
    """Four subflows fill the last of the rate sooner than one that is cautious after its slow start."""
    for rtt_ms, kinds in ((16, ["loss"]), (30, [])):
        trials = {tcp("A-X"): trial(a=10), tcp("B-X"): trial(b=flow(15, rtt_ms, retransmitted=900))}
        trials |= {mptcp(): trial(a=10, b=15), mptcp("B-X", buffers="large", subflows="four"): trial(b=17.5)}
        assert [cause.kind for cause in diagnose(evidence(trials, rates=(10, 20))).findings] == kinds


def test_a_policed_path_and_one_that_gives_more_have_no_bottleneck_in_common():
    trials = {tcp("A-X"): trial(a=20), tcp("B-X"): trial(b=flow(5, retransmitted=100))}
    trials |= {tcp("A-X", "large"): trial(a=20), tcp("B-X", "large"): trial(b=flow(5, retransmitted=100))}
    trials |= {mptcp(): trial(a=19.5, b=2), mptcp(buffers="large"): trial(a=19.5, b=2)}
    trials |= {mptcp("B-X", buffers="large", subflows="four"): trial(b=5)}
    assert [cause.kind for cause in diagnose(evidence(trials, rates=(21, 20))).findings] == ["policing"]
    assert "shared bottleneck" in {cause.kind for cause in diagnose(evidence(trials)).findings}


def test_a_path_without_a_subflow_is_missed_with_all_it_gives():
    trials = ALONE | {mptcp(): trial(a=9.9), mptcp(subflows="all"): trial(a=9.9, b=5)}
    (cause,) = diagnose(evidence(trials)).findings
    assert cause.kind == "subflows" and cause.mbps == pytest.approx(5) and "it carries data" in cause.because


def test_a_subflow_that_does_not_come_up_points_to_the_other_end():
    trials = ALONE | {mptcp(): trial(a=9.9), mptcp(subflows="all"): trial(a=9.9)}
    (cause,) = diagnose(evidence(trials)).findings
    assert cause.kind == "subflows" and "does not come up" in cause.because and "other end" in cause.remedy


def test_a_path_that_removes_the_options_is_named_with_its_reason():
    found = diagnose(evidence(ALONE | {mptcp(): trial(a=9.9)}, stripped="B-X carries no MPTCP"))
    (cause,) = found.findings
    assert cause.kind == "stripped" and "carries no MPTCP" in cause.because and cause.mbps == pytest.approx(5)


def test_a_connection_that_became_plain_tcp_is_a_fallback():
    together = msgspec.structs.replace(trial(a=9.9), fallback="MPCapableFallbackACK")
    (cause,) = diagnose(evidence(ALONE | {mptcp(): together})).findings
    assert cause.kind == "fallback" and "MPCapableFallbackACK" in cause.because


def test_busy_processors_are_the_host_s():
    together = msgspec.structs.replace(trial(a=6, b=3), busy={"receiver": 0.97})
    found = diagnose(evidence(ALONE | LARGE | {mptcp(): together, mptcp(buffers="large"): trial(a=6, b=3)}))
    assert found.findings[0].kind == "processor" and "97%" in found.findings[0].because


@pytest.mark.parametrize("together", [0.5, 3, 9, 14])
@pytest.mark.parametrize("large", [0.5, 6, 11, 15])
def test_shares_never_exceed_what_is_missing(together: float, large: float):
    trials = (
        ALONE | LARGE | {mptcp(): trial(a=together, b=0.1), mptcp(buffers="large"): trial(a=large, b=0.2)}
    )
    trials |= {mptcp("A-X"): trial(a=9)}
    found = diagnose(evidence(trials))
    shares = sum(cause.mbps for cause in found.findings) + found.unexplained_mbps
    assert shares == pytest.approx(found.missing_mbps) and all(cause.mbps >= 0 for cause in found.findings)


def test_a_failed_trial_of_everything_ends_the_diagnosis_with_its_reason():
    failed = Figures(mbps=0, seconds=0, bytes=0, failed="stalled: no progress")
    with pytest.raises(MptuneError, match="stalled: no progress"):
        diagnose(evidence(ALONE | {mptcp(): failed}))


def test_every_cause_says_nothing_of_a_sound_network():
    known = evidence(ALONE | {mptcp(): trial(a=10, b=5)})
    together = known.together()
    assert together is not None
    gaps = account(known, together)
    assert [finding for cause in CAUSES for finding in cause(known, gaps) if finding.mbps > 0] == []
