"""Cost of trials with a clock of their own: real time, learnt from what they took, and kept with them."""

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.campaign import execution
from mptune.campaign.definition import read_definition
from mptune.campaign.execution import start
from mptune.errors import InputError
from mptune.guest import kernels
from mptune.impact import ImpactOptions
from mptune.optimisation.budget import Budget
from mptune.optimisation.options import OptimiseOptions
from mptune.options.stacks import StackOptions
from mptune.runner.planning import plan_trials
from mptune.runner.runner import TrialRunner
from mptune.store import Campaign, create
from mptune.topology import Topology
from mptune.trial import Bulk, Configuration, PlannedTrial, Record
from tests.conftest import FakeTestbed
from tests.guest.test_kernels import write

SECOND = 1_000_000_000
OPTIONS = OptimiseOptions(ccs=("cubic",), pms=("fullmesh",), duration_ns=30 * SECOND)


class FakeGuests(FakeTestbed):
    name = "virtual:7.3"
    pace = 0.5
    set_up_s = 1.0


@pytest.fixture
def guests() -> FakeGuests:
    testbed = FakeGuests()
    testbed.gives = {"P-D": 3.0, "T-D": 1.0, "A-X": 80.0, "B-X": 20.0}
    return testbed


def planned(network: Topology, count: int = 1) -> list[PlannedTrial]:
    asked = Configuration(
        pm="fullmesh", cc="cubic", buffer_bytes=2**20, workload=Bulk(duration_ns=30 * SECOND)
    )
    return plan_trials(network, [asked], purpose="sweep", runs=count, base_seed=1)


def taking(record: Record, took_s: float) -> Record:
    return msgspec.structs.replace(record, took_s=took_s)


def test_a_trial_costs_what_the_slowest_so_far_took(network: Topology, guests: FakeGuests) -> None:
    (record,) = TrialRunner(guests).measure(planned(network))
    budget = Budget.on(guests, network, OPTIONS, at_once=2)
    assert budget.trial_s == pytest.approx((30 * 0.5 + 1) / 2)
    # Two guests share each second.
    slow = budget.after([taking(record, 7.0), taking(record, 25.0)])
    assert slow.spent_s == pytest.approx((7 + 25) / 2)
    assert slow.trial_s == pytest.approx(25 / 2)
    assert slow.after([taking(record, 4.0)]).trial_s == slow.trial_s
    # No more are asked for together, on any machine.
    assert Budget.on(guests, network, OPTIONS, at_once=64).at_once == 4


def test_a_budget_leaves_impact_factors_time_to_settle(network: Topology, fake_testbed: Any) -> None:
    impact = ImpactOptions(design="paired", window_ns=10 * SECOND, settle_ns=4 * SECOND)
    options = msgspec.structs.replace(OPTIONS, pms=("fullmesh", "pcdc"), impact=impact, budget_ns=60 * SECOND)
    found = Budget.on(fake_testbed, network, options, at_once=1).impact
    assert found.settle_ns == 4 * SECOND < found.length_ns < 10 * SECOND


def test_elsewhere_a_trial_costs_its_duration(network: Topology, fake_testbed: Any) -> None:
    (record,) = TrialRunner(fake_testbed).measure(planned(network))
    assert record.took_s is None
    budget = Budget.on(fake_testbed, network, OPTIONS, at_once=2)
    assert budget.after([taking(record, 25.0)]).spent_s == budget.trial_s == 30.0


def test_what_a_trial_took_is_the_same_when_it_is_read_again(
    network: Topology, guests: FakeGuests, tmp_path: Path
) -> None:
    asked = planned(network, 3)
    with create(tmp_path / "store", Campaign(name="x", settings={}, environment={})) as store:
        first = TrialRunner(guests, 1, store).measure(asked)
        again = TrialRunner(guests, 1, store).measure(asked)
    assert first == again and len(guests.trials) == 3
    assert all(record.took_s is not None for record in first)


@pytest.fixture
def on_guests(guests: FakeGuests, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGuests:
    (tmp_path / "kernels").mkdir()
    monkeypatch.setenv(kernels.VARIABLE, str(tmp_path / "kernels"))
    write(tmp_path / "kernels", "7.3", "7.3.4")
    monkeypatch.setattr(execution, "_testbed", lambda definition, reporter: guests)
    return guests


CAMPAIGN = """
topology = "UiT-HAW"
testbed = "virtual"
buffer_mode = "fixed"
[factors]
pm = ["fullmesh"]
cc = ["cubic"]
buffers = "0.1,0.2,0.4,0.8"
[trials]
duration = "2s"
[decision]
off_by = 0
"""


def test_rounds_in_guests_wait_for_no_hour(on_guests: FakeGuests, tmp_path: Path) -> None:
    file = tmp_path / "days.toml"
    file.write_text(CAMPAIGN + '[repeat]\nevery = "1h"\nfor = "3h"\n')
    waited: list[datetime] = []
    result: Any = start(read_definition(file), tmp_path / "run", wait=waited.append)
    assert len(result.rounds) == 3 and waited == []


def test_with_a_budget_no_trial_follows_the_confirmation(on_guests: FakeGuests, tmp_path: Path) -> None:
    on_guests.records = True
    on_guests.anywhere = True
    file = tmp_path / "short.toml"
    file.write_text(CAMPAIGN.replace("duration", 'budget = "10min"\nduration'))
    result: Any = start(read_definition(file), tmp_path / "run")
    of_search = [trial for trial in on_guests.trials if trial.buffer_mode == "fixed"]
    assert len(of_search) == len(result.records)
    assert not (tmp_path / "run" / "round_trips.csv").exists()


def test_the_plain_name_has_the_stack_of_the_release_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kernels.VARIABLE, str(tmp_path))
    newest = StackOptions(stack="linux-7.3")
    write(tmp_path, "6.12", "6.12.118")
    with pytest.raises(
        InputError, match=r"--stack: expected linux, the only one of the testbed virtual:6\.12"
    ):
        newest.check_on("virtual")
    write(tmp_path, "7.3", "7.3.4")
    newest.check_on("virtual")
    with pytest.raises(InputError):
        newest.check_on("virtual:6.12")
