"""Faults before a compiler starts, which leave nothing behind."""

import io
import shutil
import tarfile

import pytest

from mptune.errors import InputError, MptuneError
from mptune.guest import building, builtin, driver, kernels, machine, trees
from mptune.guest.machine import Facts

MAKEFILE = "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n"
UTIL = "ssize_t os_getrandom(void *buf, size_t len, unsigned int flags)\n{\n\treturn 0;\n}\n"


@pytest.fixture
def source(tmp_path):
    def make(**files):
        path = tmp_path / "linux-7.3.4.tar.xz"
        with tarfile.open(path, "w:xz") as tar:
            for name, text in ({"Makefile": MAKEFILE, "arch/um/Kconfig": ""} | files).items():
                member = tarfile.TarInfo(f"linux-7.3.4/{name}")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text.encode()))
        return path

    return make


@pytest.fixture
def build():
    """Builds; the steps it came to."""

    def run(release=None, source=None, steps=None):
        steps = [] if steps is None else steps
        building.build(release, source=source, jobs=1, progress=lambda step, share: steps.append(step))

    return run


@pytest.fixture
def every_program(monkeypatch):
    monkeypatch.setattr(building, "lacking", list)


def left(cache):
    return [path.name for path in cache.iterdir() if path.name != "lock"]


def test_missing_programs_are_named_with_the_packages_that_have_them(build, monkeypatch, cache):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MptuneError, match=r"needs gcc, make, flex.*apt-get install gcc make flex") as refused:
        build("7.3")
    # Archives are unpacked without it.
    assert "xz" not in str(refused.value)
    assert left(cache) == []


def test_too_little_space_is_noticed_first(build, monkeypatch, every_program, cache):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 10, 1_000_000_000))
    with pytest.raises(MptuneError, match=r"expected 2\.5 GB free, found 1\.0 GB"):
        build("7.3")
    assert left(cache) == []


def test_an_archive_of_another_release_is_refused(build, every_program, source, cache):
    with pytest.raises(InputError, match=r"--source: expected Linux 6\.12, found 7\.3\.4"):
        build("6.12", source())
    assert left(cache) == []


@pytest.mark.needs("patch")
def test_a_patch_that_does_not_apply_is_the_reason(build, every_program, source, cache):
    steps: list[str] = []
    with pytest.raises(MptuneError, match=r"^patch: "):
        build(None, source(**{"arch/um/os-Linux/util.c": UTIL}), steps)
    assert left(cache) == [] and steps[-1] == "configuring"


def test_a_configuration_without_the_essentials_is_refused(tmp_path):
    configuration = tmp_path / ".config"
    lines = [f"CONFIG_{name}=y" for name in building._REQUIRED if name != "MPTCP"]
    configuration.write_text("\n".join(lines))
    with pytest.raises(MptuneError, match=r"has no MPTCP, HZ=1000$"):
        building._check(configuration)


def test_every_essential_is_asked_for():
    asked = set(building.CONFIG.read_text().split())
    assert {f"CONFIG_{name}=y" for name in building._REQUIRED} <= asked


def test_a_kernel_replaces_an_earlier_one_of_its_release_whole(tmp_path, cache):
    program = tmp_path / "linux"
    for version in ("7.3.3", "7.3.4"):
        program.write_text(version)
        made = kernels.Kernel(
            release="7.3",
            version=version,
            source="s",
            recipe=building.recipe(),
            compiler="c",
            congestion_controls=("reno",),
        )
        building._kept(made, program)
    (kernel,) = kernels.built()
    assert kernel.version == "7.3.4" == kernel.program.read_text() and left(cache) == ["7.3"]


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Builds without patch and make; the changed files that each of them compiles."""
    object_file = tmp_path / "network.o"
    object_file.write_bytes(b"code" + b"a" * 64)
    monkeypatch.setattr(driver, "OBJECT", object_file)
    monkeypatch.setattr(building, "_step", lambda *_, **__: None)
    monkeypatch.setattr(building, "_check", lambda _: None)
    monkeypatch.setattr(building, "_kept", lambda kernel, _: kernel)
    monkeypatch.setattr(machine, "facts", lambda _: Facts("7.3.4", ("reno",), ("default",)))
    compiled: list[set[str]] = []
    seen: dict[str, int] = {}

    def compile_(_command, tree, _advance):
        times = {path.name: path.stat().st_mtime_ns for path in tree.rglob("*") if path.is_file()}
        compiled.append({name for name, time in times.items() if seen.get(name) != time})
        seen.update(times)

    monkeypatch.setattr(building, "_compile", compile_)
    return compiled


def test_a_kept_tree_is_unpacked_once_and_only_what_changed_is_compiled(
    build, every_program, source, cache, compiled, tmp_path, monkeypatch
):
    programs = tmp_path / "bpf"
    shutil.copytree(builtin.PROGRAMS, programs)
    monkeypatch.setattr(builtin, "PROGRAMS", programs)
    archive = source(
        **{
            "include/net/tcp.h": "cong_control)(struct sock *sk, u32 ack, int flag",
            "include/net/mptcp.h": "int (*get_send)(struct mptcp_sock *msk);",
            "net/ipv4/tcp_cubic.c": "__bpf_kfunc static int x;\n",
            "net/ipv4/Makefile": "",
            "drivers/net/Makefile": "",
        }
    )

    def steps():
        done: list[str] = []
        building.build(None, source=archive, keep=True, progress=lambda step, _: done.append(step))
        return set(done)

    assert "unpacking" in steps()
    hold = programs / "scheduling/hold.h"
    hold.write_text(hold.read_text().replace("LEAST_RTTS 5", "LEAST_RTTS 6"))
    assert "unpacking" not in steps()
    assert {"hold.h", "cubic_hold.c", "tcp_cubic.c"} <= compiled[0] and compiled[1] == {"hold.h"}
    # Whatever else the tree is made of begins anew: another patch, another archive.
    archive.touch()
    assert "unpacking" in steps()
    assert left(cache) == ["tree-7.3"]
    assert trees.remove("7.3") > 0 and left(cache) == []


def test_what_a_killed_build_left_is_removed_and_a_running_one_is_not(build, every_program, cache):
    (cache / "build-killed").mkdir()
    (cache / "tree-7.3").mkdir()
    with building._alone(cache):
        assert left(cache) == []
        (cache / "build-running").mkdir()
        with pytest.raises(MptuneError, match="another build is at work"):
            build("7.3")
        assert left(cache) == ["build-running"]


@pytest.mark.parametrize(("hook", "has_scheduler"), [("get_send", True), ("get_subflow", False)])
def test_the_scheduler_is_part_of_kernels_with_the_interface_that_it_is_written_for(
    tmp_path, hook, has_scheduler
):
    files = {
        "include/net/tcp.h": "",
        "include/net/mptcp.h": f"int (*{hook})(struct mptcp_sock *msk);",
        "net/ipv4/tcp_cubic.c": "",
        "net/ipv4/Makefile": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    builtin.add(tmp_path)
    assert ("scheduler/hold.o" in (tmp_path / "net/ipv4/mptune/Makefile").read_text()) == has_scheduler
