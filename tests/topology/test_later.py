"""A network some time later: what its links do then is what they would have done anyway."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mptune.testbeds import create
from mptune.topology import Topology, load
from mptune.topology._effects import Schedule, Step
from mptune.topology._later import later_schedule
from mptune.trial import Bulk, Trial

HOUR = 3600 * 10**9
NAMES = ("rate_bps", "delay_ns", "loss_ppb")


def value(schedule: Schedule | None, name: str, at_ns: int) -> int | None:
    """A schedule's value at a time, as the core's `Timeline::span` has it; None leaves the link's own."""
    steps = [] if schedule is None else schedule.steps
    known = [(step.at_ns, change) for step in steps if (change := getattr(step, name)) is not None]
    if schedule is None or not known:
        return None
    phase = at_ns if schedule.period_ns is None else at_ns % schedule.period_ns
    passed = [change for at, change in known if at <= phase]
    if passed:
        return int(passed[-1])
    return int(known[-1][1]) if at_ns > phase else None


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    times = draw(st.lists(st.integers(0, 40), min_size=1, max_size=5, unique=True).map(sorted))
    some = st.one_of(st.none(), st.integers(1, 9))
    steps = []
    for at in times:
        values = {name: draw(some) for name in NAMES}
        if not any(values.values()):
            values["rate_bps"] = 5
        steps.append(Step(at_ns=at, **values))
    return Schedule(steps=tuple(steps), period_ns=draw(st.one_of(st.none(), st.integers(times[-1] + 1, 60))))


@given(schedules(), st.integers(0, 200), st.integers(0, 200))
def test_a_schedule_goes_on(schedule: Schedule, by: int, at: int) -> None:
    then = later_schedule(schedule, by)
    for name in NAMES:
        assert value(then, name, at) == value(schedule, name, by + at), name


@given(schedules(), st.integers(0, 200))
def test_its_steps_ascend_within_the_period_and_each_sets_something(schedule: Schedule, by: int) -> None:
    then = later_schedule(schedule, by)
    if then is None:
        return
    times = [step.at_ns for step in then.steps]
    assert times == sorted(set(times)) and times[0] >= 0
    assert then.period_ns == schedule.period_ns and (then.period_ns is None or times[-1] < then.period_ns)
    assert all(any(getattr(step, name) is not None for name in NAMES) for step in then.steps)


def mobile_mbps(topology: Topology) -> float:
    """Throughput of one TCP connection over the mobile network."""
    trial = Trial(
        topology=topology,
        pm="default",
        cc="cubic",
        buffer_bytes=2**22,
        seed=1,
        workload=Bulk(duration_ns=10 * 10**9),
        initial_path="T-M",
    )
    return create("simulated").run(trial).throughput_bps / 1e6


def test_a_trial_sees_the_network_of_its_hour() -> None:
    day = load("CLOUD-HOME.day")
    night, evening, next_night = (mobile_mbps(day.later(hours * HOUR)) for hours in (1, 19, 25))
    assert evening < 1.5 < 20 < night
    assert next_night == night


def test_the_network_now_is_itself_and_one_without_changes_stays_the_same(network: Topology) -> None:
    day = load("CLOUD-HOME.day")
    assert day.later(0) == day
    assert network.later(HOUR) == network
    assert msgspec.json.encode(day.later(24 * HOUR).network()) == msgspec.json.encode(
        day.later(48 * HOUR).network()
    )


def test_background_traffic_goes_on_and_ends() -> None:
    hybrid = load("CLOUD-HOME.hybrid")
    call, download = hybrid.background
    assert hybrid.later(12 * 10**9).background == (
        call,
        msgspec.structs.replace(download, start_ns=0, stop_ns=8 * 10**9),
    )
    assert hybrid.later(20 * 10**9).background == (call,)
