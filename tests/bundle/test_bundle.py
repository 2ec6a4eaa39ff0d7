"""Bundles: what is in one, that it is the same again, and that figures drawn from it elsewhere are too."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune.bundle.making import write_bundle
from mptune.campaign.definition import from_settings, read_definition
from mptune.cli import app
from mptune.errors import MptuneError
from mptune.store import open_store
from tests.plugins.needs import ROOT

CAMPAIGN = """
name = "small"
topology = "UiT-HAW"
kind = "sweep"
[factors]
pm = ["fullmesh", "default"]
cc = ["reno"]
buffers = ["0.1", "0.5"]
[trials]
runs = 2
duration = "1s"
"""


def mptune(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    (place / "sweep.toml").write_text(CAMPAIGN)
    result = mptune("campaign", "run", place / "sweep.toml", "--out", place / "sweep", "--quiet")
    assert result.exit_code == 0, result.stderr
    (place / "sweep" / "private.txt").write_text("not of the run")
    return place / "sweep"


@pytest.fixture(scope="module")
def bundle(run: Path) -> Path:
    return write_bundle(run, run.parent / "sweep.zip").path


def test_the_crate_describes_every_file(bundle: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that it imports
        from rocrate.rocrate import ROCrate

        with zipfile.ZipFile(bundle) as archive:
            archive.extractall(tmp_path)
        crate = ROCrate(tmp_path)
    there = {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()}
    described = {entity.id for entity in crate.get_by_type("File")}
    assert described == there - {"ro-crate-metadata.json"}
    for entity in crate.get_by_type("File"):
        assert int(entity["contentSize"]) == (tmp_path / entity.id).stat().st_size, entity.id
    assert crate.metadata["conformsTo"] == "https://w3id.org/ro/crate/1.1"
    for key in ("name", "description", "datePublished", "license"):
        assert crate.root_dataset[key], key
    assert described == {
        part.id
        for top in crate.root_dataset["hasPart"]
        for part in ([top] if top.type == "File" else top["hasPart"])
    }


def test_every_reference_in_the_metadata_is_explained(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
    explained = {entity["@id"] for entity in graph}
    assert len(explained) == len(graph)

    def references(value: Any) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(references, value)) if value else set()
        return {value["@id"]} if isinstance(value, dict) else set()

    for entity in graph:
        for name, value in entity.items():
            assert name == "conformsTo" or references(value) <= explained, (entity["@id"], name)


def test_only_what_the_run_recorded_is_in_it(run: Path, bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        assert not [name for name in archive.namelist() if "private" in name]
        for name in archive.namelist():
            assert str(run.parent).encode() not in archive.read(name), name


def test_the_campaign_file_asks_for_the_same_again(run: Path, bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        archive.extract("campaign.toml", tmp_path)
    with open_store(run / "campaign.sqlite", write=False) as store:
        asked = from_settings(store.campaign().settings)
    assert read_definition(tmp_path / "campaign.toml") == asked


def test_a_network_of_the_users_own_is_in_it(tmp_path: Path) -> None:
    """Others repeat the run from the bundle alone."""
    own = (ROOT / "scenarios/UiT-HAW.toml").read_text().replace('name = "UiT-HAW"', 'name = "my-lines"')
    (tmp_path / "mine.toml").write_text(own)
    (tmp_path / "sweep.toml").write_text(CAMPAIGN.replace('"UiT-HAW"', '"mine.toml"'))
    done = mptune("campaign", "run", tmp_path / "sweep.toml", "--out", tmp_path / "first", "--quiet")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("my-lines, ") and "Largest mean throughput: " in done.stdout
    other = tmp_path / "elsewhere"
    with zipfile.ZipFile(write_bundle(tmp_path / "first", tmp_path / "first.zip").path) as archive:
        archive.extractall(other)
    (tmp_path / "mine.toml").unlink()
    again = mptune("campaign", "run", other / "campaign.toml", "--out", tmp_path / "again", "--quiet")
    assert again.exit_code == 0, again.stderr
    first, second = ((tmp_path / name / "observations.csv").read_bytes() for name in ("first", "again"))
    assert first == second


def test_the_store_in_it_can_be_read(bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        archive.extract("sweep/campaign.sqlite", tmp_path)
    connection = sqlite3.connect(tmp_path / "sweep" / "campaign.sqlite")
    assert connection.execute("SELECT count(*) FROM trial").fetchone() == (8,)
    connection.close()


def test_another_home_zone_and_place_give_the_same_bytes(run: Path, bundle: Path, tmp_path: Path) -> None:
    """The bundle made from a copy of the run, and the figures drawn from the bundle."""
    shutil.copytree(run, tmp_path / "other" / "sweep")
    shutil.copy(bundle, tmp_path / "moved.zip")
    home = tmp_path / "home"
    home.mkdir()
    environment = {"HOME": str(home), "TZ": "Asia/Tokyo", "LC_ALL": "C", "PATH": os.environ["PATH"]}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    for arguments in (
        ["report", "moved.zip", "--out", "drawn"],
        ["bundle", "other/sweep", "--out", "again.zip"],
    ):
        code = "from mptune.cli import main; main()"
        subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, env=environment, check=True, timeout=120
        )
    with zipfile.ZipFile(bundle) as archive:
        names = [name for name in archive.namelist() if name.startswith("figures/")]
        assert {Path(name).suffix for name in names} == {".svg", ".png", ".pdf"}
        for name in [*names, "report.html"]:
            assert (tmp_path / "drawn" / name).read_bytes() == archive.read(name), name
    assert (tmp_path / "again.zip").read_bytes() == bundle.read_bytes()


def test_the_report_states_whether_its_figures_are_those_of_the_bundle(bundle: Path, tmp_path: Path) -> None:
    document = json.loads(mptune("report", bundle, "--out", tmp_path / "same", "--json").stdout)
    assert document["differing"] == []
    with zipfile.ZipFile(bundle) as archive, zipfile.ZipFile(tmp_path / "changed.zip", "w") as changed:
        for name in archive.namelist():
            changed.writestr(name, b"<svg/>" if name == "figures/topology.svg" else archive.read(name))
    document = json.loads(mptune("report", tmp_path / "changed.zip", "--json").stdout)
    assert document["differing"] == ["topology.svg"]
    assert document["report"] == str(tmp_path / "changed-report" / "report.html")


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_was_there_stays_if_writing_fails(
    fault: BaseException, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise fault

    out = tmp_path / "kept.zip"
    out.write_bytes(b"earlier")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(MptuneError if isinstance(fault, OSError) else KeyboardInterrupt):
        write_bundle(run, out, parquet=False)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("kept.zip", b"earlier")]


def test_bad_input_is_one_line(run: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.zip"
    text.write_text("no zip")
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("../config.json", "{}")
        archive.writestr("ro-crate-metadata.json", "{}")
    for arguments in (
        ("bundle", tmp_path),
        ("bundle", run, "--out", tmp_path / "none" / "a.zip"),
        ("bundle", run, "--out", tmp_path),
        ("report", text),
        ("report", other),
    ):
        result = mptune(*arguments)
        assert result.exit_code == 2, result.output
        assert len(result.stderr.splitlines()) == 1, result.stderr
    assert not (tmp_path.parent / "config.json").exists()


def test_a_bundle_of_an_answer_for_messages_has_what_its_report_shows(tmp_path: Path) -> None:
    words = ("--workload", "messages:200B/100ms", "--duration", "2s", "--cc", "cubic", "--buffers", "0.1,0.5")
    few = ("--runs", 2, "--confirm-runs", 2, "--out", tmp_path / "calls", "--quiet")
    assert mptune("optimise", "UiT-HAW", *words, *few).exit_code == 0
    made = write_bundle(tmp_path / "calls", tmp_path / "calls.zip").path
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
        text = archive.read("campaign.toml").decode()
        described = archive.read("ro-crate-metadata.json").decode()
    assert "calls/compared.csv" in names and "figures/delays.svg" in names
    assert any(name.startswith("tables/times.") for name in names)
    assert 'workload = "messages:200B/100ms"' in text and "messages of 200 B every 100 ms" in described
    result = mptune("report", made, "--out", tmp_path / "there", "--no-figures")
    assert result.exit_code == 0, result.stderr
    assert "What was compared" in (tmp_path / "there" / "report.html").read_text(encoding="utf-8")
