"""Effects of links: what a file states becomes what the core reads, with defaults, means and origins."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from mptune.topology import Topology
from mptune.topology._effects import Codel, Effects, Schedule, Step
from mptune.topology._wire_effects import WIRE_EFFECTS

MS = 1_000_000
S = 1_000_000_000
CORE, SEGMENT = "[core]", 'path = "1-3"'

Given = Callable[..., Topology]


def links(topology: Topology) -> dict[str, dict[str, Any]]:
    """The core's specification of each link, by name."""
    return {link["name"]: link for link in topology.network()["links"]}


def extras(topology: Topology) -> dict[str, dict[str, Any]]:
    """Of each link that has any, what goes beyond the plain model."""
    plain = {"name", "rate_bps", "delay_ns", "jitter_ns", "queue_bytes", "loss_ppb"}
    values = {
        name: {k: v for k, v in link.items() if k not in plain} for name, link in links(topology).items()
    }
    return {name: extra for name, extra in values.items() if extra}


def test_a_file_without_effects_describes_none(changed: Given) -> None:
    assert extras(changed()) == {}
    assert "background" not in changed().network()


@pytest.mark.parametrize(
    ("keys", "described"),
    [
        (
            'bucket_{} = {{ rate = "5 Mbit/s", burst = "64 KiB" }}',
            {"bucket": {"rate_bps": 5_000_000, "burst_bytes": 65_536}},
        ),
        (
            'gilbert_elliott_{} = {{ enter = "0.1 %", leave = "20 %", good_loss = "1 ppm",'
            ' bad_loss = "50 %" }}',
            {
                "gilbert_elliott": {
                    "enter_ppb": 1_000_000,
                    "leave_ppb": 200_000_000,
                    "good_loss_ppb": 1_000,
                    "bad_loss_ppb": 500_000_000,
                }
            },
        ),
        (
            'reorder_{} = {{ probability = "1 %", delay = "5 ms" }}',
            {"reorder": {"probability_ppb": 10_000_000, "delay_ns": 5 * MS}},
        ),
        ('duplicate_{} = "0.01 %"', {"duplicate_ppb": 100_000}),
        (
            'discipline_{} = {{ kind = "red", min = "3 kB", max = "9 kB", probability = "2 %",'
            ' weight = "0.5 %", gentle = false, ecn = true }}',
            {
                "aqm": {
                    "kind": "red",
                    "min_bytes": 3000,
                    "max_bytes": 9000,
                    "max_ppb": 20_000_000,
                    "weight_ppb": 5_000_000,
                    "gentle": False,
                    "ecn": True,
                }
            },
        ),
        (
            'discipline_{} = {{ kind = "step", mark = "30 kB" }}',
            {"aqm": {"kind": "step", "mark_bytes": 30_000}},
        ),
        (
            'discipline_{} = {{ kind = "codel", target = "15 ms", interval = "200 ms", ecn = true }}',
            {"aqm": {"kind": "codel", "target_ns": 15 * MS, "interval_ns": 200 * MS, "ecn": True}},
        ),
        (
            'discipline_{} = {{ kind = "fq_codel", target = "1 ms", interval = "20 ms", ecn = false,'
            ' queues = 16, quantum = "300 B" }}',
            {
                "aqm": {
                    "kind": "fq_codel",
                    "target_ns": MS,
                    "interval_ns": 20 * MS,
                    "ecn": False,
                    "queues": 16,
                    "quantum_bytes": 300,
                }
            },
        ),
        ('discipline_{} = "droptail"', {}),
    ],
)
def test_an_effect_of_one_link_is_described_there_only(
    given: Given, keys: str, described: dict[str, Any]
) -> None:
    for way in ("up", "down"):
        expected = {f"B 3 {way}": described} if described else {}
        assert extras(given(keys.format(way))) == expected


@pytest.mark.parametrize(
    "keys",
    [
        'gilbert_elliott = { enter = "0.1 %", leave = "20 %" }',
        'reorder = { probability = "1 %", delay = "5 ms" }',
        'duplicate = "0.01 %"',
        'discipline = "codel"',
        'schedule = [{ at = "1 s", delay = "5 ms" }]',
    ],
)
def test_a_key_without_direction_is_for_both_links(given: Given, keys: str) -> None:
    described = extras(given(keys))
    assert described["B 3 up"] == described["B 3 down"]
    assert set(described) == {"B 3 up", "B 3 down"}


def test_jitter_of_an_access_link_is_there_only_if_given(given: Given, changed: Given) -> None:
    emulated = links(given('jitter = "3 ms"'))
    assert emulated["B 3 up"]["jitter_ns"] == emulated["B 3 down"]["jitter_ns"] == 3 * MS
    assert emulated["A 1 up"]["jitter_ns"] == 0
    assert not any("sites" in key and "jitter" in key for key in changed().provenance)


def test_what_limits_the_rate_in_the_core_holds_either_way_and_the_wire_concerns_data(given: Given) -> None:
    keys = """
bucket = { rate = "5 Mbit/s", burst = "64 KiB" }
discipline = "codel"
gilbert_elliott = { enter = "0.1 %", leave = "20 %" }
reorder = { probability = "1 %", delay = "5 ms" }
duplicate = "0.01 %"
schedule = [{ at = "1 s", rate = "1 Mbit/s", loss = "1 %" }, { at = "2 s", loss = "2 %" }]
"""
    described = extras(given(keys, SEGMENT))
    assert set(described) == {"1-3 forward", "1-3 back"}
    forward, back = described["1-3 forward"], described["1-3 back"]
    assert forward["bucket"] == back["bucket"]
    assert forward["aqm"] == back["aqm"]
    assert set(forward) - set(back) == {"gilbert_elliott", "reorder", "duplicate_ppb"}
    assert [step.get("loss_ppb") for step in forward["schedule"]["steps"]] == [10_000_000, 20_000_000]
    assert back["schedule"]["steps"] == [{"at_ns": S, "rate_bps": 1_000_000}]


def test_a_segment_takes_effects_from_its_own_table_else_from_core(given: Given, changed: Given) -> None:
    own = '[[core.segments]]\npath = "2-3"\nduplicate = "2 %"\n\n[[core.segments]]'
    topology = changed(("[core]", '[core]\nduplicate = "1 %"'), ("[[core.segments]]", own))
    first, second = (path.core.forward_effects.duplicate_ppb for path in topology.paths)
    assert (first, second) == (10_000_000, 20_000_000)


def test_a_bucket_alone_limits_a_segment(given: Given) -> None:
    topology = given('bucket = { rate = "5 Mbit/s", burst = "64 KiB" }', SEGMENT, 'rate = "10 Mbit/s"')
    path = topology.paths[0]
    assert links(topology)["1-3 forward"]["rate_bps"] is None
    assert (path.rate_bps, path.queue_bytes) == (5_000_000, path.core.queue_bytes)


def test_steps_are_divided_between_the_links_they_concern(given: Given) -> None:
    topology = given("""
schedule_period = "30 s"
schedule = [
    { at = "10 s", up = "1 Mbit/s", delay = "50 ms" },
    { at = "20 s", down = "0 bit/s", loss = "100 %" },
    { at = "21 s", down = "20 Mbit/s", loss = "0 %" },
]""")
    described = extras(topology)
    assert described["B 3 up"]["schedule"] == {
        "steps": [
            {"at_ns": 10 * S, "rate_bps": 1_000_000, "delay_ns": 50 * MS},
            {"at_ns": 20 * S, "loss_ppb": 10**9},
            {"at_ns": 21 * S, "loss_ppb": 0},
        ],
        "period_ns": 30 * S,
    }
    down = described["B 3 down"]["schedule"]["steps"]
    assert [step.get("rate_bps") for step in down] == [None, 0, 20_000_000]
    assert down[0]["delay_ns"] == 50 * MS


def test_defaults_of_disciplines_are_noted_for_each_link_and_follow_what_is_given(given: Given) -> None:
    topology = given('queue_up = "40 kB"\nqueue_down = "80 kB"\ndiscipline = "red"')
    described, provenance = extras(topology), topology.provenance
    for way, queue in (("up", 40_000), ("down", 80_000)):
        aqm = described[f"B 3 {way}"]["aqm"]
        assert aqm["max_bytes"] == queue // 4
        assert aqm["min_bytes"] == aqm["max_bytes"] // 3
        assert provenance[f"sites.B.interfaces.3.discipline_{way}.max"].default
    assert provenance["sites.B.interfaces.3.discipline"].source == "a web page"
    own = extras(given('queue = "40 kB"\ndiscipline = { kind = "red", min = "5 kB" }'))["B 3 up"]["aqm"]
    assert own["max_bytes"] == 3 * own["min_bytes"] == 15_000


def test_codel_leaves_its_queue_room_and_takes_a_target_that_a_packet_fits_into(given: Given) -> None:
    fast = given('discipline_down = "fq_codel"')
    assert fast.receiver.interfaces[0].queue_down_bytes == 10_240 * 1500
    assert extras(fast)["B 3 down"]["aqm"]["target_ns"] == 5 * MS
    assert extras(fast)["B 3 down"]["aqm"]["interval_ns"] == 100 * MS
    slow = given('discipline_down = "codel"\ndown = "1 Mbit/s"', 'isp = "Three"', 'down = "20 Mbit/s"')
    assert extras(slow)["B 3 down"]["aqm"]["target_ns"] == 12 * MS
    assert extras(slow)["B 3 down"]["aqm"]["interval_ns"] == 120 * MS
    stated = given('discipline_down = "codel"\nqueue = "100 kB"')
    assert stated.receiver.interfaces[0].queue_down_bytes == 100_000


def test_values_of_one_effect_have_one_origin_unless_they_have_their_own(given: Given) -> None:
    keys = (
        'reorder = { probability = "1 %", delay = { value = "5 ms", source = "ping" }, assumed = "a guess" }'
    )
    provenance = given(keys).provenance
    assert provenance["sites.B.interfaces.3.reorder.probability"].assumed == "a guess"
    delay = provenance["sites.B.interfaces.3.reorder.delay"]
    assert (delay.source, delay.assumed) == ("ping", None)


def test_a_table_can_be_assumed_as_a_whole(changed: Given) -> None:
    provenance = changed(('isp = "One"', 'isp = "One"\nassumed = "nobody knows"')).provenance
    up, queue = (provenance[f"sites.A.interfaces.1.{name}"] for name in ("up", "queue"))
    assert (up.assumed, up.source, up.default) == ("nobody knows", None, False)
    assert queue.assumed == "nobody knows"
    file = changed(('source = "a table"', 'assumed = "made up"')).provenance
    assert file["sites.A.interfaces.1.up"].assumed == "made up"
    assert file["sites.B.interfaces.3.up"].source == "a web page"
    assert file["core.rtt"].assumed == "made up"


def test_rate_and_loss_of_a_path_are_those_of_the_long_run(given: Given) -> None:
    steps = '[{ at = "0 s", down = "2 Mbit/s" }, { at = "5 s", down = "6 Mbit/s" }]'
    halved = given(f'schedule_period = "10 s"\nschedule = {steps}')
    assert halved.path("1-3", "").rate_bps == 4_000_000
    lasting = given('schedule = [{ at = "5 s", down = "2 Mbit/s", loss = "10 %" }]')
    path = lasting.path("1-3", "")
    assert path.rate_bps == 2_000_000
    assert path.loss_ppb == round(1e9 * (1 - 0.999 * 0.998 * 0.9))
    shaped = given('bucket_down = { rate = "3 Mbit/s", burst = "10 kB" }')
    assert shaped.path("1-3", "").rate_bps == 3_000_000
    bursts = given('gilbert_elliott_down = { enter = "1 %", leave = "19 %" }')
    assert bursts.path("1-3", "").loss_ppb == round(1e9 * (1 - 0.999 * 0.998 * 0.95))
    # Of ACKs nothing of this.
    back = given('gilbert_elliott_up = { enter = "1 %", leave = "19 %" }')
    assert back.path("1-3", "").loss_ppb == round(1e9 * (1 - 0.999 * 0.998))


def test_base_rtt_is_that_before_any_step(given: Given, changed: Given) -> None:
    late = given('schedule = [{ at = "5 s", delay = "300 ms" }]')
    assert [p.base_rtt_ns for p in late.paths] == [p.base_rtt_ns for p in changed().paths]


def test_codel_keeps_what_its_target_allows_and_never_more_than_the_queue() -> None:
    codel = Effects(aqm=Codel(target_ns=5 * MS, interval_ns=100 * MS, ecn=False))
    assert codel.standing_bytes(10**6, 80_000_000) == 50_000
    assert codel.standing_bytes(20_000, 80_000_000) == 20_000
    assert codel.standing_bytes(10**6, 1_000_000) == 1500
    assert Effects().standing_bytes(10**6, 80_000_000) == 10**6


@drawn(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 10**9)), min_size=1, max_size=6),
    st.integers(1, 1000),
    st.integers(0, 10**9),
)
def test_the_mean_of_a_schedule_is_its_integral_over_a_period(
    gaps: list[tuple[int, int]], rest: int, base: int
) -> None:
    at, steps = 0, []
    for gap, rate in gaps:
        at += gap
        steps.append(Step(at_ns=at, rate_bps=rate))
    period = at + rest
    schedule = Schedule(steps=tuple(steps), period_ns=period)
    # The second period, nanosecond by nanosecond: values keep across the end of the first.
    value, total = steps[-1].rate_bps or 0, 0
    changes = {step.at_ns: step.rate_bps for step in steps}
    for now in range(period):
        value = changes.get(now, value) or 0
        total += value
    assert schedule.mean(base, lambda step: step.rate_bps) == total // period


@drawn(st.integers(0, 10**9), st.integers(1, 10**9), st.integers(0, 10**9 - 1), st.integers(0, 10**9))
def test_the_mean_loss_of_a_chain_is_between_those_of_its_states(
    enter: int, leave: int, good: int, bad: int
) -> None:
    chain = {"enter_ppb": enter, "leave_ppb": leave, "good_loss_ppb": good, "bad_loss_ppb": bad}
    effects = msgspec.convert({"gilbert_elliott": chain}, Effects)
    assert effects.bursts
    assert min(good, bad) - 1 <= effects.mean_loss_ppb(0) <= max(good, bad) + 1
    # Elliott 1963: (r h + p k) / (p + r).
    assert abs(effects.mean_loss_ppb(0) - (leave * good + enter * bad) / (enter + leave)) <= 1


def test_topologies_survive_a_round_trip_through_json(given: Given, tmp_path: Path) -> None:
    (tmp_path / "lte.trace").write_text("1\n2\n", encoding="ascii")
    keys = """
trace_down = "lte.trace"
discipline = "red"
gilbert_elliott = { enter = "0.1 %", leave = "20 %" }
schedule = [{ at = "1 s", delay = "5 ms" }]
"""
    topology = given(keys, 'isp = "Three"', 'down = "20 Mbit/s"')
    assert msgspec.json.decode(msgspec.json.encode(topology), type=Topology) == topology


@pytest.mark.parametrize("key", WIRE_EFFECTS)
def test_an_effect_goes_to_guests_and_other_processes(key: str) -> None:
    """As a part of a trial, with pickle."""
    made = get_args(get_args(WIRE_EFFECTS[key])[0])[0]
    effect = made(**dict.fromkeys(made.__struct_fields__, 1_000))
    assert pickle.loads(pickle.dumps(effect)) == effect
