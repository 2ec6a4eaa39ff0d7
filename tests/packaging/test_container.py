"""The file of the container: what can be said of it where no container is built."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from tests.plugins.needs import ROOT

FILE = ROOT / "shipping/Containerfile"
#: Instructions of such files (Containerfile(5)) that are used; ADD, which fetches from anywhere, is not.
KNOWN = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}


@pytest.fixture(scope="module")
def instructions():
    """Instructions with their words, in order."""
    text = re.sub(r"^#.*\n", "", FILE.read_text(encoding="utf-8"), flags=re.M).replace("\\\n", "")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def of(instructions, name):
    return [words for instruction, words in instructions if instruction == name]


def test_it_consists_of_known_instructions_from_a_release_that_is_named(instructions):
    assert {name for name, _ in instructions} == KNOWN and instructions[0][0] == "FROM"
    (image,) = of(instructions, "FROM")
    name, tag = image.rsplit(":", 1)
    assert "/" in name and "latest" not in tag
    minor = re.match(r"3\.(\d+)-slim-\w+$", tag)
    assert minor and int(minor[1]) >= 11  # requires-python


def test_it_takes_the_wheel_that_make_makes(instructions):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "WHEEL = dist/mptune-*$(PLATFORM).whl" in makefile and "PLATFORM := manylinux_" in makefile
    (copied,) = of(instructions, "COPY")
    assert copied == "mptune-*-manylinux*_x86_64.whl /tmp/"
    installs = [words for words in of(instructions, "RUN") if "pip install" in words]
    assert len(installs) == 1 and "rm /tmp/mptune-*.whl" in installs[0]


def test_it_leaves_nothing_of_what_it_installed_with_and_is_not_root(instructions):
    for words in of(instructions, "RUN"):
        assert " ;" not in words and "|" not in words  # whatever fails ends it
        if "apt-get install" in words:
            assert "--no-install-recommends" in words and "rm -rf /var/lib/apt/lists/*" in words
        if "pip install" in words:
            assert "--no-cache-dir" in words
    (user,) = of(instructions, "USER")
    assert user == "mptune" and any("useradd" in words for words in of(instructions, "RUN"))
    order = [name for name, _ in instructions]
    assert order.index("USER") > max(place for place, name in enumerate(order) if name == "RUN")
    assert of(instructions, "ENTRYPOINT") == ['["mptune"]']


def test_the_commands_in_it_are_commands_of_mptune(instructions):
    commands = [
        shlex.split(part)[1:]
        for words in of(instructions, "RUN")
        for part in words.split("&&")
        if part.split()[0] == "mptune"
    ]
    assert commands == [["doctor", "--installed"]]
    assert CliRunner().invoke(app, ["doctor", "--help"]).exit_code == 0
