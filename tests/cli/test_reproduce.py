"""`mptune reproduce`: the tables, the exit code, and the line that names what is not as documented."""

import inspect
import json
import typing

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.cli.reproduce import reproduce as command
from mptune.papers import published
from mptune.papers.reproduce import DOCUMENTED, PAPERS, VERDICTS

runner = CliRunner()


def change(monkeypatch: pytest.MonkeyPatch, table: str, column: str, old: str, new: str) -> None:
    original = published.rows

    def rows(name: str) -> list[dict[str, str]]:
        found = original(name)
        return (
            found if name != table else [{**r, column: new if r[column] == old else r[column]} for r in found]
        )

    monkeypatch.setattr(published, "rows", rows)


def test_all_papers_are_shown_and_the_exit_code_is_0() -> None:
    result = runner.invoke(app, ["reproduce"])
    assert result.exit_code == 0
    assert result.stderr == ""
    titles = [
        line
        for line in result.stdout.splitlines()
        if line.startswith(tuple(p.title for p in PAPERS.values()))
    ]
    assert len(titles) == len(PAPERS)
    for one in DOCUMENTED:
        assert f"{one.erratum}: {one.explanation}" in result.stdout
    row = next(line for line in result.stdout.splitlines() if "buffer UDE-HU, Eq. 1" in line)
    assert row.split()[:1] == ["agrees"]
    assert "443" in row.split()
    assert "443.39" in row.split()


def test_json_has_every_number_and_the_counts() -> None:
    result = runner.invoke(app, ["reproduce", "glm", "pcdc", "--json"])
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    assert shown["papers"] == ["glm", "pcdc"]
    assert [shown["undocumented"], shown["absent"]] == [[], []]
    for paper in shown["papers"]:
        verdicts = [check["verdict"] for check in shown["checks"] if check["paper"] == paper]
        assert shown["counts"][paper] == {verdict: verdicts.count(verdict) for verdict in VERDICTS}
    peak = next(check for check in shown["checks"] if check["key"] == "glm/example/vertex-buffer")
    assert peak["verdict"] == "within rounding"
    assert peak["recomputed"] == pytest.approx(76_173_886.70, abs=0.005)
    assert "cut off" in peak["explanation"]


@pytest.mark.parametrize("verdict", VERDICTS)
def test_only_filters_what_is_shown_and_counts_everything(verdict: str) -> None:
    full = json.loads(runner.invoke(app, ["reproduce", "glm", "--json"]).stdout)
    part = json.loads(runner.invoke(app, ["reproduce", "glm", "--json", "--only", verdict]).stdout)
    assert part["checks"] == [check for check in full["checks"] if check["verdict"] == verdict]
    assert part["checks"]
    assert part["counts"] == full["counts"]


@pytest.mark.parametrize("extra", [[], ["--json"], ["--only", "agrees"]])
def test_a_changed_fact_ends_with_exit_code_1_and_its_name(
    monkeypatch: pytest.MonkeyPatch, extra: list[str]
) -> None:
    change(monkeypatch, "glm_worked_examples", "value", "94025290", "94052290")
    result = runner.invoke(app, ["reproduce", "glm", *extra])
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "glm/example/forward contradicts (94052290 published, 94025290.0 recomputed)" in result.stderr
    assert result.stdout


def test_a_contradiction_that_does_not_occur_ends_with_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, "glm_worked_examples", "value", "50", "60")
    result = runner.invoke(app, ["reproduce"])
    assert result.exit_code == 1
    assert "glm/validation-points is documented as a contradiction but agrees" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nonsense"], "PAPERS: expected one of mpcoa, buffersizes, pcdc, pathmgmt, glm, found 'nonsense'"),
        (["--only", "maybe"], "--only: expected one of agrees, within rounding, contradicts, found 'maybe'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], line: str) -> None:
    result = runner.invoke(app, ["reproduce", *arguments])
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"mptune: error: {line}\n", "")


def test_the_help_names_every_paper() -> None:
    annotated = inspect.signature(command, eval_str=True).parameters["papers"].annotation
    metavar = typing.get_args(annotated)[1].metavar
    assert metavar == "|".join(PAPERS)
