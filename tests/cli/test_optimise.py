"""`mptune optimise` in the simulator: answer, JSON, run directory, and what it refuses."""

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.cli import app
from mptune.result import screen
from mptune.result.documents import converted
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.trial import Observation, Trial

#: A coarse grid of short trials: 2 path managers x 2 congestion controls x 4 buffers x 2 runs.
COARSE = (
    *("--strategy", "grid"),
    *("--cc", "cubic,reno", "--buffers", "0.005,0.02,0.05,0.5", "--runs", "2", "--duration", "5s"),
    *("--impact", "eq5", "--impact-runs", "2", "--impact-duration", "5s", "--confirm-runs", "3"),
)
FILES = {
    "campaign.sqlite",
    "campaign.sqlite.lock",
    "config.json",
    "curves.csv",
    "impact.json",
    "observations.csv",
    "pareto.csv",
    "report.html",
    "round_trips.csv",
    "result.json",
    "subflows.csv",
}


def optimise(out: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["optimise", "UiT-HAW", *COARSE, "--out", str(out), *arguments])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """One finished run, with its JSON."""
    out = tmp_path_factory.mktemp("runs") / "one"
    result = optimise(out, "--json", "--quiet")
    assert result.exit_code == 0, result.stderr
    return out, json.loads(result.stdout)


def test_json_has_the_promised_shape(done: tuple[Path, Any]) -> None:
    _, result = done
    assert set(result) >= {
        *("opm", "occ", "obs_mib", "otp_mbps", "subflows", "predicted", "confirmed", "models", "r_squared"),
        *("traditional_mib", "share_of_traditional", "uncertainty", "pareto", "comparison", "model"),
    }
    for key in ("predicted", "confirmed"):
        assert set(result[key]) >= {"mean", "low", "high"}
    assert set(result["models"][0]) >= {"pm", "cc", "formula", "max_mbps", "buffer_at_max_mib"}
    assert 0.005 <= result["obs_mib"] <= 0.5
    uncertainty = result["uncertainty"]
    assert (
        0.005 <= uncertainty["obs_mib"]["low"] <= result["obs_mib"] <= uncertainty["obs_mib"]["high"] <= 0.5
    )
    assert uncertainty["otp_mbps"]["low"] <= uncertainty["otp_mbps"]["high"]
    assert sum(win["share"] for win in uncertainty["wins"]) == pytest.approx(1.0)
    assert result["model"] in {model["model"] for model in result["comparison"]}


def test_the_trade_off_is_in_the_table(done: tuple[Path, Any]) -> None:
    out, result = done
    with (out / "pareto.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [float(row["buffer_mib"]) for row in table] == [row["buffer_mib"] for row in result["pareto"]]
    (answer,) = [row for row in table if float(row["sacrifice"]) == result["sacrifice"]]
    assert (answer["pm"], answer["cc"]) == (result["opm"], result["occ"])
    assert float(answer["throughput_mbps"]) == pytest.approx(result["otp_mbps"])


def test_the_run_directory_is_complete(done: tuple[Path, Any]) -> None:
    out, result = done
    assert {path.name for path in out.iterdir()} == FILES
    where = {name: result.pop(name) for name in ("directory", "report")}
    assert where == {"directory": str(out), "report": str(out / "report.html")}
    assert json.loads((out / "result.json").read_text()) == result
    config = json.loads((out / "config.json").read_text())
    assert config["topology"]["name"] == "UiT-HAW" and config["options"]["seed"] == 1
    assert {"mptune", "python", "numpy", "statsmodels"} <= set(config["versions"])


def test_every_trial_is_in_the_table(done: tuple[Path, Any]) -> None:
    out, result = done
    with (out / "observations.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    counts = {p: sum(row["purpose"] == p for row in table) for p in ("impact", "sweep", "confirm")}
    assert counts["impact"] == 2 * 2 * 2 and counts["confirm"] == 3 * 3
    # as asked, and around the optimum
    sizes = Counter(int(row["buffer_bytes"]) for row in table if row["purpose"] == "sweep")
    assert sorted(sizes.values())[-4:] == [2 * 2 * 2] * 4 and len(sizes) > 4
    assert len(table) == result["trials"]["run"]
    confirmed = [float(row["throughput_mbps"]) for row in table if row["purpose"] == "confirm"][:3]
    assert sum(confirmed) / 3 == pytest.approx(result["confirmed"]["mean"])


def test_as_papers_lists_the_steps_of_algorithm_1(tmp_path: Path) -> None:
    out = tmp_path / "papers"
    completed = optimise(out, "--as-papers", "--details", "--quiet")
    assert completed.exit_code == 0, completed.stderr
    assert "Algorithm 1 (MPCOA, section 3)" in completed.stdout
    assert (
        "1. Eq. 3: SP has 2 subflows, of 2 x 1 interfaces" in completed.stdout
        and "8. Table 5:" in completed.stdout
    )
    result = json.loads((out / "result.json").read_text())
    assert result["algorithm"][0] == {
        "step": 1,
        "equation": "3",
        "outcome": "SP has 2 subflows, of 2 x 1 interfaces",
    }
    config = json.loads((out / "config.json").read_text())["options"]
    assert (config["selection"], config["sets"], config["off_by"], config["extend"]) == (
        "global",
        "signs",
        0.0,
        False,
    )
    assert "Algorithm 1" in (out / "report.html").read_text()


def test_an_option_beside_as_papers_overrides_one_part(tmp_path: Path) -> None:
    result = optimise(
        tmp_path / "own", "--as-papers", "--selection", "literal", "--extend", "--details", "--quiet"
    )
    assert result.exit_code == 0 and "reading of Eq. 11: literal" in result.stdout
    config = json.loads((tmp_path / "own" / "config.json").read_text())["options"]
    assert config["extend"] is True and config["model"] == "quadratic"


def test_the_same_seed_gives_the_same_bytes(done: tuple[Path, Any], tmp_path: Path) -> None:
    out, _ = done
    assert optimise(tmp_path / "again", "--quiet", "--jobs", "1").exit_code == 0
    for name in ("observations.csv", "subflows.csv", "impact.json", "result.json", "pareto.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes(), name


def test_the_answer_comes_first_and_an_earlier_run_is_kept_unless_forced(tmp_path: Path) -> None:
    out = tmp_path / "one"
    result = optimise(out, "--details")
    first, second, kernel, third, *_ = result.stdout.splitlines()
    assert first.startswith("UiT-HAW, for Linux 6.18's MPTCP: use path manager ") and "MiB" in first
    assert (
        "kernel" in kernel
        and second.startswith("Expect ")
        and third.startswith("Compared with fullmesh, cubic and 0.5 MiB")
    )
    assert f"Report: {out / 'report.html'}" in result.stdout and "sweep" in result.stderr
    before = (out / "config.json").read_bytes()
    refused = optimise(out)
    assert refused.exit_code == 2 and "--force" in refused.stderr
    assert (out / "config.json").read_bytes() == before
    assert optimise(out, "--force", "--quiet", "--seed", "2").exit_code == 0
    assert (out / "config.json").read_bytes() != before


def test_the_answer_fits_one_screen_and_says_what_to_do_next(tmp_path: Path) -> None:
    out = tmp_path / "one"
    result = optimise(out, "--quiet")
    lines = result.stdout.splitlines()
    assert len(lines) <= screen.LINES and not any("impact factor" in line for line in lines)
    # The folder of a test has a longer name than those of people.
    assert all(len(line.replace(str(out), "runs/one")) <= screen.COLUMNS for line in lines)
    assert lines[0].startswith("UiT-HAW: use ") and any(" today" in line for line in lines[1:4])
    names = ["now", "by hand", "papers' default", "recommended"]
    assert [name for name in names if any(line.startswith(name) for line in lines)] == names
    assert any(line.startswith("Why: ") for line in lines)
    assert sum(line.startswith("!") for line in lines) <= 3
    assert lines[-2:] == [f"Report: {out / 'report.html'}", f"Next: mptune advise {out}"]
    # A run shows it again.
    assert CliRunner().invoke(app, ["campaign", "resume", str(out), "--quiet"]).stdout == result.stdout


def test_only_an_answer_with_another_subflow_survives_a_dead_path(tmp_path: Path) -> None:
    one = optimise(tmp_path / "one", "--quiet", "--pm", "default").stdout
    more = optimise(tmp_path / "more", "--quiet").stdout
    assert "TCP" in one and "survives" not in " ".join(one.split())
    assert "survives a dead path" in " ".join(more.split())
    # One run of each has no interval, but a gain that size is not "about as much".
    document = json.loads((tmp_path / "more/result.json").read_text())
    for share, words in (
        (0.47, "It gives 47 % more than TCP on the best path ({path}) with the same buffer"),
        (0.03, "gives about as much with the same buffer (+3 % for MPTCP)"),
    ):
        document["against_tcp"]["gain"] |= {"share": share, "low": None, "high": None}
        shown = " ".join(screen.lines(converted(document, "a run"), "runs/more", "report.html"))
        path = document["against_tcp"]["tcp"]["path"]
        assert words.format(path=path) in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--cc", "cubic,turbo"], "--cc: expected one of"),
        (["--pm", "mesh"], "--pm: expected one of"),
        (["--buffers", "1:2"], "--buffers: expected a range"),
        (["--buffers", "0.001:1:0.1"], "--buffers: expected at least one segment"),
        (["--buffers", "1,2", "--strategy", "grid"], "--buffers: expected 3 sizes"),
        (["--strategy", "adaptive", "--budget", "10s"], "--budget: expected at least "),
        (["--budget", "1h", "--strategy", "grid"], "--budget: expected only with --strategy adaptive"),
        (["--certainty", "40%"], "--certainty: expected 50% to 99.9%, found 40%"),
        (["--certainty", "1"], "--certainty: expected"),
        (["--strategy", "adaptive", "--model", "quadratic"], "--model: expected only with --strategy grid"),
        (["--as-papers", "--model", "auto"], "--model: expected quadratic with --as-papers"),
        (["--as-papers", "--transfer", "1MiB"], "--transfer: expected only without --as-papers"),
        (["--as-papers", "--strategy", "adaptive"], "--strategy: expected grid with --as-papers"),
        (["--as-papers", "--budget", "1h"], "--budget: expected only with --strategy adaptive"),
        (["--sacrifice", "100%"], "--sacrifice: expected a share in [0, 1)"),
        (["--sacrifice", "-7%"], "--sacrifice"),
        (["--selection", "best"], "--selection: expected one of robust, global, literal"),
        (["--model", "magic"], "--model: expected one of quadratic"),
        (["--runs", "0"], "--runs"),
        (["--duration", "soon"], "--duration: expected a time"),
        (["--testbed", "moon"], "--testbed"),
        (["--confirm-on", "namespaces"], "--confirm-on: expected one of virtual, virtual:RELEASE, none"),
        (["--confirm-on", "virtual:six"], '--confirm-on: expected a release after "virtual:"'),
        (["--jobs", "0"], "--jobs"),
        (["--impact-duration", "1ms"], "multiple of 0.1 s"),
        (["--resamples", "-1"], "--resamples: expected 0 (none) to"),
        (["--buffer-unit", "MiB"], "--buffer-unit: must not be given without --from"),
    ],
)
def test_bad_options_leave_nothing_behind(arguments: list[str], named: str, tmp_path: Path) -> None:
    result = optimise(tmp_path / "sub" / "out", *arguments, "--quiet")
    assert result.exit_code == 2
    assert named in result.stderr and result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_prints_how_to_continue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(trial: Trial) -> Observation:
        raise KeyboardInterrupt

    testbed = testbeds.create("simulated")
    monkeypatch.setattr(testbed, "run", interrupt)
    monkeypatch.setattr(testbeds, "create", lambda name: testbed)
    result = optimise(tmp_path / "out", "--quiet")
    assert result.exit_code == 130
    out = tmp_path / "out"
    assert f"0 finished trials are kept; continue with: mptune campaign resume {out}" in result.stderr
    assert {file.name for file in out.iterdir()} == {"campaign.sqlite", "campaign.sqlite.lock"}
    refused = optimise(out, "--quiet")
    assert refused.exit_code == 2 and "unfinished campaign" in refused.stderr


def test_the_observations_of_a_run_give_its_answer_again(tmp_path: Path) -> None:
    """Of a run without a shortlist, which is not in the file."""
    out = tmp_path / "one"
    result = json.loads(optimise(out, "--quiet", "--json", "--off-by", "0").stdout)
    again = tmp_path / "again"
    completed = CliRunner().invoke(
        app, ["optimise", "--from", str(out / "observations.csv"), "--out", str(again), "--quiet", "--json"]
    )
    assert completed.exit_code == 0, completed.stderr
    answer = json.loads(completed.stdout)
    for key in ("occ", "otp_mbps", "obs_bytes", "model"):
        # Sets of subflows are not in the file, and with them the rule for PCDC in a homogeneous network.
        assert answer[key] == result[key] or answer["opm"] == "pcdc", key
    assert answer["confirmed"]["runs"] == 0 and answer["topology"] is None
    assert {path.name for path in again.iterdir()} == FILES - {
        "campaign.sqlite",
        "campaign.sqlite.lock",
        "impact.json",
        "observations.csv",
        "round_trips.csv",
        "subflows.csv",
    }
    options = json.loads((again / "config.json").read_text())["options"]
    assert options["from"].endswith("observations.csv") and len(options["sha256"]) == 64


def test_a_decision_on_foreign_data_lists_what_it_lacks(tmp_path: Path) -> None:
    data = tmp_path / "mine.csv"
    rows = [f"{min(b, 4) * 10 + w},{b},cubic" for b in range(1, 9) for w in (-0.1, 0.1)]
    data.write_text("\n".join(["rate,buffer,cc", *rows]) + "\n")
    how = ["--column", "throughput=rate", "--throughput-unit", "Mbit/s", "--buffer-unit", "MiB"]
    command = [
        "optimise",
        "--from",
        str(data),
        *how,
        "--pm",
        "fullmesh",
        "--out",
        str(tmp_path / "out"),
        "--quiet",
        "--details",
    ]
    result = CliRunner().invoke(app, [*command, "UiT-HAW"])
    assert result.exit_code == 0, result.stderr
    first, second, third, *_ = result.stdout.splitlines()
    assert first.startswith("mine: use path manager fullmesh with cubic and set the buffer to 38")
    assert second.endswith("this is not confirmed.")
    assert third.startswith("95 % intervals from 200 resamples of the runs: buffer ")
    assert "traditional buffer" in result.stdout and "not confirmed by new trials" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "TOPOLOGY: expected a topology or --from, found neither"),
        (["--from", "none.csv"], "none.csv: expected a CSV file, found No such file"),
        (["--from", "DATA", "--runs", "3"], "--runs: must not be given with --from"),
        (["--from", "DATA", "--impact-runs", "3"], "--impact-runs: must not be given with --from"),
        (["--from", "DATA", "--pm", "pcdc,fullmesh"], "--pm: expected one path manager"),
        (["--from", "DATA", "--cc", "turbo"], "--cc: expected names that occur in"),
        (["--from", "DATA", "--column", "cc"], "--column: expected ROLE=HEADER"),
        (["--from", "DATA", "--model", "magic"], "--model"),
        (["--from", "DATA", "moon"], "moon"),
    ],
)
def test_bad_sources_leave_nothing_behind(arguments: list[str], named: str, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text("throughput_mbps,buffer_mib,cc\n1,1,a\n2,2,a\n3,3,a\n")
    out = tmp_path / "out"
    given = [str(data) if argument == "DATA" else argument for argument in arguments]
    result = CliRunner().invoke(app, ["optimise", *given, "--out", str(out), "--quiet"])
    assert result.exit_code == 2
    assert named in result.stderr and result.stderr.count("\n") == 1
    assert not out.exists()


def test_ctrl_c_prints_the_best_answer_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes when some trials of the sweep are done; the answer is of them, and they are kept."""
    before = SimulatedTestbed.run
    done: list[Trial] = []

    def run(self: SimulatedTestbed, trial: Trial) -> Observation:
        done.append(trial)
        if len(done) == 20:
            raise KeyboardInterrupt
        return before(self, trial)

    monkeypatch.setattr(SimulatedTestbed, "run", run)
    few = ("--pm", "fullmesh", "--cc", "cubic,reno", "--buffers", "0.05:0.5:0.05", "--duration", "2s")
    out = tmp_path / "out"
    arguments = ["optimise", "UiT-HAW", *few, "--jobs", "1", "--out", str(out), "--quiet"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 130
    assert " finished trials are kept; continue with: mptune campaign resume" in result.stderr
    assert re.search(r"best answer after \d+ trials: fullmesh with ", result.stderr)
