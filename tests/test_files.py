"""Files: read without waiting and within limits, written whole or not at all, and opened in one place."""

import ast
import os
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import mptune
from mptune import files
from mptune.cli import app
from mptune.errors import InputError
from tests.plugins.bad_input import NO_FILES, dangling, endless, fifo, folder, listening, turning
from tests.plugins.no_room import no_room

ROOT = Path(mptune.__file__).parent


def content(place: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in place.iterdir() if file.is_file()}


# ---- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("maker", NO_FILES)
def test_what_is_no_file_or_too_large_is_not_read(maker: Callable[[Path], None], tmp_path: Path) -> None:
    maker(tmp_path / "it")
    with pytest.raises(OSError, match=r".") as caught:
        files.read_bytes(tmp_path / "it")
    assert caught.value.strerror and caught.value.strerror.isprintable()


def test_a_device_is_not_even_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless(tmp_path / "it")
    monkeypatch.setattr(os, "open", lambda *_args: pytest.fail("opened"))
    with pytest.raises(OSError, match="a device, not a file"):
        files.read_bytes(tmp_path / "it")


def test_a_file_that_became_a_fifo_meanwhile_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    real = os.open

    def exchanged(path: Path, flags: int, mode: int = 0o777) -> int:
        (tmp_path / "file").unlink()
        fifo(tmp_path / "file")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", exchanged)
    with pytest.raises(OSError, match="a FIFO, not a file"):
        files.read_bytes(tmp_path / "file")


def test_the_limit_holds_whatever_size_a_file_claims() -> None:
    """Files of /proc have size 0."""
    assert Path("/proc/self/status").stat().st_size == 0
    with pytest.raises(OSError, match="larger than 0 MiB"):
        files.read_bytes(Path("/proc/self/status"), limit=100)


def test_the_limit_itself_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert files.read_bytes(tmp_path / "file", limit=100) == b"x" * 100
    with pytest.raises(OSError, match="larger"):
        files.read_bytes(tmp_path / "file", limit=99)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_names_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    for attempt in (files.read_bytes, files.check_target):
        with pytest.raises(OSError, match="not a possible file name"):
            attempt(tmp_path / name)


# ---- writing --------------------------------------------------------------------------------------


def device(path: Path) -> None:
    """A character device of our own: what stands for /dev/null, which no test touches."""
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))


def link_to_a_device(path: Path) -> None:
    device(path.with_name("device"))
    path.symlink_to("device")


UNTOUCHABLE = [fifo, folder, listening, dangling, turning]
if os.geteuid() == 0:
    UNTOUCHABLE += [device, link_to_a_device]


@pytest.mark.parametrize("maker", UNTOUCHABLE)
def test_what_is_no_file_is_never_replaced(maker: Callable[[Path], None], tmp_path: Path) -> None:
    maker(tmp_path / "it")
    before = (tmp_path / "it").lstat()
    with pytest.raises(OSError, match=r"."):
        files.write(tmp_path / "it", b"content")
    with pytest.raises(InputError, match=r"^--out: expected a file that can be written, found .*it: "):
        files.check_writable(tmp_path / "it", "--out")
    after = (tmp_path / "it").lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert {entry.name for entry in tmp_path.iterdir()} <= {"it", "device"}


def test_what_becomes_a_fifo_while_it_is_written_is_not_replaced(tmp_path: Path) -> None:
    def disturbed() -> None:
        with files.writing(tmp_path / "it") as file:
            file.write(b"content")
            fifo(tmp_path / "it")

    with pytest.raises(OSError, match="a FIFO, not a file"):
        disturbed()
    assert stat.S_ISFIFO((tmp_path / "it").stat().st_mode)
    assert [entry.name for entry in tmp_path.iterdir()] == ["it"]


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_text("old")
    (tmp_path / "link").symlink_to("below/file")
    files.write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "below") == {"file": "new"}


def test_a_new_file_has_the_usual_mode_and_a_replaced_one_keeps_its_own(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        files.write(tmp_path / "new", "x")
        (tmp_path / "private").write_text("old")
        (tmp_path / "private").chmod(0o600)
        files.write(tmp_path / "private", "new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file_and_nothing_else(error: type[BaseException], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")

    def half(way: Any, content: object) -> None:
        with way(tmp_path / "file") as file:
            file.write(content)
            raise error

    for way, content_ in ((files.writing, b"half"), (files.writing_table, "half")):
        with pytest.raises(error):
            half(way, content_)
    assert content(tmp_path) == {"file": "old"}


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with no_room():
        with pytest.raises(OSError, match=r"."):
            files.write(tmp_path / "file", b"x" * 100_000)
        with pytest.raises(OSError, match=r"."), files.writing_table(tmp_path / "file") as text:
            text.write("x" * 100_000)
    assert content(tmp_path) == {"file": "old"}


def test_a_bundle_never_replaces_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before the run is even looked at."""
    monkeypatch.chdir(tmp_path)
    (device if os.geteuid() == 0 else fifo)(tmp_path / "null")
    before = (tmp_path / "null").lstat()
    done = CliRunner().invoke(app, ["bundle", "run", "--out", "null"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "--out: expected a file that can be written, found null: a " in done.stderr
    assert (tmp_path / "null").lstat() == before


# ---- one place ------------------------------------------------------------------------------------

#: Methods and functions that open, make or replace a file. `open` is a method of other things too.
METHODS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "mknod", "mkfifo", "fdopen"),
    *("ZipFile", "NamedTemporaryFile", "mkstemp", "memmap", "savefig", "to_csv", "to_parquet"),
    *("copy2", "copyfile", "copytree", "symlink_to", "hardlink_to"),
}
FUNCTIONS = {"open", "ZipFile", "NamedTemporaryFile", "mkstemp", "fdopen"}
#: Where something is opened all the same, and why that is no file that a user names.
ALLOWED = {
    "linux/preload/__init__.py": "the kernel's: status of this process",
    "linux/preload/statistics.py": "a file of its own in a folder of its own, to which programs append lines",
    "apply/apply.py": "a BPF program of the package",
    "apply/_settings.py": "a BPF program of the package",
    "apply/exec.py": "files of /proc and /sys",
    "apply/machine.py": "files of /proc",
    "bundle/_archive.py": "entries of the archive whose file `mptune.files` has opened",
    "bundle/making.py": "a store, which SQLite opens, and its copy in a folder of its own",
    "bundle/reading.py": "entries of the archive whose file `mptune.files` has opened",
    "cli/ui.py": "no file: a browser",
    "cli/watch.py": "/dev/null, for what is printed after the reader has gone",
    "daemon/remeasure.py": "the daemon's own copy of its answer",
    "guest/boot.py": "files of /proc, and its own in a file system of its own",
    "guest/building.py": "files of the package, and its own below the cache directory",
    "guest/trees.py": "its own below the cache directory: trees of kernels",
    "guest/builtin.py": "files of the package, and of a tree that was unpacked",
    "guest/debian.py": "a file of its own in a folder of its own",
    "guest/driver.py": "files of the package, and of a tree that was unpacked",
    "guest/inside.py": "files of a guest",
    "guest/sources.py": "members of an archive that `mptune.files` has opened, and what becomes of them",
    "linux/awake.py": "a device of the kernel",
    "linux/bpf.py": "files of /proc and /sys, BPF programs of the package",
    "linux/integrity/transfers.py": "namespaces, as files of /proc",
    "linux/kernel_trial.py": "no file: a venue",
    "linux/probe.py": "namespaces, as files of /proc, and a device of the kernel",
    "linux/processor_load.py": "files of /proc",
    "linux/sandbox/enter.py": "namespaces, as files of /proc",
    "linux/sandbox/launcher.py": "namespaces, as files of /proc",
    "linux/sandbox/leftovers.py": "files of /proc",
    "linux/sandbox/sysctls.py": "files of /proc/sys",
    "machines/_bootstrap.py": "the agent of the package",
    "routes/keeping.py": "a file of the run directory that grows by a line, checked before",
    "runner/executors/_worker.py": "files of the package, for its identity",
    "papers/published/__init__.py": "tables of the package",
    "report/page.py": "assets of the package",
    "store/_file.py": "stores, which SQLite opens; what is none is refused before",
    "store/_locking.py": "the file of a lock, which is held and not read for its content",
    "store/export.py": "tables of pandas, into files that `mptune.files` has opened",
    "testbeds/_virtual_inside.py": "a setting of a guest's kernel",
    "testbeds/namespaces.py": "a file of its own in a folder of its own, which the agent writes",
    "ui/pages.py": "assets of the package",
    "monitor/screen/app.py": "no file: a row of the screen",
}


def opened(file: Path) -> list[int]:
    """Lines of the calls that open something."""
    calls = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(name) if name in FUNCTIONS:
                    calls.append(node.lineno)
                case ast.Attribute(ast.Name("files"), _):
                    pass
                case ast.Attribute(ast.Name("sqlite3"), "connect"):
                    calls.append(node.lineno)
                case ast.Attribute(_, name) if name in METHODS:
                    calls.append(node.lineno)
    return calls


FILES = [file for file in sorted(ROOT.rglob("*.py")) if file.relative_to(ROOT).as_posix() != "files.py"]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_other_place_opens_files(file: Path) -> None:
    name, calls = file.relative_to(ROOT).as_posix(), opened(file)
    if name in ALLOWED:
        assert calls, f"{name} opens nothing any more: take it from the list"
    else:
        assert not calls, f"{name}:{calls}: by mptune.files, or with a reason in the list"


def test_memory_is_taken_for_what_a_file_has_and_not_for_its_limit(tmp_path):
    file = tmp_path / "small"
    file.write_bytes(b"few")
    tracemalloc.start()
    try:
        assert files.read_bytes(file, limit=2**30) == b"few"
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**24
