"""Claims on calibrated scenarios: the same claims, on other networks where there are any."""

from pathlib import Path

from typer.testing import CliRunner

from mptune.cli import app
from mptune.papers.measure.claims import CALIBRATED, claims, on_calibrated
from mptune.topology import shipped


def test_points_move_to_calibrated_networks_and_nothing_else_changes() -> None:
    there = {name.removesuffix(CALIBRATED) for name in shipped() if name.endswith(CALIBRATED)}
    assert there
    for before, after in zip(claims(), on_calibrated(claims()), strict=True):
        assert (after.id, after.statements, after.part) == (before.id, before.statements, before.part)
        for old, new in zip(before.points, after.points, strict=True):
            assert new.scenario == calibrated(old.scenario, there) and new.name == old.name
            assert new.configuration == old.configuration
        for factor, other in zip(before.factors, after.factors, strict=True):
            assert other.scenario == calibrated(factor.scenario, there) and other.printed == factor.printed


def calibrated(scenario: str, there: set[str]) -> str:
    return f"{scenario}{CALIBRATED}" if scenario in there else scenario


def test_the_command_measures_on_them_and_its_document_names_them(tmp_path: Path) -> None:
    command = ["reproduce", "pcdc", "--measure", "pcdc-fig-10-uib-hu-fullmesh", "--calibrated", "--runs", "1"]
    result = CliRunner().invoke(
        app, [*command, "--duration", "1s", "--out", str(tmp_path / "out"), "--quiet", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert f"UiB-HU{CALIBRATED}" in result.stdout and "calibrated where there are any" in result.stdout
