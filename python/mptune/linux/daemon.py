"""The agent in its role `daemon`: started, or run for one answer.

The agent alone knows what a policy file may contain.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mptune._text import bounded
from mptune.errors import InputError, MptuneError
from mptune.linux import agent

#: The default policy file, and where the daemon listens, unless that file does.
FILE = Path("/etc/mptune/policy.toml")
SOCKET = Path("/run/mptune/daemon.sock")

#: Seconds that reading a file or putting a setting back may take.
_ANSWER_S = 30.0
#: Exit status of the agent where the policy file is wrong.
_WRONG = 2
#: Largest length of its report on a policy file, characters.
_EXPECTED = 200


def command(*options: str) -> list[str]:
    """Its command line.

    Raises
    ------
    MptuneError : the agent is missing.
    """
    return [*agent.command("daemon"), *options]


def check(file: Path) -> dict[str, Any]:
    """Check a policy file and return its contents.

    Raises
    ------
    InputError : it is wrong: file, key, what was expected and what was found.
    """
    return _answer("--policy", str(file), "--check")


def check_text(text: str, where: str) -> dict[str, Any]:
    """Check the policy file of another machine; the answers of its runs are not read.

    Parameters
    ----------
    where : what to call the file in errors.

    Raises
    ------
    InputError : it is wrong: `where`, key, what was expected and what was found.
    """
    try:
        return _answer("--policy", "-", "--check", text=text)
    except InputError as error:
        raise InputError(where, "", str(error).removeprefix("-: ")) from None


def address(text: str) -> str:
    """Address and port of the metrics, of which a port alone is one of 127.0.0.1.

    Raises
    ------
    InputError : it is something else.
    """
    read: str = _answer("--metrics", text, "--policy", "-", "--check")["metrics"]
    return read


def restore() -> dict[str, Any]:
    """Put back what a daemon has left that was killed; what was put back, and what could not be.

    Raises
    ------
    MptuneError : its note cannot be read.
    """
    return _answer("--restore")


def _answer(*options: str, text: str = "") -> dict[str, Any]:
    try:
        done = subprocess.run(
            command(*options), input=text, capture_output=True, text=True, check=False, timeout=_ANSWER_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MptuneError(f"{agent.PROGRAM}: {error}") from None
    if done.stdout:
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer
    raise error_of(done.returncode, done.stderr.splitlines())


def error_of(status: int, output: Sequence[str]) -> MptuneError:
    """The error in the agent's last line."""
    line = output[-1] if output else f"mptune-agent daemon: ended with status {status}"
    if status != _WRONG:
        return MptuneError(line)
    where, colon, expected = line.partition(": ")
    return InputError(where if colon else "--policy", "", bounded(expected or line, _EXPECTED))
