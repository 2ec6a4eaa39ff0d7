"""Run directories: what is read of them, and one line about whatever is wrong."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from mptune.errors import InputError
from mptune.result.reading import read_run, read_runs
from mptune.result.run_data import RunData
from mptune.store import open_store
from mptune.store.directory import STORE


@pytest.fixture
def copy(runs: Path, tmp_path: Path) -> Path:
    return shutil.copytree(runs / "optimised", tmp_path / "copy")


def test_everything_in_the_store_is_read(optimised: RunData, runs: Path) -> None:
    lines = (runs / "optimised" / "observations.csv").read_text().splitlines()
    assert len(optimised.trials) == len(lines) - 1
    assert {trial.purpose for trial in optimised.shown} == {"confirm"} and len(optimised.shown) == 3 * 3
    assert {(trial.cc, trial.pm) for trial in optimised.panorama} == {
        (cc, pm) for cc in ("cubic", "reno") for pm in ("fullmesh", "pcdc")
    }
    # The grid was continued beyond its largest buffer.
    assert {(trial.buffer_mib, trial.run) for trial in optimised.panorama} == {(1.0, 0)}
    assert set(optimised.observations) == {trial.key for trial in (*optimised.shown, *optimised.panorama)}


def test_a_sweep_shows_all_runs_of_its_best_configuration(paths: RunData) -> None:
    assert len(paths.shown) == 3
    best = sum(trial.throughput_mbps or 0 for trial in paths.shown) / 3
    assert best >= max(trial.throughput_mbps or 0 for trial in paths.swept) * 0.98


def test_a_run_without_a_store_shows_what_it_has(copy: Path) -> None:
    """As after `mptune optimise --from`."""
    for name in (STORE, f"{STORE}.lock", "impact.json"):
        (copy / name).unlink()
    run = read_run(copy, "from")
    assert run.trials == () and run.impact == () and run.observations == {}
    assert run.answer is not None and run.curves


def test_trials_of_other_campaigns_are_counted_and_not_mixed(copy: Path, runs: Path) -> None:
    before = len(read_run(copy, "alone").trials)
    with open_store(copy / STORE) as store:
        added = store.merge(runs / "transfers" / STORE)
    merged = read_run(copy, "merged")
    assert (len(merged.trials), merged.foreign) == (before, added)


def test_runs_are_labelled_by_the_shortest_distinct_end_of_their_paths(copy: Path, tmp_path: Path) -> None:
    shutil.copytree(copy, tmp_path / "other" / "copy")
    shutil.copytree(copy, tmp_path / "third")
    same = read_runs([copy, tmp_path / "other" / "copy"])
    assert [run.label for run in same] == [f"{tmp_path.name}/copy", "other/copy"]
    assert [run.label for run in read_runs([copy, tmp_path / "third"])] == ["copy", "third"]
    with pytest.raises(InputError, match="expected each run once"):
        read_runs([copy, tmp_path / "other" / ".." / "copy"])


def test_a_run_of_a_version_without_an_error_is_read(copy: Path) -> None:
    answer = json.loads((copy / "result.json").read_text())
    assert (
        answer["on_kernel"]["unknown"] or answer["on_kernel"]["low_mbps"] < answer["on_kernel"]["high_mbps"]
    )
    del answer["on_kernel"], answer["gain_on_kernel"]
    (copy / "result.json").write_text(json.dumps(answer))
    read = read_run(copy, "run").answer
    assert read is not None and read.on_kernel is None and read.gain_on_kernel is None


def broken(copy: Path, what: str) -> None:
    """Break a run directory in one way."""
    if what == "no config":
        (copy / "config.json").unlink()
        (copy / STORE).unlink()
    elif what == "unfinished":
        (copy / "config.json").unlink()
    elif what == "cut":
        (copy / "result.json").write_text((copy / "result.json").read_text()[:100])
    elif what == "no object":
        (copy / "impact.json").write_text("[]")
    elif what == "another version":
        answer = json.loads((copy / "result.json").read_text())
        del answer["pareto"]
        (copy / "result.json").write_text(json.dumps(answer))
    elif what == "topology":
        config = json.loads((copy / "config.json").read_text())
        del config["topology"]["paths"]
        (copy / "config.json").write_text(json.dumps(config))
    elif what == "curves":
        (copy / "curves.csv").write_text("pm,cc\na,b\n")
    elif what == "no store":
        (copy / STORE).write_text("not a database, but long enough to be read as one" * 100)
    elif what == "observation":
        with sqlite3.connect(copy / STORE) as connection:
            connection.execute("UPDATE trial SET observation = x'00'")
        connection.close()


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("no config", r"copy: expected a run directory, found no config.json in it"),
        ("unfinished", r"expected a complete run, found one to continue \(mptune campaign resume .*copy\)"),
        ("cut", r"copy: result.json: expected a readable JSON file"),
        ("no object", r"copy: impact.json: expected what this version writes: Expected `object`"),
        ("another version", r"result.json: expected what this version writes: .*`pareto`"),
        ("topology", r"config.json: topology: expected what this version writes: .*`paths`"),
        ("curves", r"curves.csv: expected the table of fitted curves"),
        ("no store", r"is not a campaign store"),
        ("observation", r"campaign.sqlite: expected a readable campaign store"),
    ],
)
def test_whatever_is_wrong_with_it_ends_in_one_line(copy: Path, what: str, sentence: str) -> None:
    broken(copy, what)
    with pytest.raises(InputError, match=sentence) as caught:
        read_run(copy, "broken")
    assert "\n" not in str(caught.value)


def test_what_is_no_directory_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(InputError, match="expected a run directory"):
            read_run(path, "x")
