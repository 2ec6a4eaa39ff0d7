"""`mptune campaign` as its users meet it: killed, resumed, on a full disk, merged, exported."""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.cli import app
from mptune.errors import MptuneError
from mptune.store import open_store
from mptune.store.directory import STORE
from tests.plugins.needs import Thing, lack, require
from tests.plugins.program import command_line
from tests.plugins.waiting import until

#: 2 x 2 x 3 sweep trials of 3 s in 4 runs, 2 x 2 x 2 for the impact factors, 2 x 3 to confirm.
OPTIMISE = """
topology = "UiT-HAW"
name = "short"
buffer_mode = "fixed"
[factors]
cc = ["cubic", "reno"]
buffers = "0.02,0.1,0.5"
[trials]
strategy = "grid"
runs = 4
duration = "3s"
[impact]
design = "eq5"
sets = "signs"
runs = 2
duration = "2s"
[decision]
off_by = 0
extend = false
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

#: Impact factors, sweep, confirmation, baselines.
TRIALS = 8 + 48 + 6 + 6
#: How often the campaign is killed; the long form is `make kill-test`.
KILLS = int(os.environ.get("MPTUNE_KILLS", "6"))


def mptune(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def started(*arguments: object) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command_line(*arguments), stdout=pipe, stderr=pipe, text=True)


def finished(out: Path) -> frozenset[bytes]:
    """Keys of the trials that are in a store; none while there is no whole store."""
    try:
        with open_store(out / STORE, write=False) as store:
            return store.finished()
    except (OSError, MptuneError):
        return frozenset()


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
        # From before the first trial until after the last one, and anywhere between two commits.
        count = dice.randint(0, TRIALS)
        until(lambda: process.poll() is not None or len(finished(out)) >= count, "trials")  # noqa: B023
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=dice.uniform(0, 0.2))
        process.kill()
        process.communicate()
        now = finished(out)
        assert kept <= now
        kept = now
    begun = mptune("campaign", "status", out).exit_code == 0
    again = ("resume", out) if begun else ("run", file, "--out", out, "--force")
    ended = mptune("campaign", *again, "--quiet")
    assert ended.exit_code == 0, ended.stderr
    for name in RESULTS:
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    document = json.loads(mptune("campaign", "status", out, "--json").stdout)
    assert [(phase["planned"], phase["done"]) for phase in document["phases"]] == [
        (8, 8),
        (48, 48),
        (6, 6),
        (6, 6),
    ]
    assert not [file for file in out.iterdir() if file.name.startswith(".")]


def test_a_finished_one_is_shown_and_only_decided_again_when_asked(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = mptune("campaign", "run", file, "--out", out, "--quiet", "--json")
    before = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    result = mptune("campaign", "resume", out, "--json")
    assert json.loads(result.stdout) == json.loads(ran.stdout)
    assert {file: file.stat().st_mtime_ns for file in out.iterdir()} == before
    output = mptune("campaign", "resume", out).stdout
    assert "instead of" in output and "Next: mptune advise" in output
    whole = mptune("campaign", "resume", out, "--quiet", "--details").stdout
    assert json.loads(ran.stdout)["answer"][0] in whole and "Trade-off" in whole
    expected = (out / "pareto.csv").read_bytes()
    (out / "pareto.csv").unlink()
    (out / "report.html").unlink()
    assert mptune("campaign", "resume", out, "--quiet").exit_code == 0
    assert (out / "report.html").exists() and not (out / "pareto.csv").exists()
    assert mptune("campaign", "resume", out, "--quiet", "--again").exit_code == 0
    assert (out / "pareto.csv").read_bytes() == expected


def test_ctrl_c_is_clean_and_prints_how_to_go_on(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    long = tmp_path / "long.toml"
    long.write_text(OPTIMISE.replace("runs = 4", "runs = 4000"))
    process = started("campaign", "run", long, "--out", out, "--jobs", 1)
    assert process.stderr is not None
    before = ""
    while "impact factors" not in before:
        before += process.stderr.readline()
        assert process.poll() is None, before
    process.send_signal(signal.SIGINT)
    answer, words = process.communicate()
    assert process.returncode == 130, before + words + answer
    assert "finished trials are kept; continue with: mptune campaign resume" in words
    status = json.loads(mptune("campaign", "status", out, "--json").stdout)
    assert not status["complete"] and status["phases"][0]["done"] == 8


def test_a_ctrl_c_that_python_discards_ends_the_campaign_before_its_next_phase(
    file: Path, tmp_path: Path, lose_ctrl_c: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it arrives while the threads of a phase are released; the next command knows nothing of it."""
    out, ends = tmp_path / "out", 0

    @contextmanager
    def session() -> Iterator[None]:
        nonlocal ends
        yield
        ends += 1
        if ends == 1:
            lose_ctrl_c()

    testbed = testbeds.create("simulated")
    monkeypatch.setattr(testbed, "session", session, raising=False)
    monkeypatch.setattr(testbeds, "create", lambda name: testbed)
    interrupted = mptune("campaign", "run", file, "--out", out, "--quiet")
    assert interrupted.exit_code == 130, interrupted.output
    assert "8 finished trials are kept" in interrupted.stderr and ends == 1
    assert len(finished(out)) == 8
    resumed = mptune("campaign", "resume", out, "--quiet")
    assert resumed.exit_code == 0, resumed.output
    assert len(finished(out)) == TRIALS


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB: a store with its journal, and room for some trials."""
    require("namespaces", tested="a campaign on a full disk")
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        lack("a campaign on a full disk", Thing("root", "root"))
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_ends_it_in_one_line_and_keeps_the_store(
    file: Path, small_disk: Path, tmp_path: Path
) -> None:
    out, whole = small_disk / "out", tmp_path / "whole"
    file.write_text(OPTIMISE.replace("runs = 4", "runs = 15"))
    result = mptune("campaign", "run", file, "--out", out, "--quiet")
    assert result.exit_code == 1
    assert "the disk is full" in result.stderr and result.stderr.count("\n") == 1
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
    result = mptune("campaign", "run", sweep, "--out", out, "--quiet")
    assert result.exit_code == 0 and str(out) in result.stdout
    listed = json.loads(mptune("campaign", "export", out, "--series", "--json").stdout)["files"]
    assert [Path(file).name for file in listed] == ["trials.csv", "subflows.csv", "series.csv"]
    trials, _, series = (table(Path(file)) for file in listed)
    keys = {(trial["buffer_bytes"], float(trial["transfer_bytes"]), trial["run"]) for trial in trials}
    assert keys == {(b, t, r) for b in ("104858", "524288") for t in (65536, 1048576) for r in ("0", "1")}
    assert all(
        float(trial["completion_s"]) > 0 and 0 <= float(trial["time_of_day_h"]) < 24 for trial in trials
    )
    first = [row for row in series if row["trial"] == trials[0]["trial"] and not row["path"]]
    size = float(trials[0]["transfer_bytes"])
    assert sum(float(row["throughput_mbps"]) for row in first) * 1e5 / 8 == pytest.approx(size)


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
    first, other, whole = (tmp_path / name for name in ("one", "other", "whole"))
    for out, runs in ((first, 1), (other, 3), (whole, 3)):
        sweep.write_text(SWEEP.replace("runs = 2", f"runs = {runs}"))
        assert mptune("campaign", "run", sweep, "--out", out, "--quiet").exit_code == 0
    result = mptune("campaign", "import", first, "--from", other)
    assert result.stdout == f"8 trials added from {other}\n"
    assert mptune("campaign", "import", first, "--from", other).stdout.startswith("0 trials")
    with open_store(first / STORE) as merged, open_store(whole / STORE) as undivided:
        assert merged.finished() == undivided.finished()
        keys = merged.finished()
        assert merged.records(keys) == undivided.records(keys)
        assert all(merged.observation(key) == undivided.observation(key) for key in keys)
    assert mptune("campaign", "import", first, "--from", first).exit_code == 2


#: The slow path blocks a small buffer; PCDC leaves it out once it has the sets.
UNEQUAL = """
topology = "unequal.toml"
kind = "sweep"
[factors]
pm = ["fullmesh", "pcdc"]
cc = ["cubic"]
buffers = ["256 KiB"]
[trials]
runs = 1
duration = "4s"
"""
UNEQUAL_SITES = """
name = "unequal"
sender = "A"
receiver = "B"
[sites.A]
name = "A"
[[sites.A.interfaces]]
isp = "Fast"
abbr = "F"
up = "20 Mbit/s"
down = "20 Mbit/s"
[[sites.A.interfaces]]
isp = "Slow"
abbr = "S"
up = "300 kbit/s"
down = "40 Mbit/s"
[sites.B]
name = "B"
[[sites.B.interfaces]]
isp = "X"
abbr = "X"
up = "30 Mbit/s"
down = "100 Mbit/s"
[core]
delay = "10 ms"
[[core.segments]]
path = "S-X"
delay = "150 ms"
"""


@pytest.fixture
def unequal(tmp_path: Path) -> Path:
    (tmp_path / "unequal.toml").write_text(UNEQUAL_SITES)
    path = tmp_path / "pcdc.toml"
    path.write_text(UNEQUAL)
    return path


def sweep_of(file: Path, out: Path) -> dict[str, dict[str, str]]:
    """Rows of a sweep's subflows, by path manager and path."""
    result = mptune("campaign", "run", file, "--out", out, "--quiet")
    assert result.exit_code == 0, result.stderr
    rows = [row for row in table(out / "subflows.csv") if row["purpose"] == "sweep"]
    return {f"{row['pm']} {row['path']}": row for row in rows}


def test_a_sweep_measures_the_sets_that_pcdc_is_given(unequal: Path, tmp_path: Path) -> None:
    """The slow path blocks a small buffer: without it, the other one is faster."""
    unequal.write_text(UNEQUAL + '[impact]\ndesign = "eq5"\nruns = 1\nduration = "4s"\n')
    swept = sweep_of(unequal, tmp_path / "out")
    assert swept["fullmesh S-X"]["active"] == "True" and swept["pcdc S-X"]["active"] == "False"
    assert float(swept["pcdc F-X"]["throughput_mbps"]) > float(swept["fullmesh F-X"]["throughput_mbps"])
    (impact,) = json.loads((tmp_path / "out/impact.json").read_text())["impact"]
    assert (impact["optional"], impact["standby"]) == (["F-X"], ["S-X"])
    document = json.loads(mptune("campaign", "status", tmp_path / "out", "--json").stdout)
    assert [(phase["purpose"], phase["done"]) for phase in document["phases"]] == [
        ("impact", 2),
        ("sweep", 2),
    ]


def test_a_sweep_takes_the_sets_of_pcdc_from_the_file(unequal: Path, tmp_path: Path) -> None:
    unequal.write_text(UNEQUAL + '[pcdc]\nactive = ["S-X"]\nstandby_order = ["F-X"]\n')
    swept = sweep_of(unequal, tmp_path / "out")
    assert swept["pcdc F-X"]["active"] == "False" and swept["pcdc S-X"]["active"] == "True"
    assert not (tmp_path / "out/impact.json").exists()


def test_a_campaign_in_reverse_has_the_other_labels(unequal: Path, tmp_path: Path) -> None:
    text = UNEQUAL.replace('kind = "sweep"', 'kind = "sweep"\nreverse = true').replace(', "pcdc"', "")
    unequal.write_text(text)
    swept = sweep_of(unequal, tmp_path / "out")
    assert set(swept) == {"fullmesh X-F", "fullmesh X-S"}
    assert json.loads((tmp_path / "out/config.json").read_text())["topology"]["name"] == "unequal-reversed"


def test_names_given_twice_are_refused(sweep: Path, tmp_path: Path) -> None:
    sweep.write_text(SWEEP.replace('cc = ["reno"]', 'cc = ["reno", "cubic", "reno"]'))
    refused = mptune("campaign", "run", sweep, "--out", tmp_path / "out", "--quiet")
    assert refused.exit_code == 2
    assert "sweep.toml: factors.cc: expected each value once, found 'reno' twice" in refused.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (
            "[trials]",
            '[impact]\nruns = 1\n[pcdc]\nactive = ["F-X"]\n[trials]',
            "pcdc.active: expected either",
        ),
        (
            "[trials]",
            '[pcdc]\nactive = ["F-Y"]\n[trials]',
            "pcdc.active: expected a path of unequal (F-X, S-X)",
        ),
        (
            "[trials]",
            '[pcdc]\nstandby_order = ["F-X"]\n[trials]',
            "pcdc.standby_order: expected only with",
        ),
        (
            "[trials]",
            "[ndiffports]\nndiffports = 2\n[trials]",
            "ndiffports.ndiffports: expected only with the path manager ndiffports",
        ),
        (
            "[trials]",
            '[pcdc]\nactive = ["F-X"]\nrtt_ns = {"F-Y" = "1ms"}\n[trials]',
            "pcdc.rtt_ns: expected a path of unequal (F-X, S-X)",
        ),
        (
            "[trials]",
            '[pcdc]\nactive = ["F-X"]\nrtt_ns = {"F-X" = 1}\n[trials]',
            "pcdc.rtt_ns: F-X: expected text, found a whole number",
        ),
        (
            "[trials]",
            '[pcdc]\nactive = ["F-X"]\nrtt_ns = "1ms"\n[trials]',
            "pcdc.rtt_ns: expected a table of paths and their values, found text",
        ),
        ("[trials]", "[pcdc]\nactiv = []\n[trials]", "pcdc.activ: unknown key, expected one of active, "),
        (
            'pm = ["fullmesh", "pcdc"]\ncc = ["cubic"]\nbuffers = ["256 KiB"]\n',
            'pm = ["fullmesh"]\n[impact]\nruns = 1\n',
            "factors.pm: expected pcdc where impact factors are measured, found fullmesh",
        ),
        (
            "[trials]",
            "[decision]\nmodel = 'auto'\n[trials]",
            'decision: expected only with kind = "optimise"',
        ),
        ("[trials]", "[repeat]\nevery = '1h'\n[trials]", "repeat.for: expected together with"),
        ("[trials]", "[repeat]\nevery = '2h'\nfor = '1h'\n[trials]", "repeat.every: expected an interval"),
        ("[trials]", "[trials]\nrusn = 3", "trials.rusn: unknown key, expected one of runs, duration"),
        ('kind = "sweep"', 'kind = "sweep"\npcdc = 3', "pcdc: expected a table, found a whole number"),
        ("runs = 1", "runs = '1'", "trials.runs: expected a whole number, found text"),
        ("runs = 1", "runs = true", "trials.runs: expected a whole number, found true or false"),
        (
            '["256 KiB"]',
            "{ low = 1 }",
            "factors.buffers: expected a range, or a list of sizes, found a table",
        ),
        ('["256 KiB"]', "[[1]]", "factors.buffers: expected a list of single values, found a list in it"),
        (
            'pm = ["fullmesh"',
            'initial_path = ["X-F"]\npm = ["fullmesh"',
            "factors.initial_path: expected a path of",
        ),
    ],
)
def test_a_bad_sweep_is_refused_in_one_line(
    old: str, new: str, named: str, unequal: Path, tmp_path: Path
) -> None:
    assert old in UNEQUAL
    unequal.write_text(UNEQUAL.replace(old, new, 1))
    result = mptune("campaign", "run", unequal, "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 2
    assert named in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('topology = "UiT-HAW"', "", "topology: expected, but missing"),
        ('name = "short"', "nmae = 1", "nmae: unknown key"),
        ('name = "short"', "name = 1", "name: expected text"),
        ('name = "short"', 'kind = "guess"', "kind: expected one of optimise, mpcoa, sweep, found 'guess'"),
        ('name = "short"', 'testbed = "moon"', "testbed: expected one of"),
        ('"cubic", "reno"', '"cubic", "turbo"', "factors.cc: expected one of"),
        ('"cubic", "reno"', "", "factors.cc: expected one of reno, cubic"),
        ("0.02,0.1,0.5", "0.1", "factors.buffers: expected 3 sizes"),
        ("runs = 4", "runs = 0", "trials.runs: expected 1 or more, found 0"),
        ('duration = "3s"', 'duration = "0s"', "trials.duration: expected more than 0"),
        ('duration = "2s"', 'duration = "1ms"', "impact.duration: expected a positive multiple"),
        ("resamples = 20", 'model = "magic"', "decision.model: expected one of"),
        (
            "[impact]",
            '[repeat]\nevery = "2s"\nfor = "1d"\n[impact]',
            "repeat.every: expected at least 3 s, which the trials of a round take, found 2 s",
        ),
        (
            "[factors]",
            '[repeat]\nevery = "1h"\nfor = "1d"\n[factors]\ntransfer = ["64 KiB"]',
            "expected only without sizes of transfers",
        ),
        ('name = "short"', 'stack = "bsd"', "stack: expected one of linux, linux-7.3, v0.9x, found 'bsd'"),
        ("[factors]", "[transport]\ntso = 1\n[factors]", "transport.tso: expected true or false"),
        ("[factors]", '[factors]\nscheduler = ["minrtt"]', "factors.scheduler: expected only with"),
    ],
)
def test_a_bad_campaign_file_is_refused_in_one_line(
    old: str, new: str, named: str, file: Path, tmp_path: Path
) -> None:
    assert old in OPTIMISE
    file.write_text(OPTIMISE.replace(old, new, 1))
    result = mptune("campaign", "run", file, "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 2
    assert f"{file}: " in result.stderr and named in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "none.toml"], "none.toml: expected a readable file"),
        (["resume", "none"], "expected a campaign store"),
        (["status", "none"], "expected a campaign store"),
        (["export", "none", "--format", "xml"], "--format: expected one of csv, parquet"),
        (["run", "FILE", "--every", "1h"], "--for: expected together"),
        (["run", "FILE", "--every", "1s", "--for", "1d"], "--every: expected at least 3 s"),
    ],
)
def test_bad_options(arguments: list[str], named: str, file: Path) -> None:
    result = mptune("campaign", *(str(file) if argument == "FILE" else argument for argument in arguments))
    assert result.exit_code == 2 and named in result.stderr


def test_plain_tcp_stands_beside_mptcp_in_trials_and_report(tmp_path: Path) -> None:
    file, out = tmp_path / "campaign.toml", tmp_path / "run"
    file.write_text(
        'topology = "UiT-HAW"\nkind = "sweep"\n[factors]\npm = ["fullmesh"]\ncc = ["reno"]\n'
        'buffers = "0.1,0.5"\ntcp = "all"\n[trials]\nruns = 2\nduration = "2s"\n'
    )
    result = mptune("campaign", "run", file, "--out", out, "--quiet")
    assert result.exit_code == 0, result.stderr
    rows = table(out / "observations.csv")
    assert {(row["protocol"], row["initial_path"]) for row in rows} == {
        ("mptcp", ""),
        ("tcp", "P-D"),
        ("tcp", "T-D"),
    }
    assert len(rows) == 3 * 2 * 2
    # The lines have 384 and 512 kbit/s.
    rates = {
        path: max(float(row["throughput_mbps"]) for row in rows if row["initial_path"] == path)
        for path in ("", "P-D", "T-D")
    }
    assert rates["T-D"] < rates["P-D"] and rates[""] > 0
    status = mptune("campaign", "status", out)
    assert "RTT of each path over all trials (ms)" in status.stdout
    rtts = json.loads(mptune("campaign", "status", out, "--json").stdout)["rtts_ms"]
    assert {rtt["path"] for rtt in rtts} == {"P-D", "T-D"}
    assert all(rtt["idle"]["min"] <= rtt["idle"]["median"] <= rtt["loaded"]["max"] for rtt in rtts)
    subflows = table(out / "subflows.csv")
    assert all(float(row["rto_ms"]) >= float(row["min_rtt_ms"]) > 0 for row in subflows)
    page = (out / "report.html").read_text()
    assert "RTT of each path over all trials" in page
    assert "plain TCP on P-D" in page and "plain TCP on P-D, from" not in page


MESSAGES = """
topology = "CLOUD-HOME.hybrid"
kind = "sweep"
[factors]
pm = ["fullmesh", "pcdc"]
cc = ["cubic"]
buffers = "0.02,0.5"
[trials]
workload = "messages:200B/100ms"
duration = "5s"
runs = 2
[pcdc]
active = ["T-M"]
"""


def test_tables_of_a_sweep_with_messages_have_their_delays(tmp_path: Path) -> None:
    """In the same columns as in the export; and none of them is a factor of mptune fit."""
    (tmp_path / "calls.toml").write_text(MESSAGES)
    out = tmp_path / "run"
    result = CliRunner().invoke(app, ["campaign", "run", str(tmp_path / "calls.toml"), "--out", str(out)])
    assert result.exit_code == 0, result.stderr
    assert " ms (fullmesh, cubic, " in result.stderr
    assert CliRunner().invoke(app, ["campaign", "export", str(out)]).exit_code == 0
    columns = ["delay_p50_ms", "delay_p99_ms", "longest_gap_ms"]
    tables = []
    for file in (out / "observations.csv", out / "export" / "trials.csv"):
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        assert list(rows[0])[-3:] == columns
        tables.append(
            {(row["pm"], row["buffer_bytes"], row["run"]): [row[one] for one in columns] for row in rows}
        )
    assert tables[0] == tables[1] and len(tables[0]) == 2 * 2 * 2
    for p50, p99, gap in tables[0].values():
        assert 0 < float(p50) <= float(p99) and float(gap) >= 100
    alone = [row for (pm, _, _), row in tables[0].items() if pm == "pcdc"]
    assert min(float(row[0]) for row in alone) > 20  # over the slower path
    text = CliRunner().invoke(app, ["fit", str(out / "observations.csv")]).output
    assert "delay" not in text and "gap" not in text
