"""Sender and receiver exchanged: what stays with the sites, what goes with the data, and what it is worth."""

import tomllib
from pathlib import Path

import msgspec
import pytest

import mptune
from mptune.testbeds import create
from mptune.topology import Topology, load, shipped
from mptune.topology._load import from_tables
from mptune.trial import Bulk, Trial
from mptune.trial.stacks import STACKS

FOLDER = Path(mptune.__file__).parent / "scenarios"

LOPSIDED = """
name = "lopsided"
sender = "A"
receiver = "B"
initial_path = "2-X"
[sites.A]
name = "Two lines"
[[sites.A.interfaces]]
isp = "One"
abbr = "1"
up = "3 Mbit/s"
down = "20 Mbit/s"
[[sites.A.interfaces]]
isp = "Two"
abbr = "2"
up = "1 Mbit/s"
down = "9 Mbit/s"
discipline_down = "codel"
[sites.B]
name = "One line"
[[sites.B.interfaces]]
isp = "Three"
abbr = "X"
up = "30 Mbit/s"
down = "100 Mbit/s"
[core]
rtt = "20 ms"
[[core.segments]]
path = "1-X"
rtt = "30 ms"
rate = "90 Mbit/s"
[[background]]
kind = "udp"
link = "A 1 up"
rate = "1 Mbit/s"
[[background]]
kind = "udp"
link = "1-X back"
rate = "1 Mbit/s"
[[background]]
kind = "tcp"
path = "2-X"
stop = "1 s"
"""


@pytest.fixture
def lopsided(tmp_path: Path) -> Topology:
    path = tmp_path / "lopsided.toml"
    path.write_text(LOPSIDED)
    return load(path)


def exchanged(text: str) -> object:
    """A file's tables as a person would rewrite them for the other direction."""
    raw = tomllib.loads(text)
    raw["sender"], raw["receiver"] = raw["receiver"], raw["sender"]
    raw["name"] += "-reversed"

    def turned(label: object) -> object:
        if isinstance(label, dict):
            return label | {"value": turned(label["value"])}
        return "-".join(reversed(str(label).split("-")))

    if "initial_path" in raw:
        raw["initial_path"] = turned(raw["initial_path"])
    for entry in (*raw.get("core", {}).get("segments", ()), *raw.get("background", ())):
        if "path" in entry:
            entry["path"] = turned(entry["path"])
        elif entry["link"].endswith((" forward", " back")):
            label, _, way = entry["link"].rpartition(" ")
            entry["link"] = f"{turned(label)} {way}"
    for entry in raw.get("core", {}).get("shared", ()):
        entry["paths"] = [turned(label) for label in entry["paths"]]
    return raw


@pytest.mark.parametrize("name", shipped())
def test_a_scenario_in_reverse_is_its_file_rewritten(name: str) -> None:
    file = FOLDER / f"{name}.toml"
    rewritten = from_tables(exchanged(file.read_text()), str(file), file.name, FOLDER)
    assert load(name).reversed() == rewritten


@pytest.mark.parametrize("name", shipped())
def test_twice_is_the_same_topology(name: str) -> None:
    topology = load(name)
    assert topology.reversed().reversed() == topology
    assert topology.reversed().network() != topology.network()


def test_labels_and_background_follow(lopsided: Topology) -> None:
    turned = lopsided.reversed()
    assert turned == from_tables(exchanged(LOPSIDED), "", "lopsided.toml")
    assert (turned.name, turned.sender.abbr, turned.receiver.abbr) == ("lopsided-reversed", "B", "A")
    assert [path.label for path in turned.paths] == ["X-1", "X-2"] and turned.initial_path == "X-2"
    assert [path.rate_bps for path in turned.paths] == [20_000_000, 9_000_000]
    assert {getattr(flow, "link", None) or getattr(flow, "path", None) for flow in turned.background} == {
        "A 1 up",
        "X-1 back",
        "X-2",
    }
    links = {link.name for link in turned.links}
    assert {"A 1 up", "X-1 back"} <= links


def test_each_direction_has_the_throughput_of_its_own_links(lopsided: Topology) -> None:
    """Up links of A give 3 + 1 Mbit/s, its down links 20 + 9, minus headers and start."""
    quiet = msgspec.structs.replace(lopsided, background=())
    rates = []
    for topology in (quiet, quiet.reversed()):
        trial = Trial(
            topology=topology,
            pm="fullmesh",
            cc="cubic",
            buffer_bytes=2**24,
            seed=1,
            workload=Bulk(duration_ns=20 * 10**9),
            **msgspec.structs.asdict(STACKS["v0.9x"]),
        )
        rates.append(create("simulated").run(trial).throughput_bps / 1e6)
    assert rates == [pytest.approx(4, rel=0.1), pytest.approx(29, rel=0.1)]
