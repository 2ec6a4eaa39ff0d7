"""Stores survive interruptions, other processes and full disks, and nothing is measured twice."""

import os
import sqlite3
import subprocess
import sys
import zlib
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.errors import Failure, FailureKind, InputError, MptuneError
from mptune.runner.planning import plan_trials
from mptune.runner.runner import TrialRunner
from mptune.store import Campaign, create, open_store
from mptune.store.round_trips import path_rtts
from mptune.testbeds import Testbed
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.topology import Topology
from mptune.trial import (
    Bulk,
    Configuration,
    Messages,
    Observation,
    PathParameters,
    PlannedTrial,
    Transfer,
    Trial,
)
from mptune.trial.stacks import STACKS, VERSION_0_1, Stack

SECOND = Bulk(duration_ns=10**9)
CAMPAIGN = Campaign(name="test", settings={"runs": 3}, environment={})


def planned(network: Topology, sizes: int = 10, runs: int = 3) -> list[PlannedTrial]:
    configurations = [
        Configuration(pm="fullmesh", cc="cubic", buffer_bytes=(1 + i) * 2**20, workload=SECOND)
        for i in range(sizes)
    ]
    return plan_trials(network, configurations, purpose="sweep", runs=runs, base_seed=1)


def test_an_interrupted_campaign_runs_only_what_is_missing(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    path, trials = tmp_path / "campaign.sqlite", planned(network)
    undisturbed = TrialRunner(fake_testbed).measure(trials)
    fake_testbed.trials.clear()
    with create(path, CAMPAIGN) as store:
        TrialRunner(fake_testbed, 2, store).measure(trials[:17])
    with open_store(path) as store:
        counts: list[tuple[int, int]] = []

        def advance(done: int, total: int, note: str = "") -> None:
            counts.append((done, total))

        resumed = TrialRunner(fake_testbed, 2, store).measure(trials, progress=advance)
    assert resumed == undisturbed
    assert len(fake_testbed.trials) == len(trials)
    assert counts == [(done, len(trials)) for done in range(18, len(trials) + 1)]


def test_an_observation_comes_back_as_it_was(network: Topology, fake_testbed: Any, tmp_path: Path) -> None:
    (plan,) = planned(network, 1, 1)
    with create(tmp_path / "s", CAMPAIGN) as store:
        TrialRunner(fake_testbed, 1, store).measure([plan])
        assert store.observation(store.key("fake", plan)) == fake_testbed.run(plan.trial)
        with pytest.raises(KeyError):
            store.observation(store.key("another", plan))


def test_a_trial_that_ended_early_comes_back_with_the_time_it_took(network: Topology, tmp_path: Path) -> None:
    (plan,) = planned(network, 1, 1)
    trial = msgspec.structs.replace(plan.trial, workload=Bulk(duration_ns=20 * 10**9, ends_early=True))
    plan = msgspec.structs.replace(plan, trial=trial)
    with create(tmp_path / "s", CAMPAIGN) as store:
        runner = TrialRunner(SimulatedTestbed(), 1, store)
        fresh, kept = runner.measure([plan]), runner.measure([plan])
        observed = store.observation(store.key("simulated", plan))
    assert fresh == kept
    assert fresh[0].duration_s == observed.duration_ns / 1e9 < 20
    assert fresh[0].throughput_mbps == observed.throughput_bps / 1e6 != observed.in_order_bytes * 8e3 / 20e9


def test_an_observation_from_before_trials_could_end_early_is_read(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    path, (plan,) = tmp_path / "s", planned(network, 1, 1)
    with create(path, CAMPAIGN) as store:
        TrialRunner(fake_testbed, 1, store).measure([plan])
    with sqlite3.connect(path) as connection:
        ((packed,),) = connection.execute("SELECT observation FROM trial")
        unpacked = msgspec.msgpack.decode(zlib.decompress(packed))
        del unpacked["expected_bps"]
        earlier = zlib.compress(msgspec.msgpack.encode(unpacked))
        connection.execute("UPDATE trial SET observation = ?", (earlier,))
    with open_store(path) as store:
        assert store.observation(store.key("fake", plan)) == fake_testbed.run(plan.trial)


def test_failed_trials_are_kept_with_their_reason(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    fake_testbed.fails = lambda trial: "stalled" if trial.buffer_bytes == 2**20 else None
    trials = planned(network)
    for _ in range(2):
        opened = open_store(tmp_path / "s") if (tmp_path / "s").exists() else create(tmp_path / "s", CAMPAIGN)
        with opened as store:
            records = TrialRunner(fake_testbed, 2, store).measure(trials)
            assert [record.failed for record in records[:4]] == [*3 * [Failure("stalled", "stalled")], None]
            assert [tuple(phase) for phase in store.progress()] == [("sweep", 0, 30, 30, 3)]
    assert len(fake_testbed.trials) == 30


def test_a_phase_that_goes_on_has_all_of_its_trials(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    trials = planned(network)
    with create(tmp_path / "s", CAMPAIGN) as store:
        runner = TrialRunner(fake_testbed, 2, store)
        seen = []
        for some in (trials[:12], trials[6:], trials[:3]):
            runner.measure(some, progress=lambda *_: seen.append(store.progress()[0].planned))
            ((_, _, number, done, _),) = store.progress()
            assert number == done
    assert set(seen) == {12, 30}


def test_the_same_trial_asked_for_twice_is_measured_once(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    trials = planned(network, 2)
    with create(tmp_path / "s", CAMPAIGN) as store:
        records = TrialRunner(fake_testbed, 2, store).measure(trials + trials)
    assert records[: len(trials)] == records[len(trials) :]
    assert len(fake_testbed.trials) == len(trials)


def test_a_key_distinguishes_whatever_makes_another_trial(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    (plan,) = planned(network, 1, 1)
    again = msgspec.convert(msgspec.to_builtins(plan), PlannedTrial)

    def changed(**changes: Any) -> PlannedTrial:
        return msgspec.structs.replace(plan, trial=msgspec.structs.replace(plan.trial, **changes))

    other_network = msgspec.structs.replace(network, initial_path="B-X")
    others = [
        changed(seed=plan.trial.seed + 1),
        changed(cc="reno"),
        changed(buffer_bytes=plan.trial.buffer_bytes + 1),
        changed(initial_path="B-X"),
        changed(pm_options={"active": ("B-X",)}),
        changed(size_known=False),
        changed(path_parameters=PathParameters(caps={"B-X": 2_000_000})),
        changed(path_parameters=PathParameters(caps={"B-X": 3_000_000})),
        changed(workload=Bulk(duration_ns=10**9, ends_early=True)),
        changed(workload=Transfer(bytes=10**9)),
        changed(workload=Transfer(bytes=10**9, deadline_ns=10**9)),
        changed(buffer_mode="auto"),
        changed(family="ipv6"),
        changed(topology=other_network),
        msgspec.structs.replace(plan, run=1),
        msgspec.structs.replace(plan, round=1),
        msgspec.structs.replace(plan, purpose="confirm"),
        msgspec.structs.replace(plan, withdrawn="A-X"),
    ]
    with create(tmp_path / "s", CAMPAIGN) as store:
        key = store.key("fake", plan)
        assert store.key("fake", again) == key
        keys = {store.key("fake", other) for other in others} | {store.key("simulated", plan)}
        assert len(keys) == len(others) + 1 and key not in keys


def test_trials_of_version_0_1_keep_their_keys(network: Topology, tmp_path: Path) -> None:
    """It had the options of pcdc as fields of a trial, between the initial path and the segment size."""
    (plan,) = plan_trials(
        network,
        [
            Configuration(
                pm="pcdc",
                cc="olia",
                buffer_bytes=2**20,
                pm_options={"active": ("B-X", "A-X"), "standby_order": ("C-X",)},
                initial_path="A-X",
                stack=VERSION_0_1,
                workload=SECOND,
            )
        ],
        purpose="sweep",
        runs=1,
        base_seed=1,
    )
    fields = (
        f'{{"pm": "pcdc", "cc": "olia", "buffer_bytes": 1048576, "seed": {plan.trial.seed}, '
        '"duration_ns": 1000000000, "initial_path": "A-X", "active": ["B-X", "A-X"], '
        '"standby_order": ["C-X"]}'
    )
    text = f'["simulated", "sweep", 0, 0, null, {fields}]'
    topology = blake2b(msgspec.json.encode(network, order="deterministic"), digest_size=16).digest()
    with create(tmp_path / "s", CAMPAIGN) as store:
        assert store.key("simulated", plan) == blake2b(topology + text.encode(), digest_size=16).digest()


def test_on_a_kernel_its_own_settings_distinguish_trials(tmp_path: Path, network: Topology) -> None:
    """Of a stack, only ECN: whatever else a trial states of it, the kernel has its own."""

    def with_stack(stack: Stack) -> PlannedTrial:
        settings = Configuration(pm="fullmesh", cc="reno", buffer_bytes=2**20, workload=SECOND, stack=stack)
        (plan,) = plan_trials(network, [settings], purpose="sweep", runs=1, base_seed=1)
        return plan

    usual, other = STACKS["linux"], STACKS["v0.9x"]
    with create(tmp_path / "s", CAMPAIGN) as store:
        key = store.key("namespaces", with_stack(usual))
        assert store.key("namespaces", with_stack(other)) == key
        assert store.key("namespaces", with_stack(msgspec.structs.replace(usual, ecn=False))) != key


def test_a_second_process_is_refused(network: Topology, tmp_path: Path) -> None:
    path = tmp_path / "s"
    program = "import sys; from pathlib import Path; from mptune.store import open_store\n"
    program += "with open_store(Path(sys.argv[1])): pass"
    with create(path, CAMPAIGN):
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)], check=False, capture_output=True, text=True
        )
        assert f"process {os.getpid()} is working in this directory" in done.stderr
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
    with pytest.raises(InputError, match="is not a campaign store"), open_store(path):
        pass
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="already exists"), create(path, CAMPAIGN):
        pass


def test_a_store_of_version_0_1_is_read_continued_and_merged(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    """It knew no smallest RTT of a subflow."""
    path, trials = tmp_path / "old", planned(network, 2)
    with create(path, CAMPAIGN) as store:
        TrialRunner(fake_testbed, 1, store).measure(trials[:3])
    connection = sqlite3.connect(path)
    connection.executescript(
        "ALTER TABLE subflow DROP COLUMN min_rtt_ms; ALTER TABLE trial DROP COLUMN failed_kind;"
        "ALTER TABLE trial DROP COLUMN repeated; ALTER TABLE trial DROP COLUMN p5_mbps;"
        "ALTER TABLE subflow DROP COLUMN with_mbps; ALTER TABLE subflow DROP COLUMN without_mbps;"
        "ALTER TABLE subflow DROP COLUMN rto_ms;"
        "PRAGMA user_version = 1;"
    )
    connection.close()
    with open_store(path, write=False) as store:
        keys = [store.key("fake", trial) for trial in trials[:3]]
        old = store.records(keys)
        assert [subflow.min_rtt_ms for subflow in old[keys[0]].subflows] == [None] * 3
    with create(tmp_path / "new", CAMPAIGN) as store:
        assert store.merge(path) == 3
        assert store.records(keys) == old
    with open_store(path) as store:
        records = TrialRunner(fake_testbed, 1, store).measure(trials)
        assert len(fake_testbed.trials) == len(trials)
        assert records[0] == old[keys[0]]
        assert records[-1].subflows[0].min_rtt_ms == 10.0


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

    class Filling(Testbed):
        """Its observations cannot be compressed, so that each takes its pages."""

        name = "fake"
        parallel: int | None = None

        def run(self, trial: Trial) -> Observation:
            seen: Observation = fake_testbed.run(trial)
            return msgspec.structs.replace(seen, bins=list(os.urandom(2000)))

    def campaign() -> None:
        with create(path, CAMPAIGN) as store:
            TrialRunner(fake_testbed, 1, store).measure(trials[:30])
            store._connection.execute("PRAGMA max_page_count = 100")
            TrialRunner(Filling(), 1, store).measure(trials)

    with pytest.raises(MptuneError, match="disk is full"):
        campaign()
    fake_testbed.trials.clear()
    with open_store(path) as store:
        kept = len(store.finished())
        TrialRunner(fake_testbed, 1, store).measure(trials)
        assert 30 <= kept < len(trials) == len(store.finished())
        assert len(fake_testbed.trials) == len(trials) - kept


CALLS = Messages(bytes=200, interval_ns=100_000_000, duration_ns=2 * 10**9)


def calls(network: Topology) -> list[PlannedTrial]:
    """Trials with messages, and one of a saturated sender."""
    common: dict[str, Any] = {"pm": "fullmesh", "cc": "cubic", "buffer_bytes": 2**20}
    configurations = [Configuration(**common, workload=workload) for workload in (CALLS, SECOND)]
    return plan_trials(network, configurations, purpose="sweep", runs=2, base_seed=1)


def test_delays_of_messages_come_back_as_they_were(network: Topology, tmp_path: Path) -> None:
    """Also where another campaign is merged, and read by who cannot write."""
    trials = calls(network)
    with create(tmp_path / "s", CAMPAIGN) as store:
        records = TrialRunner(SimulatedTestbed(), 1, store).measure(trials)
        again = TrialRunner(SimulatedTestbed(), 1, store).measure(trials)
    assert records == again
    assert [len(record.delays_ms) for record in records] == [20, 20, 0, 0]
    with open_store(tmp_path / "s", write=False) as store:
        keys = [store.key("simulated", plan) for plan in trials]
        kept = store.records(keys)
        assert [kept[key].delays_ms for key in keys] == [record.delays_ms for record in records]
        assert kept[keys[0]].settings["workload"]["interval_ns"] == CALLS.interval_ns
    with create(tmp_path / "other", msgspec.structs.replace(CAMPAIGN, settings={"another": 1})) as store:
        assert store.merge(tmp_path / "s") == len(trials)
        assert store.records(keys)[keys[0]].delays_ms == records[0].delays_ms


def test_what_19_of_20_seconds_reach_comes_back_also_where_it_was_merged(
    network: Topology, tmp_path: Path
) -> None:
    long = Bulk(duration_ns=21_000_000_000)
    configurations = [Configuration(pm="fullmesh", cc="reno", buffer_bytes=2**20, workload=long)]
    trials = plan_trials(network, configurations, purpose="sweep", runs=2, base_seed=1)
    with create(tmp_path / "s", CAMPAIGN) as store:
        records = TrialRunner(SimulatedTestbed(), 1, store).measure(trials)
        assert all(0 < (record.p5_mbps or 0) < (record.throughput_mbps or 0) for record in records)
        assert TrialRunner(SimulatedTestbed(), 1, store).measure(trials) == records
    with create(tmp_path / "other", msgspec.structs.replace(CAMPAIGN, settings={"another": 1})) as store:
        store.merge(tmp_path / "s")
        keys = [store.key("simulated", plan) for plan in trials]
        assert [store.records(keys)[key] for key in keys] == records


def test_observations_that_know_no_delays_are_read_without_any(network: Topology, tmp_path: Path) -> None:
    """Version 0.2 wrote none."""
    trials = calls(network)[2:]
    with create(tmp_path / "s", CAMPAIGN) as store:
        expected = TrialRunner(SimulatedTestbed(), 1, store).measure(trials)
    connection = sqlite3.connect(tmp_path / "s")
    with connection:
        for number, packed in connection.execute("SELECT id, observation FROM trial").fetchall():
            seen = msgspec.msgpack.decode(zlib.decompress(packed))
            del seen["delays_ns"]
            old = zlib.compress(msgspec.msgpack.encode(seen))
            connection.execute("UPDATE trial SET observation = ? WHERE id = ?", (old, number))
    connection.close()
    with open_store(tmp_path / "s") as store:
        assert TrialRunner(SimulatedTestbed(), 1, store).measure(trials) == expected
        assert all(store.observation(key).delays_ns == [] for key in store.finished())


#: Reasons as version 0.1 worded them, and their kinds.
EARLIER: dict[str, FailureKind] = {
    "stalled at 1.200 s: no byte in order for 3 s": "stalled",
    "overloaded: 1 % of the packets was 3.0 ms late or more": "overloaded",
    "the connection is plain TCP at 0.1 s: no answer": "fallback",
    "no byte was delivered": "unreachable",
    "not completed within 60.000 s: 100 bytes delivered": "incomplete",
    "meter was killed by signal 9": "died",
}


def earlier_store(path: Path, network: Topology, fake_testbed: Any) -> list[PlannedTrial]:
    """A store as version 0.1 wrote it: failures have words, no kinds."""
    trials = planned(network, len(EARLIER), 1)
    words = dict(zip((plan.trial.buffer_bytes for plan in trials), EARLIER, strict=True))
    fake_testbed.fails = lambda trial: words[trial.buffer_bytes]
    with create(path, CAMPAIGN) as store:
        TrialRunner(fake_testbed, 1, store).measure(trials)
    connection = sqlite3.connect(path)
    with connection:
        for number, packed in connection.execute("SELECT id, observation FROM trial").fetchall():
            seen = msgspec.msgpack.decode(zlib.decompress(packed))
            seen["failed"] = seen["failed"]["reason"]
            old = zlib.compress(msgspec.msgpack.encode(seen))
            connection.execute("UPDATE trial SET observation = ? WHERE id = ?", (old, number))
        for column in ("failed_kind", "repeated", "p5_mbps"):
            connection.execute(f"ALTER TABLE trial DROP COLUMN {column}")
        for column in ("min_rtt_ms", "with_mbps", "without_mbps", "rto_ms"):
            connection.execute(f"ALTER TABLE subflow DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    return trials


def test_failures_of_an_earlier_version_get_a_kind(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    trials = earlier_store(tmp_path / "s", network, fake_testbed)
    expected = [Failure(kind, reason) for reason, kind in EARLIER.items()]
    for write in (False, True):
        with open_store(tmp_path / "s", write=write) as store:
            keys = [store.key("fake", trial) for trial in trials] if write else list(store.finished())
            records = store.records(keys)
            assert {records[key].failed for key in keys} == set(expected)
            assert {store.observation(key).failed for key in keys} == set(expected)
            assert {trial.failed for trial in store.trials()} == set(expected)


def test_reading_an_earlier_store_leaves_it_as_it_is(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    """The version that wrote it may be running, and the medium may not be writable."""
    earlier_store(tmp_path / "s", network, fake_testbed)
    before = (tmp_path / "s").read_bytes()
    with open_store(tmp_path / "s", write=False) as store:
        assert store.path == tmp_path / "s" and len(store.trials()) == len(EARLIER)
    with create(tmp_path / "new", msgspec.structs.replace(CAMPAIGN, settings={"another": 1})) as store:
        assert store.merge(tmp_path / "s") == len(EARLIER)
        assert {
            record.failed.kind for record in store.records(store.finished()).values() if record.failed
        } == set(EARLIER.values())
    assert (tmp_path / "s").read_bytes() == before


def test_the_rtts_of_the_paths_stand_beside_the_trials(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    """Smallest RTTs of 10 ms and last ones of 20 ms; C is seen and carries nothing. Failed trials are out."""
    fake_testbed.gives = {"A-X": 80.0, "B-X": 20.0, "C-X": 5.0}
    plain, failing = fake_testbed.run, iter([True])

    def run(trial: Any) -> Any:
        observation = plain(trial)
        slow = next(failing, False)
        flows = [
            msgspec.structs.replace(
                flow,
                active=flow.path != "C-X",
                min_rtt_ns=flow.min_rtt_ns * (100 if slow else 1),
                rto_ns=250_000_000,
            )
            for flow in observation.subflows
        ]
        failed = Failure("stalled", "silence") if slow else None
        return msgspec.structs.replace(observation, subflows=flows, failed=failed)

    fake_testbed.run = run
    with create(tmp_path / "s", CAMPAIGN) as store:
        records = TrialRunner(fake_testbed, 1, store).measure(planned(network, 3))
        rtts = path_rtts(store)
    assert records[-1].subflows[0].rto_ms == 250.0
    assert [rtt.path for rtt in rtts] == ["A-X", "B-X", "C-X"]
    assert {(rtt.idle.min, rtt.idle.median, rtt.idle.max) for rtt in rtts} == {(10.0, 10.0, 10.0)}
    assert [rtt.loaded and rtt.loaded.mean for rtt in rtts] == [20.0, 20.0, None]
    assert rtts[0].idle.n == sum(record.failed is None for record in records) == len(records) - 1
