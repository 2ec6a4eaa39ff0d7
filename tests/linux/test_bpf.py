"""A congestion control's name on a kernel, decided without registering anything."""

import re
import tomllib
from pathlib import Path

import pytest

from mptune import testbeds
from mptune.errors import MptuneError
from mptune.linux import bpf
from mptune.trial.congestion import PAIRS
from tests.plugins.needs import BPF_OBJECTS

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "bpf/congestion").glob("*.h"))


def test_programs_are_looked_for_where_they_are_built_and_packaged() -> None:
    """Three places name the folder; where they differ, only a machine with clang would notice."""
    built = re.search(r"^PACKAGED := (.*)$", (ROOT / "bpf/Makefile").read_text(), re.MULTILINE)
    assert built is not None and (ROOT / "bpf" / built[1]).resolve() == BPF_OBJECTS
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["maturin"]
    included = [
        ROOT / included_file["path"]
        for included_file in package["include"]
        if "wheel" in included_file["format"]
    ]
    assert BPF_OBJECTS / "*.bpf.o" in included


#: Type information of a kernel from Linux 6.4 on, as far as it is looked at.
TYPES = b"\0bpf_struct_ops\0bpf_struct_ops_link\0"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A made-up kernel: reno and cubic, type information, two programs, and the right to register them."""
    available, types, objects = tmp_path / "available", tmp_path / "vmlinux", tmp_path / "objects"
    available.write_text("reno cubic\n")
    types.write_bytes(TYPES)
    objects.mkdir()
    for name in ("olia", "vegas"):
        (objects / f"{name}.bpf.o").touch()
    monkeypatch.setattr(bpf, "_AVAILABLE", available)
    monkeypatch.setattr(bpf, "_KERNEL_TYPES", types)
    monkeypatch.setattr(bpf, "OBJECTS", objects)
    monkeypatch.setattr(bpf, "_privileged", lambda: True)
    return available, types, objects


def test_what_the_kernel_has_comes_before_a_program(kernel) -> None:
    available, _, _ = kernel
    assert bpf.kernel_name("cubic") == "cubic"
    assert bpf.kernel_name("vegas") == "mptune_vegas"
    available.write_text("reno cubic vegas\n")
    assert bpf.kernel_name("vegas") == "vegas"
    available.write_text("reno vegas mptune_vegas\n")
    availability = bpf.availability("vegas")
    assert (availability.kernel_name, availability.source, availability.registered) == (
        "vegas",
        "kernel",
        True,
    )


def test_a_program_counts_as_registered_once_the_kernel_knows_it(kernel) -> None:
    available, _, _ = kernel
    assert not bpf.availability("olia").registered
    available.write_text("reno mptune_olia\n")
    assert bpf.availability("olia").registered


def test_a_program_that_is_registered_can_be_used_without_privilege(kernel, monkeypatch) -> None:
    available, _, _ = kernel
    monkeypatch.setattr(bpf, "_privileged", lambda: False)
    assert bpf.kernel_name("olia") is None
    available.write_text("reno mptune_olia\n")
    with bpf.loaded(["olia", "reno"]) as names:
        assert names == {"olia": "mptune_olia", "reno": "reno"}


def test_a_kernel_without_links_of_programs_keeps_none(kernel) -> None:
    _, types, _ = kernel
    types.write_bytes(b"\0bpf_struct_ops\0")
    assert "Linux 6.4" in str(bpf.availability("olia").reason)


def test_every_obstacle_is_named(kernel, monkeypatch) -> None:
    available, types, objects = kernel

    def reason(cc: str) -> str:
        availability = bpf.availability(cc)
        assert (
            availability.kernel_name is None
            and availability.source is None
            and availability.reason is not None
        )
        with pytest.raises(MptuneError, match=f"^{cc}: "), bpf.loaded([cc]):
            pass
        return availability.reason

    assert "no BPF program" in reason("dctcp")
    monkeypatch.setattr(bpf, "_privileged", lambda: False)
    assert "root" in reason("olia") and "mptune cc load olia" in reason("olia")
    types.unlink()
    assert "CONFIG_DEBUG_INFO_BTF" in reason("olia")
    for path in objects.iterdir():
        path.unlink()
    assert "make bpf" in reason("olia")
    available.unlink()
    assert "no Linux TCP" in reason("olia")


def test_a_private_program_has_a_name_of_its_own_everywhere_in_the_object(kernel) -> None:
    objects = kernel[2]
    for cc in ("olia", "vegas"):
        text = b"\0olia\0mptune_%b\0vegas_ssthresh\0mptune_%b\0" % ((cc.encode(),) * 2)
        (objects / f"{cc}.bpf.o").write_bytes(text)
        name, content = bpf.private(cc)
        assert re.fullmatch(f"{cc}_[a-z0-9]{{6}}", name) and name != bpf.private(cc)[0]
        assert content == text.replace(f"mptune_{cc}".encode(), name.encode()) and len(content) == len(text)


def test_a_missing_program_has_its_reason(kernel, monkeypatch, tmp_path) -> None:
    assert bpf.lacking("olia") is None
    assert bpf.lacking("bbr") == "there is no BPF program for it"
    monkeypatch.setattr(bpf, "OBJECTS", tmp_path / "nowhere")
    assert "make bpf" in (bpf.lacking("olia") or "")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_a_program_is_the_twin_of_a_controller_of_its_name(source) -> None:
    assert source.stem in testbeds.names("congestion_controls")
    assert len(bpf.PREFIX + source.stem) <= 15  # TCP_CA_NAME_MAX with its zero


def test_pairs_are_the_files_of_both_folders() -> None:
    policies = {path.stem for path in (ROOT / "bpf/scheduling").glob("*.h")}
    assert set(PAIRS) == {f"{source.stem}+{policy}" for source in SOURCES for policy in policies}
    for pair in PAIRS:
        name = bpf.registered_name(pair)
        assert re.fullmatch(r"[a-z0-9_]{1,15}", name) and bpf.registered_as(name) == pair
    assert bpf.registered_as("mptune_olia") == "olia" and bpf.registered_as("cubic") is None


def test_a_private_pair_has_a_name_of_its_own(kernel) -> None:
    (kernel[2] / "reno+hold.bpf.o").write_bytes(b"\0reno_hold\0.struct_ops\0reno_hold\0")
    name, content = bpf.private("reno+hold")
    assert len(name) == len("reno_hold") and name != bpf.private("reno+hold")[0]
    assert content == b"\0%b\0.struct_ops\0%b\0" % (name.encode(), name.encode())
