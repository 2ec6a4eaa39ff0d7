"""Run directories, stores and bundles that are damaged, made by others, or none."""

import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from tests.plugins.bad_input import NO_FILES, Case, unreadable, verdict
from tests.plugins.small_runs import CSV, SWEEP

DEEP = 50_000

#: Commands that read a run, and the directories that they are shown.
READERS: dict[str, tuple[str, ...]] = {
    "report": ("report", "RUN", "--no-figures", "--out", "drawn"),
    "bundle": ("bundle", "RUN", "--out", "new.zip"),
    "advise": ("advise", "RUN"),
    "apply": ("apply", "RUN"),
    "exec": ("exec", "--run", "RUN", "--", "./no-such-program"),
    "buffers": ("buffers", "UiT-HAW", "--run", "RUN"),
    "ui": ("ui", "RUN"),
    "compared": ("report", "good", "RUN", "--no-figures", "--out", "drawn"),
}


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small campaign."""
    place = tmp_path_factory.mktemp("swept")
    (place / "sweep.toml").write_text(SWEEP)
    done = CliRunner().invoke(
        app, ["campaign", "run", str(place / "sweep.toml"), "--out", str(place / "run"), "--quiet"]
    )
    assert done.exit_code == 0, done.stderr
    return place / "run"


@pytest.fixture(scope="session")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an answer, from measurements made elsewhere."""
    place = tmp_path_factory.mktemp("answered")
    (place / "data.csv").write_text(CSV)
    arguments = ["optimise", "--from", str(place / "data.csv"), "--out", str(place / "run"), "--quiet"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    return place / "run"


def changed(key: str, value: Any) -> Callable[[bytes], bytes]:
    """A document with another value, at a dotted key."""

    def change(content: bytes) -> bytes:
        document = json.loads(content)
        *path, last = key.split(".")
        table = document
        for name in path:
            table = table[name]
        if value is None:
            del table[last]
        else:
            table[last] = value
        return json.dumps(document).encode()

    return change


#: What may have become of a JSON document.
DOCUMENTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "list": lambda content: b"[]",
    "number": lambda content: b"3",
    "null": lambda content: b"null",
    "text": lambda content: b'"x"',
    "no keys": lambda content: b"{}",
    "binary": lambda content: bytes(range(256)),
    "latin": lambda content: b'{"a": "\xe6"}',
    "deep": lambda content: b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep list": lambda content: b"[" * DEEP,
}
CONFIGS = {
    **DOCUMENTS,
    "kind": changed("kind", 3),
    "no kind": changed("kind", None),
    "time": changed("time", []),
    "versions": changed("versions", 5),
    "options": changed("options", "x"),
    "topology": changed("topology", 5),
}
RESULTS = {
    **DOCUMENTS,
    "occ": changed("occ", 3),
    "no occ": changed("occ", None),
    "obs_bytes": changed("obs_bytes", "much"),
}
#: Of an answer, what these commands read.
OF_ANSWER = ("report", "bundle", "advise", "exec", "buffers")


def put(run: Path, place: Path) -> Path:
    return Path(shutil.copytree(run, place / "bad", ignore=shutil.ignore_patterns("figures", "report.html")))


def check(reader: str, place: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    args = tuple("bad" if argument == "RUN" else argument for argument in READERS[reader])
    assert verdict(Case(args, names), place, monkeypatch) == "clean"


@pytest.mark.parametrize("fault", CONFIGS)
@pytest.mark.parametrize("reader", ["report", "bundle", "advise"])
def test_config(
    reader: str, fault: str, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(answered, tmp_path) / "config.json"
    file.write_bytes(CONFIGS[fault](file.read_bytes()))
    check(reader, tmp_path, monkeypatch, "bad", "config.json")


@pytest.mark.parametrize("fault", RESULTS)
@pytest.mark.parametrize("reader", OF_ANSWER)
def test_result(
    reader: str, fault: str, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reader == "buffers" and fault in ("occ", "no occ"):
        reader = "report"  # it shows the buffer alone
    file = put(answered, tmp_path) / "result.json"
    file.write_bytes(RESULTS[fault](file.read_bytes()))
    check(reader, tmp_path, monkeypatch, "bad", "result.json")


@pytest.mark.parametrize("maker", NO_FILES)
@pytest.mark.parametrize("name", ["config.json", "result.json", "curves.csv"])
def test_no_files(
    name: str, maker: Callable[[Path], None], answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(answered, tmp_path) / name
    file.unlink()
    maker(file)
    check("report", tmp_path, monkeypatch, "bad", name)


@pytest.mark.parametrize(
    "content",
    [b"", b"pm,cc\n1,2\n", b"\xff\xfe", b"a\n" + b'"' * 200_000, b"pm,cc,buffer_mib,predicted_mbps\n,,x,1\n"],
)
def test_curves(content: bytes, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (put(answered, tmp_path) / "curves.csv").write_bytes(content)
    if content:
        check("report", tmp_path, monkeypatch, "bad", "curves.csv")


#: What may have become of a store.
STORES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "text": lambda file: file.write_bytes(b"not a database" * 1000),
    "half": lambda file: file.write_bytes(file.read_bytes()[:6000]),
    "zeros": lambda file: file.write_bytes(file.read_bytes()[:4096] + bytes(60_000)),
    "other": lambda file: other(file),
    "later": lambda file: statement(file, "PRAGMA user_version = 999"),
    "settings": lambda file: statement(file, "UPDATE campaign SET settings = '{'"),
    "settings of nothing": lambda file: statement(file, "UPDATE campaign SET settings = '{}'"),
    "no campaign": lambda file: statement(file, "DELETE FROM campaign"),
    "no table": lambda file: statement(file, "DROP TABLE campaign"),
}


def other(file: Path) -> None:
    file.unlink()
    statement(file, "CREATE TABLE x (y)")


def statement(file: Path, text: str) -> None:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(text)
    connection.close()


@pytest.mark.parametrize("fault", STORES)
@pytest.mark.parametrize("command", ["status", "export", "resume", "import"])
def test_store(
    command: str, fault: str, swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    STORES[fault](put(swept, tmp_path) / "campaign.sqlite")
    if command in ("status", "export", "import") and fault.startswith("settings"):
        command = "resume"  # the others need no settings
    args = {
        "status": ("campaign", "status", "bad"),
        "export": ("campaign", "export", "bad", "--out", "new"),
        "resume": ("campaign", "resume", "bad", "--again", "--quiet"),
        "import": ("campaign", "import", "bad", "--from", "good"),
    }[command]
    shutil.copytree(swept, tmp_path / "good")
    assert verdict(Case(args, ("bad/campaign.sqlite",)), tmp_path, monkeypatch) == "clean"


@pytest.mark.parametrize("maker", [no_file for no_file in NO_FILES if no_file is not unreadable])
@pytest.mark.parametrize("command", ["status", "resume"])
def test_no_stores(
    command: str, maker: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(("campaign", command, "bad"), ("bad",), {"bad/campaign.sqlite": maker})
    assert verdict(case, tmp_path, monkeypatch) == "clean"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("maker", [*NO_FILES, None, "nothing"])
def test_no_runs(
    reader: str,
    maker: Callable[[Path], None] | str | None,
    answered: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(answered, tmp_path / "good")
    if callable(maker):
        maker(tmp_path / "bad")
    elif maker == "nothing":
        (tmp_path / "bad").write_bytes(b"")
    check(reader, tmp_path, monkeypatch, "bad")


@pytest.mark.parametrize("fault", ["config.json", "result.json"])
def test_bundles_of_damaged_runs(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("ro-crate-metadata.json", "{}")
        archive.writestr("run/config.json", "{" if fault == "config.json" else '{"kind": "mptune run"}')
        archive.writestr("run/result.json", "{")
    assert (
        verdict(Case(("report", "bad.zip", "--out", "new"), ("config.json",)), tmp_path, monkeypatch)
        == "clean"
    )
