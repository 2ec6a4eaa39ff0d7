"""`mptune compare` with two made-up testbeds: its table, its JSON, its files, and what it refuses."""

import csv
import json

import msgspec
import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.cli import app
from mptune.errors import Failure
from mptune.testbeds import Testbed
from mptune.trial import BIN_NS, Bulk, Observation, Transfer

MIB = 2**20


class MadeUp(Testbed):
    """Throughput by a function of the trial; None is a stall."""

    parallel = None

    def __init__(self, name, mbps):
        self.name, self.mbps = name, mbps
        self.trials = []

    def run(self, trial):
        self.trials.append(trial)
        mbps = self.mbps(trial)
        duration = trial.workload.duration_ns if isinstance(trial.workload, Bulk) else 10**9
        bins = [round((mbps or 0) * BIN_NS / 8e3)] * (duration // BIN_NS)
        return Observation(
            testbed=self.name,
            duration_ns=duration,
            in_order_bytes=sum(bins),
            bins=bins,
            subflows=[],
            failed=Failure("stalled", "no byte in order for 3 s") if mbps is None else None,
        )


@pytest.fixture
def pair(monkeypatch):
    """Simulator and kernel: they agree about Cubic; the kernel stalls with 256 KiB."""

    def both(trial, reno):
        return min(100, trial.buffer_bytes / MIB * 50) * (reno if trial.cc == "reno" else 1)

    def simulated(trial):
        return both(trial, 0.99)

    def kernel(trial):
        return both(trial, 0.9) if trial.buffer_bytes >= MIB // 2 else None

    made_up = {"simulated": MadeUp("simulated", simulated), "namespaces": MadeUp("namespaces", kernel)}
    monkeypatch.setattr(testbeds, "TESTBEDS", {name: lambda kind=bed: kind for name, bed in made_up.items()})
    return made_up


def compare(*arguments):
    return CliRunner().invoke(app, ["compare", "UiT-HAW", "--quiet", *arguments])


def test_both_testbeds_get_the_same_trials(pair):
    assert compare("--runs", "2").exit_code == 0
    trials = pair["simulated"].trials
    assert sorted(map(repr, pair["namespaces"].trials)) == sorted(map(repr, trials))
    assert len(trials) == 2 * 5 * 2 and {trial.scheduler for trial in trials} == {"kernel"}
    assert {trial.cc for trial in trials} == {"reno", "cubic"} and {trial.pm for trial in trials} == {
        "fullmesh"
    }
    assert len({trial.seed for trial in trials}) == 2


def test_any_other_testbed_can_be_the_kernels(pair):
    pair["hosts"] = MadeUp("hosts", lambda trial: 10)
    testbeds.TESTBEDS["hosts"] = lambda: pair["hosts"]  # the fixture's own
    assert compare("--testbed", "hosts").exit_code == 0
    assert pair["hosts"].trials and not pair["namespaces"].trials
    refused = compare("--testbed", "simulated")
    assert refused.exit_code == 2
    assert "--testbed: expected one of namespaces, hosts, found 'simulated'" in refused.output


def test_the_simulator_does_as_linux_does(pair):
    """Its scheduler alone is not enough: the same buffer holds less under the kernel's accounting."""
    assert compare("--transfer", "4MiB").exit_code == 0
    assert {(trial.scheduler, trial.accounting) for trial in pair["simulated"].trials} == {
        ("kernel", "linux")
    }


def test_the_answer_comes_first_and_stalls_are_labelled(pair):
    result = compare()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("UiT-HAW: median error 5.0%, 90 % quantile 10.0%, rank correlation 1.000")
    assert lines[0].endswith("(8 of 10 configurations).")
    assert lines[1] == "Both recommend fullmesh with cubic and 2 MiB."
    stalled = [line for line in lines if "kernel stalled 1 of 1" in line]
    assert len(stalled) == 2 and all("256 KiB" in line and " - " in line for line in stalled)


def test_json_has_the_numbers_of_the_table(pair):
    result = json.loads(compare("--json", "--cc", "reno", "--buffers", "1MiB,256KiB").stdout)
    assert result["topology"] == "UiT-HAW" and result["compared"] == 1
    assert result["median_error"] == pytest.approx(0.1)
    assert result["rank_correlation"] is None and result["stalls_agree"] == 0.5
    assert result["same_optimum"] is True
    assert result["kernel_optimum"] == {"pm": "fullmesh", "cc": "reno", "buffer_bytes": MIB}
    second, first = result["configurations"]  # by buffer, however they were written
    assert first["kernel"]["throughput_mbps"] == pytest.approx(45)
    assert second["kernel"]["stalled"] == 1 and second["error"] is None


def test_a_simulated_value_that_stands_alone_has_the_error_to_expect(pair, made_up_error, monkeypatch):
    compared = msgspec.structs.replace(
        made_up_error.compared,
        congestion_controls=("reno", "cubic"),
        products=(0.0, 1e3),
        path_bps=(0.0, 1e12),
        total_bps=(0.0, 1e12),
        rtt_ns=(0.0, 1e12),
        loss_ppb=(0.0, 1e9),
    )
    learnt = msgspec.structs.replace(made_up_error, compared=compared)
    monkeypatch.setattr("mptune.decision.comparison.shipped", lambda: learnt)
    asked = ("--cc", "cubic", "--buffers", "256KiB,1MiB", "--runs", "2")
    lines = compare(*asked).stdout.splitlines()
    assert sum("expected" in line for line in lines) == 1
    assert "256 KiB" in next(line for line in lines if "expected" in line)
    alone, beside = (
        load["expected"] for load in json.loads(compare(*asked, "--json").stdout)["configurations"]
    )
    assert alone["low_mbps"] < 12.5 < alone["high_mbps"]
    assert beside["low_mbps"] < 50 < beside["high_mbps"]


def test_a_congestion_control_without_an_error_estimate_is_named_where_it_stands_alone(
    pair, made_up_error, monkeypatch
):
    monkeypatch.setattr("mptune.decision.comparison.shipped", lambda: made_up_error)
    words = "No kernel error estimate: the congestion control vegas"
    assert words in compare("--cc", "vegas", "--runs", "2").stdout
    assert words not in compare("--cc", "vegas", "--buffers", "1MiB", "--runs", "2").stdout


def test_transfers_are_compared_too(pair):
    assert compare("--transfer", "4MiB", "--buffers", "1MiB").exit_code == 0
    assert {trial.workload for trial in pair["namespaces"].trials} == {Transfer(bytes=4 * MIB)}


def test_the_tables_are_written(pair, tmp_path):
    assert compare("--out", str(tmp_path / "out")).exit_code == 0
    with (tmp_path / "out" / "comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert float(rows[0]["simulated_throughput_mbps"]) == pytest.approx(12.375, rel=1e-3)
    assert rows[0]["kernel_throughput_mbps"] == "" and rows[0]["kernel_stalled"] == "1"
    document = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert document == json.loads(compare("--json").stdout)
    refused = compare("--out", str(tmp_path / "out"))
    assert refused.exit_code == 2 and "--force" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--cc", "turbo"], "--cc: expected one of"),
        (["--pm", "manual"], "--pm: expected one of"),
        (["--buffers", "1KiB"], "--buffers: expected at least one segment"),
        (["--buffers", "1m"], "--buffers: expected a range"),
        (["--runs", "0"], "--runs: expected 1 or more, found 0"),
        (["--duration", "0s"], "--duration: expected more than 0"),
        (["--duration", "1s", "--transfer", "1MiB"], "--transfer: expected either"),
        (["--jobs", "0"], "--jobs: expected 1 or more"),
    ],
)
def test_bad_options_are_refused_before_anything_is_measured(pair, arguments, named):
    result = compare(*arguments)
    assert result.exit_code == 2 and named in result.stderr
    assert not pair["simulated"].trials and not pair["namespaces"].trials
