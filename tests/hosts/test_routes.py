"""Routes between two machines over time: by hand, and in a campaign."""

import json

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.machines.ssh import VARIABLE
from mptune.testbeds import hosts as hosts_testbed
from mptune.testbeds.hosts import HostsTestbed
from mptune.topology import load
from tests.hosts.router import entered
from tests.hosts.world import Side, Uplink

#: One router of alice's uplinks, which every path crosses.
TRANSIT = "10.9.0.1"
CAMPAIGN = """
topology = "world.toml"
testbed = "hosts"
kind = "sweep"
[factors]
pm = ["default"]
cc = ["cubic"]
buffers = "1MiB"
[trials]
runs = 2
duration = "1s"
[routes]
every = "1h"
networks = "as.csv"
"""


@pytest.fixture(scope="module")
def crossed(make_world):
    uplinks = (Uplink(families=("ipv4",)), Uplink(families=("ipv4",)))
    return make_world((Side(uplinks=uplinks, transit=TRANSIT), Side(uplinks=uplinks)))


@pytest.fixture(autouse=True)
def _folder(crossed, tmp_path, monkeypatch):
    """The current directory has the files, ssh knows the machines, and busy processors are no matter."""
    begin = HostsTestbed.__init__
    beds = []

    def init(bed):
        begin(bed)
        beds.append(bed)

    monkeypatch.setattr(HostsTestbed, "__init__", init)
    monkeypatch.setattr(hosts_testbed, "_BUSY", 2.0)
    monkeypatch.setenv(VARIABLE, str(crossed.bin / "ssh"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "world.toml").write_text(crossed.topology())
    (tmp_path / "as.csv").write_text("prefix,asn,name\n10.9.0.0/16,64500,Transit\n10.1.0.0/16,64501,\n")
    with crossed.unchanged():
        yield
        for bed in beds:
            bed.close()


def invoked(*arguments):
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def moved(world, address):
    """The router on all paths reports by another address, as if it were another router."""
    netns = world.uplink("alice", 0).transit.netns
    lines = [f"address replace {address}/32 dev lo"]
    for number in (1, 2):
        lines.append(f"route replace 10.1.{number}.0/24 via 10.8.{number}.1 dev to{number} src {address}")
    entered(netns, ["ip", "-batch", "-"], "\n".join(lines) + "\n")


def test_a_route_that_changes_is_a_row_with_its_time(crossed, tmp_path):
    asked = ("routes", "world.toml", "--networks", "as.csv", "--keep", "kept.jsonl", "--json")
    first = json.loads(invoked(*asked))
    labels = [path.label for path in load(tmp_path / "world.toml").paths]
    assert [row["path"] for row in first["routes"] if row["direction"] == "to the receiver"] == labels
    assert first["routes"][0]["systems"] == "AS64501 > AS64500 Transit > ?"
    shared = next(row for row in first["shared"] if row["router"] == TRANSIT)
    assert shared["paths"] == ", ".join(labels) and shared["system"] == "AS64500 Transit"
    moved(crossed, "10.9.0.2")
    try:
        second = json.loads(invoked(*asked))
    finally:
        moved(crossed, TRANSIT)
    assert second["traced"] == 2 and not first["changes"]
    assert [(row["path"], row["direction"]) for row in second["changes"]] == [
        (label, "to the receiver") for label in labels
    ]
    for row in second["changes"]:
        assert TRANSIT in row["before"] and "10.9.0.2" in row["after"] and row["when"] == second["last"]


def test_a_campaign_traces_routes_between_its_trials_and_shows_what_paths_share(tmp_path):
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    invoked("campaign", "run", "campaign.toml", "--out", "run", "--quiet")
    status = json.loads(invoked("campaign", "status", "run", "--json"))
    assert status["routes"]["traced"] == 1 and status["routes"]["failed"] == 0
    assert [phase["done"] for phase in status["phases"]] == [2]
    assert any(row["router"] == TRANSIT for row in status["routes"]["shared"])
    words = " ".join(invoked("campaign", "status", "run").split())
    assert "Routers that paths share" in words and "AS64500 Transit" in words
    page = (tmp_path / "run/report.html").read_text()
    assert "Routers that paths share" in page and TRANSIT in page
