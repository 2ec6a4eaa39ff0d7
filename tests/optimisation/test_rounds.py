"""The main job repeated over time: its rounds, what changes between them, and why."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune import testbeds
from mptune.campaign import execution
from mptune.campaign.definition import Definition, fitted, from_settings
from mptune.campaign.execution import resume, start
from mptune.errors import InputError, MptuneError
from mptune.impact import ImpactOptions
from mptune.optimisation.main_job import Result, optimise
from mptune.optimisation.options import OptimiseOptions
from mptune.optimisation.rounds import changes
from mptune.report.choices import Choices
from mptune.report.sections.rounds import rounds
from mptune.result.reading import read_run
from mptune.runner.runner import TrialRunner
from mptune.testbeds import Testbed
from mptune.topology import Topology, load
from mptune.trial import Observation, Trial

SECOND, HOUR, MIB = 10**9, 3600 * 10**9, 2**20
TOY = OptimiseOptions(
    strategy="grid",
    pms=("pcdc",),
    ccs=("cubic",),
    buffers=tuple(i * MIB for i in range(1, 9)),
    runs=3,
    duration_ns=SECOND,
    impact=ImpactOptions(design="eq5", runs=2, window_ns=SECOND, buffer_bytes=8 * MIB),
    confirm_runs=3,
    resamples=20,
    sets="signs",
    off_by=0.0,
    extend=False,
)


def day(**changes: Any) -> Definition:
    """Half past midnight would be the same as midnight; after 18 hours the mobile network is full."""
    options = msgspec.structs.replace(
        OptimiseOptions(
            pms=("fullmesh", "default"),
            ccs=("cubic",),
            buffers=(MIB // 4, MIB // 2, MIB),
            runs=2,
            duration_ns=4 * SECOND,
            confirm_runs=2,
            resamples=0,
            model="monotone",
            off_by=0.0,
            extend=False,
            initial_paths=("T-D", "T-M"),
            every_ns=9 * HOUR,
            for_ns=27 * HOUR,
        ),
        **changes,
    )
    topology = load("CLOUD-HOME.day")
    return Definition(name="day", topology=topology, testbed="simulated", options=options)


def never(time: datetime) -> None:
    raise AssertionError("the simulator's day does not take a day")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    out = tmp_path_factory.mktemp("rounds") / "out"
    result = start(day(), out, wait=never)
    assert isinstance(result, Result)
    return out, result


def test_every_round_sees_the_network_of_its_hour(done: tuple[Path, Result]) -> None:
    """Until six in the evening the mobile network is the fast one, then it is of little use."""
    _, result = done
    answers = [each.answered for each in result.rounds]
    assert [each.at_ns // HOUR for each in result.rounds] == [0, 9, 18]
    means = [
        answer.confirmed.mean for answer in answers if answer is not None and answer.confirmed is not None
    ]
    assert means[0] > means[1] > 1.5 * means[2]
    seeds = [{record.seed for record in result.records if record.round == number} for number in range(3)]
    assert not (seeds[0] & seeds[1] or seeds[1] & seeds[2])


def test_the_result_is_that_of_the_last_round_and_has_the_time_of_the_change(
    done: tuple[Path, Result],
) -> None:
    out, result = done
    document = json.loads((out / "result.json").read_text())
    first, *_, last = document["rounds"]
    assert last["answer"]["obs_bytes"] == document["obs_bytes"]
    assert first["changes"] == [] and last["changes"]
    assert "answer of round 3, 18 h after the first" in document["answer"][-1]
    assert "3 (after 18 h)" in document["answer"][-1]
    assert result.topology == load("CLOUD-HOME.day")


def test_the_report_shows_the_answers_over_time_and_the_sweep_of_the_last(done: tuple[Path, Result]) -> None:
    out, result = done
    run = read_run(out, "day")
    (section,) = rounds(run, Choices())
    answers = next(table for table in section.tables if table.title == "Answers by round")
    assert [row["when"] for row in answers.rows] == ["0 h", "9 h", "18 h"]
    assert {row["round"] for row in section.open[0].rows} >= {3}
    assert {trial.round for trial in run.swept} == {2} and {trial.round for trial in run.ever_swept} == {
        0,
        1,
        2,
    }
    assert len(run.swept) == sum(record.round == 2 and record.purpose == "sweep" for record in result.records)


def test_a_resumed_campaign_ends_with_the_same_answers(done: tuple[Path, Result], tmp_path: Path) -> None:
    out = tmp_path / "out"
    testbed = testbeds.create("simulated")
    left = [40]

    class Stopping(Testbed):
        name, parallel = testbed.name, 1

        def run(self, trial: Trial) -> Observation:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return testbed.run(trial)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(testbeds, "create", lambda name: Stopping())
        with pytest.raises(KeyboardInterrupt):
            start(day(), out, wait=never)
    resume(out, wait=never)
    for name in ("result.json", "observations.csv", "pareto.csv"):
        assert (out / name).read_bytes() == (done[0] / name).read_bytes(), name


def test_on_a_kernel_it_waits_for_the_hour(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    waited: list[datetime] = []
    monkeypatch.setattr(testbeds, "only_stack", lambda name: "linux")
    start(day(for_ns=18 * HOUR, initial_paths=(), runs=1), tmp_path / "out", wait=waited.append)
    assert len(waited) == 1


def test_a_round_without_an_answer_does_not_end_the_campaign(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def failing(*arguments: Any, round_: int, **options: Any) -> Result:
        if round_ != 1:
            return optimise(*arguments, round_=round_, **options)
        raise MptuneError("every trial of the sweep failed")

    monkeypatch.setattr(execution, "optimise", failing)
    result = start(day(initial_paths=(), runs=1), tmp_path / "out", wait=never)
    assert isinstance(result, Result)
    assert [each.answered is None for each in result.rounds] == [False, True, False]
    assert result.rounds[1].failed == "every trial of the sweep failed"
    assert result.rounds[2].changes  # since the first


def test_what_was_asked_for_comes_back_from_the_store() -> None:
    assert from_settings(day().settings()) == day()


def answers(network: Topology, fake: Any, *gives: float) -> list[Any]:
    """Answers where path C-X gives so many Mbit/s."""
    finished = []
    for mbps in gives:
        fake.gives = {"A-X": 80.0, "B-X": 20.0, "C-X": mbps}
        finished.append(optimise(network, TrialRunner(fake), TOY).answered)
    return finished


def test_a_change_names_what_and_why(network: Topology, fake_testbed: Any) -> None:
    hurts, helps = answers(network, fake_testbed, -10.0, 30.0)
    what, *why = changes(hurts, helps)
    assert "subflows A-X, B-X, C-X instead of A-X, B-X" in what
    assert any(text.startswith("Under cubic C-X now carries data: its impact factor is 0.2") for text in why)
    back = changes(helps, hurts)
    assert any("C-X now is on standby: its impact factor is -0.1" in text for text in back)


def test_the_same_network_changes_nothing(network: Topology, fake_testbed: Any) -> None:
    answer, again = answers(network, fake_testbed, -10.0, -10.0)
    assert changes(answer, again) == ()


def test_another_buffer_has_what_the_earlier_one_would_give(network: Topology, fake_testbed: Any) -> None:
    (before,) = answers(network, fake_testbed, -10.0)
    fake_testbed.knee_mib = {"cubic": 2.0}
    (now,) = answers(network, fake_testbed, -10.0)
    what, *why = changes(before, now)
    assert what.startswith("buffer ") and "instead of 7.4" in what
    assert any(text.startswith("The earlier answer would give ") for text in why)


@pytest.mark.parametrize(
    ("changes_", "named"),
    [
        ({"every_ns": 3 * SECOND, "for_ns": HOUR}, "--every: expected at least 4 s, which the trials"),
        ({"every_ns": None}, "--every: expected together with"),
        ({"every_ns": HOUR, "for_ns": SECOND}, "--every: expected an interval"),
    ],
)
def test_impossible_rounds_are_refused(changes_: dict[str, Any], named: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{named}"):
        start(day(**changes_), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_on_a_kernel_all_trials_of_a_round_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 path managers, 2 initial paths, 3 buffers and 2 runs of 4 s make 96 s for a testbed that runs one."""
    monkeypatch.setattr(testbeds, "only_stack", lambda name: "linux")
    serial: Any = type("One", (), {"parallel": 1, "name": "one", "pace": None})()
    fitted(day(every_ns=96 * SECOND), serial)
    with pytest.raises(InputError, match="expected at least 96 s"):
        fitted(day(every_ns=95 * SECOND), serial)
