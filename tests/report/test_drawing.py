"""The drawing of the network: well-formed, escaped, complete, and nothing on top of anything else."""

import itertools
from xml.etree import ElementTree as ET

import msgspec
import pytest

from mptune.report.drawing import NARROW, WIDE, Geometry, draw
from mptune.result.run_data import RunData
from mptune.topology import Topology, load

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing: str) -> list[tuple[float, str]]:
    """Height and content of every text."""
    elements = ET.fromstring(drawing).iter(f"{SVG}text")
    return [(float(element.attrib["y"]), "".join(element.itertext())) for element in elements]


@pytest.mark.parametrize("shape", [WIDE, NARROW])
@pytest.mark.parametrize("scenario", ["UNIS-HiN", "SRL-HU", "UiO-UiT"])
def test_every_path_and_interface_has_its_own_row(scenario: str, shape: Geometry) -> None:
    topology = load(scenario)
    placed = texts(draw(topology, (), shape))
    for path in topology.paths:
        (label,) = [text for _, text in placed if text.startswith(f"{path.label}  ")]
        assert label.split()[1] + " ms" in label
    rows = sorted(y for y, text in placed if text.split("  ")[0] in {path.label for path in topology.paths})
    assert min(b - a for a, b in itertools.pairwise(rows)) >= 24  # the height of a label
    rates = [text for _, text in placed if text.startswith(("up ", "down "))]
    assert len(rates) == 2 * (len(topology.sender.interfaces) + len(topology.receiver.interfaces))


@pytest.mark.parametrize("shape", [WIDE, NARROW])
def test_names_are_text_and_never_markup(
    optimised: RunData, shape: Geometry, site_name: str, isp_name: str
) -> None:
    assert optimised.topology is not None
    drawing = draw(optimised.topology, (), shape)
    allowed = {f"{SVG}{name}" for name in ("svg", "title", "text", "path", "rect")}
    assert {element.tag for element in ET.fromstring(drawing).iter()} == allowed
    assert site_name in "".join(ET.fromstring(drawing).find(f"{SVG}title").itertext())  # type: ignore[union-attr]
    assert any(text.startswith(isp_name[:6]) for _, text in texts(drawing))


def test_long_names_are_cut(network: Topology) -> None:
    site = msgspec.structs.replace(network.sender, name="A very long name of a university " * 4)
    placed = texts(draw(msgspec.structs.replace(network, sender=site), (), NARROW))
    assert any(text.startswith("A very long name") and text.endswith("…") for _, text in placed)
    assert max(len(text) for _, text in placed) < 40


def test_paths_that_carry_data_are_thicker(network: Topology) -> None:
    widths = {
        (element.attrib["stroke-width"], "stroke-dasharray" in element.attrib)
        for element in ET.fromstring(draw(network, ["A-X"], WIDE)).iter(f"{SVG}path")
    }
    thick, thin = sorted(widths, key=lambda width: -float(width[0]))
    assert float(thick[0]) > 2 * float(thin[0]) and (thick[1], thin[1]) == (False, True)
