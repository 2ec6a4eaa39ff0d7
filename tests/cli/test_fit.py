"""`mptune fit`: the answer first, the JSON, and bad input in one line."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from mptune.cli import app

SLOPES = {"cubic": 0.7, "olia": 1.4, "vegas": 0.0}


def write(path: Path, seed: int, buffers: range = range(1, 29, 3)) -> str:
    """A campaign in the shape of the GLM study's: the initial path does nothing."""
    rng = np.random.default_rng(seed)
    lines = ["throughput_mbps,buffer_mib,cc,initial_path,note"]
    for b, (cc, slope), path_label in itertools.product(buffers, SLOPES.items(), ("U-U", "U-T", "B-U")):
        throughput = 7 + (4 + slope) * b - 0.1 * b**2 + float(rng.normal())
        lines.append(f"{throughput},{b},{cc},{path_label},x")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write(tmp_path / "data.csv", seed=1)


def fit(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["fit", *arguments])


def test_the_answer_comes_first(data: str, tmp_path: Path) -> None:
    result = fit(
        data, "--validate", write(tmp_path / "fresh.csv", 2, range(2, 27, 6)), "--target", "30Mbit/s"
    )
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{data}: the quadratic form explains 90 observations best (R-square 0.9")
    assert lines[1].startswith("The buffer matters: F(")
    assert lines[2].startswith("The congestion control matters: F(")
    assert lines[3].startswith("The initial path does not matter: F(4, ") and "p = " in lines[3]
    assert lines[4] == "Best congestion control: olia, significantly better than the others."
    assert "its mean relative error is" in lines[5] and "over 45 observations" in lines[5]
    for title in (
        "Forms",
        "Forward inclusion",
        "Coefficients",
        "What matters",
        "Equations",
        "Congestion controls",
    ):
        assert any(line.startswith(title) for line in lines), title
    assert "buffer for 30 Mbit/s" in result.stdout
    assert "Columns not used: note" in result.stdout


def test_the_json_has_everything(data: str) -> None:
    result = fit(data, "--target", "30Mbit/s", "--json")
    document = json.loads(result.stdout)
    assert document["form"] == "quadratic" and len(document["forms"]) == 4
    assert document["matters"]["initial_path"]["in_model"] is False
    assert document["matters"]["initial_path"]["p"] > 0.05
    assert {"name", "value", "error", "t", "p", "low", "high", "robust_error", "robust_p"} <= set(
        document["estimates"][0]
    )
    assert document["factors"]["cc"] == {"levels": ["cubic", "olia", "vegas"], "reference": "vegas"}
    for equation in document["equations"]:
        slope = 4 + SLOPES[equation["cc"]]
        assert equation["linear"] == pytest.approx(slope, abs=0.3)
        assert equation["vertex"]["buffer"] == pytest.approx(slope / 0.2, rel=0.1)
        b = equation["buffer_at_target_mib"]
        assert 7 + slope * b - 0.1 * b**2 == pytest.approx(30.0, abs=1.0)
        assert (equation["throughput_unit"], equation["buffer_unit"]) == ("Mbit/s", "MiB")
    assert [entry["cc"] for entry in document["ranking"]] == ["olia", "cubic", "vegas"]


def test_some_congestion_controls_and_forms(data: str) -> None:
    document = json.loads(
        fit(data, "--cc", "cubic,olia", "--forms", "linear", "--forms", "square-root", "--json").stdout
    )
    assert [form["form"] for form in document["forms"]] == ["linear", "square-root"]
    assert document["factors"]["cc"]["levels"] == ["cubic", "olia"]


def test_a_column_that_varies_and_is_not_modelled_is_named(data: str) -> None:
    """Whether it is tested or not is the user's choice; that it is pooled must be reported."""
    path = Path(data)
    header, *lines = path.read_text().splitlines()
    hours = [f"{line},{number % 2}" for number, line in enumerate([*lines, *lines])]
    path.write_text("\n".join([f"{header},hour", *hours]) + "\n")
    words = "hour varies but is not modelled"
    assert words in fit(data).stdout
    assert any(words in text for text in json.loads(fit(data, "--json").stdout)["warnings"])
    assert words not in fit(data, "--factor", "hour").stdout


def test_a_factor_may_be_declared_or_ignored(data: str) -> None:
    assert "initial_path" not in json.loads(fit(data, "--ignore", "initial_path", "--json").stdout)["factors"]
    assert json.loads(fit(data, "--factor", "note", "--json").stdout)["constant"] == {"note": "x"}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--target", "90Mbit/s"], "--target: expected at most"),
        (["--target", "90"], "--target: expected a rate"),
        (["--target", "0Mbit/s"], "--target: expected more than 0"),
        (["--forms", "cubic"], "--forms: expected one of linear, quadratic, logarithmic, square-root"),
        (["--alpha", "1.5"], "--alpha"),
        (["--cc", "turbo"], "--cc: expected names that occur in"),
        (["--ignore", "weekday"], "--ignore: expected a factor of the file"),
        (["--factor", "weekday"], "--factor: expected a header"),
        (["--buffer-unit", "KiB"], "--buffer-unit: expected MiB as in the header"),
        (["--validate", "none.csv"], "none.csv: expected a CSV file"),
    ],
)
def test_bad_options_are_one_line(data: str, arguments: list[str], named: str) -> None:
    result = fit(data, *arguments)
    assert result.exit_code == 2
    assert named in result.stderr and result.stderr.count("\n") == 1
    assert not result.stdout


def test_a_bad_cell_is_named_with_row_and_column(data: str) -> None:
    path = Path(data)
    lines = path.read_text().splitlines()
    lines[4] = "nan,1,cubic,U-U,x"
    path.write_text("\n".join(lines) + "\n")
    result = fit(data)
    assert result.exit_code == 2
    assert f"{data}: row 5, column throughput_mbps: expected a number, found 'nan'" in result.stderr


def test_a_singular_design_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tied.csv"
    rows = [f"{b},{b},{cc},{label}" for b in range(1, 6) for cc, label in (("a", "U-U"), ("b", "U-T"))]
    path.write_text("\n".join(["throughput_mbps,buffer_mib,cc,initial_path", *rows]) + "\n")
    result = fit(str(path))
    assert result.exit_code == 2
    assert "initial_path: expected levels that vary independently of cc" in result.stderr
