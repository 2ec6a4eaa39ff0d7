"""The run directory: whole or not at all, and never on top of something else."""

import csv
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.errors import Failure, InputError
from mptune.runner.planning import plan_trials
from mptune.runner.runner import TrialRunner
from mptune.store import Campaign, create
from mptune.store.directory import (
    check_writable,
    default_directory,
    run_directory,
    write_config,
    write_json,
    write_observations,
)
from mptune.topology import Topology
from mptune.trial import Bulk, Configuration, Record, SubflowRecord, Transfer
from mptune.trial.stacks import STACKS

NOW = datetime(2024, 5, 17, 12, 30, 0)


def finished_run(path: Path, mark: str = "first") -> Path:
    with run_directory(path, force=True) as directory:
        write_config(directory, {}, {}, NOW)
        (directory / "mark").write_text(mark)
    return path


def test_it_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "runs" / "one"
    with run_directory(target) as directory:
        (directory / "result").write_text("42")
        assert not target.exists()
    assert (target / "result").read_text() == "42"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_nothing_behind(error: type[BaseException], tmp_path: Path) -> None:
    def half() -> None:
        with run_directory(tmp_path / "one") as directory:
            (directory / "result").write_text("4")
            raise error

    with pytest.raises(error):
        half()
    assert not list(tmp_path.iterdir())


def test_an_error_leaves_an_earlier_run_as_it_was(tmp_path: Path) -> None:
    target = finished_run(tmp_path / "one")
    with pytest.raises(RuntimeError), run_directory(target, force=True):
        raise RuntimeError
    assert (target / "mark").read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_an_earlier_run_is_replaced_only_by_force(tmp_path: Path) -> None:
    target = finished_run(tmp_path / "one")
    with pytest.raises(InputError, match="earlier run"):
        check_writable(target, force=False)
    finished_run(target, "second")
    assert (target / "mark").read_text() == "second"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["photo.jpg", "config.json"])
def test_other_files_are_never_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match="other files"):
        check_writable(tmp_path, force=True)


def test_an_empty_directory_is_welcome(tmp_path: Path) -> None:
    finished_run(tmp_path / "sub")
    (tmp_path / "empty").mkdir()
    check_writable(tmp_path / "empty", force=False)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="--out"):
            check_writable(path, force=True)


def test_default_name() -> None:
    assert default_directory("UNIS-HiN", NOW) == Path("runs/UNIS-HiN-20240517-123000")


def test_nan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"mean": float("nan")})


def test_a_failed_trial_has_a_reason_and_no_number(tmp_path: Path) -> None:
    subflow = SubflowRecord(path="A-X", active=True, throughput_mbps=0.1, rtt_ms=None, retransmitted=3)
    good_one = Record(
        purpose="sweep",
        pm="fullmesh",
        cc="reno",
        buffer_bytes=5,
        run=0,
        seed=7,
        withdrawn=None,
        throughput_mbps=0.1 + 0.2,
        failed=None,
        subflows=(subflow,),
    )
    failed_one = msgspec.structs.replace(
        good_one, run=1, throughput_mbps=None, failed=Failure("stalled", "stalled, for good"), subflows=()
    )
    write_observations(tmp_path, [good_one, failed_one])
    with (tmp_path / "observations.csv").open(newline="") as file:
        good, failed = csv.DictReader(file)
    assert float(good["throughput_mbps"]) == 0.1 + 0.2 and good["failed"] == ""
    assert (failed["throughput_mbps"], failed["failed"]) == ("", "stalled, for good")
    assert (good["failed_kind"], failed["failed_kind"]) == ("", "stalled")
    with (tmp_path / "subflows.csv").open(newline="") as file:
        (only,) = csv.DictReader(file)
    assert (only["run"], only["path"], only["rtt_ms"], only["retransmitted"]) == ("0", "A-X", "", "3")


def test_whatever_was_varied_has_a_column(network: Topology, fake_testbed: Any, tmp_path: Path) -> None:
    """Also what a store gives back of trials that an earlier process measured."""
    lasting = Bulk(duration_ns=10**9)
    configurations = [
        Configuration(pm="fullmesh", cc="reno", buffer_bytes=2**20, workload=lasting),
        Configuration(
            pm="fullmesh",
            cc="reno",
            buffer_bytes=2**20,
            workload=lasting,
            initial_path="B-X",
            stack=msgspec.structs.replace(STACKS["v0.9x"], scheduler="ecf"),
        ),
        Configuration(
            pm="pcdc",
            cc="reno",
            buffer_bytes=2**20,
            buffer_mode="auto",
            pm_options={"active": ("A-X", "B-X"), "rtt_ns": {"A-X": 7, "B-X": 9}},
            workload=Transfer(bytes=4096),
            family="ipv6",
        ),
    ]
    planned = plan_trials(network, configurations, purpose="sweep", runs=1, base_seed=1)
    options = planned[2].trial.pm_options | {"class_bytes": [1024, 4096]}
    trial = msgspec.structs.replace(planned[2].trial, accounting="payload", pm_options=options)
    planned[2] = msgspec.structs.replace(planned[2], trial=trial, round=2)
    fake_testbed.completes = 2_500_000_000
    with create(tmp_path / "s", Campaign(name="x", settings={}, environment={})) as store:
        for directory in (tmp_path / "fresh", tmp_path / "stored"):
            directory.mkdir()
            write_observations(directory, TrialRunner(fake_testbed, 1, store).measure(planned))
    text = (tmp_path / "fresh" / "observations.csv").read_text()
    assert (tmp_path / "stored" / "observations.csv").read_text() == text
    header, *_ = text.splitlines()
    assert header.startswith(
        "purpose,pm,cc,buffer_bytes,run,seed,withdrawn,throughput_mbps,omega,failed,failed_kind,round,"
        "completion_s,initial_path,scheduler,transfer_bytes,accounting,"
    )
    first, second, third = csv.DictReader(text.splitlines())
    assert (first["initial_path"], first["scheduler"], first["accounting"]) == ("", "kernel", "linux")
    assert (second["initial_path"], second["scheduler"], second["transfer_bytes"]) == ("B-X", "ecf", "")
    assert (third["round"], third["transfer_bytes"], third["completion_s"]) == ("2", "4096", "2.5")
    stacks = [row["stack"] for row in (first, second, third)]
    assert stacks == ["linux", "v0.9x with scheduler ecf", "linux with accounting payload"]
    assert [row["buffer_mode"] for row in (first, second, third)] == ["fixed", "fixed", "auto"]
    assert [row["family"] for row in (first, second, third)] == ["ipv4", "ipv4", "ipv6"]
    assert (third["accounting"], third["active"], third["class_bytes"]) == ("payload", "A-X B-X", "1024 4096")
    assert (third["rtt_ns"], first["completion_s"], first["class_bytes"]) == ("A-X=7 B-X=9", "", "")


@pytest.mark.parametrize("path", ["/proc/x", "/proc/x/y", "/sys/kernel/x", "/dev/null/x"])
def test_an_unwritable_place_is_refused_before_anything_is_measured(path: str) -> None:
    """Root may write there, whatever the permissions."""
    with pytest.raises(InputError, match=r"--out: expected a (writable place|directory)"):
        check_writable(Path(path), force=False)
