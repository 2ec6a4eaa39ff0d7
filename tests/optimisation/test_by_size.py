"""The main job for transfers, on a testbed of formulas where the right answer is known."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.campaign.definition import from_settings, read_definition
from mptune.errors import Failure, InputError, MptuneError
from mptune.impact import ImpactOptions
from mptune.optimisation.by_size import SizesResult, choose, optimise_by_size, sizes_worth_measuring
from mptune.optimisation.options import OptimiseOptions
from mptune.result.making_by_size import size_rows, sizes_document
from mptune.runner.runner import TrialRunner
from mptune.runner.seeds import seed_for
from mptune.testbeds import Testbed
from mptune.topology import Topology
from mptune.trial import Bulk, Observation, Transfer, Trial

SECOND = 1_000_000_000
KIB, MIB = 2**10, 2**20
OPTIONS = OptimiseOptions(
    pms=("fullmesh", "pcdc"),
    ccs=("cubic", "reno"),
    buffers=(64 * KIB, 256 * KIB, MIB, 8 * MIB, 16 * MIB),
    transfers=(64 * KIB, 4 * MIB),
    runs=6,
    confirm_runs=8,
    impact=ImpactOptions(design="eq5", runs=2, window_ns=SECOND, buffer_bytes=16 * MIB),
    sets="signs",
)


def changed(**changes: Any) -> OptimiseOptions:
    return msgspec.structs.replace(OPTIONS, **changes)


class Transfers(Testbed):
    """Completion times of a formula: rates by path, a start-up time, and a buffer below which it is slow.

    Small transfers gain nothing from a second path and pay its start-up; large ones are faster on both.
    """

    name = "fake"
    parallel: int | None = 1

    def __init__(self, saturated: Any) -> None:
        self._saturated = saturated
        self.trials: list[Trial] = []
        self.scatter: Any = lambda trial: 1.0
        self.fails: Any = lambda trial: None

    def run(self, trial: Trial) -> Observation:
        self.trials.append(trial)
        if not isinstance(trial.workload, Transfer):
            done: Observation = self._saturated.run(trial)
            return done
        size = trial.workload.bytes
        both = trial.pm == "fullmesh"
        rate_bps, start_s = (100e6, 0.30) if both else (50e6, 0.10)
        took_s = start_s + size * 8 / rate_bps
        if trial.buffer_bytes < size / 4:
            took_s *= 2
        if trial.cc == "reno":
            took_s *= 1.2
        took_s *= self.scatter(trial)
        ended = round(took_s * 1e9)
        failed = self.fails(trial)
        like = self._saturated.run(msgspec.structs.replace(trial, workload=Bulk(duration_ns=SECOND)))
        ended_with: Observation = msgspec.structs.replace(
            like,
            duration_ns=ended,
            in_order_bytes=size,
            completion_ns=None if failed else ended,
            failed=failed,
        )
        return ended_with


@pytest.fixture
def testbed(fake_testbed: Any) -> Transfers:
    return Transfers(fake_testbed)


def run(network: Topology, testbed: Transfers, **changes: Any) -> SizesResult:
    return optimise_by_size(network, TrialRunner(testbed, 1), changed(**changes))


def test_each_size_has_its_own_answer(network: Topology, testbed: Transfers) -> None:
    """One path for 64 KiB, with the smallest buffer; all for 4 MiB, with the first that is large enough."""
    small, large = run(network, testbed).answers
    assert (small.transfer_bytes, small.chosen.combination.pm) == (64 * KIB, "pcdc")
    assert small.chosen.buffer_bytes == 64 * KIB
    assert (large.transfer_bytes, large.chosen.combination.pm) == (4 * MIB, "fullmesh")
    assert large.chosen.buffer_bytes == MIB
    assert {size.chosen.combination.cc for size in (small, large)} == {"cubic"}


def test_it_is_measured_again_with_new_seeds_beside_the_default(
    network: Topology, testbed: Transfers
) -> None:
    result = run(network, testbed)
    small = result.answers[0]
    assert (small.default.pm, small.default.cc, small.default.buffer_bytes) == ("fullmesh", "cubic", 16 * MIB)
    seeds = {
        p: {record.seed for record in result.records if record.purpose == p} for p in ("sweep", "confirm")
    }
    assert len(seeds["sweep"]) == 6 and len(seeds["confirm"]) == 8 and not seeds["sweep"] & seeds["confirm"]
    assert small.gain is not None and small.gain.n == 8
    ours = 0.10 + 64 * KIB * 8 / 50e6
    theirs = 0.30 + 64 * KIB * 8 / 100e6
    assert small.gain.mean == pytest.approx(theirs - ours, rel=1e-6)


def test_the_gain_is_paired_by_seed(network: Topology, testbed: Transfers) -> None:
    """What a run makes slow for both leaves the interval of their difference narrow."""
    testbed.scatter = lambda trial: 1 + (trial.seed % 1000) / 1000
    (small, _) = run(network, testbed).answers
    gain, ours = small.gain, small.confirmed.summary
    assert gain is not None and ours is not None
    theirs = small.baseline.summary
    assert theirs is not None
    for end in (gain, ours, theirs):
        assert end.low is not None and end.high is not None
    width = {id(interval): (interval.high or 0) - (interval.low or 0) for interval in (gain, ours, theirs)}
    assert width[id(gain)] < width[id(ours)] + width[id(theirs)]
    assert width[id(gain)] == pytest.approx(abs(width[id(theirs)] - width[id(ours)]), rel=1e-6)


def test_the_percentile_is_between_the_two_longest_of_few_runs(network: Topology, testbed: Transfers) -> None:
    """Type 7: rank 0.95 * (8 - 1) = 6.65 of 8 runs counted from 0."""
    testbed.scatter = lambda trial: 1 + (trial.seed % 1000) / 1000
    result = run(network, testbed)
    small = result.answers[0]
    took = sorted(
        record.completion_s or 0.0
        for record in result.records
        if record.purpose == "confirm"
        and record.settings["transfer_bytes"] == 64 * KIB
        and record.pm == "pcdc"
    )
    assert small.confirmed.percentile == pytest.approx(took[6] + 0.65 * (took[7] - took[6]))


def test_a_difference_within_the_scatter_takes_the_smaller_buffer(
    network: Topology, testbed: Transfers
) -> None:
    """The largest buffer is 3 % faster, but half of the runs show the opposite."""

    def scatter(trial: Trial) -> float:
        if trial.buffer_bytes < 4 * MIB:
            return 1.0
        return 0.97 + (0.2 if trial.seed % 2 else -0.2)

    testbed.scatter = scatter
    _, large = run(network, testbed, runs=40).answers
    assert large.chosen.buffer_bytes == MIB
    testbed.scatter = lambda trial: 1.0 if trial.buffer_bytes < 4 * MIB else 0.97
    _, large = run(network, testbed).answers
    assert large.chosen.buffer_bytes == 8 * MIB


def test_less_than_one_percent_is_no_reason_for_a_larger_buffer(
    network: Topology, testbed: Transfers
) -> None:
    testbed.scatter = lambda trial: 1.0 if trial.buffer_bytes < 4 * MIB else 0.995
    _, large = run(network, testbed).answers
    assert large.fastest.buffer_bytes == 8 * MIB and large.chosen.buffer_bytes == MIB


def test_a_configuration_that_fails_once_is_no_answer(network: Topology, testbed: Transfers) -> None:
    stalled = Failure("stalled", "nothing arrived")
    first = min(record.seed for record in run(network, testbed).records if record.purpose == "sweep")
    testbed.fails = lambda t: stalled if (t.buffer_bytes, t.seed) == (64 * KIB, first) else None
    result = run(network, testbed)
    assert result.answers[0].chosen.buffer_bytes == 256 * KIB
    assert any("sweep trials failed" in text for text in result.warnings)
    busy = Failure("overloaded", "the machine was busy")
    testbed.fails = lambda t: busy if (t.buffer_bytes, t.seed) == (64 * KIB, first) else None
    assert run(network, testbed).answers[0].chosen.buffer_bytes == 64 * KIB


def test_an_answer_that_is_slower_in_fresh_runs_is_called_out(network: Topology, testbed: Transfers) -> None:
    """Only where it matters: a tenth is reported, a thousandth is not."""

    def warnings_at(factor: float) -> list[str]:
        confirming = {seed_for(1, "confirm", run) for run in range(8)}
        slow = {"pcdc": 4 * factor, "fullmesh": 1.0}
        testbed.scatter = lambda trial: slow[trial.pm] if trial.seed in confirming else 1.0
        return [text for text in run(network, testbed).warnings if "slower than the default" in text]

    equal = (0.30 + 64 * KIB * 8 / 100e6) / (0.10 + 64 * KIB * 8 / 50e6) / 4
    assert [text.partition(":")[0] for text in warnings_at(1.1 * equal)] == ["64 KiB"]
    assert warnings_at(1.001 * equal) == []


def test_nothing_that_completes_is_an_error(network: Topology, testbed: Transfers) -> None:
    testbed.fails = lambda trial: Failure("incomplete", "the limit came first")
    with pytest.raises(MptuneError, match="no configuration completed a transfer of 64 KiB"):
        run(network, testbed)
    with pytest.raises(MptuneError):
        choose(run_points(network, testbed))


def run_points(network: Topology, testbed: Transfers) -> Any:
    """Points of a sweep of which nothing completed."""
    failing, testbed.fails = testbed.fails, lambda trial: None
    points = run(network, testbed).answers[0].points
    testbed.fails = failing
    return [msgspec.structs.replace(point, by_run={}) for point in points]


def test_of_equal_configurations_the_simplest_is_used(network: Topology, testbed: Transfers) -> None:
    """PCDC is a thousandth faster, which nobody would notice."""
    equal = (0.30 + 64 * KIB * 8 / 100e6) / (0.10 + 64 * KIB * 8 / 50e6)
    testbed.scatter = lambda trial: 0.999 * equal if trial.pm == "pcdc" else 1.0
    small = run(network, testbed).answers[0]
    assert small.fastest.combination.pm == "pcdc" and small.chosen.combination.pm == "fullmesh"


def test_buffers_that_hold_all_of_a_transfer_are_measured_once() -> None:
    buffers = [64 * KIB, 256 * KIB, MIB, 8 * MIB, 16 * MIB]
    assert sizes_worth_measuring(buffers, 64 * KIB) == [64 * KIB, 256 * KIB]
    assert sizes_worth_measuring(buffers, 4 * MIB) == buffers
    assert sizes_worth_measuring(buffers, 4 * KIB) == [64 * KIB]


def test_pcdc_knows_the_smallest_rtts_where_there_is_a_transfer(
    network: Topology, testbed: Transfers
) -> None:
    run(network, testbed, sets="compete")
    rtts = dict.fromkeys(("A-X", "B-X", "C-X"), 10_000_000)
    trials = [trial for trial in testbed.trials if trial.pm == "pcdc"]
    assert trials and all(isinstance(trial.workload, Transfer) for trial in trials)
    assert all(trial.pm_options["rtt_ns"] == rtts for trial in trials)
    assert len({trial.pm_options["active"] for trial in trials if trial.seed}) > 1  # other sets compete


def test_initial_paths_are_a_factor_here_too(network: Topology, testbed: Transfers) -> None:
    testbed.scatter = lambda trial: 1.0 if trial.initial_path == "B-X" else 1.5
    small, large = run(network, testbed, initial_paths=("A-X", "B-X")).answers
    assert small.chosen.combination.initial_path == large.recommended.initial_path == "B-X"
    assert small.default.initial_path is None


def test_the_document_has_an_entry_and_a_sentence_for_each_size(
    network: Topology, testbed: Transfers
) -> None:
    result = run(network, testbed)
    document = sizes_document(result)
    assert [size["transfer_bytes"] for size in document["sizes"]] == [64 * KIB, 4 * MIB]
    for size in document["sizes"]:
        assert size["confirmed"]["runs"] == size["default"]["runs"] == size["gain"]["runs"] == 8
        assert size["gain"]["low_s"] <= size["gain"]["mean_s"] <= size["gain"]["high_s"]
    assert "transfers of 64 KiB" in document["answer"][0] and "path manager pcdc" in document["answer"][0]
    assert "95th percentile" in document["answer"][1] and "Time saved" in document["answer"][1]
    rows = size_rows(result.answers)
    assert sum(row["chosen"] for row in rows) == 2
    assert len(rows) == sum(len(answer.points) for answer in result.answers)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sacrifice": 0.2}, "--sacrifice"),
        ({"model": "quadratic"}, "--model"),
        ({"off_by": 0.0}, "--off-by"),
        ({"duration_ns": SECOND}, "--duration"),
        ({"every_ns": SECOND, "for_ns": SECOND}, "--every"),
    ],
)
def test_what_concerns_throughput_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=f"^{named}: expected only without sizes of transfers"):
        changed(**changes).check()


FILE = """
topology = "UiT-HAW"
[factors]
pm = ["fullmesh", "pcdc"]
cc = ["cubic"]
buffers = "64KiB,256KiB"
transfer = ["16 KiB"]
initial_path = ["P-D"]
[pcdc]
class_bytes = ["32 KiB", "64 KiB"]
"""


def test_a_campaign_file_gives_the_same(tmp_path: Path) -> None:
    file = tmp_path / "sizes.toml"
    file.write_text(FILE)
    definition = read_definition(file)
    options = definition.options
    assert isinstance(options, OptimiseOptions)
    assert options.transfers == (16 * KIB,) and options.initial_paths == ("P-D",)
    assert (options.runs, options.confirm_runs) == (20, 40)
    assert options.pm_options.of("pcdc") == {"class_bytes": (32 * KIB, 64 * KIB)}
    again = from_settings(json.loads(json.dumps(definition.settings())))
    assert again == definition
