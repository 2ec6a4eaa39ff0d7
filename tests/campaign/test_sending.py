"""Traffic of campaigns between hosts: printed beforehand, within the user's limits when they are resumed."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mptune.campaign.definition import Definition, SweepOptions
from mptune.campaign.execution import resume, start
from mptune.errors import LimitReached
from mptune.runner.progress import Reporter
from mptune.testbeds.hosts import HostsTestbed
from mptune.topology import load
from mptune.trial import Observation, Pattern, SubflowObservation, Trial, size_of
from tests.plugins import two_hosts

SECOND = 10**9


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """Trials that were measured between hosts that are not there; all goes over C."""
    trials: list[Trial] = []

    @contextmanager
    def session(bed: HostsTestbed) -> Iterator[None]:
        yield

    def measure(bed: HostsTestbed, trial: Trial) -> Observation:
        trials.append(trial)
        size = size_of(trial.workload) or 0
        flow = SubflowObservation(
            path="C-X",
            active=True,
            bytes=size,
            srtt_ns=1,
            min_rtt_ns=1,
            retransmitted=0,
            timeouts=0,
            bins=[],
        )
        observation = Observation(
            testbed="hosts",
            duration_ns=SECOND,
            in_order_bytes=size,
            bins=[],
            subflows=[flow],
            completion_ns=SECOND,
        )
        bed._data.count(trial, observation)
        return observation

    monkeypatch.setattr(HostsTestbed, "session", session)
    monkeypatch.setattr(HostsTestbed, "_measure", measure)
    return trials


def sweep(tmp_path: Path, **options: object) -> Definition:
    asked: dict[str, object] = {"pms": ("fullmesh",), "ccs": ("cubic",), "buffers": (200_000,), "runs": 4}
    topology = load(two_hosts.write(tmp_path))
    return Definition(
        name="sweep",
        topology=topology,
        testbed="hosts",
        options=SweepOptions(**(asked | options)),  # type: ignore[arg-type]
    )


def metered(stream: io.StringIO) -> str:
    """The part on metered interfaces of the first sentence that has one."""
    parts = (line.partition("; metered: ")[2] for line in stream.getvalue().splitlines())
    return next((part for part in parts if part), "")


def test_a_resumed_campaign_has_what_is_left_of_a_limit(tmp_path: Path, measured: list[Trial]) -> None:
    """Of the limit of 2 GB two of four transfers take 1.7."""
    definition = sweep(tmp_path, transfers=(8 * 10**8,))
    beginning, going_on = io.StringIO(), io.StringIO()
    with pytest.raises(LimitReached, match=r"1\.7 GB sent"):
        start(definition, tmp_path / "run", reporter=Reporter(stream=beginning))
    assert metered(beginning) == "C (at most 2 GB)." and len(measured) == 2
    with pytest.raises(LimitReached, match=r"1\.7 GB sent"):
        resume(tmp_path / "run", reporter=Reporter(stream=going_on))
    assert metered(going_on) == "C (1.7 GB of 2 GB sent before, now at most 295 MB)." and len(measured) == 2


def test_a_finished_campaign_sends_nothing_more(tmp_path: Path, measured: list[Trial]) -> None:
    definition = sweep(tmp_path, transfers=(10**6,))
    start(definition, tmp_path / "run")
    stream = io.StringIO()
    resume(tmp_path / "run", reporter=Reporter(stream=stream))
    assert metered(stream) == "C (4.26 MB of 2 GB sent before, now at most 0 MB)." and len(measured) == 4


def test_messages_count_when_a_campaign_is_resumed(tmp_path: Path, measured: list[Trial]) -> None:
    """20 messages of 40 MB are 800 MB: as with transfers of that size."""
    calls = Pattern(bytes=4 * 10**7, interval_ns=SECOND // 10)
    definition = sweep(tmp_path, workload=calls, duration_ns=2 * SECOND)
    going_on = io.StringIO()
    with pytest.raises(LimitReached, match=r"1\.7 GB sent"):
        start(definition, tmp_path / "run")
    assert [trial.workload for trial in measured] == 2 * [calls.lasting(2 * SECOND)]
    with pytest.raises(LimitReached, match=r"1\.7 GB sent"):
        resume(tmp_path / "run", reporter=Reporter(stream=going_on))
    assert metered(going_on) == "C (1.7 GB of 2 GB sent before, now at most 295 MB)." and len(measured) == 2
