"""`mptune fit --model`: the answer first, the JSON, the figure, and bad input in one line."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune.cli import app

MODEL = ("--model", "T ~ B + B^2 + CC + B:CC")


@pytest.fixture
def data(tmp_path: Path) -> str:
    """A campaign with a quadratic in the buffer and a slope of each congestion control."""
    draw = random.Random(5)
    slopes = {"cubic": 0.7, "olia": 1.4, "vegas": 0.0}
    rows = [
        f"{7 + (4 + slope) * b - 0.1 * b**2 + draw.gauss(0, 1)!r},{b},{cc},x"
        for b in range(1, 29, 3)
        for cc, slope in slopes.items()
        for _ in range(3)
    ]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["throughput_mbps,buffer_mib,cc,note", *rows]) + "\n")
    return str(path)


def fit(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["fit", *arguments])


def test_the_answer_comes_first(data: str) -> None:
    result = fit(
        data, *MODEL, "--predict", "B=10,CC=OLIA", "--solve", "T=30,CC=olia", "--reference", "CC=cubic"
    )
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{data}: T ~ B + B^2 + CC + B:CC explains 90 observations with R-square 0.99")
    assert lines[1] == "T in Mbit/s; B in MiB; reference level: CC cubic; limits hold with 0.95."
    titles = [line for line in lines if line[:1].isupper()]
    order = ("Predictions", "Smallest B", "Variance", "Terms", "Coefficients", "Least-squares means")
    assert [title for title in order if any(line.startswith(title) for line in titles)] == list(order)
    assert any(line.startswith("B=10,CC=olia") for line in lines)
    assert any(line.startswith("CC=cubic  ") and " 0 " in line for line in lines)


def test_the_json_has_everything(data: str) -> None:
    result = fit(data, *MODEL, "--units", "bit/s,B", "--predict", "B=10MiB", "--target", "30Mbit/s", "--json")
    document = json.loads(result.stdout)
    assert document["model"] == "T ~ B + B^2 + CC + B:CC"
    assert document["units"] == {"T": "bit/s", "B": "B"}
    assert [term["name"] for term in document["terms"]] == ["B", "B^2", "CC", "B:CC"]
    assert all({"squares", "f", "df", "p"} <= set(term["type_iii"]) for term in document["terms"])
    olia = next(
        prediction for prediction in document["predictions"] if prediction["levels"] == {"CC": "olia"}
    )
    assert olia["numbers"] == {"B": 10 * 2**20}
    assert olia["mean"]["value"] == pytest.approx(51e6, abs=1e6)
    assert olia["low"] < olia["mean"]["low"] < olia["mean"]["high"] < olia["high"]
    inverse = next(inverse for inverse in document["inverses"] if inverse["levels"] == {"CC": "olia"})
    assert inverse["variable"] == "B" and inverse["low"] < inverse["value"] < inverse["high"]
    assert {row["levels"]["CC"] for row in document["least_squares_means"]} == {"cubic", "olia", "vegas"}


def test_what_the_procedure_finds_can_be_stated(data: str) -> None:
    document = json.loads(fit(data, "--json").stdout)
    assert f'--model "{document["model"]}"' in fit(data).stdout
    stated = json.loads(fit(data, "--model", document["model"], "--json").stdout)
    chosen = next(form for form in document["forms"] if form["form"] == document["form"])
    assert stated["quality"]["r_squared"] == pytest.approx(chosen["r_squared"], rel=1e-9)
    assert stated["quality"]["root_mse"] == pytest.approx(chosen["root_mse_mbps"], rel=1e-9)


@pytest.mark.parametrize("suffix", [".svg", ".html"])
def test_the_figure(data: str, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"fit{suffix}"
    assert fit(data, *MODEL, "--out", str(out)).exit_code == 0
    drawn = out.read_text()
    assert "studentised residual" in drawn and "normal quantile" in drawn and "B (MiB)" in drawn
    plain = tmp_path / f"plain{suffix}"
    assert fit(data, "--model", "T ~ 1", "--out", str(plain)).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--predict", "B=1"), "--predict: expected with --model"),
        (("--out", "x.svg"), "--out: expected with --model"),
        ((*MODEL, "--forms", "linear"), "--forms: expected without --model"),
        ((*MODEL, "--ignore", "cc"), "--ignore: expected without --model"),
        ((*MODEL, "--validate", "x.csv"), "--validate: expected without --model"),
        ((*MODEL, "--out", "x.gif"), "--out: expected a file that ends in .svg"),
        ((*MODEL, "--target", "90Mbit/s"), "--target: expected a T that the model reaches within the data"),
        ((*MODEL, "--factor", "weekday"), "--factor: expected a header"),
        (("--model", "note ~ B"), "--model: expected numbers in note, found levels"),
        (("--model", "T ~ weekday"), "--model: expected columns of"),
    ],
)
def test_bad_input_is_one_line(data: str, arguments: tuple[str, ...], named: str) -> None:
    result = fit(data, *arguments)
    assert result.exit_code == 2
    assert named in result.stderr and result.stderr.count("\n") == 1
    assert not result.stdout
