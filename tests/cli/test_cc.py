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


#: Arguments of `mptune cc load`, and what is refused.
WRONG = {
    "cubic+cap --caps 10.0.1=2Mbit/s": "--caps: expected an address of this machine such as 10.0.1.2, "
    "or 10.0.1.2-10.9.0.0/16 to some destinations, found '10.0.1'",
    "cubic+cap --caps 10.0.1.2-10.9.0.1/16=2Mbit/s": "--caps: expected a prefix such as 10.9.0.0/16 after -, "
    "found '10.9.0.1/16'",
    "cubic+weight --weights ::1-10.0.0.0/8=2": "--weights: expected IPv6 at both ends, "
    "found '::1-10.0.0.0/8'",
    "cubic+weight --weights 10.0.1.2=1001": "--weights: 10.0.1.2: expected 1 to 1000, found 1001",
    "cubic+prefer --order 10.0.1.2,10.0.1.2": "--order: expected each value once, found 10.0.1.2 twice",
    "cubic+hold --caps 10.0.1.2=2Mbit/s": "--caps: expected a congestion control with the path policy cap, "
    "such as cubic+cap, found cubic+hold",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_what_a_policy_cannot_be_told_is_refused_before_anything_is_done(arguments) -> None:
    result = runner.invoke(app, ["cc", "load", *arguments.split()])
    assert (result.exit_code, result.stderr) == (2, f"mptune: error: {WRONG[arguments]}\n")


def test_a_program_is_told_of_paths_by_addresses_and_each_of_what_it_goes_by(monkeypatch) -> None:
    loaded = {}

    def load(cc, paths):
        loaded[cc] = paths
        return bpf.Availability(cc=cc, kernel_name=bpf.registered_name(cc), source="bpf", registered=True)

    monkeypatch.setattr(bpf, "load", load)
    monkeypatch.setattr(bpf, "availability", lambda cc: load(cc, loaded[cc]))
    caps = "10.0.1.2=2Mbit/s,fd00::1-2001:db8::/32=1Mbit/s"
    names = ["cubic+cap", "olia+weight", "reno+hold", "reno+prefer"]
    arguments = ["--caps", caps, "--weights", "", "--order", "10.0.1.2, 10.0.2.2-10.9.0.7"]
    assert runner.invoke(app, ["cc", "load", *names, *arguments]).exit_code == 0
    assert loaded == {
        "cubic+cap": [
            {"local": "10.0.1.2", "cap_bps": 2_000_000},
            {"local": "fd00::1", "remote": "2001:db8::/32", "cap_bps": 1_000_000},
        ],
        "olia+weight": [],
        "reno+hold": None,
        "reno+prefer": [
            {"local": "10.0.1.2", "rank": 0},
            {"local": "10.0.2.2", "remote": "10.9.0.7", "rank": 1},
        ],
    }
    runner.invoke(app, ["cc", "load", "cubic+cap"])
    assert loaded["cubic+cap"] is None, "what it was told before stays"
