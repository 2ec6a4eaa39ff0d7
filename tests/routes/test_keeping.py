"""Routes in a file, and the times at which they are traced."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mptune.campaign.following import RoutesOptions, follow, waiting
from mptune.errors import InputError, MptuneError
from mptune.probe.ends import Hop, Route
from mptune.routes.keeping import ROUTES, Follower, append, read
from mptune.routes.snapshots import Snapshot
from mptune.testbeds._base import Testbed
from mptune.topology import Topology, load
from mptune.trial import Observation, Trial

S = 10**9
BEGAN = datetime(2026, 11, 25, 12, tzinfo=UTC)


def snapshot(minutes: int) -> Snapshot:
    route = Route(hops=[Hop(address="192.0.2.1", rtt_ns=5)], reached=True)
    return Snapshot(at=(BEGAN + timedelta(minutes=minutes)).isoformat(), routes={"sender": {"A-X": route}})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ROUTES


def test_what_is_appended_is_read_again(file: Path) -> None:
    assert read(file) == []
    kept = [snapshot(0), snapshot(60), Snapshot(at=BEGAN.isoformat(), failed="bob is gone")]
    for one in kept:
        append(file, one)
    assert read(file) == kept


def test_a_line_that_was_being_written_is_passed_over_and_nothing_after_it_is_lost(file: Path) -> None:
    append(file, snapshot(0))
    whole = file.read_bytes()
    append(file, snapshot(60))
    file.write_bytes(file.read_bytes()[:-9])
    assert read(file) == [snapshot(0)]
    append(file, snapshot(120))
    assert read(file) == [snapshot(0), snapshot(120)] and file.read_bytes().startswith(whole)


@pytest.mark.parametrize(
    "line", ["[]", "{}", '{"at":"noon"}', '{"at":"2026-11-25T12:00:00"}', "text", '{"at":3}']
)
def test_another_line_is_refused_with_its_number(file: Path, line: str) -> None:
    append(file, snapshot(0))
    with file.open("a") as more:
        more.write(f"{line}\n")
    with pytest.raises(InputError, match=r"routes\.jsonl: line 2: expected routes as mptune writes them"):
        read(file)


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(MptuneError, match=r"nowhere/routes\.jsonl: No such file"):
        append(tmp_path / "nowhere" / ROUTES, snapshot(0))


class Clock:
    """Seconds since 1970, which only the test moves."""

    def __init__(self) -> None:
        self.now_s = BEGAN.timestamp()

    def __call__(self) -> float:
        return self.now_s

    def trace(self) -> Snapshot:
        return Snapshot(at=datetime.fromtimestamp(self.now_s, UTC).isoformat())


def test_routes_are_traced_at_once_and_then_at_the_interval(file: Path) -> None:
    clock = Clock()
    follower = Follower(60 * S, clock.trace, file, clock)
    for second in range(0, 200, 25):
        clock.now_s = BEGAN.timestamp() + second
        follower.follow()
    assert [(datetime.fromisoformat(one.at) - BEGAN).seconds for one in read(file)] == [0, 75, 150]
    assert follower.due == BEGAN + timedelta(seconds=210)


def test_the_interval_holds_across_programs_and_clocks_that_are_set_back(file: Path) -> None:
    clock = Clock()
    Follower(60 * S, clock.trace, file, clock).follow()
    clock.now_s += 30
    later = Follower(60 * S, clock.trace, file, clock)
    later.follow()
    assert len(read(file)) == 1
    clock.now_s -= 3600
    later.follow()
    assert len(read(file)) == 2


class Routed(Testbed):
    """A testbed with routes and without trials."""

    name = "routed"
    traces = True

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def run(self, trial: Trial) -> Observation:
        raise NotImplementedError

    def trace(self, topology: Topology) -> Snapshot:
        return self.clock.trace()


def test_routes_that_become_due_while_a_campaign_waits_are_traced(tmp_path: Path) -> None:
    clock = Clock()
    bed = Routed(clock)
    assert bed.due is None
    follow(RoutesOptions(), load("UiT-HAW"), bed, tmp_path)
    assert bed.due is None
    bed.follow(lambda: Follower(600 * S, lambda: bed.trace(load("UiT-HAW")), tmp_path / ROUTES, clock))
    waits: list[datetime] = []

    def wait(moment: datetime) -> None:
        waits.append(moment)
        clock.now_s = moment.timestamp()

    waiting(bed, wait)(BEGAN + timedelta(minutes=25))
    assert [(one - BEGAN).seconds // 60 for one in waits] == [0, 10, 20, 25]
    assert len(read(tmp_path / ROUTES)) == 3


def test_a_testbed_without_routes_has_none() -> None:
    from mptune.testbeds import create

    bed = create("simulated")
    assert not bed.traces and bed.due is None
    bed.follow_now()
    with pytest.raises(MptuneError, match="has no routes"):
        bed.trace(load("UiT-HAW"))
