"""The kernels that a user has built: found by release, listed, removed, and nothing else taken for one."""

from functools import partial

import msgspec
import pytest

from mptune.errors import InputError, MptuneError
from mptune.guest import kernels
from mptune.guest.kernels import Kernel


def write(cache, release, version, recipe="0" * 16, programs=""):
    """A kernel as it is kept, whose program is none."""
    kernel = Kernel(
        release=release,
        version=version,
        source="linux.tar.xz",
        recipe=recipe,
        compiler="cc 1.0",
        programs=programs,
        congestion_controls=("cubic", "cubic+hold", "reno"),
    )
    (cache / release).mkdir()
    (cache / release / "linux").write_bytes(b"kernel")
    (cache / release / "kernel.json").write_bytes(msgspec.json.encode(kernel))


@pytest.fixture
def add(cache):
    return partial(write, cache)


def test_without_a_kernel_the_error_names_the_command_that_builds_one():
    assert kernels.built() == []
    with pytest.raises(MptuneError, match=r"no kernel is built: mptune kernel build 7\.3"):
        kernels.find()
    with pytest.raises(MptuneError, match=r"mptune kernel build 6\.1 "):
        kernels.find("6.1")


def test_the_default_comes_before_a_newer_one_and_the_newest_otherwise(add):
    add("6.1", "6.1.140")
    add("6.12", "6.12.117")
    assert kernels.find().release == "6.12"
    add("7.10", "7.10.0")
    assert [kernel.release for kernel in kernels.built()] == ["7.10", "6.12", "6.1"]
    assert kernels.find().release == "7.10"
    add("7.3", "7.3.4")
    assert kernels.find().release == "7.3"


def test_an_unknown_release_is_refused_with_those_there_are(add):
    add("6.12", "6.12.117")
    with pytest.raises(InputError, match=r"6\.12.*found .6\.2.*mptune kernel build 6\.2"):
        kernels.find("6.2")


def test_what_is_no_kernel_is_not_listed(add, cache):
    add("6.12", "6.12.117")
    (cache / "build-x").mkdir()
    (cache / "7.3").mkdir()
    (cache / "7.3/kernel.json").write_text("{")
    add("6.1", "6.1.140")
    (cache / "6.1/linux").unlink()
    # A renamed directory: its release would not be what it is called.
    (cache / "6.12").rename(cache / "6.13")
    assert kernels.built() == []


def test_remove_takes_the_kernel_and_tells_how_much_it_was(add, cache):
    add("6.12", "6.12.117")
    size = sum(file.stat().st_size for file in (cache / "6.12").iterdir())
    assert kernels.remove("6.12") == size and not (cache / "6.12").exists()
    with pytest.raises(InputError, match="no kernel is built"):
        kernels.remove("6.12")


def test_nothing_but_a_kernel_is_removed(add, cache):
    add("6.12", "6.12.117")
    (cache.parent / "precious").mkdir()
    with pytest.raises(InputError, match=r"expected one of 6\.12"):
        kernels.remove("../precious")
    assert (cache.parent / "precious").exists()
