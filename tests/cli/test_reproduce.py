"""`mptune reproduce`: the tables, the exit code, and the line that names what is not as documented."""

import inspect
import json
import typing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mptune.cli import app
from mptune.cli.reproduce import reproduce as command
from mptune.papers import published
from mptune.papers.measure import claims
from mptune.papers.reproduce import DOCUMENTED, PAPERS, VERDICTS

runner = CliRunner()


def change(monkeypatch: pytest.MonkeyPatch, table: str, column: str, old: str, new: str) -> None:
    original = published.rows

    def rows(name: str) -> list[dict[str, str]]:
        value = original(name)
        return (
            value if name != table else [{**r, column: new if r[column] == old else r[column]} for r in value]
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
    for documented in DOCUMENTED:
        assert f"{documented.erratum}: {documented.explanation}" in result.stdout
    row = next(line for line in result.stdout.splitlines() if "buffer UDE-HU, Eq. 1" in line)
    assert row.split()[:1] == ["agrees"]
    assert "443" in row.split()
    assert "443.39" in row.split()


def test_json_has_every_number_and_the_counts() -> None:
    result = runner.invoke(app, ["reproduce", "glm", "pcdc", "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["papers"] == ["glm", "pcdc"]
    assert [document["undocumented"], document["absent"]] == [[], []]
    for paper in document["papers"]:
        verdicts = [check["verdict"] for check in document["checks"] if check["paper"] == paper]
        assert document["counts"][paper] == {verdict: verdicts.count(verdict) for verdict in VERDICTS}
    peak = next(check for check in document["checks"] if check["key"] == "glm/example/vertex-buffer")
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


def measured(*arguments: str) -> Result:
    return runner.invoke(app, ["reproduce", *arguments, "--quiet", "--duration", "2s", "--runs", "1"])


def test_a_figure_is_measured_again_and_shown_beside_the_printed_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = measured("pcdc", "--measure", "fig-6")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "pcdc, Fig. 6, UiB-UNIS: PCDC is faster than FullMesh, with OLIA much faster" in result.stdout
    row = next(line for line in result.stdout.splitlines() if "PCDC against FullMesh with cubic" in line)
    assert "+12 %" in row
    counts, gains = result.stdout.split("claims")[-1].split("PCDC against FullMesh\n")
    names = [line.split()[0] for line in counts.splitlines()[1:] if line]
    assert names == ["pcdc", "part:", "part:", "all", "results"]
    gains, next_ = gains.split("\n\n")
    assert [line.split()[4] for line in gains.splitlines()[1:]] == ["cubic", "olia"]
    assert "docs/reference/measured.md" in next_
    assert "Figures: mptune reproduce pcdc --measure fig-6 --out DIR draws them" in next_
    assert [path.suffix for path in (tmp_path / "runs" / "reproduce").glob("trials-*.sqlite")] == [".sqlite"]
    assert not list(tmp_path.rglob("*.html"))


def test_with_a_directory_there_is_a_page_per_paper_and_the_trials_are_used_again(tmp_path: Path) -> None:
    asked = ["glm", "pathmgmt", "--measure", "fig-3", "--out", str(tmp_path / "again")]
    first = measured(*asked, "--json")
    second = measured(*asked, "--json")
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout == second.stdout
    document = json.loads(first.stdout)
    assert [claim["id"] for claim in document["claims"]] == ["pathmgmt-fig-3-ude-hu", "glm-fig-3-uio-uit"]
    assert (document["testbed"], document["stack"], document["runs"]) == ("simulated", "v0.9x", 1)
    assert json.loads((tmp_path / "again" / "measured.json").read_text()) == document
    pages = {path.name: path.read_text() for path in (tmp_path / "again").glob("*.html")}
    assert set(pages) == {"pathmgmt.html", "glm.html"}
    assert 'id="glm-fig-3-uio-uit"' in pages["glm.html"]
    assert "measured again" in pages["glm.html"]


def test_everything_that_can_be_measured_is_listed(tmp_path: Path) -> None:
    text = runner.invoke(app, ["reproduce", "mpcoa", "--measure", "list"])
    assert text.exit_code == 0
    assert "table-5" in text.stdout
    document = json.loads(runner.invoke(app, ["reproduce", "--measure", "list", "--json"]).stdout)
    assert len(document) == len(claims())
    assert {claim["part"] for claim in document} == {"fit", "judge"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["pcdc", "--measure", "fig-66"],
            "--measure: expected all, list, or a figure or table of pcdc, such as fig-6, fig-9, fig-8; "
            "found 'fig-66'",
        ),
        (["--measure", "all", "--only", "agrees"], "--only: expected without --measure"),
        (["--runs", "3"], "--runs: expected only with --measure"),
        (["--out", "x"], "--out: expected only with --measure"),
        (["--measure", "fig-6", "--testbed", "moon"], "--testbed: expected one of simulated, "),
    ],
)
def test_bad_input_of_a_measurement_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["reproduce", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"mptune: error: {line}")
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    result = measured("pcdc", "--measure", "fig-6", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "expected a new or empty directory, or that of an earlier --measure" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_interrupt_keeps_the_trials_and_prints_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mptune.papers.measure.running.measure", interrupted)
    result = measured("pcdc", "--measure", "fig-6", "--out", str(tmp_path / "again"))
    assert result.exit_code == 130
    assert f"finished trials are kept in {tmp_path / 'again'}; the same command continues" in result.stderr


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in ("file", "file/below", "nul\0"):
        result = measured("pcdc", "--measure", "fig-6", "--out", str(tmp_path / place))
        assert result.exit_code == 2
        assert result.stderr.startswith("mptune: error: --out: expected a ")
        assert len(result.stderr.splitlines()) == 1
