"""`mptune paths`: the table, the origins of the values, and the JSON that tools read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.topology import load

runner = CliRunner()


def test_json_lists_every_path_and_every_value() -> None:
    result = runner.invoke(app, ["paths", "UNIS-HiN", "--json"])
    assert result.exit_code == 0
    shown, topology = json.loads(result.stdout), load("UNIS-HiN")
    assert [path["path"] for path in shown["paths"]] == [path.label for path in topology.paths]
    slow = next(path for path in shown["paths"] if path["path"] == "U-P")
    expected = {
        "local": "Uninett",
        "remote": "PowerTech",
        "rate_bps": 6_000_000,
        "rtt_ms": 45.0,
        "loss": 0.001,
    }
    assert expected.items() <= slow.items()
    assert slow["bdp_bytes"] == 6_000_000 * 45 // 8000
    origins = {entry["key"]: entry for entry in [*shown["published"], *shown["assumed"]]}
    assert origins.keys() == topology.provenance.keys()
    assert origins["sites.HiN.interfaces.P.down"]["source"] == "MPCOA (Electronics 2021), Table 1"
    assert "274.2" in origins["sites.UNIS.interfaces.U.up"]["reason"]
    assert origins["lsrr"]["default"]


def test_output_into_a_pipe_is_neither_cut_nor_wrapped() -> None:
    lines = runner.invoke(app, ["paths", "SRL-HU"]).stdout.splitlines()
    assert "…" not in "".join(lines)
    row = next(line for line in lines if line.startswith("T-CU"))
    assert " ".join(row.split()) == "T-CU Telenor CnUnicom 768 kbit/s 386 ms 0.1 % 132.8 KiB 36.19 KiB"
    for origin in load("SRL-HU").provenance.values():
        assert any((origin.source or origin.assumed or "") == line.strip() for line in lines)


def test_every_value_stands_below_its_origin() -> None:
    lines = [line.strip() for line in runner.invoke(app, ["paths", "UiT-HAW"]).stdout.splitlines()]
    published = lines[lines.index("Published") + 1 : lines.index("Assumed in the file")]
    assert published[0] == "MPCOA (Electronics 2021), Table 1"
    assert "UiT.P.up = 512 kbit/s" in published[1]
    reason = next(line for line in lines if line.startswith("the pair's RTTmax is 1.8 s"))
    assert lines[lines.index(reason) + 1] == "UiT.P.queue_up = 112 kB; UiT.T.queue_up = 84 kB"


def test_bad_file_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("name = 'x'\nspeed = 3\n", encoding="utf-8")
    for extra in ([], ["--json"]):
        result = runner.invoke(app, ["paths", str(file), *extra])
        assert result.exit_code == 2
        assert result.stderr.startswith(f"mptune: error: {file}: speed: unknown key")
        assert result.stdout == ""


@pytest.mark.parametrize("module", ["numpy", "pandas", "statsmodels", "altair", "rich", "dask"])
def test_importing_the_cli_leaves_the_heavy_modules_alone(module: str) -> None:
    code = f"import sys, mptune.cli; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
