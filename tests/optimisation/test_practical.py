"""Sufficient buffers from each initial path, on a testbed of formulas and in the simulator."""

import io
import json
from typing import Any

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from mptune import theory
from mptune.cli import app
from mptune.cli._practical_tables import show_practical
from mptune.errors import MptuneError
from mptune.optimisation.practical import PracticalOptions, enough, measure_practical
from mptune.runner.runner import TrialRunner
from mptune.testbeds import Testbed
from mptune.theory import Subflow
from mptune.topology import Topology
from mptune.trial import Observation, Transfer, Trial

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
        self.ping_ns = 7_000_000
        self.fails: Any = lambda trial: None
        self.kind = like.kind

    def run(self, trial: Trial) -> Observation:
        path = trial.initial_path or ""
        if trial.protocol == "tcp":
            self._like.knee_mib, self._like.gives = {"cubic": 1e-6}, {path: self.alone_mbps[path]}
        elif trial.pm == "default":  # MPTCP on one path, which is not what the study calls TCP
            self._like.knee_mib, self._like.gives = {"cubic": 1e-6}, {path: self.alone_mbps[path] / 2}
        else:
            self._like.knee_mib = {"cubic": float(self.knee_mib[path])}
            self._like.gives = {"A-X": 60.0, "B-X": 20.0}
        self._like.fails, self._like.kind = self.fails, self.kind
        observation: Observation = self._like.run(trial)
        if not isinstance(trial.workload, Transfer):
            return observation
        pinged = [
            msgspec.structs.replace(subflow, srtt_ns=self.ping_ns, min_rtt_ns=self.ping_ns)
            for subflow in observation.subflows
        ]
        return msgspec.structs.replace(observation, subflows=pinged)


@pytest.fixture
def testbed(fake_testbed: Any) -> Knees:
    return Knees(fake_testbed)


def test_each_initial_path_has_the_smallest_buffer_of_its_plateau(network: Topology, testbed: Knees) -> None:
    measured = measure_practical(network, TrialRunner(testbed), OPTIONS)
    sizes = {size.initial_path: size.buffer_bytes for size in measured.practical}
    assert sizes == {"A-X": 2 * MIB, "B-X": 4 * MIB, "C-X": 16 * MIB}
    assert [size.is_largest for size in measured.practical] == [False, False, True]
    assert measured.practical[0].plateau_mbps == pytest.approx(80, rel=1e-3)


def test_the_formulas_have_the_rate_of_plain_tcp_and_the_rtt_of_pings(
    network: Topology, testbed: Knees
) -> None:
    """81 Mbit/s together, 7 ms while nothing else is sent (20 ms beside the data): Eq. 1 gives 70.9 kB."""
    measured = measure_practical(network, TrialRunner(testbed), OPTIONS)
    assert [(path.rtt_ns, path.loaded_rtt_ns) for path in measured.alone] == [(7_000_000, 20_000_000)] * 3
    assert theory.initial_transmission(measured.subflows()) == pytest.approx(81e6 * 0.007 / 8, rel=1e-3)
    assert theory.timer_retransmission(measured.subflows(2 * SECOND)) == pytest.approx(
        81e6 * 2.021 / 8, rel=1e-3
    )


def test_failed_trials_are_left_out_and_counted(network: Topology, testbed: Knees) -> None:
    testbed.kind = "died"
    testbed.fails = lambda t: "lost" if t.pm == "fullmesh" and t.buffer_bytes == MIB else None
    measured = measure_practical(network, TrialRunner(testbed), OPTIONS)
    assert measured.failed == 3 * 2 and MIB not in measured.practical[0].means
    testbed.kind = "stalled"
    testbed.fails = lambda t: "silence" if t.pm == "fullmesh" and t.buffer_bytes == 4 * MIB else None
    measured = measure_practical(network, TrialRunner(testbed), OPTIONS)
    size = measured.practical[0]
    # With 2 MiB the plateau is reached, and with 4 it stalls: enough is what holds with larger ones.
    assert (size.means[4 * MIB], size.first_bytes, size.buffer_bytes) == (0.0, 2 * MIB, 8 * MIB)
    testbed.kind = "died"
    testbed.fails = lambda t: "no route" if t.initial_path == "B-X" else None
    with pytest.raises(MptuneError, match=r"every trial from B-X failed .*no route"):
        measure_practical(network, TrialRunner(testbed), OPTIONS)


def test_enough_is_95_percent_of_the_largest_mean_with_larger_buffers_too() -> None:
    steady = {MIB: 10.0, 2 * MIB: 94.9, 4 * MIB: 95.1, 8 * MIB: 100.0, 16 * MIB: 97.0}
    assert enough(steady) == enough(steady, "global") == 4 * MIB
    # From NTNU to HiN: full with 256 KiB, a third of it with twice that, and full again with 8 MiB.
    dips = {256: 89.9, 512: 28.4, 1024: 41.4, 2048: 61.8, 4096: 78.2, 8192: 87.6, 16384: 87.9}
    dips = {kib * 1024: mbps for kib, mbps in dips.items()}
    assert (enough(dips), enough(dips, "global")) == (8 * MIB, MIB // 4)
    # No buffer keeps it up to the largest: one that keeps it up to twice its size.
    falls = {MIB: 50.0, 2 * MIB: 99.0, 4 * MIB: 100.0, 8 * MIB: 97.0, 16 * MIB: 20.0}
    assert enough(falls) == 2 * MIB
    assert enough({MIB: 100.0}) == MIB


def test_both_sizes_are_shown_where_they_differ(network: Topology, testbed: Knees) -> None:
    whole = testbed.run

    def dips(trial: Trial) -> Observation:
        seen = whole(trial)
        few = trial.pm == "fullmesh" and trial.buffer_bytes == 4 * MIB and trial.initial_path == "A-X"
        if not few:
            return seen
        return msgspec.structs.replace(
            seen, bins=[0 for _ in seen.bins], in_order_bytes=seen.in_order_bytes // 3
        )

    testbed.run = dips  # type: ignore[method-assign]
    measured = measure_practical(network, TrialRunner(testbed), OPTIONS)
    assert [size.buffer_bytes // MIB for size in measured.practical] == [8, 4, 16]
    assert [size.first_bytes // MIB for size in measured.practical] == [2, 4, 16]
    text = io.StringIO()
    show_practical(Console(file=text, width=120), measured, [], SECOND)
    assert "first (KiB)" in text.getvalue() and "although a larger one gives less" in text.getvalue()


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
    result = buffers("UiT-HAW", *short)
    assert result.exit_code == 0, result.stderr
    assert "nominal" in result.stdout and "smallest buffer with 95 %" in result.stdout
    document = json.loads(buffers("UiT-HAW", *short, "--json", "--initial-path", "T-D").stdout)
    assert [size["initial_path"] for size in document["practical"]] == ["T-D"]
    assert [path["path"] for path in document["measured"]["paths"]] == ["P-D", "T-D"]
    nominal, measured = document["mptcp"]["bytes"], document["measured"]["mptcp"]["bytes"]
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
    result = buffers(*arguments)
    assert result.exit_code == 2
    assert named in result.stderr and result.stderr.count("\n") == 1
