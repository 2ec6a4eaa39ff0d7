"""Campaigns that are repeated over days, without waiting for them."""

import csv
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from mptune import interrupts
from mptune.campaign.definition import Definition, SweepOptions, from_settings
from mptune.campaign.execution import resume, start, wait_until
from mptune.impact import ImpactOptions
from mptune.options.stacks import StackOptions
from mptune.topology import load

HOUR = 3600 * 10**9


def repeated(**changes: object) -> Definition:
    options: dict[str, object] = {
        "pms": ("fullmesh",),
        "ccs": ("reno",),
        "buffers": (200_000,),
        "runs": 2,
        "duration_ns": 10**9,
        "seed": 1,
        "every_ns": HOUR,
        "for_ns": 3 * HOUR,
    }
    sweep = SweepOptions(**(options | changes))  # type: ignore[arg-type]
    topology = load("UiT-HAW")
    return Definition(name=topology.name, topology=topology, testbed="simulated", options=sweep)


def test_each_round_begins_at_its_hour_and_draws_other_random_numbers(tmp_path: Path) -> None:
    waited: list[datetime] = []
    before = datetime.now().astimezone() - timedelta(seconds=1)
    start(repeated(), tmp_path / "out", wait=waited.append)
    after = datetime.now().astimezone()
    first, second = waited
    assert second - first == timedelta(hours=1)
    assert before <= first - timedelta(hours=1) <= after
    with (tmp_path / "out" / "observations.csv").open(newline="") as file:
        assert len({row["seed"] for row in csv.DictReader(file)}) == 3 * 2


def test_impact_factors_of_a_sweep_are_measured_under_its_stack(tmp_path: Path) -> None:
    impact = ImpactOptions(design="eq5", runs=1, window_ns=10**9)
    once = {"every_ns": None, "for_ns": None, "pms": ("pcdc",), "impact": impact, "runs": 1}
    start(repeated(**once, stack=StackOptions(stack="v0.9x")), tmp_path / "out")
    with (tmp_path / "out" / "observations.csv").open(newline="") as file:
        accounting = {row["purpose"]: row["accounting"] for row in csv.DictReader(file)}
    assert accounting == {"impact": "payload", "sweep": "payload"}


def test_a_resumed_campaign_keeps_its_clock(tmp_path: Path) -> None:
    def stop(time: datetime) -> None:
        raise KeyboardInterrupt

    undisturbed: list[datetime] = []
    with pytest.raises(KeyboardInterrupt):
        start(repeated(), tmp_path / "out", wait=stop)
    resume(tmp_path / "out", wait=undisturbed.append)
    again: list[datetime] = []
    resume(tmp_path / "out", wait=again.append)
    assert again == undisturbed and len(again) == 2


def test_nobody_waits_for_an_hour_after_a_ctrl_c(lose_ctrl_c: Callable[[], None]) -> None:
    with interrupts.noting():
        lose_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            wait_until(datetime.now().astimezone() + timedelta(hours=1))


def test_what_was_asked_for_comes_back_from_the_store() -> None:
    definition = repeated(transfers=(1000,), initial_paths=("U-U",), schedulers=("ecf",))
    assert from_settings(definition.settings()) == definition
