"""Completion in a shell: the shell's own line, in bash, with the program that it asks."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.topology import shipped
from mptune.trial.congestion import PATH_POLICIES


@pytest.fixture
def complete(tmp_path):
    """Completes the last of some words as bash does."""
    script = CliRunner().invoke(app, ["completion", "bash"])
    assert script.exit_code == 0
    program = tmp_path / "mptune"
    program.write_text(f"#!{sys.executable}\nfrom mptune.cli import main\nmain()\n")
    program.chmod(0o755)

    def run(*words):
        listed = " ".join(f"'{word}'" for word in ("mptune", *words))
        text = (
            f"{script.stdout}\nPATH={tmp_path}:$PATH COMP_WORDS=({listed}) COMP_CWORD={len(words)}\n"
            '"$(complete -p mptune | sed "s/.*-F \\([^ ]*\\) .*/\\1/")" mptune\n'
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "--norc", "-c", text], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return run


SCALABLE = [f"reno,scalable+{policy}" for policy in PATH_POLICIES]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["opti"], ["optimise"]),
        (["campaign", "resu"], ["resume"]),
        (["optimise", "--buffer-m"], ["--buffer-mode"]),
        (["run", "UNIS"], [name for name in shipped() if name.startswith("UNIS")]),
        (["run", "UNIS-HiN", "--pm", "ndiff"], ["ndiffports"]),
        (
            ["optimise", "UNIS-HiN", "--cc", "reno,scal"],
            ["reno,scalable", *SCALABLE],
        ),
    ],
)
def test_commands_options_and_names_are_completed(complete, words, expected):
    assert expected and complete(*words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_named_has_its_lines(shell):
    done = CliRunner().invoke(app, ["completion", shell])
    assert done.exit_code == 0 and f"complete_{shell}" in done.stdout
    (place,) = [
        line for line in CliRunner().invoke(app, ["completion", "--help"]).stdout.splitlines()
        if f"mptune completion {shell} >" in line
    ]  # fmt: skip
    assert Path(place.split()[-1]).stem in ("mptune", "_mptune")


def test_another_shell_is_refused_with_those_there_are():
    done = CliRunner().invoke(app, ["completion", "csh"])
    assert done.exit_code == 2
    assert done.stderr == "mptune: error: SHELL: expected one of bash, zsh, fish, found 'csh'\n"
