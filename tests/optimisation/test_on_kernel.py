"""The simulator's answer on a kernel: what it gives there, what is doubted, and when the kernel decides."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.decision import model_error
from mptune.decision.model_error import ModelError
from mptune.errors import InputError
from mptune.guest import building, kernels
from mptune.impact import ImpactOptions
from mptune.optimisation.main_job import Result, optimise
from mptune.optimisation.on_kernel import confirming, contradictions, lasting_ns
from mptune.optimisation.options import NOWHERE, OptimiseOptions
from mptune.options.stacks import StackOptions
from mptune.result import wording
from mptune.result.making import answer_of, result_document
from mptune.runner.runner import TrialRunner
from mptune.statistics import summarise
from mptune.topology import Topology
from mptune.trial import Trial
from tests.conftest import FakeTestbed
from tests.guest.test_kernels import write

SECOND = 1_000_000_000
MIB = 2**20
OPTIONS = OptimiseOptions(
    buffer_mode="fixed",
    pms=("fullmesh", "pcdc"),
    ccs=("cubic",),
    buffers=tuple(i * MIB for i in range(1, 9)),
    runs=3,
    duration_ns=10 * SECOND,
    impact=ImpactOptions(design="eq5", runs=2, window_ns=SECOND, buffer_bytes=8 * MIB),
    confirm_runs=4,
    resamples=0,
    strategy="grid",
    sets="signs",
    tcp=False,
    extend=False,
)


class FakeKernel(FakeTestbed):
    """A kernel of formulas.

    Attributes
    ----------
    refuses : reason for which it cannot run a trial, or None.
    """

    name = "virtual:7.3"

    def __init__(self) -> None:
        super().__init__()
        self.refuses: Callable[[Trial], str | None] = lambda trial: None

    def check(self, trial: Trial) -> None:
        if (reason := self.refuses(trial)) is not None:
            raise InputError("--cc", "", reason)


@pytest.fixture
def kernel() -> FakeKernel:
    return FakeKernel()


def run(network: Topology, testbed: Any, kernel: FakeKernel | None, **changes: Any) -> Result:
    options = msgspec.structs.replace(OPTIONS, **changes)
    there = None if kernel is None else TrialRunner(kernel, 1)
    return optimise(network, TrialRunner(testbed, 1), options, kernel=there)


def doubts(result: Result) -> list[str]:
    return [sentence for sentence in result.warnings if "Linux 7.3" in sentence]


def test_a_kernel_adds_what_it_gives_and_changes_nothing_else(
    network: Topology, fake_testbed: Any, kernel: FakeKernel
) -> None:
    kernel.gives = {"A-X": 70.0, "B-X": 20.0, "C-X": -10.0}
    without, with_ = (run(network, fake_testbed, one) for one in (None, kernel))
    assert with_.records == without.records
    document, plain = result_document(with_), result_document(without)
    found = document.pop("confirmed_on_kernel")
    assert found["confirmed"]["mean"] == pytest.approx(0.9 * plain["confirmed"]["mean"], rel=0.02)
    assert (found["testbed"], found["kernel"], found["confirmed"]["runs"]) == ("virtual:7.3", "Linux 7.3", 4)
    assert found["gain"]["low"] > 0 and found["finalists"] == []
    (sentence,) = set(document["answer"]) - set(plain["answer"])
    assert sentence.startswith("On Linux 7.3 (guest, 4 runs): ") and "with the default" in sentence
    document["answer"].remove(sentence)
    assert document == plain
    # Seeds that the simulator did not have.
    assert not {trial.seed for trial in kernel.trials} & {trial.seed for trial in fake_testbed.trials}


def test_a_kernel_on_which_the_answer_is_no_better_makes_one_warning(
    network: Topology, fake_testbed: Any, kernel: FakeKernel
) -> None:
    assert doubts(run(network, fake_testbed, kernel)) == []
    kernel.gives = {"A-X": 80.0, "B-X": 20.0, "C-X": 10.0}
    (doubt,) = doubts(run(network, fake_testbed, kernel))
    assert "not better than the default (-" in doubt and "`--testbed virtual`" in doubt


@pytest.mark.parametrize(
    ("gains", "begins"),
    [
        ([9.0, 10.0, 11.0], None),
        ([2.0, 10.0, 18.0], "3 runs on Linux 7.3 do not show whether the recommendation is better"),
        ([-2.0, -3.0, -4.0], "On Linux 7.3 the recommendation is not better than the default (-"),
        ([-1.0, 0.5, 1.0], "On Linux 7.3 the recommendation is hardly better than the default (-"),
    ],
)
def test_only_what_a_kernel_is_sure_of_contradicts_the_simulator(
    network: Topology, fake_testbed: Any, gains: list[float], begins: str | None
) -> None:
    simulated = run(network, fake_testbed, None).confirmation
    assert simulated is not None
    promised = msgspec.structs.replace(simulated, gain=summarise([9.5, 10.0, 10.5]))
    there = msgspec.structs.replace(simulated, gain=summarise(gains), records=simulated.records[:9])
    found = contradictions("Linux 7.3", promised, there, None)
    assert [sentence[: len(begins or "")] for sentence in found] == ([] if begins is None else [begins])


def test_a_kernel_on_which_the_runner_up_is_faster_makes_one_warning(
    network: Topology, fake_testbed: Any, kernel: FakeKernel
) -> None:
    fake_testbed.gives["C-X"] = -0.1
    kernel.gives = {"A-X": 80.0, "B-X": 20.0, "C-X": 30.0}
    result = run(network, fake_testbed, kernel)
    assert result.optimum.pm == "pcdc"
    (doubt,) = doubts(result)
    assert "fullmesh with cubic is faster (+" in doubt
    found = answer_of(result).confirmed_on_kernel
    assert found is not None and found.runner_up is not None and found.runner_up.pm == "fullmesh"


def test_a_runner_up_that_is_ahead_in_the_simulator_too_contradicts_nothing(
    network: Topology, fake_testbed: Any, kernel: FakeKernel
) -> None:
    """MPTCP stays for what it loses against plain TCP, 1.6 % here."""
    for testbed in (fake_testbed, kernel):
        testbed.gives, testbed.noise = {"A-X": 80.0, "B-X": -1.0, "C-X": -10.0}, 0.001
        testbed.tcp_gives = {"A-X": 81.3}
    result = run(network, fake_testbed, kernel, tcp=True)
    assert result.measured_on_kernel is not None and result.measured_on_kernel.runner_up is not None
    beside = result.measured_on_kernel.runner_up
    assert beside.combination.is_tcp and beside.gain is not None and (beside.gain.low or 0.0) > 0
    assert doubts(result) == []
    kernel.tcp_gives = {"A-X": 90.0}
    (doubt,) = doubts(run(network, fake_testbed, kernel, tcp=True))
    assert "plain TCP on A-X with cubic is faster (+" in doubt


def test_what_a_kernel_cannot_run_is_reported_only_where_it_was_named(
    network: Topology, fake_testbed: Any, kernel: FakeKernel
) -> None:
    kernel.refuses = lambda trial: "expected another one"
    result = run(network, fake_testbed, kernel)
    assert result.measured_on_kernel is None and doubts(result) == [] and kernel.trials == []
    (doubt,) = doubts(run(network, fake_testbed, kernel, confirm_on="virtual"))
    assert doubt == "Not confirmed on Linux 7.3: --cc: expected another one."


def test_trials_that_fail_there_fail_no_answer(
    network: Topology, fake_testbed: Any, kernel: FakeKernel
) -> None:
    kernel.fails = lambda trial: "the guest ended"
    result = run(network, fake_testbed, kernel)
    (doubt,) = doubts(result)
    assert "8 of 8" in doubt and "the guest ended" in doubt
    assert "On Linux 7.3 (guest, 4 runs): no run succeeded, none with the default." in wording.answer(result)


@pytest.fixture
def wide_error(made_up_error: ModelError, monkeypatch: pytest.MonkeyPatch) -> ModelError:
    """An error that is larger than what is between the finalists."""
    compared = msgspec.structs.replace(made_up_error.compared, products=(0.01, 1000))
    error = msgspec.structs.replace(made_up_error, compared=compared)
    monkeypatch.setattr(model_error, "shipped", lambda: error)
    monkeypatch.setattr("mptune.optimisation.on_kernel.shipped", lambda: error)
    return error


def test_finalists_that_only_a_kernel_can_tell_apart_are_named_and_not_decided(
    network: Topology, fake_testbed: Any, kernel: FakeKernel, wide_error: ModelError
) -> None:
    fake_testbed.gives["C-X"] = -0.5
    for there in (None, kernel):
        result = run(network, fake_testbed, there)
        assert result.optimum.pm == "pcdc"
        (hint,) = (text for text in wording.answer(result) if "--confirm-on virtual" in text)
        assert "fullmesh with cubic" in hint
    fake_testbed.gives["C-X"] = -50.0
    assert not any("--confirm-on" in text for text in wording.answer(run(network, fake_testbed, None)))


def test_a_kernel_that_was_named_decides_between_them(
    network: Topology, fake_testbed: Any, kernel: FakeKernel, wide_error: ModelError
) -> None:
    fake_testbed.gives["C-X"] = -0.5
    same = run(network, fake_testbed, kernel, confirm_on="virtual:7.3")
    assert same.optimum.pm == "pcdc" and doubts(same) == []
    kernel.gives = {"A-X": 80.0, "B-X": 20.0, "C-X": 30.0}
    moved = run(network, fake_testbed, kernel, confirm_on="virtual:7.3")
    assert moved.optimum.pm == "fullmesh" and moved.subflows == ("A-X", "B-X", "C-X")
    # What is expected is the simulator's, whose search it is.
    assert moved.confirmation is not None
    assert moved.optimum.throughput_mbps == pytest.approx(moved.confirmation.mean_mbps, rel=0.02)
    (sentence,) = doubts(moved)
    assert "fullmesh with cubic gave 120.0 Mbit/s, pcdc with cubic 92" in sentence
    found = answer_of(moved).confirmed_on_kernel
    assert found is not None and {row.pm for row in found.finalists} == {"fullmesh", "pcdc"}
    assert not any("--confirm-on" in text for text in wording.answer(moved))


def test_a_kernel_that_fails_decides_nothing(
    network: Topology, fake_testbed: Any, kernel: FakeKernel, wide_error: ModelError
) -> None:
    fake_testbed.gives["C-X"] = -0.5
    kernel.gives = {"A-X": 80.0, "B-X": 20.0, "C-X": 30.0}
    kernel.kind = "died"
    kernel.fails = lambda trial: "the guest ended" if trial.pm == "fullmesh" else None
    assert run(network, fake_testbed, kernel, confirm_on="virtual").optimum.pm == "pcdc"


# ---- which kernel ------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(kernels.VARIABLE, str(tmp_path))
    return tmp_path


def test_a_kernel_of_the_stack_that_this_version_builds_is_taken_unasked(cache: Path) -> None:
    def taken(testbed: str = "simulated", **changes: Any) -> str | None:
        found = confirming(msgspec.structs.replace(OPTIONS, **changes), testbed)
        return None if found is None else found.name

    assert taken() is None
    write(cache, "6.12", "6.12.118")
    assert taken() is None  # of an earlier mptune
    assert taken(confirm_on="virtual") == "virtual:6.12"
    write(cache, "7.0", "7.0.1", building.recipe())
    assert taken() == "virtual:7.0"
    assert taken(stack=StackOptions(stack="linux-7.3")) is None
    write(cache, "7.3", "7.3.4", building.recipe())
    assert taken() == taken(stack=StackOptions(stack="linux-7.3")) == "virtual:7.3"
    for other in ({"testbed": "namespaces"}, {"stack": StackOptions(stack="v0.9x")}, {"confirm_on": NOWHERE}):
        assert taken(**other) is None
    other_scheduler: Any = {"scheduler": "minrtt"}
    assert taken(stack=StackOptions(**other_scheduler)) is None


@pytest.mark.parametrize(("mbps", "seconds"), [(0.0, 30), (50.0, 30), (270.0, 11), (1000.0, 10)])
def test_trials_of_fast_networks_are_short_unless_the_kernel_is_named(mbps: float, seconds: int) -> None:
    assert lasting_ns(OptimiseOptions(), mbps) == seconds * SECOND
    assert lasting_ns(OptimiseOptions(confirm_on="virtual"), mbps) == 30 * SECOND
