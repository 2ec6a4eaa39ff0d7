"""Ends of commands: exit codes, one line per error, no traceback unless asked for."""

import json
import platform
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from mptune.cli import app
from mptune.cli._common import emit_json, program
from mptune.errors import InputError, TrialError
from mptune.topology import shipped

runner = CliRunner()


def failing(error: BaseException) -> typer.Typer:
    """Build an app whose only command, `work`, ends with an error."""
    failing_app = program()

    def work() -> None:
        raise error

    failing_app.command()(work)
    return failing_app


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            InputError("a.toml", "core.rtt", "expected more"),
            2,
            "mptune: error: a.toml: core.rtt: expected more",
        ),
        (TrialError("it\nstalled"), 1, "mptune: error: it stalled"),
        (KeyboardInterrupt(), 130, "mptune: interrupted"),
        (ZeroDivisionError("oops"), 1, "mptune: error: unexpected ZeroDivisionError: oops (mptune --debug"),
    ],
)
def test_an_error_is_one_line_on_stderr_and_an_exit_code(error: BaseException, code: int, line: str) -> None:
    result = runner.invoke(failing(error), ["work"])
    assert result.exit_code == code
    assert result.stderr.startswith(line)
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_debug_adds_the_traceback_and_keeps_the_code() -> None:
    result = runner.invoke(failing(InputError("a.toml", "", "expected more")), ["--debug", "work"])
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("mptune: error: a.toml: expected more\n")


@pytest.mark.parametrize("arguments", [["--nonsense"], ["nonsense"], ["paths"], ["paths", "a", "b"]])
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("mptune: error: ")
    assert "--help" in result.stderr


def test_version_and_help_end_well() -> None:
    from mptune import __version__

    version = runner.invoke(app, ["--version"])
    assert (version.exit_code, version.stdout.splitlines()[0]) == (0, f"mptune {__version__}")
    bare, asked = runner.invoke(app, []), runner.invoke(app, ["--help"])
    assert bare.exit_code == asked.exit_code == 0
    assert bare.stdout == asked.stdout


def test_the_version_lists_what_is_here_and_what_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from mptune.linux import agent, bpf

    monkeypatch.setattr(agent, "PROGRAM", tmp_path / "nothing")
    monkeypatch.setattr(bpf, "OBJECTS", tmp_path)
    lines = dict(line.split(maxsplit=1) for line in runner.invoke(app, ["--version"]).stdout.splitlines())
    assert lines["agent"] == "none" and lines["BPF"] == "programs     none"
    assert platform.release() in lines["kernel"]
    (tmp_path / "reno.bpf.o").touch()
    done = runner.invoke(app, ["--version", "--json"])
    document = json.loads(done.stdout)
    assert document["features"]["agent"] is None and document["features"]["bpf_objects"] == ["reno"]
    assert document["kernel"]["release"] == platform.release()
    assert document["kernel"]["mptcp"] == (document["kernel"]["reason"] is None)


def test_json_alone_is_refused() -> None:
    for arguments in (["--json"], ["--json", "paths", "UNIS-HiN"]):
        result = runner.invoke(app, arguments)
        assert result.exit_code == 2 and "expected with --version" in result.stderr


def commands() -> list[str]:
    """Names of all commands, but for those of groups."""
    return [
        str(registered_command.name or getattr(registered_command.callback, "__name__", ""))
        for registered_command in app.registered_commands
    ]


def _everything(command: str) -> str:
    """Help of a command, with what only --help-all shows if it has that."""
    whole = runner.invoke(app, [command, "--help-all"])
    return whole.stdout if whole.exit_code == 0 else runner.invoke(app, [command, "--help"]).stdout


def test_every_command_shows_examples_of_itself_line_by_line() -> None:
    for name in commands():
        page = _everything(name)
        examples = page[page.index("Examples:") :].splitlines()[1:]
        assert examples
        assert all(line.strip().startswith(f"mptune {name} ") for line in examples)


def test_examples_name_networks_that_there_are() -> None:
    """Two sites with a hyphen between them are a shipped scenario."""
    named = {
        word
        for name in commands()
        for word in _everything(name).split()
        if re.fullmatch(r"[A-Z][A-Za-z]+-[A-Z][A-Za-z]+(\.[a-z_]+)?", word)
    }
    assert len(named) > 5 and named <= set(shipped())


def test_json_has_no_not_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"a": float("nan"), "b": 1.5})
    assert capsys.readouterr().out == '{\n  "a": null,\n  "b": 1.5\n}\n'
