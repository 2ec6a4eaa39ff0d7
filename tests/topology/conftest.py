"""A small topology file to start from, and a way to load changed copies of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mptune.topology import Topology, load

#: Two sites with two and one interfaces; every kind of table is in it.
SMALL = """
name = "small"
source = "a table"
sender = "A"
receiver = "B"

[sites.A]
name = "Site A"

[[sites.A.interfaces]]
isp = "One"
abbr = "1"
up = "100 Mbit/s"
down = "50 Mbit/s"
delay = "1 ms"
queue = "256 KiB"
loss = "0.1 %"

[[sites.A.interfaces]]
isp = "Two"
abbr = "2"
adsl = true
up = "1 Mbit/s"
down = { value = "16 Mbit/s", assumed = "a guess" }

[sites.B]
name = "Site B"
source = "a web page"

[[sites.B.interfaces]]
isp = "Three"
abbr = "3"
up = "20 Mbit/s"
down = "20 Mbit/s"
ipv4 = "192.0.2.1"

[core]
rtt = "100 ms"
loss = "0.2 %"

[[core.segments]]
path = "1-3"
delay = "7 ms"
jitter = "2 ms"
rate = "10 Mbit/s"
"""


#: Where keys of the receiver's interface, of [core] and of path 1-3's segment go.
INTERFACE, CORE, SEGMENT = 'isp = "Three"', "[core]", 'path = "1-3"'


@pytest.fixture
def given(changed: Callable[..., Topology]) -> Callable[..., Topology]:
    """Load the small file with keys added to one of its tables, by default interface 3 of site B.

    `without` are lines to be taken out.
    """

    def load_given(keys: str, place: str = INTERFACE, *without: str) -> Topology:
        return changed((place, f"{place}\n{keys}"), *((line, "") for line in without))

    return load_given


@pytest.fixture
def small() -> str:
    """Text of the small file."""
    return SMALL


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Topology]:
    """Load the small file with each (old, new) text replaced; old must be in it."""

    def load_changed(*replacements: tuple[str, str]) -> Topology:
        text = SMALL
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new, 1)
        file = tmp_path / "small.toml"
        file.write_text(text, encoding="utf-8")
        return load(file)

    return load_changed
