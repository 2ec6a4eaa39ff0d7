"""Values of the command line are what typer would make of them, without what it imports for that."""

import subprocess
import sys
from typing import Any

import pytest
import typer.main

from mptune.cli import app
from mptune.cli._values import as_given

VALUES: tuple[object, ...] = (None, "", "text", ["one"], ["one", "two"], ("one", "two"), [], True, False)


def parameters(command: str) -> list[Any]:
    group: Any = typer.main.get_command(app)
    context = group.make_context("mptune", [command, "--help"], resilient_parsing=True)
    found: list[Any] = group.get_command(context, command).params
    return found


def outcome(parameter: Any, value: object) -> object:
    """The value as read, or the reason of its refusal."""
    try:
        return parameter.get_runtime_param().coerce(value, param=parameter, ctx=None)
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("command", ["optimise", "run", "paths", "apply", "exec"])
def test_they_are_what_typer_makes_of_them(command: str) -> None:
    kinds = {}
    for parameter in parameters(command):
        for value in VALUES:
            parameter._runtime_param = None
            expected = outcome(parameter, value)
            parameter._runtime_param = None
            as_given([parameter])
            assert outcome(parameter, value) == expected, (parameter.name, value)
        kinds[parameter.type_descriptor.annotation] = parameter
    assert str in kinds


@pytest.mark.parametrize("arguments", [("paths", "UiT-HAW"), ("status", "--help"), ("paths", "nowhere")])
def test_a_command_imports_no_pydantic(arguments: tuple[str, ...]) -> None:
    code = (
        "import atexit, os, sys\n"
        "atexit.register(lambda: os.write(2, b'with it' if 'pydantic' in sys.modules else b'without'))\n"
        "from mptune.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=False)
    assert done.stderr.endswith(b"without")
