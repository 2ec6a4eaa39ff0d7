"""Guests on the workers of dask: the same bytes as here, and no other kernel than the client's."""

from contextlib import ExitStack

import pytest

from mptune.errors import MptuneError
from mptune.guest import kernels
from mptune.runner.executors import ExecutorOptions
from mptune.runner.running import run_trials
from tests.plugins import trials
from tests.runner.cluster import scheduler, worker

pytestmark = pytest.mark.needs("guest", "dask")


def test_a_worker_runs_guests(testbed, trial, tmp_path):
    asked = [trial(seed=seed, duration_ns=trials.SECOND) for seed in (1, 2)]
    here = run_trials(testbed, asked)
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(tmp_path))
        stack.enter_context(worker(address))
        executor = ExecutorOptions(executor="dask", scheduler=address).create()
        assert run_trials(testbed, asked, executor=executor) == here
    assert all(observation.failed is None for observation in here)


def test_a_worker_without_the_kernel_is_refused_by_name(testbed, trial, tmp_path):
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(tmp_path))
        stack.enter_context(worker(address, **{kernels.VARIABLE: str(tmp_path)}))
        executor = ExecutorOptions(executor="dask", scheduler=address).create()
        expected = rf"^tcp://\S+: has .* without that kernel for guests, not .*{kernels.find().version}"
        with pytest.raises(MptuneError, match=expected):
            run_trials(testbed, [trial(duration_ns=trials.SECOND)], executor=executor)
