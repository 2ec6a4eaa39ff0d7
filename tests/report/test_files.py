"""The files of a report: every figure in every format, whole or not at all."""

import re
import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from mptune.errors import InputError, MptuneError
from mptune.report.files import write_page, write_report
from mptune.result.run_data import RunData
from tests.plugins.no_room import no_room
from tests.report.making import sections


@pytest.fixture(scope="module")
def written(optimised: RunData, transfers: RunData, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_report([optimised, transfers], tmp_path_factory.mktemp("report") / "new")


def test_every_figure_in_every_format(written: list[Path], optimised: RunData, transfers: RunData) -> None:
    page, *figures = written
    assert page.name == "report.html"
    names = [section.name for section in sections(optimised, [transfers])]
    assert [figure.name for figure in figures] == [
        f"{name}.{kind}" for name in names for kind in ("svg", "png", "pdf")
    ]
    for figure in figures:
        content = figure.read_bytes()
        if figure.suffix == ".svg":
            assert ET.fromstring(content).tag.endswith("svg")
        elif figure.suffix == ".png":
            width, height = struct.unpack(">II", content[16:24])
            assert content.startswith(b"\x89PNG") and width > 700 and height > 150
        else:
            assert content.startswith(b"%PDF-")


def test_figures_are_the_same_bytes_when_they_are_drawn_again(
    written: list[Path], optimised: RunData, transfers: RunData, tmp_path: Path
) -> None:
    """PDF objects and clip paths were numbered differently each time."""
    again = write_report([optimised, transfers], tmp_path)
    for old, new in zip(written, again, strict=True):
        assert old.name == new.name and old.read_bytes() == new.read_bytes(), old.name


def test_a_pdf_in_one_form_is_still_one(written: list[Path]) -> None:
    """Every place in the table of references is where that object begins."""
    for file in written:
        if file.suffix == ".pdf":
            content = file.read_bytes()
            table = content[int(content.rpartition(b"startxref\n")[2].split()[0]) :]
            places = re.findall(rb"(\d{10}) \d{5} n", table)
            assert table.startswith(b"xref") and len(places) > 5
            for number, place in enumerate(places, start=1):
                assert content[int(place) :].startswith(b"%d 0 obj" % number)


def test_figures_need_no_style_sheet(written: list[Path]) -> None:
    for file in written:
        if file.suffix == ".svg":
            assert "var(--" not in file.read_text(encoding="utf-8"), file.name


def test_names_are_escaped_in_figures(written: list[Path], site_name: str) -> None:
    (drawing,) = [file for file in written if file.name == "topology.svg"]
    assert "<script" not in drawing.read_text(encoding="utf-8")
    assert site_name in "".join(ET.fromstring(drawing.read_bytes()).itertext())


def test_a_figure_has_its_title_its_explanation_and_a_legend(written: list[Path]) -> None:
    (response,) = [file for file in written if file.name == "response.svg"]
    text = " ".join(ET.fromstring(response.read_bytes()).itertext())
    for expected in (
        "Throughput over buffer",
        "Marks: mean",
        "fullmesh",
        "congestion control",
        "buffer (MiB)",
    ):
        assert expected in text


def test_a_page_is_replaced_whole(written: list[Path], optimised: RunData) -> None:
    directory = written[0].parent
    written[0].write_text("old")
    assert write_page(optimised, directory) == written[0]
    assert written[0].read_text(encoding="utf-8").endswith("</html>\n")
    assert not [file for file in directory.iterdir() if file.name.startswith(".")]


def test_a_place_that_is_none_is_refused(optimised: RunData, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a writable directory"):
        write_report([optimised], tmp_path / "file", figures=False)


def test_a_full_disk_leaves_nothing_half_written(optimised: RunData, tmp_path: Path) -> None:
    with no_room(), pytest.raises(MptuneError, match="File too large"):
        write_page(optimised, tmp_path)
    assert list(tmp_path.iterdir()) == []
