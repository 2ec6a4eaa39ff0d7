"""What is enough from each initial path, on a testbed of formulas and in the simulator."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune import theory
from mptune.cli import app
from mptune.errors import MptuneError
from mptune.optimisation.practical import PracticalOptions, enough, measure_practical
from mptune.runner.runner import TrialRunner
from mptune.testbeds import Testbed
from mptune.theory import Subflow
from mptune.topology import Topology
from mptune.trial import Observation, Trial

SECOND, MIB = 10**9, 2**20
OPTIONS = PracticalOptions(
    buffers=tuple(MIB << step for step in range(5)), runs=2, duration_ns=SECOND, initial_paths=()
)


class Knees(Testbed):
    """Throughput up to a knee that the initial path moves; a path alone has its own rate."""

    name = "fake"
    parallel: int | None = 1

    def __init__(self, like: Any) -> None:
        self._like = like
        self._like.noise = 0.0
        self.knee_mib = {"A-X": 2, "B-X": 4, "C-X": 100}
        self.alone_mbps = {"A-X": 60.0, "B-X": 20.0, "C-X": 1.0}
        self.fails: Any = lambda trial: None

    def run(self, trial: Trial) -> Observation:
        path = trial.initial_path or ""
        if trial.pm == "default":
            self._like.knee_mib, self._like.gives = {"cubic": 1e-6}, {path: self.alone_mbps[path]}
        else:
            self._like.knee_mib = {"cubic": float(self.knee_mib[path])}
            self._like.gives = {"A-X": 60.0, "B-X": 20.0}
        self._like.fails = self.fails
        observation: Observation = self._like.run(trial)
        return observation


@pytest.fixture
def testbed(fake_testbed: Any) -> Knees:
    return Knees(fake_testbed)


def test_each_initial_path_has_the_smallest_buffer_of_its_plateau(network: Topology, testbed: Knees) -> None:
    found = measure_practical(network, TrialRunner(testbed), OPTIONS)
    sizes = {one.initial_path: one.buffer_bytes for one in found.practical}
    assert sizes == {"A-X": 2 * MIB, "B-X": 4 * MIB, "C-X": 16 * MIB}
    assert [one.is_largest for one in found.practical] == [False, False, True]
    assert found.practical[0].plateau_mbps == pytest.approx(80, rel=1e-3)


def test_the_formulas_are_applied_to_what_every_path_gave_alone(network: Topology, testbed: Knees) -> None:
    """81 Mbit/s together, and an RTT of 20 ms: Eq. 1 says 202.5 kB."""
    found = measure_practical(network, TrialRunner(testbed), OPTIONS)
    assert [one.rtt_ns for one in found.alone] == [20_000_000] * 3
    assert theory.initial_transmission(found.subflows()) == pytest.approx(81e6 * 0.020 / 8, rel=1e-3)
    assert theory.timer_retransmission(found.subflows(2 * SECOND)) == pytest.approx(
        81e6 * 2.060 / 8, rel=1e-3
    )


def test_failed_trials_are_left_out_and_counted(network: Topology, testbed: Knees) -> None:
    testbed.fails = lambda t: "stalled" if t.pm == "fullmesh" and t.buffer_bytes == MIB else None
    found = measure_practical(network, TrialRunner(testbed), OPTIONS)
    assert found.failed == 3 * 2 and MIB not in found.practical[0].means
    testbed.fails = lambda t: "no route" if t.initial_path == "B-X" else None
    with pytest.raises(MptuneError, match=r"every trial from B-X failed .*no route"):
        measure_practical(network, TrialRunner(testbed), OPTIONS)


def test_enough_is_95_percent_of_the_largest_mean() -> None:
    assert enough({1: 10.0, 2: 94.9, 4: 95.0, 8: 100.0, 16: 97.0}) == (4, 100.0)
    assert enough({1: 100.0, 2: 20.0}) == (1, 100.0)


def test_the_study_used_measured_values() -> None:
    """UDE to HU: Table II's throughputs and median RTTs give the 443 and 887 KiB of Table III."""
    flows = [
        Subflow(rate_bps=round(mbps * 1e6), rtt_ns=rtt_ms * 1_000_000)
        for mbps, rtt_ms in ((1.71, 340), (6.95, 386), (0.65, 340), (0.10, 386))
    ]
    assert theory.initial_transmission(flows) / 1024 == pytest.approx(443, abs=1)
    assert theory.fast_retransmission(flows) / 1024 == pytest.approx(887, abs=1)


def buffers(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["buffers", *arguments])


def test_the_command_shows_what_is_enough_beside_both_formulas() -> None:
    short = ("--measure", "--runs", "1", "--duration", "5s", "--buffers", "64KiB,256KiB", "--quiet")
    shown = buffers("UiT-HAW", *short)
    assert shown.exit_code == 0, shown.stderr
    assert "nominal" in shown.stdout and "smallest buffer with 95 %" in shown.stdout
    found = json.loads(buffers("UiT-HAW", *short, "--json", "--initial-path", "T-D").stdout)
    assert [one["initial_path"] for one in found["practical"]] == ["T-D"]
    assert [one["path"] for one in found["measured"]["paths"]] == ["P-D", "T-D"]
    nominal, measured = found["mptcp"]["bytes"], found["measured"]["mptcp"]["bytes"]
    assert measured["fast"] == pytest.approx(2 * measured["first"], abs=1)
    assert nominal.keys() == measured.keys()
    assert "measured" not in json.loads(buffers("UiT-HAW", "--json").stdout)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["UiT-HAW", "--runs", "3"], "--runs: expected only with --measure"),
        (["UiT-HAW", "--testbed", "namespaces"], "--testbed: expected only with --measure"),
        (["--path", "1Mbit/s,10ms", "--measure"], "--measure: expected only with a TOPOLOGY"),
        (["UiT-HAW", "--measure", "--initial-path", "X-Y"], "--initial-path: expected a path of UiT-HAW"),
        (["UiT-HAW", "--measure", "--buffers", "big"], "--buffers: expected"),
        (["UiT-HAW", "--measure", "--runs", "0"], "--runs: expected"),
    ],
)
def test_bad_options_are_refused_in_one_line(arguments: list[str], named: str) -> None:
    shown = buffers(*arguments)
    assert shown.exit_code == 2
    assert named in shown.stderr and shown.stderr.count("\n") == 1
