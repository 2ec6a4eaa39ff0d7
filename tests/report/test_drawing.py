"""The drawing of the network: well-formed, escaped, complete, and nothing on top of anything else."""

import itertools
from xml.etree import ElementTree as ET

import msgspec
import pytest

from mptune.report.drawing import NARROW, WIDE, Flow, Geometry, Moment, draw, moving, positions
from mptune.result.run_data import RunData
from mptune.topology import SharedSegment, Topology, load

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


def test_lines_are_as_thick_as_what_they_carry_now_and_recommended(network: Topology) -> None:
    flows = [
        Flow(title="Now: 10 Mbit/s", mbps={"A-X": 10.0}),
        Flow(title="Recommended: <b>", mbps={"A-X": 10.0, "B-X": 40.0, "C-X": 0.0}),
    ]
    root = ET.fromstring(draw(network, (), WIDE, flows))
    drawn = [path for path in root.iter(f"{SVG}path") if path.attrib.get("fill") == "none"]
    widths = [float(path.attrib["stroke-width"]) for path in drawn]
    dashed = ["stroke-dasharray" in path.attrib for path in drawn]
    assert len(drawn) == 2 * 2 * len(network.paths)
    # Both halves of A-X, B-X and C-X, now and as recommended.
    assert dashed == [False, False, *[True] * 4, *[False] * 4, True, True]
    assert widths[0] == widths[6] and widths[8] == 4 * widths[6] and widths[10] == min(widths)
    # They end beside each other at the only box of the receiver, in the order of their rows.
    ends = [(float(path.attrib["d"].split()[-1]), width) for path, width in zip(drawn, widths, strict=True)]
    at_box = ends[7::2]
    assert all(
        b[0] - a[0] == pytest.approx((a[1] + b[1]) / 2, abs=0.1) for a, b in itertools.pairwise(at_box)
    )
    said = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert said.count("A-X  20 ms  10.0 Mbit/s") == 2 and "Recommended: <b>" in said
    assert "C-X  20 ms  unused" in said
    told = "".join(root.find(f"{SVG}title").itertext())  # type: ignore[union-attr]
    assert told.endswith("Recommended: <b>: A-X 10.0 Mbit/s, B-X 40.0 Mbit/s")


@pytest.mark.parametrize("shape", [WIDE, NARROW])
def test_what_paths_share_is_marked_at_each_of_them(network: Topology, shape: Geometry) -> None:
    segment, alone = (
        SharedSegment(name=name, forward_ns=1, reverse_ns=1, jitter_ns=0, loss_ppb=0, rate_bps=50_000_000)
        for name in ("<trunk>", "alone")
    )
    a, b, c = network.paths
    paths = (
        msgspec.structs.replace(a, shared=(segment, alone)),
        b,
        msgspec.structs.replace(c, shared=(segment,)),
    )
    drawing = draw(msgspec.structs.replace(network, paths=paths), (), shape)
    root = ET.fromstring(drawing)
    knots = [box for box in root.iter(f"{SVG}rect") if box.attrib["height"] == "10"]
    labels = [box for box in root.iter(f"{SVG}rect") if box.attrib["height"] == "24"]
    middles = [float(box.attrib["y"]) + 12 for box in labels]
    assert [float(knot.attrib["y"]) + 5 for knot in knots] == [middles[0], middles[2]]
    assert all(float(knot.attrib["x"]) > shape.width / 2 + shape.label / 2 for knot in knots)
    below = [text for _, text in texts(drawing) if "is shared" in text]
    assert len(below) == 1 and below[0].startswith("a: <trunk>, 50 Mbit/s")


def moments(*flows: dict[str, float]) -> list[Moment]:
    return [
        Moment(
            when=f"step {number}", flows=(Flow(title="Now", mbps={"A-X": 10.0}), Flow(title="<b>", mbps=mbps))
        )
        for number, mbps in enumerate(flows)
    ]


@pytest.mark.parametrize("shape", [WIDE, NARROW])
def test_a_drawing_that_moves_is_like_one_of_its_first_moment(network: Topology, shape: Geometry) -> None:
    """Each title and each path has its words and width, in the order of the drawing."""
    steps = moments({"A-X": 5.0, "B-X": 20.0}, {"C-X": 40.0})
    root = ET.fromstring(moving(network, shape, steps))
    changing = [place for place in root.iter(f"{SVG}g") if "data-before" in place.attrib]
    assert len(changing) == 2 * (1 + len(network.paths))
    first, later = positions(network, steps)
    assert len(first.shown) == len(later.shown) == len(changing)
    for place, change in zip(changing, first.shown, strict=True):
        text = "".join(list(place)[-1].itertext())
        assert text == f"{place.attrib['data-before']}{change.words}"
        for path in place.findall(f"{SVG}path"):
            assert float(path.attrib["stroke-width"]) == pytest.approx(change.width, abs=0.05)
            assert ("stroke-dasharray" in path.attrib) == change.dashed
    assert (first.when, later.told) == ("step 0", "Now: A-X 10.0 Mbit/s. <b>: C-X 40.0 Mbit/s")
    # One scale for all of them: 40 Mbit/s are the thickest line, and 10 a quarter of that.
    assert first.shown[1].width == max(change.width for change in later.shown) / 4


def test_lines_have_room_for_what_they_carry_later(network: Topology) -> None:
    """They stay where they are, and at no moment lie on each other."""
    steps = moments({}, {"A-X": 40.0, "B-X": 40.0, "C-X": 40.0})
    root = ET.fromstring(moving(network, WIDE, steps))
    ends = [
        float(path.attrib["d"].split()[-1])
        for path in list(root.iter(f"{SVG}path"))[2 * len(network.paths) + 1 :: 2]
    ]
    thickest = positions(network, steps)[1].shown[-1].width
    assert all(b - a == pytest.approx(thickest, abs=0.1) for a, b in itertools.pairwise(ends))
