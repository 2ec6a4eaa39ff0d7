"""What is stored survives: interruptions, other processes, full disks; and nothing is measured twice."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.campaign.bench import Bench
from mptune.campaign.planning import Configuration, plan
from mptune.campaign.records import PlannedTrial
from mptune.campaign.store import Campaign, create, open_store
from mptune.errors import InputError, MptuneError
from mptune.testbeds import Observation, Trial
from mptune.topology import Topology

CAMPAIGN = Campaign(name="test", settings={"runs": 3}, environment={})


def planned(network: Topology, sizes: int = 10, runs: int = 3) -> list[PlannedTrial]:
    configurations = [
        Configuration(pm="fullmesh", cc="cubic", buffer_bytes=(1 + i) * 2**20) for i in range(sizes)
    ]
    return plan(network, configurations, purpose="sweep", runs=runs, duration_ns=10**9, base_seed=1)


def test_an_interrupted_campaign_runs_only_what_is_missing(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    path, trials = tmp_path / "campaign.sqlite", planned(network)
    undisturbed = Bench(fake_testbed).measure(trials)
    fake_testbed.trials.clear()
    with create(path, CAMPAIGN) as store:
        Bench(fake_testbed, 2, store).measure(trials[:17])
    with open_store(path) as store:
        counts: list[tuple[int, int]] = []

        def advance(done: int, total: int, note: str = "") -> None:
            counts.append((done, total))

        resumed = Bench(fake_testbed, 2, store).measure(trials, progress=advance)
    assert resumed == undisturbed
    assert len(fake_testbed.trials) == len(trials)
    assert counts == [(done, len(trials)) for done in range(18, len(trials) + 1)]


def test_an_observation_comes_back_as_it_was(network: Topology, fake_testbed: Any, tmp_path: Path) -> None:
    (one,) = planned(network, 1, 1)
    with create(tmp_path / "s", CAMPAIGN) as store:
        Bench(fake_testbed, 1, store).measure([one])
        assert store.observation(store.key("fake", one)) == fake_testbed.run(one.trial)
        with pytest.raises(KeyError):
            store.observation(store.key("another", one))


def test_failed_trials_are_kept_with_their_reason(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    fake_testbed.fails = lambda trial: "stalled" if trial.buffer_bytes == 2**20 else None
    trials = planned(network)
    for _ in range(2):
        opened = open_store(tmp_path / "s") if (tmp_path / "s").exists() else create(tmp_path / "s", CAMPAIGN)
        with opened as store:
            records = Bench(fake_testbed, 2, store).measure(trials)
            assert [one.failed for one in records[:4]] == ["stalled", "stalled", "stalled", None]
            assert [tuple(one) for one in store.progress()] == [("sweep", 0, 30, 30, 3)]
    assert len(fake_testbed.trials) == 30


def test_the_same_trial_asked_for_twice_is_measured_once(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    trials = planned(network, 2)
    with create(tmp_path / "s", CAMPAIGN) as store:
        records = Bench(fake_testbed, 2, store).measure(trials + trials)
    assert records[: len(trials)] == records[len(trials) :]
    assert len(fake_testbed.trials) == len(trials)


def test_a_key_tells_apart_whatever_makes_another_trial(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    (one,) = planned(network, 1, 1)
    again = msgspec.convert(msgspec.to_builtins(one), PlannedTrial)

    def changed(**changes: Any) -> PlannedTrial:
        return msgspec.structs.replace(one, trial=msgspec.structs.replace(one.trial, **changes))

    other_network = msgspec.structs.replace(network, initial_path="B-X")
    others = [
        changed(seed=one.trial.seed + 1),
        changed(cc="reno"),
        changed(buffer_bytes=one.trial.buffer_bytes + 1),
        changed(initial_path="B-X"),
        changed(topology=other_network),
        msgspec.structs.replace(one, run=1),
        msgspec.structs.replace(one, round=1),
        msgspec.structs.replace(one, purpose="confirm"),
        msgspec.structs.replace(one, withdrawn="A-X"),
    ]
    with create(tmp_path / "s", CAMPAIGN) as store:
        key = store.key("fake", one)
        assert store.key("fake", again) == key
        keys = {store.key("fake", other) for other in others} | {store.key("simulated", one)}
        assert len(keys) == len(others) + 1 and key not in keys


def test_a_second_process_is_told(network: Topology, tmp_path: Path) -> None:
    path = tmp_path / "s"
    program = "import sys; from pathlib import Path; from mptune.campaign.store import open_store\n"
    program += "with open_store(Path(sys.argv[1])): pass"
    with create(path, CAMPAIGN):
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)], check=False, capture_output=True, text=True
        )
        assert f"process {os.getpid()} is running this campaign already" in done.stderr
        with open_store(path, write=False) as reader:
            assert reader.campaign().name == "test"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)


@pytest.mark.parametrize("content", [b"not a database, and long enough to look like one" * 50, None])
def test_another_file_is_refused_and_left_alone(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "other"
    if content is None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (x)")
        connection.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(InputError, match="expected a campaign store"), open_store(path):
        pass
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="expected a new file"), create(path, CAMPAIGN):
        pass


def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with create(path, CAMPAIGN):
        pass
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(InputError, match="found 99: update mptune"), open_store(path):
        pass


def test_a_full_store_ends_the_campaign_and_keeps_what_was_committed(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    path, trials = tmp_path / "s", planned(network, 200)

    class Filling:
        """Its observations cannot be compressed, so that each takes its pages."""

        name = "fake"
        parallel: int | None = None

        def run(self, trial: Trial) -> Observation:
            seen: Observation = fake_testbed.run(trial)
            return msgspec.structs.replace(seen, bins=list(os.urandom(2000)))

    def campaign() -> None:
        with create(path, CAMPAIGN) as store:
            Bench(fake_testbed, 1, store).measure(trials[:30])
            store._connection.execute("PRAGMA max_page_count = 100")
            Bench(Filling(), 1, store).measure(trials)

    with pytest.raises(MptuneError, match="disk is full"):
        campaign()
    fake_testbed.trials.clear()
    with open_store(path) as store:
        kept = len(store.finished())
        Bench(fake_testbed, 1, store).measure(trials)
        assert 30 <= kept < len(trials) == len(store.finished())
        assert len(fake_testbed.trials) == len(trials) - kept
