"""The reference of topology files: its examples load, and no key is missing from it."""

import re
from pathlib import Path

import pytest

from mptune.topology import Topology, load
from mptune.topology import _schema as schema
from mptune.topology._effects import DECLARED
from mptune.topology._link_effects import table_of

TEXT = (Path(__file__).parents[2] / "docs/reference/topology.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.M | re.S)
FILES = [example for example in EXAMPLES if example.startswith("name = ")]
PARTS = [example for example in EXAMPLES if example not in FILES]
TRACES = {
    name: re.search(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)
    for name, language in (("lte.trace", "text"), ("drive.csv", "csv"), ("ping.txt", "ping"))
}

TABLES = [
    table
    for table in vars(schema).values()
    if isinstance(table, type) and issubclass(table, schema.SourcedTable)
]
TABLES += [table_of(kind) for effect in DECLARED for kind in effect.kinds]
DISCIPLINES = next(effect for effect in DECLARED if effect.key == "discipline").by_name
KEYS = sorted({key for table in TABLES for key in table.__struct_fields__})


def _loaded(tmp_path: Path, *parts: str) -> Topology:
    for name, found in TRACES.items():
        assert found
        (tmp_path / name).write_text(found[1], encoding="ascii")
    file = tmp_path / "home.toml"
    file.write_text("\n".join(parts), encoding="utf-8")
    return load(file)


def test_the_first_example_is_a_whole_file(tmp_path: Path) -> None:
    assert [path.label for path in _loaded(tmp_path, FILES[0]).paths] == ["T-C", "T-D"]


def test_the_other_whole_file_is_of_two_hosts_of_which_one_rate_and_one_rtt_are_known(tmp_path: Path) -> None:
    (text,) = FILES[1:]
    hosts = _loaded(tmp_path, text)
    assert "one RTT and one rate are known" in " ".join(TEXT.split())
    assert len(hosts.missing) == 2 * 3 + 2 - 2
    assert hosts.sender.ssh and hosts.receiver.ssh
    assert [path.label for path in hosts.paths if hosts.known(path).base_rtt_ns is not None] == ["F-T"]


@pytest.mark.parametrize("example", PARTS)
def test_every_other_can_be_appended_to_it_and_does_something(tmp_path: Path, example: str) -> None:
    plain, more = _loaded(tmp_path, FILES[0]), _loaded(tmp_path, FILES[0], example)
    assert more.network() != plain.network()
    has_effects = any(link.effects != plain.links[0].effects for link in more.links)
    metered = any(interface.metered for interface in more.receiver.interfaces)
    assert more.background or has_effects or metered or more.shared


def test_all_of_them_together_are_a_file(tmp_path: Path) -> None:
    whole = _loaded(tmp_path, FILES[0], *PARTS)
    assert len(whole.receiver.interfaces) == 2 + sum("interfaces]]" in part for part in PARTS)


def test_the_numbers_beside_the_examples(tmp_path: Path) -> None:
    whole = _loaded(tmp_path, FILES[0], *PARTS)
    assert "repeats every 20 ms (the last number): 3.6 Mbit/s." in " ".join(TEXT.split())
    assert whole.path("T-M", "").rate_bps == 3_600_000
    assert "Here 0.5 % of the packets" in TEXT
    assert whole.path("T-W", "").loss_ppb == pytest.approx(5e6, rel=0.02)


def _documented(key: str) -> bool:
    for way in ("_up", "_down"):
        # Their explanation is that of the key without the direction.
        key = key.removesuffix(way) if key.removesuffix(way) in KEYS else key
    return re.search(rf"`{key}`", TEXT) is not None


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_explained(key: str) -> None:
    assert _documented(key)


@pytest.mark.parametrize("name", DISCIPLINES)
def test_every_discipline_is_explained(name: str) -> None:
    assert re.search(rf"^\| `{name}` \|", TEXT, re.M)
