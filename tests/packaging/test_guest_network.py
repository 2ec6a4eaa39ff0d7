"""The object file for guests' kernels, as `make setup` has made it."""

import platform
import re

import pytest

from mptune.guest import driver
from tests.plugins.needs import ROOT

#: Files of the object's crates, but for tests.
SOURCES = [
    file
    for crate in ("mptune-core", "mptune-emulator", "mptune-guest-network")
    for file in sorted((ROOT / "crates" / crate / "src").rglob("*.rs"))
]


@pytest.fixture
def shipped(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "shipping"))
    import guest_network

    return guest_network


def test_the_driver_declares_what_the_object_has(shipped):
    declared = re.findall(r"^[a-z].*\b(mptune_model_\w+)\(", driver.SOURCE.read_text(), re.MULTILINE)
    assert sorted(declared) == sorted(shipped.FUNCTIONS)


def test_the_object_is_of_these_sources(shipped):
    if platform.machine() != "x86_64":
        assert not driver.OBJECT.exists()
        return
    content = driver.OBJECT.read_bytes()
    assert content[:4] == b"\x7fELF"
    assert content[-64:].decode() == shipped._digest(ROOT / "crates")


def test_every_source_counts_and_tests_do_not(shipped, tmp_path):
    for file in SOURCES:
        copy = tmp_path / file.relative_to(ROOT / "crates")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    before = shipped._digest(tmp_path)
    relay = tmp_path / "mptune-emulator/src"
    (relay / "relay/tests.rs").write_text("changed")
    assert shipped._digest(tmp_path) == before
    (relay / "relay.rs").write_text("changed")
    assert shipped._digest(tmp_path) != before
