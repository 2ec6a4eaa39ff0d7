"""The table `[routes]` of a campaign file."""

import re
from pathlib import Path
from typing import Any

import pytest

from mptune.campaign.definition import Definition, from_settings, read_definition
from mptune.campaign.definition_file import definition_file
from mptune.campaign.following import keep_networks
from mptune.errors import InputError
from mptune.routes.networks import read_networks

HOSTS = """name = "two"
sender = "A"
receiver = "B"
[sites.A]
name = "A"
ssh = "a.example"
interfaces = [{ isp = "One", abbr = "1", device = "eth1" }]
[sites.B]
name = "B"
ssh = "b.example"
interfaces = [{ isp = "Two", abbr = "2", device = "eth1" }]
"""
SWEEP = """topology = "two.toml"
testbed = "hosts"
kind = "sweep"
[factors]
pm = ["fullmesh"]
cc = ["cubic"]
"""


def written(folder: Path, more: str, sweep: str = SWEEP) -> Definition:
    (folder / "two.toml").write_text(HOSTS)
    (folder / "as.csv").write_text("prefix,asn\n192.0.2.0/24,64500\n")
    (folder / "campaign.toml").write_text(sweep + more)
    return read_definition(folder / "campaign.toml")


def test_the_interval_is_part_of_the_campaign_and_the_networks_are_beside_its_file(tmp_path: Path) -> None:
    found = written(tmp_path, '[routes]\nevery = "1h"\nnetworks = "as.csv"\n')
    assert found.routes.every_ns == 3600 * 10**9
    (tmp_path / "run").mkdir()
    keep_networks(found.routes, tmp_path / "run")
    assert (tmp_path / "run/networks.csv").read_text() == (tmp_path / "as.csv").read_text()
    settings: Any = found.settings()
    assert settings["routes"] == {"every_ns": 3600 * 10**9}
    again = from_settings(settings)
    assert again.routes.every_ns == found.routes.every_ns
    text = definition_file(again, "two.toml", "as.csv")
    (tmp_path / "again.toml").write_text(text)
    assert read_definition(tmp_path / "again.toml").routes == found.routes


def test_without_it_settings_are_as_ever(tmp_path: Path) -> None:
    assert "routes" not in written(tmp_path, "").settings()


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ('[routes]\nevery = "1s"', "routes.every: expected at least 10 s"),
        ('[routes]\nevery = "soon"', "routes.every: expected a time"),
        ('[routes]\nnetworks = "as.csv"', "routes.networks: expected only together with every"),
        ('[routes]\nevery = "1h"\nnetworks = "none.csv"', "none.csv: expected a CSV file: No such file"),
        (
            '[routes]\nevery = "1h"\nnetworks = "two.toml"',
            "two.toml: line 1: column 1: expected one of prefix",
        ),
        ('[routes]\neach = "1h"', "routes.each: unknown key"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, more: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        written(tmp_path, more)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_only_real_hosts_have_routes(tmp_path: Path) -> None:
    sweep = SWEEP.replace("two.toml", "UiT-HAW").replace("hosts", "simulated")
    with pytest.raises(
        InputError, match=r'routes\.every: expected only with testbed = "hosts", found simulated'
    ):
        written(tmp_path, '[routes]\nevery = "1h"\n', sweep)


def test_the_table_of_the_documentation_is_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/how-to/campaigns.md").read_text()
    found = written(tmp_path, re.findall(r"```toml\n(\[routes\].*?)```", text, re.DOTALL)[0])
    assert found.routes.every_ns == 3600 * 10**9 and found.routes.networks == str(tmp_path / "as.csv")
    (tmp_path / "as.csv").write_text(re.findall(r"```text\n(prefix,.*?)```", text, re.DOTALL)[0])
    assert read_networks(tmp_path / "as.csv").of("2001:db8::1") is not None
