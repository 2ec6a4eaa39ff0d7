"""A campaign whose answer is confirmed on a kernel: one store, and a report that keeps the two apart."""

from pathlib import Path
from typing import Any

import pytest

from mptune.campaign import execution
from mptune.campaign.definition import read_definition
from mptune.campaign.execution import resume, start
from mptune.report.files import write_page
from mptune.result.reading import read_run
from mptune.store import open_store
from mptune.store.directory import STORE
from mptune.store.round_trips import path_rtts
from tests.conftest import FakeTestbed

SMALL = """
topology = "UiT-HAW"
[factors]
pm = ["fullmesh"]
cc = ["cubic"]
buffers = "0.1,0.2,0.4,0.8"
[trials]
runs = 2
duration = "2s"
strategy = "grid"
[decision]
confirm_runs = 3
off_by = 0
resamples = 0
"""


class FakeKernel(FakeTestbed):
    name = "virtual:7.3"


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    testbed = FakeKernel()
    testbed.gives = {"P-D": 3.0, "T-D": 1.0}
    monkeypatch.setattr(execution, "confirming", lambda options, name: testbed)
    return testbed


@pytest.fixture
def run(kernel: FakeKernel, tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    start(read_definition(file), tmp_path / "run")
    return tmp_path / "run"


def test_trials_on_the_kernel_are_in_the_store_and_not_among_those_of_the_campaign(
    run: Path, kernel: FakeKernel
) -> None:
    data = read_run(run, "run")
    assert {trial.purpose for trial in data.trials} == {"sweep", "confirm"}
    with open_store(run / STORE, write=False) as store:
        elsewhere = [trial for trial in store.trials() if trial.testbed == kernel.name]
        assert [trial.purpose for trial in elsewhere] == ["guest"] * 6
        # The kernel's are the only ones below 20 ms.
        assert all(path.idle.min > 20 for path in path_rtts(store))
    rows = (run / "observations.csv").read_text().splitlines()
    assert len(rows) == 1 + len(data.trials)
    write_page(data, run)
    page = (run / "report.html").read_text()
    assert page.count('<th scope="row">Linux 7.3</th>') == 2


def test_a_campaign_that_is_resumed_knows_what_the_kernel_gave(run: Path, kernel: FakeKernel) -> None:
    before, trials = (run / "result.json").read_bytes(), len(kernel.trials)
    assert b'"confirmed_on_kernel"' in before
    resume(run)
    assert (run / "result.json").read_bytes() == before and len(kernel.trials) == trials


def test_of_several_rounds_the_last_is_confirmed(kernel: FakeKernel, tmp_path: Path) -> None:
    file = tmp_path / "days.toml"
    file.write_text(SMALL + '[repeat]\nevery = "1h"\nfor = "3h"\n')
    result: Any = start(read_definition(file), tmp_path / "run")
    assert result.measured_on_kernel is not None and len(kernel.trials) == 6
    with open_store(tmp_path / "run" / STORE, write=False) as store:
        assert {trial.round for trial in store.trials() if trial.testbed == kernel.name} == {2}
