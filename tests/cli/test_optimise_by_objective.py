"""`mptune optimise --workload` in the simulator: answer, files, report, resumption."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.cli import app
from mptune.result import screen
from mptune.result.reading import read_run
from mptune.statistics import quantile
from mptune.store import open_store
from mptune.store.directory import STORE
from mptune.trial import Messages, Observation, Trial

FOR_MESSAGES = (
    *("--workload", "messages:200B/100ms", "--duration", "10s", "--cc", "cubic,reno"),
    *("--buffers", "0.02,0.05,0.5", "--runs", "3", "--confirm-runs", "4", "--at-most-gap", "10s"),
)


def mptune(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A finished run, with its JSON."""
    out = tmp_path_factory.mktemp("runs") / "calls"
    result = mptune("optimise", "CLOUD-HOME.hybrid", *FOR_MESSAGES, "--out", out, "--json", "--quiet")
    assert result.exit_code == 0, result.stderr
    return out, json.loads(result.stdout)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_all_that_was_compared_is_in_a_table_with_the_choice(done: tuple[Path, Any]) -> None:
    out, result = done
    rows = table(out / "compared.csv")
    (chosen,) = [row for row in rows if row["chosen"] == "True"]
    settings = result["recommended"]
    assert (chosen["cc"], int(chosen["buffer_bytes"])) == (settings["cc"], settings["buffer_bytes"])
    assert len(rows) == result["compared"] >= result["alike"] >= 1
    assert {row["objective"] for row in rows} == {"delay p99"} and chosen["within_limits"] == "True"
    best = min(float(row["mean"]) for row in rows if row["within_limits"] == "True")
    assert float(chosen["mean"]) <= max(1.01 * best, best + 0.5) or result["alike"] > 1
    assert result["limits"] == ["longest gap of at most 10000 ms"]


def test_the_figures_are_those_of_the_fresh_trials(done: tuple[Path, Any]) -> None:
    """Delays are in the store, not in a table: the 99th percentile of each run, and their mean."""
    out, result = done
    figure = next(one for one in result["figures"] if one["name"] == "delay p99")
    with open_store(out / STORE, write=False) as store:
        confirming = [trial for trial in store.trials() if trial.purpose == "confirm"]
        of_default = [
            quantile(sorted(store.observation(trial.key).delays_ns), 0.99) / 1e6
            for trial in confirming
            if trial.pm == "fullmesh" and trial.buffer_bytes == result["default"]["buffer_bytes"]
        ]
    assert len(confirming) == 2 * 4 and len(of_default) == figure["default"]["runs"] == 4
    assert figure["default"]["mean"] == pytest.approx(sum(of_default) / 4)
    gain = figure["default"]["mean"] - figure["recommended"]["mean"]
    assert figure["gain"]["mean"] == pytest.approx(gain)
    assert result["throughput"]["unit"] == "Mbit/s" and result["outage"]["path"] in ("T-D", "T-M")


def test_the_run_is_read_with_its_answer(done: tuple[Path, Any]) -> None:
    out, result = done
    run = read_run(out, "calls")
    assert run.answer is None and run.by_size is None and run.by_objective is not None
    assert run.by_objective.objective == result["objective"]


def test_the_terminal_shows_answer_and_default(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = mptune("optimise", "CLOUD-HOME.hybrid", *FOR_MESSAGES, "--details", "--out", out)
    assert result.exit_code == 0, result.stderr
    first, second, *_ = result.stdout.splitlines()
    assert first.startswith("CLOUD-HOME.hybrid, messages of 200 B every 100 ms, for Linux 6.18's MPTCP: use ")
    assert second.startswith("Delay p99: ") and "4 new runs" in second
    for text in (
        "With new seeds",
        "throughput (Mbit/s)",
        "longest gap (ms)",
        "gap if T-",
        "configurations measured",
    ):
        assert text in result.stdout
    assert "sweep:" in result.stderr and "outage:" in result.stderr
    assert (out / "report.html").is_file()
    shown = mptune("campaign", "resume", out, "--quiet").stdout.splitlines()
    assert len(shown) <= screen.LINES and "messages of 200 B every 100 ms: use " in shown[0]
    assert any(line.startswith("Delay p99: ") and " today" in line for line in shown)
    assert all(len(line.replace(str(out), "out")) <= screen.COLUMNS for line in shown)


@pytest.mark.parametrize("after", [0.2, 0.8])
def test_an_interrupted_run_is_continued_to_the_same_answer(
    done: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, after: float
) -> None:
    """In the screening, and in the confirmation: delays of the first part come from the store."""
    out, left = tmp_path / "out", [int(after * len(table(done[0] / "observations.csv")))]
    testbed = testbeds.create("simulated")
    run = testbed.run

    def interrupted(trial: Trial) -> Observation:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return run(trial)

    with monkeypatch.context() as patched:
        patched.setattr(testbed, "run", interrupted)
        patched.setattr(testbeds, "create", lambda name: testbed)
        line = ("optimise", "CLOUD-HOME.hybrid", *FOR_MESSAGES, "--out", out, "--quiet", "--jobs", 1)
        result = mptune(*line)
    assert result.exit_code == 130 and "continue with: mptune campaign resume" in result.stderr
    assert mptune("campaign", "resume", out, "--quiet").exit_code == 0
    for name in ("result.json", "compared.csv", "observations.csv"):
        assert (out / name).read_bytes() == (done[0] / name).read_bytes(), name


def test_every_trial_sends_what_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """But those of the saturated sender beside it; and the outage comes halfway."""
    testbed, trials = testbeds.create("simulated"), []
    run = testbed.run

    def noting(trial: Trial) -> Observation:
        trials.append(trial)
        return run(trial)

    monkeypatch.setattr(testbed, "run", noting)
    monkeypatch.setattr(testbeds, "create", lambda name: testbed)
    line = ("optimise", "UiT-HAW", *FOR_MESSAGES, "--objective", "late:150ms", "--out", tmp_path / "out")
    result = mptune(*line, "--jobs", 1, "--json", "--quiet")
    assert result.exit_code == 0, result.stderr
    sent = Messages(bytes=200, interval_ns=100_000_000, duration_ns=10_000_000_000)
    other = [trial for trial in trials if trial.workload != sent]
    assert len(other) == 2 * 4 and not any(trial.script for trial in other)
    assert {one.at_ns for trial in trials for one in trial.script} <= {5_000_000_000}
    document = json.loads(result.stdout)
    assert (document["objective"], document["unit"]) == ("later than 150 ms", "%")


def test_many_connections_have_an_answer_with_fairness_and_one_alone_beside_it(tmp_path: Path) -> None:
    words = (
        "--connections",
        3,
        "--duration",
        "3s",
        "--cc",
        "cubic",
        "--pm",
        "fullmesh",
        "--buffers",
        "0.25,1",
    )
    out = tmp_path / "three"
    result = mptune(
        *("optimise", "UiT-HAW", *words, "--runs", 2, "--confirm-runs", 2, "--no-tcp", "--out", out, "--json")
    )
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["workload"]["kind"] == "mix" and answer["workload"]["parts"][0]["connections"] == 3
    assert [one["name"] for one in answer["figures"]] == ["throughput", "fairness"]
    assert answer["throughput"]["name"] == "throughput of one alone"
    assert 33 < answer["figures"][1]["recommended"]["mean"] <= 100
    assert "throughput of one alone" in (out / "report.html").read_text()
    # It is an answer that can be read again, and its trials have their parts.
    run = read_run(out, "three")
    assert run.by_objective is not None and run.delayed == ()
    with open_store(out / STORE, write=False) as store:
        keys = [trial.key for trial in store.trials() if trial.purpose == "confirm"]
        assert all(len(one.parts[0].connections) == 3 for one in map(store.observation, keys))
        assert all(kept.parts[0].fairness for kept in store.records(keys).values())


def test_a_campaign_of_a_mix_exports_the_times_of_every_connection(tmp_path: Path) -> None:
    (tmp_path / "both.toml").write_text(
        'topology = "UiT-HAW"\nkind = "sweep"\n[factors]\npm = ["fullmesh"]\ncc = ["cubic"]\n'
        'buffers = "256KiB"\n[trials]\nruns = 1\nduration = "1s"\n'
        'workload = "mix:2*messages:200B/100ms+requests:400B/10KiB"\n'
    )
    out = tmp_path / "both"
    result = mptune("campaign", "run", tmp_path / "both.toml", "--out", out, "--quiet")
    assert result.exit_code == 0, result.stderr
    assert mptune("campaign", "export", out, "--series", "--out", tmp_path / "tables").exit_code == 0
    rows = table(tmp_path / "tables" / "times.csv")
    of_calls = [row for row in rows if row["part"] == "0"]
    assert [row["number"] for row in of_calls] == [str(number) for number in range(10)] * 2
    assert {row["connection"] for row in of_calls} == {"0", "1"}
    assert {float(row["due_s"]) for row in of_calls} == {number / 10 for number in range(10)}
    assert {row["due_s"] for row in rows if row["part"] == "1"} == {""}


def test_what_another_tcp_connection_loses_is_shown_and_can_be_a_limit(tmp_path: Path) -> None:
    words = (
        "--workload",
        "mix:bulk",
        "--duration",
        "5s",
        "--cc",
        "cubic",
        "--pm",
        "fullmesh",
        "--buffers",
        "1",
    )
    common = (*words, "--runs", 2, "--confirm-runs", 3, "--no-tcp", "--json", "--quiet")
    out = tmp_path / "harmless"
    result = mptune("optimise", "UiT-HAW", *common, "--do-no-harm", "--out", out)
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["limits"] == ["loss of another TCP connection of at most 5 % for sure"]
    lost = answer["harm"]
    assert lost and all(one["name"].startswith("loss of another TCP on ") for one in lost)
    assert all(one["unit"] == "%" and one["recommended"]["runs"] == 3 for one in lost)
    assert all(one["recommended"]["mean"] < 100 for one in lost)
    assert "loss of another TCP on" in (out / "report.html").read_text()
    # Resumed from the store it is the same answer.
    again = mptune("campaign", "resume", out, "--json", "--quiet")
    assert again.exit_code == 0, again.stderr
    assert json.loads((out / "result.json").read_text())["harm"] == lost
