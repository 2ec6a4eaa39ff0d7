"""Bundles from anywhere: nothing leaves its folder, and nothing grows beyond its limits."""

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.bundle import reading
from mptune.cli import app
from mptune.errors import InputError

MIB = 2**20
METADATA = "ro-crate-metadata.json"


def archive(
    path: Path, *more: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED
) -> Path:
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr(METADATA, "{}")
        made.writestr("run/config.json", "{}")
        for name, content in more:
            made.writestr(name, content)
    return path


def unpacked(path: Path) -> dict[str, int]:
    with reading.opened([path]) as (run,):
        return {file.name: file.stat().st_size for file in run.iterdir()}


def entry(name: str, mode: int = 0) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.external_attr = mode << 16
    return member


def refused(path: Path, expected: str) -> None:
    for attempt in (unpacked, reading.figures, reading.versions):
        with pytest.raises(InputError, match=expected):
            attempt(path)


@pytest.mark.parametrize("name", ["/etc/x", "../x", "run/../../x", "a/..", "run\\x", "//x", ".."])
def test_names_that_lead_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    refused(archive(tmp_path / "b.zip", (name, b"x")), "expected the name of a file inside the bundle")


@pytest.mark.parametrize("mode", [0o120777, 0o020666, 0o010666])
def test_links_and_devices_are_refused(mode: int, tmp_path: Path) -> None:
    link = entry("run/result.json", mode)
    refused(
        archive(tmp_path / "b.zip", (link, b"/etc/passwd")), "run/result.json: expected a file, found a link"
    )


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_is_there_twice_is_refused(tmp_path: Path) -> None:
    refused(
        archive(tmp_path / "b.zip", ("run/config.json", b"{}")), "run/config.json: expected once, found twice"
    )


def test_two_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found another zip file"):
        unpacked(archive(tmp_path / "b.zip", ("other/config.json", b"{}")))


def test_other_methods_are_refused(tmp_path: Path) -> None:
    refused(archive(tmp_path / "b.zip", method=zipfile.ZIP_BZIP2), "expected it stored or deflated")


def test_folders_and_other_files_are_left_alone(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "b.zip", (entry("run/", 0o040755), b""), ("run/private.txt", b"x"), ("LICENCE", b"x")
    )
    assert unpacked(path) == {"config.json": 2}


def test_as_much_as_a_run_may_contain_is_unpacked(tmp_path: Path) -> None:
    path = archive(tmp_path / "b.zip", ("run/campaign.sqlite", bytes(15 * MIB)))
    assert unpacked(path) == {"config.json": 2, "campaign.sqlite": 15 * MIB}


def test_a_bomb_ends_before_it_fills_the_disk(tmp_path: Path) -> None:
    path = archive(tmp_path / "b.zip", ("run/campaign.sqlite", bytes(64 * MIB)))
    assert path.stat().st_size < MIB
    expected = "run/campaign.sqlite: expected at most 100 times its size when it is unpacked, found more"
    with pytest.raises(InputError, match=expected):
        unpacked(path)


def test_many_small_bombs_are_one(tmp_path: Path) -> None:
    parts = [(f"figures/{number}.svg", bytes(4 * MIB)) for number in range(8)]
    with pytest.raises(InputError, match="expected at most 100 times its size"):
        reading.figures(archive(tmp_path / "b.zip", *parts))


def test_a_figure_has_a_limit_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_HELD", MIB)
    path = archive(
        tmp_path / "b.zip", ("figures/a.svg", bytes(2 * MIB)), ("environment.json", bytes(2 * MIB))
    )
    for attempt in (reading.figures, reading.versions):
        with pytest.raises(InputError, match="expected a smaller file when it is unpacked, found more"):
            attempt(path)


@pytest.mark.parametrize("size", [0, 10, 2**31])
def test_sizes_in_the_directory_are_not_believed(size: int, tmp_path: Path) -> None:
    """The field of the uncompressed size, in the directory at the end and in front of the file."""
    path = archive(tmp_path / "b.zip", ("run/campaign.sqlite", bytes(64 * MIB)))
    content = bytearray(path.read_bytes())
    right = struct.pack("<L", 64 * MIB)
    at = content.find(right)
    while at >= 0:
        content[at : at + 4] = struct.pack("<L", size)
        at = content.find(right)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"b\.zip: "):
        unpacked(path)


def test_many_files_are_refused(tmp_path: Path) -> None:
    refused(
        archive(tmp_path / "b.zip", *((f"{n}", b"") for n in range(2001))),
        "expected at most 2000 files, found 2003",
    )


def test_a_directory_of_millions_of_files_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_DIRECTORY", 70_000)
    path = archive(tmp_path / "b.zip", *((f"{n:0>100}", b"") for n in range(1500)))
    refused(path, "a directory of too many files")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)


def encrypted(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        at = content.find(mark)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(mark, at + 1)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [truncated, flipped, encrypted])
def test_damage_is_one_line(
    damage: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archive(Path("b.zip"), ("run/campaign.sqlite", bytes(range(256)) * 4))
    damage(Path("b.zip"))
    done = CliRunner().invoke(app, ["report", "b.zip"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "b.zip: " in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["b.zip"]
