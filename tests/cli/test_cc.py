"""`mptune cc`: the listing and its refusals. What it does to the kernel is tested in tests/kernel."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.linux import bpf
from mptune.testbeds import congestion_controls

runner = CliRunner()


@pytest.fixture(autouse=True)
def nothing_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpf, "PINS", tmp_path / "bpf" / "mptune")


def test_the_list_has_every_congestion_control_with_a_name_or_a_reason() -> None:
    result = runner.invoke(app, ["cc", "list", "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert [control["cc"] for control in document] == congestion_controls()
    assert all((control["kernel_name"] is None) != (control["reason"] is None) for control in document)
    assert len(runner.invoke(app, ["cc", "list"]).stdout.splitlines()) == 1 + len(document)


@pytest.mark.parametrize("command", ["load", "unload"])
def test_an_unknown_name_is_refused_before_anything_is_done(command) -> None:
    result = runner.invoke(app, ["cc", command, "olia", "nonsense"])
    assert result.exit_code == 2
    assert "found 'nonsense'" in result.stderr and "balia" in result.stderr


def test_what_is_not_loaded_cannot_be_unloaded() -> None:
    result = runner.invoke(app, ["cc", "unload", "olia"])
    assert (result.exit_code, result.stderr) == (1, "mptune: error: olia: not loaded by mptune cc load\n")


def test_what_the_kernel_has_needs_no_loading(monkeypatch, tmp_path) -> None:
    available = tmp_path / "available"
    available.write_text("reno cubic")
    available.with_name("allowed").write_text("reno")
    monkeypatch.setattr(bpf, "_AVAILABLE", available)
    monkeypatch.setattr(bpf, "_ALLOWED", available.with_name("allowed"))
    result = runner.invoke(app, ["cc", "load", "cubic"])
    assert result.exit_code == 0
    assert "nothing to load; its name for TCP_CONGESTION is cubic" in result.stdout
    assert 'tcp_allowed_congestion_control="reno cubic"' in result.stdout


def test_without_a_bpf_file_system_the_way_to_one_is_shown(monkeypatch, tmp_path) -> None:
    objects, types = tmp_path / "objects", tmp_path / "vmlinux"
    objects.mkdir()
    (objects / "olia.bpf.o").touch()
    types.write_bytes(b"\0bpf_struct_ops_link\0")
    (tmp_path / "available").write_text("reno")
    for name, value in (
        ("OBJECTS", objects),
        ("_KERNEL_TYPES", types),
        ("_AVAILABLE", tmp_path / "available"),
    ):
        monkeypatch.setattr(bpf, name, value)
    monkeypatch.setattr(bpf, "_privileged", lambda: True)
    result = runner.invoke(app, ["cc", "load", "olia"])
    assert result.exit_code == 1
    assert f"mount -t bpf bpf {tmp_path / 'bpf'}" in result.stderr
