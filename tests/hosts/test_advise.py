"""`mptune advise` of machines that ssh reaches: what is set there stands beside what would be, and stays."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.apply.advice import advise
from mptune.apply.plan import check
from mptune.cli import app
from mptune.machines.ssh import VARIABLE, connect
from mptune.topology import load
from tests.apply.worlds import altered, make_runs


@pytest.fixture
def run(world, tmp_path, monkeypatch) -> Path:
    """An answer for both uplinks of the world, as a limit of buffers."""
    monkeypatch.setenv(VARIABLE, str(world.bin / "ssh"))
    (tmp_path / "world.toml").write_text(world.topology())
    labels = [path.label for path in load(tmp_path / "world.toml").paths]
    make_runs(tmp_path, "grid")
    return altered(
        tmp_path / "grid",
        tmp_path / "run",
        network=world.topology(),
        protocol="mptcp",
        opm="fullmesh",
        occ="reno",
        subflows=labels,
        standby=[],
        buffer_mode="auto",
        obs_bytes=1 << 20,
    )


def test_present_values_come_over_ssh_and_nothing_changes(world, run):
    with world.alice.unchanged(), world.bob.unchanged():
        alice, bob = advise(run).hosts
    assert (alice.read, bob.read) == ("ssh alice", "ssh bob")
    for host in (alice, bob):
        check(host.plan)
        present = {line.title: line.present for line in host.lines}
        lines = {line.title: line.wanted for line in host.lines}
        name = f"net.ipv4.tcp_{'w' if host is alice else 'r'}mem"
        assert present["net.mptcp.enabled"] in ("0", "1")
        now = present[name]
        assert now is not None and lines[name].split()[:2] == now.split()[:2]
        assert lines[name].endswith(" 1048576")
    routes = [setting for setting in alice.plan.settings if setting["kind"] == "route"]
    assert routes and all(route["congctl"] == "reno" for route in routes)


def test_files_name_the_routes_that_are_there(world, run, tmp_path):
    done = CliRunner().invoke(app, ["advise", str(run), "--files", str(tmp_path / "files")])
    assert done.exit_code == 0, done.stderr
    unit = (tmp_path / "files/S/systemd/mptune-paths.service").read_text()
    assert "table 101" in unit and "table 102" in unit and "table 254" not in unit


def test_while_a_session_is_at_work_no_files_are_written(world, run, tmp_path):
    at_work = connect("alice", "alice")
    try:
        done = CliRunner().invoke(app, ["advise", str(run), "--files", str(tmp_path / "files")])
    finally:
        at_work.close()
    assert (done.exit_code, done.stdout) == (1, "")
    (error,) = done.stderr.splitlines()
    assert error.startswith("mptune: error: alice was not read: alice: another session is running")
    assert "no files are written" in error and not (tmp_path / "files").exists()
