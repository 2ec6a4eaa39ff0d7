"""The search of a strategy that learns for a metric of a workload: its answer, cost, limits and budget."""

import random
import re
from dataclasses import replace
from typing import Any

import pytest

from mptune.errors import Failure, InputError, Interrupted
from mptune.optimisation.by_objective import ObjectiveResult
from mptune.optimisation.job import Job
from mptune.optimisation.options import OptimiseOptions
from mptune.options.workloads import WORKLOAD
from mptune.result.documents import converted
from mptune.result.making_by_objective import objective_document
from mptune.runner.runner import TrialRunner
from mptune.topology import Topology
from mptune.trial import Observation, Saturating, Trial
from tests.optimisation.formulas import KIB, MS, SECOND, Calls, changed, run, testbed

__all__ = ["testbed"]

CCS = ("cubic", "reno", "olia", "hybla", "scalable", "vegas")
SIZES = tuple(size * KIB for size in (64, 96, 128, 192, 256, 384, 512, 768, 1024))


@pytest.fixture
def scattering(testbed: Calls) -> Calls:
    """Delays that differ by a twentieth from run to run, the same for everything in a run of a seed."""
    testbed.scatter = lambda trial: 1 + 0.05 * random.Random(f"{trial.seed}").gauss(0, 1)
    return testbed


def searched(network: Topology, testbed: Calls, **changes: Any) -> ObjectiveResult:
    return run(network, testbed, **{"ccs": CCS, "buffers": SIZES, "runs": 10, **changes})


def before(result: ObjectiveResult) -> int:
    """Trials before the confirmation."""
    return sum(record.purpose in ("screen", "sweep") for record in result.records)


def test_it_finds_what_the_grid_finds_with_a_quarter_of_its_trials(
    network: Topology, scattering: Calls
) -> None:
    ours, grid = (searched(network, scattering, strategy=name) for name in ("adaptive", "grid"))
    assert ours.recommended == grid.recommended
    assert before(ours) < before(grid) / 4
    assert ours.reached is not None and grid.reached is None
    assert ours.reached.ended == "certain" and ours.reached.steps[-1].unit == "ms"
    assert ours.reached.steps[-1].value == pytest.approx(20, rel=0.05)


def test_the_same_seed_asks_for_the_same_trials(network: Topology, scattering: Calls) -> None:
    ones, others = (searched(network, scattering) for _ in range(2))
    assert (ones.records, ones.reached, ones.chosen) == (others.records, others.reached, others.chosen)


def test_what_fails_now_and_then_is_worth_nothing(network: Topology, scattering: Calls) -> None:
    """On the quickest path every fifth trial fails: the next one is the answer."""

    def failing(trial: Trial) -> Failure | None:
        alone = scattering._carrying(trial) == ["A-X"]
        return Failure("incomplete", "the limit came first") if alone and trial.seed % 5 == 0 else None

    scattering.fails = failing
    assert searched(network, scattering).recommended.active == ("C-X",)


def test_where_nothing_keeps_the_limits_the_nearest_is_searched(network: Topology, scattering: Calls) -> None:
    result = searched(network, scattering, objective="delay:p50", at_most_delay_ns=10 * MS)
    assert not result.chosen.kept and result.recommended.active == ("A-X",)
    assert result.reached is not None and result.reached.steps[-1].unit == "% beyond the limits"
    assert result.reached.steps[-1].value == pytest.approx(100, rel=0.2)


@pytest.mark.parametrize("minutes", [20, 40])
def test_a_budget_holds_for_everything_together(network: Topology, scattering: Calls, minutes: int) -> None:
    result = searched(network, scattering, budget_ns=minutes * 60 * SECOND)
    # What the hosts do today is measured beside it, and is no candidate.
    spent_s = 20 * len(scattering.trials)
    assert 0.6 * 60 * minutes <= spent_s <= 60 * minutes
    assert result.recommended.active == ("A-X",)
    assert result.figures[0].ours is not None and result.figures[0].ours.n >= 2


def test_ctrl_c_prints_the_best_answer_so_far(network: Topology, scattering: Calls) -> None:
    """Within the search, and while the finalists are completed."""
    steps = searched(network, scattering).reached
    assert steps is not None
    for after in (40, steps.steps[-2].trials + 1):
        scattering.trials.clear()
        run_plain = scattering.run

        def interrupted(trial: Trial, run_plain: Any = run_plain, after: int = after) -> Observation:
            if len(scattering.trials) >= after:
                raise KeyboardInterrupt
            seen: Observation = run_plain(trial)
            return seen

        scattering.run = interrupted  # type: ignore[method-assign]
        with pytest.raises(Interrupted) as stopped:
            searched(network, scattering)
        told = r"best answer after \d+ trials: .*A-X.*, some [\d.]+ ms \(.* within [\d.]+ % of what is best\)"
        assert re.fullmatch(told, stopped.value.so_far)
        scattering.run = run_plain  # type: ignore[method-assign]


def test_a_budget_for_a_few_looks_is_refused(network: Topology, scattering: Calls) -> None:
    words = "--budget: expected at least 1000 s, for 50 trials of 20 s, found 60 s"
    with pytest.raises(InputError, match=words):
        searched(network, scattering, budget_ns=60 * SECOND)
    assert not scattering.trials
    with pytest.raises(InputError, match="--beside-tcp: expected only without a budget"):
        changed(budget_ns=3600 * SECOND, beside_tcp=True).check()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"objective": "delay:p99,throughput"}, "two objectives"),
        ({"do_no_harm": True}, "--do-no-harm"),
        ({"at_least_bps": 1_000_000}, "--at-least of another workload than bulk"),
    ],
)
def test_what_only_a_grid_answers_is_asked_of_a_grid(changes: dict[str, Any], named: str) -> None:
    assert changed(**changes).chosen_strategy == "grid"
    with pytest.raises(InputError, match=f"--strategy: expected grid with {named}, found adaptive"):
        changed(strategy="adaptive", **changes).check()


def test_a_grid_has_no_budget() -> None:
    with pytest.raises(InputError, match="--budget: expected only with --strategy adaptive"):
        changed(strategy="grid", budget_ns=3600 * SECOND).check()
    assert OptimiseOptions().chosen_strategy == "adaptive"


def test_more_is_searched_where_more_is_better(network: Topology, fake_testbed: Any) -> None:
    """A saturated sender: its throughput, as without a workload, by the same strategy."""
    fake_testbed.gives = {"A-X": 8.0, "B-X": 40.0, "C-X": 20.0}
    fake_testbed.noise = 0.02
    result = run(network, fake_testbed, workload=Saturating(), buffers=SIZES, runs=6)
    assert result.objective == "throughput" and result.chosen.buffer_bytes == max(SIZES)


@pytest.mark.parametrize(
    ("workload", "predicted"),
    [
        ("messages:200B/100ms", True),
        ("mix:bulk+2*messages:200B/100ms", False),
        ("exec:./client.sh,./server.sh", False),
    ],
)
def test_the_simulator_predicts_what_it_can_simulate(
    network: Topology, scattering: Calls, workload: str, predicted: bool
) -> None:
    options = changed(workload=WORKLOAD.parse(workload))
    simulated = Job.on(network, TrialRunner(scattering, 1), options)
    assert not replace(simulated, sent=options.sent).has_prior
    scattering.name = "namespaces"
    job = Job.on(network, TrialRunner(scattering, 1), options)
    assert replace(job, sent=options.sent).has_prior == predicted


def test_the_document_has_the_course(network: Topology, scattering: Calls) -> None:
    document = objective_document(searched(network, scattering))
    answer = converted(document, "result.json")
    course = answer.reached  # type: ignore[union-attr]
    assert course is not None and course.strategy == "adaptive"
    value = course.steps[-1].value
    assert isinstance(value, float) and value == pytest.approx(20, rel=0.1)
    assert course.steps[-1].throughput_mbps is None
    assert any(text.startswith("The search took ") for text in answer.answer)
