"""Traces on a link: the part that is meant, gaps, scale, several traces, base values."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mptune.errors import InputError
from mptune.topology import Schedule, Topology
from mptune.topology._over_time import blocks, held, outages, quantile

Given = Callable[..., Topology]

RATES = "time (s),down (Mbit/s),up (Mbit/s)\n0,10,1\n1,20,1\n2,0,2\n3,30,2\n"
RTTS = "time (s),rtt (ms),round_loss (%)\n0,40,0\n1,60,75\n2,20,0\n"
PLAIN = ('up = "20 Mbit/s"\n', 'down = "20 Mbit/s"\n')


@pytest.fixture
def traced(given: Given, tmp_path: Path) -> Callable[..., Topology]:
    """Load the small file with keys at interface 3 and two traces beside it."""
    (tmp_path / "rates.csv").write_text(RATES)
    (tmp_path / "rtts.csv").write_text(RTTS)

    def load(keys: str, *without: str) -> Topology:
        return given(keys, 'isp = "Three"', *without)

    return load


def schedule(topology: Topology, way: str = "down") -> Schedule:
    """The schedule of a link of interface 3."""
    found = next(link.effects.schedule for link in topology.links if link.name == f"B 3 {way}")
    assert found is not None
    return found


def rates(topology: Topology, way: str = "down") -> list[tuple[int, int]]:
    """Times in s and rates in Mbit/s."""
    return [
        (step.at_ns // 10**9, step.rate_bps // 10**6)
        for step in schedule(topology, way).steps
        if step.rate_bps is not None
    ]


def test_a_trace_of_both_directions_is_of_both_links_and_its_means_are_their_rates(
    traced: Callable[..., Topology],
) -> None:
    topology = traced('trace = "rates.csv"', *PLAIN)
    assert rates(topology) == [(0, 10), (1, 20), (2, 0), (3, 30)]
    assert rates(topology, "up") == [(0, 1), (2, 2)]
    interface = topology.receiver.interfaces[0]
    assert (interface.up_bps, interface.down_bps) == (1_500_000, 15_000_000)
    assert schedule(topology).period_ns == 4 * 10**9
    noted = topology.provenance["sites.B.interfaces.3.trace"]
    assert noted.value == "rates.csv (csv), 4 measurements in 4 s, repeating"


def test_traces_of_one_link_are_as_long_as_the_shortest(traced: Callable[..., Topology]) -> None:
    steps = schedule(traced('trace_down = "rates.csv"\ntrace = "rtts.csv"', PLAIN[1]))
    assert steps.period_ns == 3 * 10**9
    assert [step.at_ns // 10**9 for step in steps.steps] == [0, 1, 2]


def test_rtts_are_divided_and_become_the_base_delay(traced: Callable[..., Topology]) -> None:
    topology = traced('trace = { file = "rtts.csv", elsewhere = "10 ms" }')
    for way in ("up", "down"):
        steps = schedule(topology, way).steps
        assert [step.delay_ns for step in steps] == [15_000_000, 25_000_000, 5_000_000]
        # 1 - sqrt(1/4) on either way.
        assert [step.loss_ppb for step in steps] == [0, 500_000_000, 0]
    assert topology.receiver.interfaces[0].delay_ns == 15_000_000
    assert topology.receiver.interfaces[0].up_bps == 20_000_000


def test_start_and_stop_choose_a_part_by_time_or_date(
    traced: Callable[..., Topology], tmp_path: Path
) -> None:
    part = 'trace_down = { file = "rates.csv", start = "1 s", stop = "3 s" }'
    assert rates(traced(part, PLAIN[1])) == [(0, 20), (1, 0)]
    text = "time,down (Mbit/s)\n2026-11-28 01:00:00,1\n2026-11-28 02:00:00,2\n2026-11-28 03:00:00,3\n"
    (tmp_path / "day.csv").write_text(text)
    part = 'trace_down = { file = "day.csv", start = "2026-11-27 20:30:00 EST" }'
    assert rates(traced(part, PLAIN[1])) == [(0, 2), (3600, 3)]


def test_a_trial_begins_where_its_seed_says(traced: Callable[..., Topology]) -> None:
    whole = '{ file = "rates.csv", begins = "anywhere" }'
    keys = f"trace_down = {whole}\ntrace_up = {whole}"
    topology = traced(keys, *PLAIN)
    first_rates = []
    for seed in range(200):
        assert topology.network(seed) == topology.network(seed)
        found = {
            link["name"]: link["schedule"] for link in topology.network(seed)["links"] if "schedule" in link
        }
        up, down = found["B 3 up"], found["B 3 down"]
        assert up["period_ns"] == down["period_ns"] == 4 * 10**9 and "anywhere" not in down
        assert down["steps"][0]["at_ns"] == up["steps"][0]["at_ns"] == 0
        # Both were measured at the same time.
        assert (down["steps"][0]["rate_bps"] in (0, 30_000_000)) == (up["steps"][0]["rate_bps"] == 2_000_000)
        first_rates.append(down["steps"][0]["rate_bps"])
    assert {rate: first_rates.count(rate) > 25 for rate in first_rates} == {
        rate * 10**6: True for rate in (0, 10, 20, 30)
    }
    assert topology.later(10**9) == topology
    with pytest.raises(InputError, match="begins: expected a trace that repeats"):
        traced('trace_down = { file = "rates.csv", begins = "anywhere", ends = "hold" }', PLAIN[1])


def test_it_can_be_held_and_have_another_mean(traced: Callable[..., Topology]) -> None:
    topology = traced('trace_down = { file = "rates.csv", ends = "hold", mean = "30 Mbit/s" }', PLAIN[1])
    assert rates(topology) == [(0, 20), (1, 40), (2, 0), (3, 60)]
    assert schedule(topology).period_ns is None
    with pytest.raises(InputError, match="gets through at its end, which is held, found an outage"):
        traced('trace_down = { file = "rates.csv", ends = "hold", stop = "3 s" }', PLAIN[1])


def test_gaps_are_cut_or_held(traced: Callable[..., Topology], tmp_path: Path) -> None:
    (tmp_path / "gap.csv").write_text("time (s),down (Mbit/s)\n0,1\n1,2\n100,3\n101,4\n")
    assert rates(traced('trace_down = { file = "gap.csv", gaps = "cut" }', PLAIN[1])) == [
        *((0, 1), (1, 2), (2, 3), (3, 4))
    ]
    assert rates(traced('trace_down = { file = "gap.csv", gaps = "hold" }', PLAIN[1]))[2:] == [
        (100, 3),
        (101, 4),
    ]


def test_rows_choose_one_of_several(traced: Callable[..., Topology], tmp_path: Path) -> None:
    text = "unit_id,dtime,bytes_sec\n7,2015-01-01 00:00:00,125000\n8,2015-01-01 00:00:00,1\n"
    (tmp_path / "fcc.csv").write_text(f"{text}7,2015-01-01 01:00:00,250000\n8,2015-01-01 01:00:00,1\n")
    keys = 'trace_down = { file = "fcc.csv", rows = { unit_id = "7" } }'
    assert rates(traced(keys, PLAIN[1])) == [(0, 1), (3600, 2)]
    with pytest.raises(InputError, match="rows of the columns of the file: expected one of unit_id, dtime"):
        traced(keys.replace("unit_id", "home"), PLAIN[1])
    with pytest.raises(InputError, match="expected a table of columns and texts"):
        traced(keys.replace('"7"', "7"), PLAIN[1])


@pytest.mark.parametrize(
    ("keys", "without", "expected"),
    [
        ('trace = "rates.csv"', (), "expected either up or trace, found both"),
        ('trace = "rates.csv"\ntrace_down = "rates.csv"', PLAIN, "a rate in one trace"),
        ('trace = "rtts.csv"\ndelay = "1 ms"', (), "expected either delay or a trace that has it"),
        ('trace = "rtts.csv"\nloss = "1 %"', (), "expected either loss or a trace that has it"),
        (
            'trace_down = "rates.csv"\nschedule = [{ at = "1 s", up = "1 Mbit/s" }]',
            PLAIN[1:],
            "expected either a schedule or a trace",
        ),
        ('trace_down = "rtts.csv"', PLAIN, "expected a rate"),
        ('trace_down = { file = "rates.csv", format = "irtt" }', PLAIN[1:], "the format's JSON"),
        ('trace_down = { file = "rates.csv", format = "x" }', PLAIN[1:], "expected one of mahimahi"),
        ('trace_down = { file = "rates.csv", stop = "-1 s" }', PLAIN[1:], "stop"),
        ('trace_down = { file = "rates.csv", start = "60 s" }', PLAIN[1:], "from start to stop, found 0"),
        (
            'trace_down = { file = "rtts.csv", mean = "1 Mbit/s" }',
            (),
            "rates in the file beside mean",
        ),
        ('trace_down = { file = "lte", mean = "1 Mbit/s" }', PLAIN[1:], "another format than mahimahi"),
        ('trace_down = { file = "rates.csv", colour = "red" }', PLAIN[1:], "colour"),
    ],
)
def test_what_does_not_go_together(
    traced: Callable[..., Topology], tmp_path: Path, keys: str, without: tuple[str, ...], expected: str
) -> None:
    (tmp_path / "lte").write_text("1\n5\n")
    with pytest.raises(InputError) as error:
        traced(keys, *without)
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_a_segment_takes_rates_alone(given: Given, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("time (s),rate (Mbit/s),loss (%)\n0,5,0\n1,1,3\n")
    (tmp_path / "rates.csv").write_text(RATES)
    topology = given('trace = "one.csv"', 'path = "1-3"', 'rate = "10 Mbit/s"')
    links = {link.name: link for link in topology.links}
    for name, losses in (("1-3 forward", [0, 30_000_000]), ("1-3 back", [None, None])):
        steps = links[name].effects.schedule
        assert steps is not None
        assert [step.rate_bps for step in steps.steps] == [5_000_000, 1_000_000]
        assert [step.loss_ppb for step in steps.steps] == losses
        assert links[name].rate_bps == 3_000_000
    with pytest.raises(InputError, match="expected a trace of one rate for both ways"):
        given('trace = "rates.csv"', 'path = "1-3"', 'rate = "10 Mbit/s"')


def test_mahimahis_opportunities_go_with_recorded_rtts(
    traced: Callable[..., Topology], tmp_path: Path
) -> None:
    (tmp_path / "lte").write_text("1\n5\n")
    topology = traced('trace_down = "lte"\ntrace = "rtts.csv"', PLAIN[1])
    link = next(link for link in topology.links if link.name == "B 3 down")
    assert link.effects.trace_ms == (1, 5)
    assert schedule(topology).steps[0].delay_ns == 20_000_000


def test_a_later_round_goes_on_in_it(traced: Callable[..., Topology]) -> None:
    later = traced('trace_down = "rates.csv"', PLAIN[1]).later(9 * 10**9)
    assert rates(later) == [(0, 20), (1, 0), (2, 30), (3, 10)]


def test_its_course_in_figures_and_blocks() -> None:
    values = held([(0, 0), (10, 100), (90, 50)], 100)
    assert values == [(0, 10), (100, 80), (50, 10)]
    assert [quantile(values, share) for share in (0.05, 0.15, 0.95)] == [0, 50, 100]
    assert outages(values, 0) == (1, 10)
    assert blocks(values, 10) == "▁" + "█" * 8 + "▅"
    assert blocks([(0, 10)], 3) == "▁▁▁"
