"""Models of links: their draws have the numbers of their papers; a seed is a course, on every testbed."""

import math
from collections.abc import Callable
from functools import cache
from itertools import groupby, pairwise
from random import Random
from statistics import mean

import msgspec
import pytest

from mptune.errors import InputError
from mptune.testbeds import create
from mptune.topology import Topology, from_document
from mptune.topology.models import Mobile5g, Model, Moment, Starlink, Wifi
from mptune.topology.models.wifi import MCS, stationary
from mptune.trial import Bulk, Trial

Given = Callable[..., Topology]

MODELS: dict[str, Model] = {
    "starlink": Starlink(moving=False),
    "moving": Starlink(moving=True),
    "verizon": Mobile5g(like="verizon"),
    "att": Mobile5g(like="att"),
    "tmobile": Mobile5g(like="tmobile"),
    "wifi": Wifi(busy=False),
    "busy": Wifi(busy=True),
}
COURSES = 150


def drawn(model: Model, seed: int) -> list[Moment]:
    return list(model.course(Random(f"events/{seed}"), Random(f"rates/{seed}")))


@cache
def seconds(name: str) -> list[list[float]]:
    """Rates in the middle of every second of many courses."""
    model, found = MODELS[name], []
    for seed in range(COURSES):
        moments, rates, at = drawn(model, seed), list[float](), 0
        for second in range(model.lasts_ns // 10**9):
            while at + 1 < len(moments) and moments[at + 1].at_ns <= second * 10**9 + 5 * 10**8:
                at += 1
            rates.append(moments[at].rate)
        found.append(rates)
    return found


def passing(name: str) -> list[float]:
    """Rates outside outages, sorted, relative to their mean."""
    rates = sorted(rate for course in seconds(name) for rate in course if rate)
    usual = mean(rates)
    return [rate / usual for rate in rates]


def autocorrelation(name: str, lag: int) -> float:
    pairs = [
        (before, after)
        for course in seconds(name)
        for before, after in zip(course, course[lag:], strict=False)
        if before and after
    ]
    first, second = mean(pair[0] for pair in pairs), mean(pair[1] for pair in pairs)
    both = sum((one - first) * (other - second) for one, other in pairs)
    squares = [sum((pair[i] - usual) ** 2 for pair in pairs) for i, usual in ((0, first), (1, second))]
    return both / math.sqrt(squares[0] * squares[1])


def outages(name: str) -> list[int]:
    """Duration of each outage, seconds."""
    return [
        len(list(run)) for course in seconds(name) for out, run in groupby(not rate for rate in course) if out
    ]


@pytest.mark.parametrize("name", MODELS)
def test_the_mean_rate_is_the_links_own_and_time_goes_forward(name: str) -> None:
    model, total = MODELS[name], 0.0
    for seed in range(COURSES):
        moments = drawn(model, seed)
        times = [moment.at_ns for moment in moments]
        assert times[0] == 0 and times == sorted(set(times)) and times[-1] < model.lasts_ns
        assert all(moment.rate >= 0 and moment.delay_ns >= 0 for moment in moments)
        ends = [*times[1:], model.lasts_ns]
        total += sum(moment.rate * (end - moment.at_ns) for moment, end in zip(moments, ends, strict=True))
    assert total / COURSES / model.lasts_ns == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("name", "quantiles"),
    [
        ("starlink", (0.184, 0.631, 1.009, 1.358, 1.778)),
        ("verizon", (0.053, 0.274, 0.753, 1.513, 2.645)),
        ("att", (0.062, 0.331, 0.680, 1.361, 3.080)),
        ("tmobile", (0.026, 0.165, 0.587, 1.801, 2.754)),
    ],
)
def test_rates_have_the_quantiles_of_the_sets(name: str, quantiles: tuple[float, ...]) -> None:
    rates = passing(name)
    for share, value in zip((0.05, 0.25, 0.5, 0.75, 0.95), quantiles, strict=True):
        assert rates[int(share * len(rates))] == pytest.approx(value, rel=0.12, abs=0.02)


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("starlink", {1: 0.815, 5: 0.621, 15: 0.383}),
        ("verizon", {1: 0.955, 5: 0.870, 15: 0.767, 60: 0.578}),
        ("att", {1: 0.912, 5: 0.835, 15: 0.695, 60: 0.408}),
        ("tmobile", {1: 0.936, 5: 0.871, 15: 0.793, 60: 0.613}),
    ],
)
def test_rates_are_as_correlated_as_in_the_sets(name: str, measured: dict[int, float]) -> None:
    for lag, value in measured.items():
        assert autocorrelation(name, lag) == pytest.approx(value, abs=0.13)


@pytest.mark.parametrize(
    ("name", "per_hour", "lasts"),
    [("moving", 21.95, 20.2), ("verizon", 13.89, 4.74), ("att", 48.28, 1.89), ("tmobile", 64.71, 2.38)],
)
def test_outages_are_as_many_and_as_long(name: str, per_hour: float, lasts: float) -> None:
    found = outages(name)
    assert len(found) * 3600 / (COURSES * 600) == pytest.approx(per_hour, rel=0.12)
    # Those that a course cuts off are shorter.
    assert mean(found) == pytest.approx(lasts, rel=0.15)


def test_starlink_changes_every_15_s_and_is_disturbed_for_215_ms() -> None:
    moments = drawn(MODELS["starlink"], 3)
    changes = [after.at_ns for before, after in pairwise(moments) if before.delay_ns != after.delay_ns]
    assert {later - earlier for earlier, later in pairwise(changes)} == {15 * 10**9}
    for change in changes:
        around = [moment for moment in moments if change - 10**9 < moment.at_ns < change + 10**9]
        silent = [moment.at_ns for moment in around if not moment.rate]
        assert silent[0] == change - 75_000_000
        assert next(m.at_ns for m in around if m.rate and m.at_ns > change) == change + 140_000_000
    delays = [moment.delay_ns for seed in range(COURSES) for moment in drawn(MODELS["starlink"], seed)]
    assert min(delays) < 100_000 and 3_700_000 < max(delays) <= 3_800_000
    assert mean(delays) == pytest.approx(1_900_000, rel=0.05)


def test_wifi_is_at_the_lowest_rate_for_2_percent_and_waits_as_measured() -> None:
    usual = sum(share * rate for share, rate in zip(stationary(), MCS, strict=True))
    assert stationary()[0] == pytest.approx(0.021, abs=0.0005)
    moments = [moment for seed in range(COURSES) for moment in drawn(MODELS["busy"], seed)]
    lowest = sum(moment.rate == pytest.approx(MCS[0] / usual) for moment in moments) / len(moments)
    assert lowest == pytest.approx(0.021, abs=0.006)
    waits = sorted(2 * moment.delay_ns / 1e6 for moment in moments)
    assert waits[len(waits) // 2] == pytest.approx(20, rel=0.03)
    assert waits[int(0.9 * len(waits))] == pytest.approx(100, rel=0.05)
    assert not any(moment.delay_ns for moment in drawn(MODELS["wifi"], 1))


def links(topology: Topology, seed: int) -> dict[str, dict[str, object]]:
    return {link["name"]: link for link in topology.network(seed)["links"]}


def test_a_seed_is_a_course_and_both_links_have_events_at_once(given: Given) -> None:
    topology = given('model = { kind = "starlink", moving = true }')
    assert topology.network(7) == topology.network(7) != topology.network(8)
    up, down = (links(topology, 7)[f"B 3 {way}"]["schedule"] for way in ("up", "down"))
    assert isinstance(up, dict) and isinstance(down, dict)
    silent = [
        [step["at_ns"] for step in schedule["steps"] if step["rate_bps"] == 0] for schedule in (up, down)
    ]
    assert silent[0] == silent[1] and len(silent[0]) >= 40
    assert [s["delay_ns"] for s in up["steps"]] == [s["delay_ns"] for s in down["steps"]]
    assert [s["rate_bps"] for s in up["steps"]] != [s["rate_bps"] for s in down["steps"]]
    assert "model" not in links(topology, 7)["B 3 up"]


def test_a_model_is_of_one_link_or_of_a_segment_and_leaves_means_as_they_are(given: Given) -> None:
    topology = given('model_down = "5g"')
    assert topology.receiver.interfaces[0].up_effects.model is None
    assert topology.receiver.interfaces[0].down_effects.model == Mobile5g(like="verizon")
    assert topology.path("1-3", "").rate_bps == given("").path("1-3", "").rate_bps
    assert from_document(msgspec.to_builtins(topology), "it", "topology") == topology
    segment = given('model = "wifi"', 'path = "1-3"')
    found = links(segment, 1)
    assert found["1-3 forward"]["schedule"] != found["1-3 back"]["schedule"]


@pytest.mark.parametrize(
    ("keys", "place", "expected"),
    [
        ('model = "6g"', 'isp = "Three"', "expected one of steady, starlink, 5g, wifi"),
        ('model = { kind = "5g", like = "x" }', 'isp = "Three"', "expected one of verizon, att, tmobile"),
        ('model = { kind = "wifi", moving = true }', 'isp = "Three"', "moving"),
        ('model = { kind = "wifi", busy = "yes" }', 'isp = "Three"', "expected true or false"),
        (
            'model = "wifi"\nschedule = [{ at = "1 s", delay = "1 ms" }]',
            'isp = "Three"',
            "without a trace or a schedule",
        ),
        ('model = "wifi"', "[core]", "expected a rate, a trace or a bucket beside it"),
    ],
)
def test_what_is_refused(given: Given, keys: str, place: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        given(keys, place)
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_a_trial_has_the_course_of_its_seed(given: Given) -> None:
    topology = given('model = { kind = "5g", like = "att" }')

    def throughput(seed: int) -> int:
        trial = Trial(
            topology=topology,
            pm="default",
            cc="cubic",
            buffer_bytes=2**20,
            seed=seed,
            workload=Bulk(duration_ns=5 * 10**9),
        )
        return create("simulated").run(trial).in_order_bytes

    first = throughput(1)
    assert throughput(1) == first
    others = [throughput(seed) for seed in range(2, 6)]
    assert max(others) > 1.3 * min(others)
