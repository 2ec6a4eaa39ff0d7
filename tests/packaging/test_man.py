"""Man pages: one for every command, nothing declared is lost, and no program that reads them complains."""

import importlib
import re
import subprocess

import pytest

from mptune import __version__
from tests.plugins.needs import ROOT

#: Characters that roff would print otherwise.
MARKUP = {"-": "-", "(aq": "'", "(dq": '"', "(ti": "~", "(ha": "^", "(ga": "`"}


@pytest.fixture(autouse=True)
def shipping(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "shipping"))


@pytest.fixture
def man():
    return importlib.import_module("man")


@pytest.fixture
def commands():
    return list(importlib.import_module("commands").program().walk())


def plain(page):
    """The text of a page without its markup."""
    for markup, character in MARKUP.items():
        page = page.replace(f"\\{markup}", character)
    page = re.sub(r"\\\[u([0-9A-F]+)\]", lambda match: chr(int(match[1], 16)), page)
    return page.replace("\\&", "").replace("\\e", "\\")


def test_every_option_of_every_command_is_in_its_page(man, commands):
    assert len({command.page for command in commands}) == len(commands) > 30
    for command in commands:
        text = plain(man.page(command))
        assert f"mptune {__version__}" in text.splitlines()[0]
        for argument in (*command.arguments, *command.options):
            assert f"\n.B {argument.written}\n{' '.join(argument.help.split())}\n" in text
        for example in command.examples:
            assert f"\n{example}\n" in text


def test_what_roff_would_take_for_a_request_is_text(man):
    commands = importlib.import_module("commands")
    odd = commands.Command("a", "", "b", (commands.Text(".so /etc/passwd"),), (), (), ("'b \\n", "-x"), ())
    lines = man.page(odd).splitlines()
    assert "\\&.so /etc/passwd" in lines and "\\(aqb \\en" in lines and "\\-x" in lines


@pytest.mark.needs("groff")
def test_no_program_complains(man, commands):
    text = "".join(man.page(command) for command in commands)
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs("mandoc")
def test_mandoc_finds_nothing_to_warn_of(man, commands):
    for command in commands:
        lint = ["mandoc", "-T", "lint", "-W", "warning"]
        page = man.page(command)
        done = subprocess.run(lint, input=page, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")
