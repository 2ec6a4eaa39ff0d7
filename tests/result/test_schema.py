"""The schema of `result.json`: shipped as generated, and true of what is written."""

import json
from importlib.resources import files

import jsonschema
import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.result import schema

FEW = [
    *("UiT-HAW", "--pm", "fullmesh", "--cc", "cubic", "--runs", "2", "--confirm-runs", "2"),
    *("--impact-duration", "2s", "--impact-runs", "2"),
]
THROUGHPUT = ["--duration", "3s", "--off-by", "0"]

#: Every kind of answer, by the options that ask for it.
KINDS = {
    "adaptive": [*FEW, *THROUGHPUT, "--buffers", "1MiB,2MiB"],
    "grid": [
        *FEW,
        *THROUGHPUT,
        "--strategy",
        "grid",
        "--buffers",
        "1MiB,2MiB,3MiB,4MiB",
        "--resamples",
        "10",
    ],
    "shortlist": [*FEW, "--duration", "3s", "--buffers", "1MiB,2MiB"],
    "rounds": [*FEW, *THROUGHPUT, "--buffers", "1MiB,2MiB", "--every", "10s", "--for", "20s"],
    "by size": [*FEW, "--transfer", "64KiB", "--buffers", "1MiB,2MiB"],
}


def test_it_is_shipped_as_generated():
    shipped = files("mptune.result") / "result.schema.json"
    assert shipped.read_text(encoding="utf-8") == schema.text()
    jsonschema.Draft202012Validator.check_schema(schema.result_schema())


@pytest.mark.parametrize("kind", KINDS)
def test_it_holds_for_every_kind_of_result(kind, tmp_path):
    out = tmp_path / "run"
    done = CliRunner().invoke(app, ["optimise", *KINDS[kind], "--quiet", "--out", str(out)])
    assert done.exit_code == 0, done.output
    document = json.loads((out / "result.json").read_text())
    whole = schema.result_schema()
    jsonschema.Draft202012Validator(whole).validate(document)
    struct = "SizesAnswer" if kind == "by size" else "Answer"
    assert set(document) <= set(whole["$defs"][struct]["properties"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(whole).validate({**document, "answer": 1})
