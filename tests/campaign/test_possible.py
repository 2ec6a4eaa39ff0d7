"""Defaults that a testbed lacks are left out, and named; what was asked for by name is refused."""

import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.campaign.definition import Definition, SweepOptions, read_definition
from mptune.campaign.execution import resume, start
from mptune.campaign.possible import possible
from mptune.cli import app
from mptune.errors import InputError
from mptune.impact import ImpactOptions
from mptune.optimisation.budget import SHORTEST_TRIAL_NS
from mptune.optimisation.main_job import Result
from mptune.optimisation.options import OptimiseOptions
from mptune.optimisation.papers import CCS
from mptune.result.making import result_document
from mptune.runner.progress import Reporter
from mptune.topology import Topology
from mptune.trial import Trial
from mptune.units import parse_time

SECOND = 1_000_000_000
MIB = 2**20
HAS = ("reno", "cubic")


@pytest.fixture
def poor(fake_testbed: Any) -> Any:
    """A testbed with Reno and Cubic alone, and with buffers of 12 MiB at most."""

    def check(trial: Trial) -> None:
        if trial.cc not in HAS:
            raise InputError("--cc", "", f"expected one that alice can run, found {trial.cc}: lacking")
        if trial.buffer_bytes > 12 * MIB:
            raise InputError("--buffer", "", "expected at most 12 MiB")

    fake_testbed.check = check
    return fake_testbed


def quick(**changes: Any) -> OptimiseOptions:
    """Options of a small job that asks for no congestion control and no buffers by name."""
    small = {"runs": 2, "duration_ns": SECOND, "confirm_runs": 2, "off_by": 0.0, "resamples": 0}
    impact = ImpactOptions(runs=2, window_ns=SECOND, buffer_bytes=8 * MIB)
    return OptimiseOptions(**{**small, "impact": impact, **changes})


def asked(network: Topology, options: OptimiseOptions | SweepOptions) -> Definition:
    return Definition(name="toy", topology=network, testbed="fake", options=options)


@pytest.fixture
def run(network: Topology, poor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run a campaign on the poor testbed; its result, and what was printed."""
    monkeypatch.setattr(testbeds, "create", lambda name: poor)
    monkeypatch.setattr(testbeds, "only_stack", lambda name: "linux")

    def begin(options: OptimiseOptions | SweepOptions) -> tuple[Any, str]:
        output = io.StringIO()
        run = start(asked(network, options), tmp_path / "run", reporter=Reporter(stream=output))
        return run, output.getvalue()

    return begin


def test_what_nobody_asked_for_is_left_out_and_named_in_one_line(network: Topology, poor: Any) -> None:
    definition, sentence = possible(asked(network, quick()), poor)
    assert set(definition.options.ccs) == set(HAS)
    assert max(definition.options.buffers) == 12 * MIB
    assert sentence == (
        "Left out, as they cannot be had there: olia, hybla, scalable, vegas, buffers of more than 12 MiB "
        "(asking for one by name shows why)."
    )


def test_what_was_asked_for_by_name_is_left_to_the_testbed_to_refuse(network: Topology, poor: Any) -> None:
    by_name = quick(pms=("fullmesh",), ccs=(CCS[0], *CCS[1:]), buffers=(4 * MIB, 8 * MIB, 16 * MIB))
    assert possible(asked(network, by_name), poor) == (asked(network, by_name), "")


def test_where_nothing_of_a_default_is_possible_the_reason_is_that_of_the_testbed(
    network: Topology, poor: Any
) -> None:
    def check(trial: Trial) -> None:
        raise InputError("--pm", "", "expected default, or root")

    poor.check = check
    with pytest.raises(InputError, match=r"^--pm: expected default, or root$"):
        possible(asked(network, quick()), poor)


def test_a_testbed_that_has_everything_leaves_nothing_out(network: Topology, fake_testbed: Any) -> None:
    definition = asked(network, quick())
    assert possible(definition, fake_testbed) == (definition, "")


def test_the_main_job_runs_with_what_there_is(run: Any, poor: Any) -> None:
    result, output = run(quick())
    assert isinstance(result, Result) and result.optimum.cc in HAS
    assert {trial.cc for trial in poor.trials} == set(HAS)
    assert output.count("Left out, as they cannot be had there: olia, hybla, scalable, vegas") == 1


def test_a_sweep_runs_with_what_there_is(run: Any, poor: Any) -> None:
    run(SweepOptions(pms=("fullmesh",), buffers=(MIB,), runs=1, duration_ns=SECOND))
    assert sorted(trial.cc for trial in poor.trials) == sorted(HAS)


def test_the_same_asked_for_by_name_is_refused(run: Any, poor: Any) -> None:
    with pytest.raises(InputError, match="found olia: lacking"):
        run(quick(pms=("fullmesh",), ccs=("cubic", "olia"), buffers=(4 * MIB, 8 * MIB)))
    assert not poor.trials


def test_a_budget_counts_only_what_can_run(run: Any, poor: Any) -> None:
    """2 path managers with 2 congestion controls; with 6 it would not be enough."""
    result, _ = run(quick(duration_ns=4 * SECOND, budget_ns=60 * SECOND))
    assert isinstance(result, Result)


def test_too_short_a_budget_names_a_duration_that_fits_and_it_does(run: Any, poor: Any) -> None:
    too_long = {"duration_ns": 30 * SECOND, "budget_ns": 60 * SECOND}
    with pytest.raises(InputError, match=r"each of 4 candidates .*; --duration \d+s fits") as error:
        run(quick(**too_long))
    assert not poor.trials
    (advised,) = re.findall(r"--duration (\w+) fits", str(error.value))
    duration_ns = parse_time(advised)
    result, _ = run(quick(**{**too_long, "duration_ns": duration_ns}))
    assert result.reached.spent_s <= 60
    with pytest.raises(InputError, match=r"^--budget: "):
        run(quick(**{**too_long, "duration_ns": duration_ns + SECOND}))


def test_a_budget_shortens_trials_of_which_nobody_asked_for_the_length(run: Any, poor: Any) -> None:
    options = quick(budget_ns=200 * SECOND, off_by=0.2)
    left_alone = msgspec.structs.replace(options, duration_ns=OptimiseOptions().duration_ns)
    result, output = run(left_alone)
    (sentence,) = (line for line in output.splitlines() if line.startswith("Trials last "))
    because = r"so that a budget of 200 s is enough for 4 candidates \(--duration decides otherwise\)\."
    assert re.fullmatch(rf"Trials last \d+ s instead of 30 s, {because}", sentence)
    assert sentence in result.warnings and sentence in result_document(result)["warnings"]
    full_ns = max(trial.workload.duration_ns for trial in poor.trials)
    assert SHORTEST_TRIAL_NS <= full_ns < 30 * SECOND
    assert f"last {full_ns // SECOND} s" in sentence
    # One second more does not fit; and what the sweep leaves goes into confirmation.
    with pytest.raises(InputError, match=r"^--budget: "):
        run(msgspec.structs.replace(options, duration_ns=full_ns + SECOND))
    left_s = 200 - sum((1 + record.repeated) * (record.duration_s or 0) for record in result.records)
    runs = result.confirmation.runs
    assert 0 <= left_s < 3 * full_ns / SECOND or (result.confirmation.is_tight and runs > 1)


def test_a_resumed_campaign_keeps_its_shortened_trials(run: Any, tmp_path: Path) -> None:
    options = quick(budget_ns=200 * SECOND)
    first, _ = run(msgspec.structs.replace(options, duration_ns=OptimiseOptions().duration_ns))
    again = resume(tmp_path / "run")
    assert isinstance(again, Result) and again.warnings == first.warnings
    config = json.loads((tmp_path / "run" / "config.json").read_bytes())
    assert config["options"]["shortened_from_ns"] == 30 * SECOND > config["options"]["duration_ns"]


def test_below_trials_that_last_long_enough_a_budget_is_refused(run: Any, poor: Any) -> None:
    left_alone = msgspec.structs.replace(
        quick(budget_ns=100 * SECOND), duration_ns=OptimiseOptions().duration_ns
    )
    with pytest.raises(
        InputError, match=r"for a trial of 20 s of each of 4 .*; --duration \d+s fits$"
    ) as error:
        run(left_alone)
    assert not poor.trials
    (least,) = re.findall(r"at least (\d+) s", str(error.value))
    result, output = run(msgspec.structs.replace(left_alone, budget_ns=int(least) * SECOND))
    assert "Trials last 20 s instead of 30 s" in output and isinstance(result, Result)


def test_a_budget_for_which_no_duration_is_short_enough_asks_for_fewer_candidates(run: Any) -> None:
    with pytest.raises(InputError, match=r"found 5 s; fewer candidates take less$"):
        run(quick(duration_ns=30 * SECOND, budget_ns=5 * SECOND))


def test_in_a_campaign_file_the_advice_names_its_key(tmp_path: Path) -> None:
    file = tmp_path / "campaign.toml"
    file.write_text('topology = "UiT-HAW"\n[trials]\nduration = "30s"\nbudget = "100s"\n')
    assert read_definition(file).options.duration_ns == 30 * SECOND
    refused = CliRunner().invoke(app, ["campaign", "run", str(file), "--out", str(tmp_path / "run")])
    assert refused.exit_code == 2 and not (tmp_path / "run").exists()
    assert refused.stderr.startswith(f"mptune: error: {file}: trials.budget: expected at least ")
    assert re.search(r'; trials\.duration = "\d+s" fits\n$', refused.stderr)
