"""Mixes: when their connections begin, what they are judged by, and how fair it was."""

import itertools

import msgspec
import pytest

from mptune.topology import load
from mptune.trial import (
    Bulk,
    ConnectionObservation,
    Messages,
    Mix,
    Observation,
    Part,
    PartObservation,
    Pattern,
    PlannedTrial,
    Requests,
    Saturating,
    Several,
    Single,
    Sized,
    Transfer,
    Trial,
    Workload,
    fairness,
    judged,
    on_each,
    size_of,
)
from mptune.trial.kept import of_part, sent_of
from mptune.trial.metrics import FAIRNESS, THROUGHPUT
from mptune.trial.objectives import has, metric_named, metric_of, metrics_of
from mptune.trial.records import record
from mptune.trial.workloads.messages import GAP

MS, SECOND = 10**6, 10**9
CALLS = Messages(bytes=200, interval_ns=100 * MS, duration_ns=SECOND)
ASKING = Requests(request_bytes=400, response_bytes=65536, duration_ns=SECOND)
NETWORK = load("CLOUD-HOME.hybrid")
BULK = Bulk(duration_ns=SECOND)


def mix(*parts: Single | tuple[int, Single]) -> Mix:
    pairs = [part if isinstance(part, tuple) else (1, part) for part in parts]
    return Mix(parts=tuple(Part(workload=one, connections=count) for count, one in pairs))


def test_connections_begin_at_times_drawn_from_the_seed_within_a_tenth_of_what_they_last():
    many = mix((500, BULK), (300, CALLS))
    starts = many.starts_ns(7)
    assert [len(of_part) for of_part in starts] == [500, 300] and starts[0][0] == 0
    drawn = [*starts[0][1:], *starts[1]]
    assert max(drawn) < SECOND // 10 and len(set(drawn)) > 790
    # Uniform: of twelve seeds the standard error of the mean is 0.3 % of the span.
    pooled = [at for seed in range(12) for at in many.starts_ns(seed)[0][1:]]
    assert sum(pooled) / len(pooled) == pytest.approx(SECOND / 20, rel=0.02)
    assert starts == many.starts_ns(7) != many.starts_ns(8)
    # Another part behind it changes nothing for those before.
    assert mix((500, BULK)).starts_ns(7)[0] == starts[0]
    assert max(itertools.chain(*mix((500, Transfer(bytes=1))).starts_ns(1))) < SECOND


def test_a_trial_is_judged_by_its_first_part():
    workload = mix(CALLS, (2, BULK), ASKING)
    assert judged(workload) == CALLS and judged(BULK) == BULK
    assert metric_of(workload).word == "delay:p99"
    assert has(workload, GAP) and has(workload, metric_named("late:150ms")) and not has(workload, THROUGHPUT)
    names = [metric.name for metric in metrics_of(workload)]
    assert names[:4] == [metric.name for metric in metrics_of(CALLS)]
    assert names[4:] == ["bulk: throughput", *(f"requests: {one.name}" for one in metrics_of(ASKING))]
    names = [metric.name for metric in metrics_of(mix((2, BULK), CALLS, CALLS))]
    assert names[:3] == ["throughput", "fairness", "messages 2: delay p99"]


def test_a_mix_lasts_as_long_as_its_longest_part_and_has_a_size_if_all_do_the_same():
    workload = mix(CALLS, Bulk(duration_ns=3 * SECOND))
    assert workload.duration_ns == 3 * SECOND and workload.limit_ns == 11 * SECOND + SECOND // 10
    assert workload.waiting_bytes is None and mix(CALLS).waiting_bytes == CALLS.waiting_bytes
    assert size_of(mix((3, Transfer(bytes=5)))) == 5 and size_of(mix(Transfer(bytes=5), BULK)) is None


def test_what_is_asked_for_becomes_a_mix_of_a_time():
    asked = on_each(Pattern(bytes=200, interval_ns=100 * MS), 3)
    assert asked.lasting(SECOND) == mix((3, CALLS))
    several = Several(
        parts=(*asked.parts, *on_each(Saturating(), 1).parts, *on_each(Sized(bytes=9), 2).parts)
    )
    assert on_each(several, 2).lasting(SECOND) == mix((6, CALLS), (2, BULK), (4, Transfer(bytes=9)))
    assert msgspec.convert(msgspec.to_builtins(several.lasting(SECOND)), Workload) == several.lasting(SECOND)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [([1, 1, 1, 1], 1), ([1, 0, 0, 0], 0.25), ([3, 3, 0], 2 / 3), ([1, 2], 0.9), ([0, 0], None), ([], None)],
)
def test_fairness_is_jains_index(shares, expected):
    """Jain, Chiu and Hawe (1984): k of n equal shares have k / n."""
    assert fairness(shares) == (None if expected is None else pytest.approx(expected))


def connection(size: int, delays: list[int], completion_ns: int | None = None) -> ConnectionObservation:
    return ConnectionObservation(
        duration_ns=SECOND, bytes=size, retransmitted=0, completion_ns=completion_ns, delays_ns=delays
    )


def test_a_record_has_every_part_as_if_it_were_the_only_one():
    workload = mix(BULK, (2, CALLS))
    late = [2 * MS] * 9 + [403 * MS]
    calls = [connection(2000, [MS] * 10), connection(1000, late)]
    observed = Observation(
        testbed="fake",
        duration_ns=SECOND,
        in_order_bytes=125_000,
        bins=[],
        subflows=[],
        parts=[
            PartObservation(connections=[connection(125_000, [])]),
            PartObservation(connections=calls),
        ],
    )
    trial = Trial(topology=NETWORK, pm="fullmesh", cc="reno", buffer_bytes=2**20, seed=1, workload=workload)
    kept = record(PlannedTrial(purpose="sweep", run=0, trial=trial), observed)
    assert sent_of(kept.settings)["kind"] == "bulk" and FAIRNESS.of(kept) is None
    assert kept.throughput_mbps == kept.parts[0].throughput_mbps == 1.0
    spoken = of_part(kept, 1)
    assert spoken.throughput_mbps == pytest.approx(0.024) and len(spoken.delays_ms) == 20
    # Of the two connections the longer gap; none between them.
    assert GAP.of(spoken) == pytest.approx(501)
    assert kept.parts[1].fairness == pytest.approx(90)
    values = {metric.name: metric.of(kept) for metric in metrics_of(workload)}
    assert values["throughput"] == 1.0 and values["messages: longest gap"] == GAP.of(spoken)
