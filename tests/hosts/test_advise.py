"""`mptune advise` of machines that ssh reaches: what is set there stands beside what would be, and stays."""

from mptune.apply.advice import advise
from mptune.apply.plan import check
from mptune.machines.ssh import VARIABLE
from mptune.topology import load
from tests.apply.worlds import altered, make_runs


def test_present_values_come_over_ssh_and_nothing_changes(world, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(world.bin / "ssh"))
    (tmp_path / "world.toml").write_text(world.topology())
    labels = [path.label for path in load(tmp_path / "world.toml").paths]
    make_runs(tmp_path, "grid")
    run = altered(
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
    with world.alice.unchanged(), world.bob.unchanged():
        alice, bob = advise(run).hosts
    assert (alice.read, bob.read) == ("ssh alice", "ssh bob")
    for host in (alice, bob):
        check(host.plan)
        present = {line.title: line.present for line in host.lines}
        wanted = {line.title: line.wanted for line in host.lines}
        name = f"net.ipv4.tcp_{'w' if host is alice else 'r'}mem"
        assert present["net.mptcp.enabled"] in ("0", "1")
        now = present[name]
        assert now is not None and wanted[name].split()[:2] == now.split()[:2]
        assert wanted[name].endswith(" 1048576")
    routes = [one for one in alice.plan.settings if one["kind"] == "route"]
    assert routes and all(one["congctl"] == "reno" for one in routes)
