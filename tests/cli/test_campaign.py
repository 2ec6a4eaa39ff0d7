"""`mptune campaign` as its users meet it: killed, resumed, on a full disk, merged, exported."""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from mptune.campaign.directory import STORE
from mptune.campaign.store import open_store
from mptune.cli import app

#: 2 x 2 x 3 sweep trials of 3 s in 4 runs, 2 x 2 x 2 for the impact factors, 2 x 3 to confirm.
OPTIMISE = """
topology = "UiT-HAW"
name = "short"
[factors]
cc = ["cubic", "reno"]
buffers = "0.02,0.1,0.5"
[trials]
runs = 4
duration = "3s"
[impact]
runs = 2
duration = "2s"
[decision]
resamples = 20
confirm_runs = 3
"""
SWEEP = """
topology = "UiT-HAW"
kind = "sweep"
[factors]
pm = ["fullmesh"]
cc = ["reno"]
buffers = "0.1,0.5"
transfer = ["64 KiB", "1 MiB"]
[trials]
runs = 2
"""
RESULTS = ("observations.csv", "subflows.csv", "impact.json", "result.json", "pareto.csv")

#: How often the campaign is killed; the long form is `make kill-test`.
KILLS = int(os.environ.get("MPTUNE_KILLS", "6"))


def mptune(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mptune.cli", *(str(one) for one in arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "short.toml"
    path.write_text(OPTIMISE)
    return path


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def test_killed_at_any_moment_it_ends_with_the_same_result(file: Path, tmp_path: Path) -> None:
    """No finished trial is lost or doubled, whenever SIGKILL comes."""
    whole, out = tmp_path / "whole", tmp_path / "killed"
    assert mptune("campaign", "run", file, "--out", whole, "--quiet").exit_code == 0
    dice = random.Random(1)
    kept: frozenset[bytes] = frozenset()
    for attempt in range(KILLS):
        if attempt % 6 == 0:
            shutil.rmtree(out, ignore_errors=True)
            kept = frozenset()
        fresh = not (out / STORE).is_file()
        begin = ("run", file, "--out", out, "--force") if fresh else ("resume", out)
        process = started("campaign", *begin, "--quiet", "--jobs", 1)
        try:
            # From before the first trial until after the last one: it takes about 1.5 s.
            process.wait(timeout=dice.uniform(0.3, 1.2))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        if (out / STORE).is_file() and mptune("campaign", "status", out).exit_code == 0:
            with open_store(out / STORE, write=False) as store:
                now = store.finished()
            assert kept <= now
            kept = now
    begun = mptune("campaign", "status", out).exit_code == 0
    again = ("resume", out) if begun else ("run", file, "--out", out, "--force")
    ended = mptune("campaign", *again, "--quiet")
    assert ended.exit_code == 0, ended.stderr
    for name in RESULTS:
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    told = json.loads(mptune("campaign", "status", out, "--json").stdout)
    assert [(one["planned"], one["done"]) for one in told["phases"]] == [(8, 8), (48, 48), (6, 6)]
    assert not [one for one in out.iterdir() if one.name.startswith(".")]


def test_ctrl_c_is_clean_and_tells_how_to_go_on(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    long = tmp_path / "long.toml"
    long.write_text(OPTIMISE.replace("runs = 4", "runs = 4000"))
    process = started("campaign", "run", long, "--out", out, "--jobs", 1)
    assert process.stderr is not None
    while "impact factors" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130
    assert "finished trials are kept; mptune campaign resume" in told
    status = json.loads(mptune("campaign", "status", out, "--json").stdout)
    assert not status["complete"] and status["phases"][0]["done"] == 8


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB: a store with its journal, and room for some trials."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, check=False).returncode != 0:
        if "CI" in os.environ:
            pytest.fail("mounting a small file system needs root")
        pytest.skip("mounting a small file system needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_ends_it_in_one_line_and_keeps_the_store(
    file: Path, small_disk: Path, tmp_path: Path
) -> None:
    out, whole = small_disk / "out", tmp_path / "whole"
    file.write_text(OPTIMISE.replace("runs = 4", "runs = 40"))
    shown = mptune("campaign", "run", file, "--out", out, "--quiet")
    assert shown.exit_code == 1
    assert "the disk is full" in shown.stderr and shown.stderr.count("\n") == 1
    with open_store(out / STORE, write=False) as store:
        kept = store.finished()
    assert kept
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert mptune("campaign", "resume", out, "--quiet").exit_code == 0
    with open_store(out / STORE, write=False) as store:
        assert kept < store.finished()
    assert mptune("campaign", "run", file, "--out", whole, "--quiet").exit_code == 0
    for name in RESULTS:
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_sweep_over_transfers_is_exported_with_units(sweep: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shown = mptune("campaign", "run", sweep, "--out", out, "--quiet")
    assert shown.exit_code == 0 and str(out) in shown.stdout
    listed = json.loads(mptune("campaign", "export", out, "--series", "--json").stdout)["files"]
    assert [Path(one).name for one in listed] == ["trials.csv", "subflows.csv", "series.csv"]
    trials, _, series = (table(Path(one)) for one in listed)
    found = {(one["buffer_bytes"], float(one["transfer_bytes"]), one["run"]) for one in trials}
    assert found == {(b, t, r) for b in ("104858", "524288") for t in (65536, 1048576) for r in ("0", "1")}
    assert all(float(one["completion_s"]) > 0 and 0 <= float(one["time_of_day_h"]) < 24 for one in trials)
    first = [one for one in series if one["trial"] == trials[0]["trial"] and not one["path"]]
    size = float(trials[0]["transfer_bytes"])
    assert sum(float(one["throughput_mbps"]) for one in first) * 1e5 / 8 == pytest.approx(size)


def test_parquet_holds_the_same_as_csv(sweep: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    mptune("campaign", "run", sweep, "--out", out, "--quiet")
    for kind in ("csv", "parquet"):
        assert mptune("campaign", "export", out, "--format", kind).exit_code == 0
    for name in ("trials", "subflows"):
        text = pd.read_csv(out / f"export/{name}.csv")
        binary = pd.read_parquet(out / f"export/{name}.parquet").replace({None: float("nan")})
        pd.testing.assert_frame_equal(text, binary, check_dtype=False)


def test_campaigns_of_two_hosts_are_merged(sweep: Path, tmp_path: Path) -> None:
    one, other, whole = (tmp_path / name for name in ("one", "other", "whole"))
    for out, runs in ((one, 1), (other, 3), (whole, 3)):
        sweep.write_text(SWEEP.replace("runs = 2", f"runs = {runs}"))
        assert mptune("campaign", "run", sweep, "--out", out, "--quiet").exit_code == 0
    shown = mptune("campaign", "import", one, "--from", other)
    assert shown.stdout == f"8 trials added from {other}\n"
    assert mptune("campaign", "import", one, "--from", other).stdout.startswith("0 trials")
    with open_store(one / STORE) as merged, open_store(whole / STORE) as undivided:
        assert merged.finished() == undivided.finished()
        keys = merged.finished()
        assert merged.records(keys) == undivided.records(keys)
        assert all(merged.observation(key) == undivided.observation(key) for key in keys)
    assert mptune("campaign", "import", one, "--from", one).exit_code == 2


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('topology = "UiT-HAW"', "", "topology: expected, but missing"),
        ('name = "short"', "nmae = 1", "nmae: unknown key"),
        ('name = "short"', "name = 1", "name: expected text"),
        ('name = "short"', 'kind = "guess"', "kind: expected one of optimise, sweep, found 'guess'"),
        ('name = "short"', 'testbed = "moon"', "testbed: expected one of"),
        ('"cubic", "reno"', '"cubic", "turbo"', "factors.cc: expected one of"),
        ('"cubic", "reno"', "", "factors.cc: expected at least one name"),
        ("0.02,0.1,0.5", "0.1", "factors.buffers: expected 3 sizes"),
        ("runs = 4", "runs = 0", "trials.runs: expected 1 or more"),
        ('duration = "3s"', 'duration = "0s"', "trials.duration: expected more than 0"),
        ('duration = "2s"', 'duration = "1ms"', "impact.duration: expected a positive multiple"),
        ("resamples = 20", 'model = "magic"', "decision.model: expected one of"),
        (
            "[impact]",
            '[repeat]\nevery = "1h"\nfor = "1d"\n[impact]',
            'repeat: expected only with kind = "sweep"',
        ),
        ("[factors]", '[factors]\nscheduler = ["minrtt"]', "factors.scheduler: expected only with"),
    ],
)
def test_a_bad_campaign_file_is_refused_in_one_line(
    old: str, new: str, named: str, file: Path, tmp_path: Path
) -> None:
    assert old in OPTIMISE
    file.write_text(OPTIMISE.replace(old, new, 1))
    shown = mptune("campaign", "run", file, "--out", tmp_path / "out", "--quiet")
    assert shown.exit_code == 2
    assert f"{file}: " in shown.stderr and named in shown.stderr and shown.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "none.toml"], "none.toml: expected a readable file"),
        (["resume", "none"], "expected a campaign store"),
        (["status", "none"], "expected a campaign store"),
        (["export", "none", "--format", "xml"], "--format: expected one of csv, parquet"),
        (["run", "FILE", "--every", "1h"], "--for: expected together"),
        (["run", "FILE", "--every", "1h", "--for", "1d"], "--every: expected only for"),
    ],
)
def test_bad_options(arguments: list[str], named: str, file: Path) -> None:
    shown = mptune("campaign", *(str(file) if one == "FILE" else one for one in arguments))
    assert shown.exit_code == 2 and named in shown.stderr
