"""Claims measured again: each trial once, from the store where it is, and every number with its reason."""

import json
from pathlib import Path

import msgspec
import pytest

from mptune.errors import InputError
from mptune.papers.measure import Claim, select
from mptune.papers.measure.document import document
from mptune.papers.measure.running import MeasureOptions, measure
from mptune.runner.runner import TrialRunner
from mptune.store import Campaign, create
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.trial import Bulk, Observation, Transfer, Trial
from mptune.units import MIB

SHORT = MeasureOptions(runs=2, duration_ns=2 * 10**9)


class Counting(SimulatedTestbed):
    """The simulator, which keeps what it was asked; congestion controls of `lacks` it does not have."""

    def __init__(self, lacks: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.trials: list[Trial] = []
        self.lacks = lacks

    def check(self, trial: Trial) -> None:
        if trial.cc in self.lacks:
            raise InputError("--cc", "", f"expected one that is loaded, found {trial.cc}")
        super().check(trial)

    def run(self, trial: Trial) -> Observation:
        self.trials.append(trial)
        return super().run(trial)


def claims(paper: str, name: str) -> tuple[Claim, ...]:
    return select([paper], name)


def test_every_point_has_its_runs_and_the_verdict_follows_from_them() -> None:
    testbed = Counting()
    (again,) = measure(claims("buffersizes", "buffersizes-table-2-ku-hig"), TrialRunner(testbed, 1), SHORT)
    assert [number.point.name for number in again.numbers] == ["TCP K-P", "TCP K-U"]
    assert [number.measured.n for number in again.numbers if number.measured] == [2, 2]
    assert all(trial.workload == Bulk(duration_ns=2 * 10**9) for trial in testbed.trials)
    assert all(trial.protocol == "tcp" and trial.buffer_mode == "auto" for trial in testbed.trials)
    slow = again.numbers[0]
    assert slow.measured is not None and slow.measured.mean < 2.0
    assert len(again.judgement.statements) == 2


def test_a_trial_of_several_claims_is_run_once() -> None:
    testbed = Counting()
    measured = measure(claims("pcdc", "fig-6"), TrialRunner(testbed, 1), SHORT)
    assert [len(again.numbers) for again in measured] == [2, 4]
    assert len(testbed.trials) == 4 * SHORT.runs
    shared = {number.point.name: number.measured for number in measured[1].numbers}
    assert all(shared[number.point.name] == number.measured for number in measured[0].numbers)


def test_a_second_call_takes_the_trials_from_the_store(tmp_path: Path) -> None:
    about = Campaign(name="reproduce", settings={}, environment={})
    with create(tmp_path / "trials.sqlite", about) as store:
        first, second = Counting(), Counting()
        chosen = claims("mpcoa", "mpcoa-table-2-uit-haw") + claims("pathmgmt", "fig-6")
        measured = measure(chosen, TrialRunner(first, 1, store), SHORT)
        other = measure(chosen, TrialRunner(second, 1, store), SHORT)
    assert first.trials
    assert not second.trials
    assert msgspec.json.encode(document(measured, {})) == msgspec.json.encode(document(other, {}))


def test_impact_factors_have_the_windows_asked_for() -> None:
    testbed = Counting()
    (again,) = measure(claims("mpcoa", "mpcoa-table-2-uit-haw"), TrialRunner(testbed, 1), SHORT)
    assert {name: set(factor) for name, factor in again.factors.items()} == {
        f"{cc} impact factors": {"P-D", "T-D"}
        for cc in ("cubic", "olia", "hybla", "reno", "scalable", "vegas")
    }
    assert all(trial.workload == Bulk(duration_ns=4 * 10**9) for trial in testbed.trials)


def test_small_streams_keep_their_size(tmp_path: Path) -> None:
    testbed = Counting()
    (again,) = measure(claims("pcdc", "fig-7"), TrialRunner(testbed, 1), SHORT)
    sizes = {trial.workload.bytes for trial in testbed.trials if isinstance(trial.workload, Transfer)}
    assert sizes == {size * 1024 for size in (128, 256, 384, 512, 640, 768, 896, 1024)}
    assert {number.point.unit for number in again.numbers} == {"s"}


def test_what_a_testbed_lacks_is_not_measured_and_disagrees() -> None:
    (again,) = measure(
        claims("pathmgmt", "pathmgmt-fig-6-hu-kru-cc"), TrialRunner(Counting(lacks=("olia",)), 1), SHORT
    )
    reasons = {number.point.configuration.cc: number.reason for number in again.numbers}
    assert reasons == {"cubic": "", "olia": "--cc: expected one that is loaded, found olia"}
    assert again.judgement.verdict == "disagrees"
    with pytest.raises(InputError, match="found cubic"):
        measure(
            claims("pathmgmt", "pathmgmt-fig-3-ude-hu"), TrialRunner(Counting(lacks=("cubic",)), 1), SHORT
        )


def test_the_document_has_every_claim_with_its_numbers_and_the_counts() -> None:
    measured = measure(claims("pcdc", "fig-6"), TrialRunner(Counting(), 1), SHORT)
    content = json.loads(msgspec.json.encode(document(measured, {"runs": 2})))
    assert content["runs"] == 2
    assert [claim["id"] for claim in content["claims"]] == [again.claim.id for again in measured]
    verdicts = [claim["verdict"] for claim in content["claims"]]
    for name in ("total", "pcdc"):
        assert {word: verdicts.count(word) for word in content["counts"][name]} == content["counts"][name]
    assert sum(content["counts"]["fit"].values()) == sum(content["counts"]["judge"].values()) == 1
    printed = {point["name"]: point["printed"] for claim in content["claims"] for point in claim["points"]}
    assert printed["PCDC/cubic"] == 242.4


def test_table_5_is_the_answer_of_algorithm_1_with_sets_of_its_own() -> None:
    testbed = Counting()
    chosen = claims("mpcoa", "mpcoa-table-5-uit-haw")
    (again,) = measure(chosen, TrialRunner(testbed, 1), SHORT)
    answered = again.answers["Algorithm 1"]
    assert set(answered.maxima_mbps) >= {f"FullMesh/{cc}" for cc in ("cubic", "olia", "scalable")}
    assert answered.chosen in answered.maxima_mbps
    assert 0.5 * MIB <= answered.buffer_bytes <= 30 * MIB
    assert any(trial.script for trial in testbed.trials)
    # But for today's buffers, which grow.
    swept = {
        trial.buffer_bytes for trial in testbed.trials if not trial.script and trial.buffer_mode == "fixed"
    }
    assert swept <= {answered.buffer_bytes, *chosen[0].answers[0].buffers}
    content = json.loads(msgspec.json.encode(document([again], {})))
    assert content["claims"][0]["answers"][0]["chosen"] == answered.chosen
