"""Text of topology files is data: what could be more than a name is refused, wherever it comes from."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.errors import InputError
from mptune.store.directory import default_directory
from mptune.topology import Topology, from_document, load, shipped

NETWORK = """
name = "NAME"
description = "DESCRIPTION"
sender = "A"
receiver = "B"
[sites.A]
name = "SITE"
location = "LOCATION"
[[sites.A.interfaces]]
isp = "ISP"
abbr = "P"
device = "DEVICE"
ipv4 = "10.0.0.1"
up = "10 Mbit/s"
down = "10 Mbit/s"
[sites.B]
name = "other"
[[sites.B.interfaces]]
isp = "Q"
abbr = "Q"
up = "10 Mbit/s"
down = "10 Mbit/s"
[core]
rtt = "40 ms"
"""
#: In quotes of TOML and JSON alike: two lines, a terminal's title, C1, a carriage return, other directions.
EVIL = (r"x\ny", r"x\u001b]0;t\u0007", r"x\u009b2J", r"x\ry", r"x\u202ey", r"x\u2028y", r"x\u0000y")


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Topology]:
    """Reads the network with texts in place of words in capitals."""

    def load_with(**texts: str) -> Topology:
        text = NETWORK
        for word in ("NAME", "DESCRIPTION", "SITE", "LOCATION", "ISP", "DEVICE"):
            text = text.replace(f'"{word}"', f'"{texts.get(word, word)}"')
        (tmp_path / "net.toml").write_text(text, encoding="utf-8")
        return load(tmp_path / "net.toml")

    return load_with


def document(topology: Topology) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(msgspec.json.encode(topology))
    return plain


@pytest.mark.parametrize("name", shipped())
def test_what_is_shipped_is_accepted_from_a_run_as_well(name: str) -> None:
    for topology in (load(name), load(name).reversed()):
        assert from_document(document(topology), "run", "topology") == topology


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("NAME", "name"),
        ("SITE", "sites.A.name"),
        ("LOCATION", "sites.A.location"),
        ("ISP", "sites.A.interfaces.P.isp"),
        ("DEVICE", "sites.A.interfaces.P.device"),
    ],
)
def test_what_controls_is_refused_in_a_file_and_in_a_run(
    read: Callable[..., Topology], word: str, key: str, evil: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(**{word: evil})
    reason = str(caught.value)
    assert f"net.toml: {key}: expected " in reason and reason.isprintable() and len(reason) < 400
    texts = json.dumps(document(read())).replace(f'"{word}"', f'"{evil}"')
    with pytest.raises(InputError) as caught:
        from_document(json.loads(texts), "runs/x", "config.json: topology")
    reason = str(caught.value)
    assert reason.startswith(f"runs/x: config.json: topology: {key}: expected ") and reason.isprintable()


def test_sentences_may_have_lines_and_nothing_else(read: Callable[..., Topology]) -> None:
    assert read(DESCRIPTION=r"two\nlines").description == "two\nlines"
    with pytest.raises(InputError, match="description: expected text without control characters"):
        read(DESCRIPTION=r"x\u001b[2J")


@pytest.mark.parametrize("word", ["NAME", "SITE", "ISP", "DEVICE"])
def test_a_name_has_an_end_and_so_has_its_error(read: Callable[..., Topology], word: str) -> None:
    with pytest.raises(InputError, match=r"expected .* found") as caught:
        read(**{word: "n" * 100_000})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"initial_path": "X-Y"},
        {"initial_path": "P-Q\n"},
        {"paths": []},
        {"sender": {"abbr": "../x"}},
        {"sender": {"abbr": "A", "ssh": "-oProxyCommand=sh"}},
        {"sender": {"abbr": "A B"}},
        {"sender": {"interfaces": []}},
        {"sender": {"interfaces": [{"abbr": "P-P"}]}},
        {"sender": {"interfaces": [{"device": "a/b"}]}},
        {"sender": {"interfaces": [{"device": "sixteen-letters-"}]}},
        {"sender": {"interfaces": [{"ipv4": "10.0.0.1 dev x"}]}},
        {"sender": {"interfaces": [{"ipv6": "x"}]}},
        {"sender": {"interfaces": [{"up_bps": -1}]}},
        {"sender": {"interfaces": [{"isp": 7}]}},
        {"paths": [{"label": "P-P"}]},
        {"paths": [{"local_index": 5}]},
        {"paths": [{"local": {"device": "other"}}]},
        {"provenance": {"sites.A.interfaces.P.up\u001b": {"value": "x"}}},
    ],
)
def test_what_no_file_can_have_is_refused_in_a_run(read: Callable[..., Topology], change: Any) -> None:
    with pytest.raises(InputError) as caught:
        from_document(_changed(document(read()), change), "runs/x", "config.json: topology")
    assert str(caught.value).startswith("runs/x: config.json: topology") and str(caught.value).isprintable()


def _changed(present: Any, change: Any) -> Any:
    if isinstance(change, dict) and isinstance(present, dict):
        return present | {key: _changed(present.get(key), value) for key, value in change.items()}
    if isinstance(change, list) and change and isinstance(present, list):
        return [_changed(value, other) for value, other in zip(present, change, strict=True)]
    return change


@pytest.mark.parametrize(
    "name",
    ["../..", "/etc", "..", ".", "", "a/../../b", "a\\b", "n" * 5000, "\U00010400" * 300, "a\nb", "~", "-x"],
)
def test_the_directory_of_a_run_never_leaves_the_one_of_runs(name: str, tmp_path: Path) -> None:
    place = default_directory(name, datetime(2026, 11, 24, 10, 0, 0))
    assert place.parts[0] == "runs" and len(place.parts) == 2 and not place.name.startswith(".")
    (tmp_path / place).mkdir(parents=True)


def test_the_directory_of_a_run_has_the_name_that_was_given() -> None:
    place = default_directory("CLOUD-HOME.day", datetime(2026, 11, 24, 10, 0, 0))
    assert str(place) == "runs/CLOUD-HOME.day-20261124-100000"
