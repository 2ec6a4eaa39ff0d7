"""Commands on two hosts of which not everything is known: refused, or without what would need it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.cli import app
from mptune.report.drawing import NARROW, WIDE, Geometry, draw
from mptune.report.measured import warnings
from mptune.result.reading import read_run
from mptune.topology import load
from tests.plugins import two_hosts
from tests.report.making import sections

FIRST = f"hosts.toml: {two_hosts.MISSING[0]}: expected a rate, needed by"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    two_hosts.write(tmp_path)


@pytest.fixture
def real(fake_testbed: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A testbed that needs no topology to know the network, as two hosts do not."""
    monkeypatch.setattr(type(fake_testbed), "only_stack", "linux", raising=False)
    monkeypatch.setitem(testbeds.TESTBEDS, "fake", type(fake_testbed))
    return fake_testbed


def mptune(*arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments])


CAMPAIGN = """
topology = "hosts.toml"
kind = "sweep"
[factors]
pm = ["fullmesh"]
cc = ["cubic"]
buffers = "1"
"""


@pytest.mark.parametrize(
    ("arguments", "user"),
    [
        (["run", "hosts.toml"], "the simulator"),
        (["run", "hosts.toml", "--reverse"], None),
        (["impact", "hosts.toml"], "the simulator"),
        (["optimise", "hosts.toml"], "the simulator"),
        (["optimise", "hosts.toml", "--transfer", "64KiB"], "the simulator"),
        (["campaign", "run", "campaign.toml"], "the simulator"),
        (["buffers", "hosts.toml"], "the formulas"),
        (["buffers", "hosts.toml", "--json"], "the formulas"),
        (["buffers", "hosts.toml", "--rtt", "loaded"], "the formulas"),
        (["buffers", "hosts.toml", "--measure", "--quiet"], "the simulator"),
        (["buffers", "hosts.toml", "--measure", "--connections", "2"], "the formulas"),
    ],
)
def test_what_needs_the_numbers_is_refused_in_one_line_and_leaves_nothing(
    arguments: list[str], user: str | None, tmp_path: Path
) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    before = sorted(tmp_path.rglob("*"))
    result = mptune(*arguments)
    assert result.exit_code == 2
    first = "hosts.toml: sites.R.interfaces.X.up: expected a rate, needed by the simulator"
    assert result.stderr.startswith(f"mptune: error: {first if user is None else f'{FIRST} {user};'}")
    assert result.stderr.count("\n") == 1 and result.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before


SHORT = ("--testbed", "fake", "--duration", "1s", "--buffers", "1,2,4,8", "--quiet")


def test_impact_prints_beforehand_how_long_it_takes_in_real_time(real: Any) -> None:
    result = mptune("impact", "hosts.toml", "--testbed", "fake", "--runs", "4", "--duration", "1s")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith("At most 4 runs of 12 s, fewer if all is decided sooner; --runs and ")
    assert "runs of" not in mptune("impact", "UiT-HAW", "--runs", "4", "--duration", "1s").stderr


def test_what_is_enough_is_measured_without_the_formulas(real: Any) -> None:
    short = ("buffers", "hosts.toml", "--measure", "--runs", "2", *SHORT)
    result = mptune(*short)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("hosts: no buffer sizes by formula, as not every rate and RTT is known")
    assert "nominal" not in result.stdout and "The formulas, of measured rates and idle RTTs" in result.stdout
    document = json.loads(mptune(*short, "--json").stdout)
    assert (document["paths"], document["mptcp"]) == ([], None)
    assert document["measured"]["mptcp"]["bytes"]["first"] > 0


def test_a_sweep_needs_no_numbers_and_its_report_shows_none(real: Any, tmp_path: Path) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN.replace("kind", 'testbed = "fake"\nkind', 1))
    out = tmp_path / "run"
    result = mptune("campaign", "run", "campaign.toml", "--out", str(out), "--quiet")
    assert result.exit_code == 0, result.stderr
    run = read_run(out, "run")
    (network,) = (section for section in sections(run) if section.name == "topology")
    by_title = {table.title: table.rows for table in network.tables}
    assert by_title["Paths"][0]["rate_mbps"] == 41
    for row in by_title["Paths"][1:]:
        assert row["rate_mbps"] is row["base_rtt_ms"] is row["queue_kib"] is None
    assert [row["measured"] for row in by_title["Measurements and their methods"]] == [
        "2026-11-22, 5 probes",
        "2026-11-22, smallest of 20",
    ]
    assert "Question marks" in network.lead
    assert any("not known: 8 (The network, below)" in text for text in warnings(run))
    assert "Measurements and their methods" in (out / "report.html").read_text()
    (assumed,) = (text for text in warnings(run) if "are assumed" in text)
    assert assumed.endswith("the results are only as good as those values.")
    config = out / "config.json"
    config.write_text(config.read_text().replace('"testbed": "fake"', '"testbed": "hosts"'))
    (assumed,) = (text for text in warnings(read_run(out, "run")) if "are assumed" in text)
    assert assumed.endswith("so only what is computed from the file depends on those values.")


@pytest.mark.parametrize("shape", [WIDE, NARROW])
def test_the_drawing_has_question_marks(shape: Geometry, tmp_path: Path) -> None:
    drawing = draw(load(tmp_path / "hosts.toml"), (), shape)
    assert "A-X  300 us" in drawing and "B-X  RTT ?" in drawing
    assert ("B-X  RTT ?  rate ?" in drawing) == shape.wide
    assert drawing.count(">up ?<") == 3 and drawing.count(">down ?<") == 3
    assert ">up 41 Mbit/s<" in drawing and ">down 1 Gbit/s<" in drawing
    assert "0 bit/s" not in drawing and "0 ns" not in drawing
