"""Trials on the workers of dask: the same results, whoever is killed, stalls, or has another version."""

import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from mptune import testbeds
from mptune.errors import InputError, MptuneError
from mptune.runner.executors import EXECUTORS, ExecutorOptions, _worker
from mptune.runner.executors import dask as executor
from mptune.runner.planning import plan_trials
from mptune.runner.runner import TrialRunner
from mptune.store import Campaign, create, open_store
from mptune.topology import load
from mptune.trial import Bulk, Configuration
from tests.runner.cluster import scheduler, worker


def trials(count: int) -> list:
    workload = Bulk(duration_ns=2 * 10**9)
    sizes = [
        Configuration(pm="fullmesh", cc="reno", buffer_bytes=100_000 + n, workload=workload)
        for n in range(count)
    ]
    return plan_trials(load("UiT-HAW"), sizes, purpose="sweep", runs=1, base_seed=1)


def runner(address: str, store=None, **options: int) -> TrialRunner:
    chosen = ExecutorOptions(executor="dask", scheduler=address, **options)
    return TrialRunner(testbeds.create("simulated"), None, store, chosen.create())


@pytest.mark.needs("dask")
def test_results_are_those_of_threads_when_a_worker_is_killed_and_another_stalls(tmp_path: Path) -> None:
    planned = trials(60)
    expected = TrialRunner(testbeds.create("simulated")).measure(planned)
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(tmp_path))
        victims = [stack.enter_context(worker(address)) for _ in range(2)]
        stack.enter_context(worker(address))
        seen = []

        def progress(done: int, total: int, note: str = "") -> None:
            seen.append(done)
            if done == 20:
                victims[0].kill()
            if done == 40:
                victims[1].send_signal(signal.SIGSTOP)

        records = runner(address, timeout_ns=10**9).measure(planned, progress=progress)
    assert records == expected
    assert seen == list(range(1, 61))


@pytest.mark.needs("dask")
def test_a_trial_took_what_it_ran_and_not_what_it_waited(tmp_path: Path) -> None:
    """With one worker all of them took no longer together than the whole."""
    campaign = Campaign(name="waiting", settings={}, environment={})
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(tmp_path))
        stack.enter_context(worker(address))
        store = stack.enter_context(create(tmp_path / "store", campaign))
        begin = time.monotonic()
        runner(address, store).measure(trials(40))
        whole = time.monotonic() - begin
        ((took,),) = (tuple(row.values()) for row in store.rows("SELECT sum(finished - started) FROM trial"))
    assert 0 < took <= whole


@pytest.mark.needs("dask")
def test_a_restarted_scheduler_gets_what_is_missing(tmp_path: Path) -> None:
    planned = trials(60)
    expected = TrialRunner(testbeds.create("simulated")).measure(planned)
    with ExitStack() as stack:
        address, first = stack.enter_context(scheduler(tmp_path))
        stack.enter_context(worker(address))

        def progress(done: int, total: int, note: str = "") -> None:
            if done == 20:
                first.kill()
                first.wait()
                stack.enter_context(scheduler(tmp_path, int(address.rpartition(":")[2])))
                stack.enter_context(worker(address))

        assert runner(address).measure(planned, progress=progress) == expected


@pytest.mark.needs("dask")
def test_an_interrupted_client_resumes_without_what_it_has(tmp_path: Path) -> None:
    planned = trials(40)
    expected = TrialRunner(testbeds.create("simulated")).measure(planned)
    path = tmp_path / "store"
    campaign = Campaign(name="test", settings={}, environment={})

    def stop(done: int, total: int, note: str = "") -> None:
        if done == 20:
            raise KeyboardInterrupt

    again = []
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(tmp_path))
        stack.enter_context(worker(address))
        with pytest.raises(KeyboardInterrupt), create(path, campaign) as store:
            runner(address, store).measure(planned, progress=stop)
        with open_store(path) as store:
            kept = len(store.finished())
            records = runner(address, store).measure(planned, progress=lambda done, *_: again.append(done))
    assert records == expected
    assert kept >= 20
    assert len(again) == 40 - kept


@pytest.mark.needs("dask")
def test_a_worker_with_another_mptune_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(tmp_path))
        stack.enter_context(worker(address))
        monkeypatch.setattr(_worker, "identity", lambda testbed: "9.9 (of another core)")
        with pytest.raises(MptuneError, match=r"^tcp://127\.0\.0\.1:\d+: has mptune .*9\.9") as raised:
            runner(address).measure(trials(2))
    assert "\n" not in str(raised.value)


@pytest.mark.needs("dask")
def test_an_address_without_a_scheduler_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_ANSWER_S", 0.5)
    with pytest.raises(MptuneError, match=r"tcp://127\.0\.0\.1:9: no scheduler of dask answers"):
        runner("tcp://127.0.0.1:9").measure(trials(1))


def test_without_the_library_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MptuneError, match=r"pip install 'mptune\[dask\]'"):
        runner("tcp://127.0.0.1:9").measure(trials(1))


@pytest.mark.needs("dask", "namespaces")
def test_a_kernel_is_not_somewhere_else(fake_testbed) -> None:
    chosen = EXECUTORS["dask"](ExecutorOptions(executor="dask", scheduler="tcp://127.0.0.1:9"), None)
    with pytest.raises(InputError, match="expected threads with the testbed fake"):
        chosen.check(fake_testbed)


@pytest.mark.parametrize(
    "options",
    [ExecutorOptions(executor="dask"), ExecutorOptions(scheduler="tcp://127.0.0.1:9")],
    ids=["no address", "an address without dask"],
)
def test_an_address_and_dask_go_together(options: ExecutorOptions) -> None:
    with pytest.raises(InputError, match="--dask-scheduler"):
        options.check()
