"""Course of the decision: who dropped out when and why, on a race whose course is known."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.errors import Failure
from mptune.report import files
from mptune.report.choices import Choices
from mptune.report.sections import Section
from mptune.report.sections.reached import reached
from mptune.result.answer import Candidate, ModelRow, Reached, Step
from mptune.result.run_data import RunData, TrialRow
from mptune.result.wording import PREDICTION
from tests.report.making import sections

MIB = 2**20

#: Congestion controls of the candidates, which all have the path manager fullmesh.
ANSWER, SLOW, HUNGRY, FALLING, FICKLE, UNTRIED = "reno", "cubic", "olia", "lia", "balia", "vegas"
CANDIDATES = tuple(Candidate(pm="fullmesh", cc=cc) for cc in (ANSWER, SLOW, HUNGRY, FALLING, FICKLE, UNTRIED))

#: Trials in their order: congestion control, MiB, Mbit/s; None stalled, -1 has no value.
TRIALS: tuple[tuple[str, float, float | None], ...] = (
    *((ANSWER, 8, 100), (SLOW, 8, 60), (HUNGRY, 8, 98), (FALLING, 1, 97)),
    *((ANSWER, 1, 96), (SLOW, 2, 40)),
    *((HUNGRY, 2, 50), (FALLING, 8, None), (FICKLE, 1, 96)),
    *((HUNGRY, 3, 95), (FICKLE, 8, -1)),
    (SLOW, 1, 99),  # too late to have been the reason
)

#: Trials, seconds, contenders and buffer of the answer (MiB) of each step.
STEPS: tuple[tuple[int, float, tuple[int, ...], float], ...] = (
    (4, 140.0, (0, 1, 2, 3, 4, 5), 8),
    (6, 160.0, (0, 2, 3), 1),
    (9, 190.0, (0, 2, 4), 1),
    (11, 210.0, (0, 4), 1),
    (12, 220.0, (0,), 1),
)


@pytest.fixture
def race(learned: RunData) -> RunData:
    """A run with these trials and steps; its trials do not stand in their order."""
    assert learned.answer is not None
    record = Reached(
        certainty_asked=0.9,
        budget_s=None,
        spent_s=220.0,
        ended="certain",
        candidates=CANDIDATES,
        steps=tuple(
            Step(
                trials=trials,
                seconds=seconds,
                candidate=0,
                buffer_bytes=round(size * MIB),
                certainty=0.1 + 0.07 * trials,
                room=0.02,
                among=len(CANDIDATES),
                contenders=contenders,
                buffers=(MIB, 8 * MIB),
            )
            for trials, seconds, contenders, size in STEPS
        ),
    )
    like = next(trial for trial in learned.trials if trial.purpose == "sweep")
    return msgspec.structs.replace(
        learned,
        trials=tuple(reversed([_trial(like, number, *cells) for number, cells in enumerate(TRIALS)])),
        answer=msgspec.structs.replace(
            learned.answer, opm="fullmesh", occ=ANSWER, initial_path=None, sacrifice=0.07, reached=record
        ),
    )


def _trial(like: TrialRow, number: int, cc: str, size: float, mbps: float | None) -> TrialRow:
    failures: dict[float | None, Failure] = {
        None: Failure("stalled", "no data"),
        -1: Failure("overloaded", "no time"),
    }
    failed = failures.get(mbps)
    return msgspec.structs.replace(
        like,
        pm="fullmesh",
        manager="fullmesh",
        subflows=(),
        cc=cc,
        buffer_bytes=round(size * MIB),
        buffer_mib=size,
        started=1000.0 + number,
        failed=failed,
        throughput_mbps=None if failed else mbps,
    )


def section_of(run: RunData) -> Section:
    (section,) = reached(run, Choices())
    return section


def table(run: RunData) -> dict[str, dict[str, Any]]:
    """The fate of each candidate, by its congestion control."""
    return {row["candidate"].removeprefix("fullmesh, "): row for row in section_of(run).open[0].rows}


def test_a_candidate_drops_out_at_the_step_from_which_it_never_returns(race: RunData) -> None:
    out = {cc: row["out_after_trials"] for cc, row in table(race).items()}
    assert out == {ANSWER: None, SLOW: 6, HUNGRY: 11, FALLING: 9, FICKLE: 12, UNTRIED: 6}
    seconds = {cc: row["out_after_s"] for cc, row in table(race).items()}
    assert (seconds[SLOW], seconds[FICKLE], seconds[ANSWER]) == (160.0, 220.0, None)


def test_the_last_to_drop_out_stand_first(race: RunData) -> None:
    assert list(table(race)) == [ANSWER, FICKLE, HUNGRY, FALLING, SLOW, UNTRIED]


def test_the_reason_is_what_the_trials_until_then_gave(race: RunData) -> None:
    why = {cc: row["why"] for cc, row in table(race).items()}
    assert why[ANSWER] == "the answer"
    assert why[SLOW] == "slower by 40 %"
    assert why[HUNGRY] == "needs 2.0 to 3.0 times the buffer"
    assert why[FALLING].startswith("falls to 0") and why[FALLING].endswith("with 8 MiB")
    assert why[FICKLE] == "no better than the answer"
    assert why[UNTRIED].startswith("not measured by then")


def test_means_and_trials_are_those_of_the_whole_run(race: RunData) -> None:
    rows = table(race)
    numbers = {
        cc: (rows[cc]["trials"], rows[cc]["best_mean_mbps"], rows[cc]["at_mib"]) for cc in (SLOW, FICKLE)
    }
    assert numbers == {SLOW: (3, 99.0, 1.0), FICKLE: (2, 96.0, 1.0)}
    assert (rows[UNTRIED]["trials"], rows[UNTRIED]["best_mean_mbps"]) == (0, None)


def test_what_may_be_as_good_is_still_open(race: RunData) -> None:
    assert race.answer is not None and race.answer.reached is not None
    *steps, last = race.answer.reached.steps
    open_end = (*steps, msgspec.structs.replace(last, contenders=(0, 4)))
    row = table(_with(race, steps=open_end))[FICKLE]
    assert (row["out_after_trials"], row["why"]) == (None, "still open")


def test_trials_stand_in_their_order_between_the_ends_of_the_steps(race: RunData) -> None:
    rows = next(table.rows for table in section_of(race).tables if table.title == "Trials in their order")
    assert [(row["candidate"], row["buffer_mib"]) for row in rows] == [
        (f"fullmesh, {cc}", size) for cc, size, _ in TRIALS
    ]
    assert [row["after_s"] for row in rows] == pytest.approx([110.0 + 10 * number for number in range(12)])


def test_every_trial_is_drawn_and_the_most_tried_have_a_colour(race: RunData) -> None:
    section = section_of(race)
    assert section.key is not None
    first, *others = section.key.names
    assert first == "fullmesh, reno" and set(others[:2]) == {"fullmesh, cubic", "fullmesh, olia"}
    assert len(section.panels[2].chart["datasets"]["trials"]) == len(TRIALS)


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [("certain", "the answer was 94 % certain"), ("budget", "budget"), ("everything", "was measured")],
)
def test_it_states_the_certainty_and_what_ended_it(race: RunData, ended: str, sentence: str) -> None:
    lead = section_of(_with(race, ended=ended)).lead
    assert sentence in lead and "94 % certain within 2 % (90 % asked for), after 12 trials and 220 s" in lead


def test_the_trials_are_a_share_of_those_of_a_grid(race: RunData) -> None:
    options = {**race.config.options, "runs": 3, "buffers": [1, 2, 3, 4, 5], "ccs": ["reno", "cubic"]}
    config = msgspec.structs.replace(race.config, options={**options, "pms": ["fullmesh", "pcdc"]})
    assert "20 % of the 60 trials" in section_of(msgspec.structs.replace(race, config=config)).lead


@pytest.mark.parametrize("prior", PREDICTION)
def test_a_prediction_is_mentioned_if_there_was_one(race: RunData, prior: str) -> None:
    assert race.answer is not None and race.answer.reached is not None
    *steps, last = race.answer.reached.steps
    with_prior = _with(race, steps=(*steps, msgspec.structs.replace(last, prior=prior)))
    assert PREDICTION[prior] in section_of(with_prior).lead
    assert "prediction" not in section_of(race).lead


def _with(run: RunData, **changes: Any) -> RunData:
    assert run.answer is not None and run.answer.reached is not None
    record = msgspec.structs.replace(run.answer.reached, **changes)
    return msgspec.structs.replace(run, answer=msgspec.structs.replace(run.answer, reached=record))


def test_a_run_of_the_strategy_shows_it_and_a_grid_does_not(learned: RunData, optimised: RunData) -> None:
    assert "reached" in [section.name for section in sections(learned)]
    assert "reached" not in [section.name for section in sections(optimised)]


def test_a_run_has_all_its_trials_in_the_table(learned: RunData) -> None:
    """Every candidate that was measured is known by the name of its trials."""
    (reached_section,) = [section for section in sections(learned) if section.name == "reached"]
    every = next(
        (table for table in reached_section.tables if table.title == "Every candidate"),
        reached_section.open[0],
    )
    assert sum(row["trials"] for row in every.rows) == sum(
        trial.purpose == "sweep" for trial in learned.trials
    )
    assert [row["why"] for row in every.rows].count("the answer") <= 1


def test_the_figure_is_written(learned: RunData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (reached_section,) = [section for section in sections(learned) if section.name == "reached"]
    monkeypatch.setattr(files, "sections", lambda *_: [reached_section])
    _, *figures = files.write_report([learned], tmp_path)
    assert [figure.name for figure in figures] == ["reached.svg", "reached.png", "reached.pdf"]
    text = figures[0].read_text(encoding="utf-8")
    for expected in ("Course of the decision", "time on the testbed", "may miss (%)", "candidates"):
        assert expected in text


def test_a_belief_shows_its_best_curves(learned: RunData) -> None:
    assert learned.answer is not None
    others = tuple(
        ModelRow(
            pm="pcdc",
            cc=f"cc{number}",
            subflows=("P-D",),
            formula="",
            max_mbps=float(number),
            buffer_at_max_mib=1.0,
        )
        for number in range(1000, 1020)
    )
    answer = msgspec.structs.replace(learned.answer, models=others)
    run = msgspec.structs.replace(learned, answer=answer)
    response = next(section for section in sections(run) if section.name == "response")
    assert "best 8 of 20" in response.lead
    (models,) = [table for table in response.tables if "model" in table.title]
    assert [row["cc"] for row in models.rows] == [f"cc{number}" for number in range(1019, 1012, -1)]
    assert not [table for table in response.tables if table.title == "Quality of the fit"]


def test_without_resamples_there_are_no_columns_for_intervals(learned: RunData, optimised: RunData) -> None:
    for run, expected in ((learned, False), (optimised, True)):
        trade_off = next(section for section in sections(run) if section.name == "trade-off")
        assert ("buffer_low_mib" in trade_off.tables[0].rows[0]) == expected


def test_a_set_of_subflows_that_was_chosen_is_named(learned: RunData) -> None:
    """PCDC's own set is not, and every curve has the name of its trials."""
    own = {impact.cc: impact.optional for impact in learned.impact}
    for trial in learned.trials:
        if trial.pm == "pcdc":
            assert tuple(trial.subflows) != own[trial.cc]
            assert trial.manager == (f"pcdc on {', '.join(trial.subflows)}" if trial.subflows else "pcdc")
    curves = {(curve.pm, curve.cc) for curve in learned.curves}
    assert curves == {trial.name for trial in learned.trials if trial.purpose == "sweep"}
