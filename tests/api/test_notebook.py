"""The notebooks of the documentation: they run, show what is kept in them, and are of no machine."""

import importlib
import json
import re

import pytest

from tests.plugins.needs import ROOT

#: Files that each leaves behind, and pictures that it shows.
LEFT = {
    "notebook": (("office.svg", "office.pdf", "runs/office/report.html", "runs/office/result.json"), 2),
    "notebook-operators": (("policy.toml", "runs/office/result.json"), 0),
    "notebook-kernel": ((), 1),
}
#: Cells of a short one.
MOST = 10


@pytest.fixture(scope="module")
def cells():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "shipping"))
        yield importlib.import_module("cells")


@pytest.fixture(params=LEFT)
def name(request):
    return request.param


@pytest.fixture
def kept(name):
    return json.loads((ROOT / f"docs/{name}.ipynb").read_text(encoding="utf-8"))["cells"]


def outputs(cells):
    """Outputs, cell by cell; of a picture only that it is one, as its text is as wide as the fonts."""
    return [
        [
            ["picture"] if "image/svg+xml" in data else [kind, *data.values()]
            for output in cell["outputs"]
            for kind, data in [(output["output_type"], output.get("data", {"text": output.get("text")}))]
        ]
        for cell in cells
        if cell["cell_type"] == "code"
    ]


def test_all_of_them_are_listed_and_the_later_ones_are_short(cells):
    assert [path.stem for path in cells.NOTEBOOKS] == list(LEFT)
    assert set(cells.NOTEBOOKS) == set((ROOT / "docs").glob("*.ipynb"))
    assert all(len(cells.read(path)["cells"]) <= MOST for path in cells.NOTEBOOKS[1:])


def test_it_runs_and_shows_what_is_kept(cells, name, kept, tmp_path, monkeypatch):
    import altair

    with altair.renderers.enable():  # what the notebook enables ends here
        executed = cells.executed(kept, tmp_path)
    assert outputs(executed) == outputs(kept), "what it shows has changed: make notebook"
    files, pictures = LEFT[name]
    assert all((tmp_path / file).stat().st_size for file in files)
    assert sum(["picture"] in kinds for kinds in outputs(executed)) == pictures


def test_a_cell_shows_what_jupyter_would(cells, tmp_path):
    """The value of the last expression, what was printed, and nothing after a semicolon."""
    sources = ["a = 2\nprint(a)\na + 1", "a;", "b = a"]
    code = [{"cell_type": "code", "source": [source], "outputs": []} for source in sources]
    first, *others = cells.executed(code, tmp_path)
    assert [output.get("text") or output["data"] for output in first["outputs"]] == [
        ["2\n"],
        {"text/plain": ["3"]},
    ]
    assert [other["outputs"] for other in others] == [[], []]
    with pytest.raises(ZeroDivisionError):
        cells.executed([{"cell_type": "code", "source": ["1 / 0"], "outputs": []}], tmp_path)


def test_it_names_no_machine(kept):
    text = json.dumps([cell.get("outputs") for cell in kept])
    assert not re.search(r"/(home|root|tmp|work|usr)/", text)


def test_its_page_has_all_of_it(cells, name, kept):
    page = cells.page(kept)
    assert page.count("data:image/svg+xml") == LEFT[name][1] and page.count("<table") == sum(
        "text/html" in output.get("data", {}) for cell in kept for output in cell.get("outputs", [])
    )
    assert all("".join(cell["source"]) in page for cell in kept)
