"""The kernel matrix (benchmarks/matrix): what a guest is made of, how one ends, and what is kept of it."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.waiting import until

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "matrix"))


@pytest.fixture
def guest():
    return importlib.import_module("_guest")


def test_an_initramfs_has_its_files_where_the_kernel_looks_for_them(guest):
    """The fields of newc, read back by their widths: content and names begin at multiples of four."""
    files = {"init": b"#!/bin/busybox sh\n", "modules/a.ko": b"x" * 5, "modules/order": b""}
    whole, at, members = guest.archive(files), 0, {}
    while True:
        assert whole[at : at + 6] == b"070701"
        fields = [int(whole[at + 6 + 8 * place : at + 14 + 8 * place], 16) for place in range(13)]
        mode, size, named = fields[1], fields[6], fields[11]
        name = whole[at + 110 : at + 110 + named - 1].decode()
        if name == "TRAILER!!!":
            break
        start = (at + 110 + named + 3) // 4 * 4
        members[name] = (mode, whole[start : start + size])
        at = (start + size + 3) // 4 * 4
    assert {name: content for name, (_, content) in members.items() if name in files} == files
    assert list(members).index("modules") < list(members).index("modules/a.ko")
    assert members["init"][0] == 0o100755 and members["modules"][0] == 0o040755


def test_modules_load_after_those_that_they_need(guest, tmp_path):
    (tmp_path / "modules.dep").write_text(
        "kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko\n"
        "kernel/net/9p/9pnet.ko: kernel/fs/netfs/netfs.ko\n"
        "kernel/fs/netfs/netfs.ko:\n"
    )
    needed = [path.name for path in guest._needed(tmp_path, ("9pnet", "9p", "built_in"))]
    assert needed == ["netfs.ko", "9pnet.ko", "9p.ko"]


def test_the_newest_release_is_the_one_with_the_largest_numbers():
    order = importlib.import_module("_packages").order
    assert order("6.1.0-56") > order("6.1.0-9")
    assert order("6.12.117+deb13") > order("6.12.95+deb13")


@pytest.fixture
def stand_in(guest, monkeypatch, tmp_path):
    """A program in qemu's place that prints a given text and notes its number; `(kernel, work)`."""

    def make(script):
        program = tmp_path / "qemu-stand-in"
        program.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(guest, "QEMU", str(program))
        packages = importlib.import_module("_packages")
        return packages.Kernel("1", "1", tmp_path / "vmlinuz", tmp_path), tmp_path

    return make


def gone(work):
    """The stand-in's process has ended."""
    return not Path("/proc", (work / "pid").read_text().strip()).exists()


@pytest.mark.needs("linux", "namespaces")
def test_a_guest_that_hangs_is_ended_and_its_lines_are_kept(guest, stand_in):
    kernel, work = stand_in('echo \'{"event": "kernel"}\'; trap "" TERM; exec sleep 1000')
    with guest.booted(kernel, b"", work) as booted:
        # Until its first line, it may start as slowly as a busy machine lets it.
        assert next(booted.lines(silence_s=60.0, limit_s=60.0)) == {"event": "kernel"}
        assert list(booted.lines(silence_s=1.0, limit_s=60.0)) == []
    assert not booted.ended.well and "silent" in booted.ended.reason
    assert gone(work)


@pytest.mark.needs("linux", "namespaces")
def test_a_guest_that_is_done_is_recognised(guest, stand_in):
    kernel, work = stand_in('echo \'{"event": "end"}\'')
    with guest.booted(kernel, b"", work) as booted:
        assert list(booted.lines(silence_s=30.0, limit_s=60.0)) == [{"event": "end"}]
    assert booted.ended.well


@pytest.mark.needs("linux", "namespaces")
def test_a_guest_ends_with_whoever_booted_it_even_by_a_kill(stand_in):
    _, work = stand_in("exec sleep 1000")
    code = (
        f"import sys; sys.path[:0] = [{str(BENCHMARKS.parent)!r}, {str(BENCHMARKS / 'matrix')!r}]\n"
        "import pathlib, _guest, _packages\n"
        f"work = pathlib.Path({str(work)!r}); _guest.QEMU = str(work / 'qemu-stand-in')\n"
        "with _guest.booted(_packages.Kernel('1', '1', work, work), b'', work) as one:\n"
        "    list(one.lines(1000.0, 1000.0))\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], env=os.environ)
    try:
        until(lambda: (work / "pid").exists() and (work / "pid").read_text().strip() != "")
    finally:
        driver.kill()
        driver.wait()
    until(lambda: gone(work))


def test_a_new_answer_replaces_what_was_kept_of_the_same_release_only():
    merged = importlib.import_module("matrix").merged
    before = {"release": "6.1", "said": [{"event": "doctor", "said": 1}, {"event": "finding", "name": "a"}]}
    now = {"release": "6.1", "ended": {"well": True}, "said": [{"event": "doctor", "said": 2}]}
    assert merged(before, now)["said"] == [{"event": "finding", "name": "a"}, {"event": "doctor", "said": 2}]
    assert merged(before | {"release": "6.0"}, now) == now
    died = now | {"release": "6.2", "ended": {"well": False}}
    assert merged(before, died) == before and merged({}, died) == died


OUTPUT = """Linux X
  while recv() holds the socket: joins, and data arrive
    {}
    200000 of 200000 bytes received, {}
    receiver: {{'MPJoinAckRx': {}}}
  while recv() holds the socket: joins (control)
    200000 of 200000 bytes received, 9 wrong
"""


@pytest.mark.parametrize(
    ("result", "joined", "expected"),
    [("7 wrong", 1, "7 bytes"), ("intact", 1, "intact"), ("intact", 0, "intact, but nothing joined")],
)
def test_only_the_first_case_of_wrong_payload_counts_and_only_if_a_subflow_joined(result, joined, expected):
    page = importlib.import_module("_page")
    assert page._wrong([OUTPUT.format("", result, joined)]) == expected
    assert page._wrong(["Traceback"]) == "no result"
