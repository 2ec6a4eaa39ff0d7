"""The program imports the file of the command that it runs, and is the same program as with all of them."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from mptune import cli
from mptune.cli._common import COMPLETION_VARIABLE


def shown(app, *words):
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


@pytest.mark.parametrize("command", cli._COMMANDS)
def test_a_command_alone_is_the_command_among_all(command):
    alone = cli._with(cli._needed([command]))
    assert shown(alone, command, "--help") == shown(cli.app, command, "--help")
    assert shown(alone, command, "--nonsense") == shown(cli.app, command, "--nonsense")


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["--version", "--json"],
        ["--json"],
        ["--nonsense"],
        ["--help"],
        [],
        ["rum"],
        ["--debug"],
    ],
    ids=" ".join,
)
def test_without_a_command_it_is_the_same_too(words):
    assert shown(cli._with(cli._needed(words)), *words) == shown(cli.app, *words)


def test_a_command_line_needs_its_command_alone(monkeypatch):
    assert cli._needed(["--debug", "run", "status"]) == ("run",)
    assert cli._needed(["--version"]) == ()
    for words in ([], ["--help"], ["rum"]):
        assert cli._needed(words) == cli._COMMANDS
    monkeypatch.setenv(COMPLETION_VARIABLE, "complete_bash")
    assert cli._needed(["run"]) == cli._COMMANDS


def test_no_other_command_is_imported():
    code = """
import sys
from mptune import cli
sys.argv = ["mptune", "paths", "UNIS-HiN", "--json"]
try:
    cli.main()
finally:
    print(*(name for name in cli._COMMANDS if f"mptune.cli.{name}" in sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "paths\n"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        cli.nonsense  # noqa: B018 - asked for
