"""Path and command line of the agent, the program `mptune-agent` (crate mptune-agent).

It is part of the package but needs no Python: the same file runs on machines that have neither. It is
controlled by lines of JSON, which depend on its role.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import mptune
from mptune.errors import MptuneError

#: `make setup` puts it there, also before a wheel is built.
PROGRAM = Path(mptune.__file__).parent / "_bin" / "mptune-agent"
#: Processors for which there may be an agent that needs nothing of a machine but its kernel, beside `PROGRAM`
#: and named after them (`make agent-static`): as `uname -m` calls them, with other words for the same.
PROCESSORS: Mapping[str, tuple[str, ...]] = {"x86_64": (), "aarch64": (), "armv7l": ("armv8l",)}

#: Seconds it has to report its version.
_ANSWER_S = 10.0
#: Remedy for missing compiled files of the package.
REMEDY = "run `make setup` in the source directory, or install mptune again"


def command(role: str, network_namespace: str | None = None, user_namespace: str | None = None) -> list[str]:
    """Command line of a role, in the caller's namespaces or in those given by their paths.

    Raises
    ------
    MptuneError : the program is missing.
    """
    namespaces = {"--userns": user_namespace, "--netns": network_namespace}
    entered = [word for option, path in namespaces.items() if path is not None for word in (option, path)]
    return [str(program()), *entered, role]


def static() -> dict[str, Path]:
    """The agents that are linked statically and were built, by the processor."""
    places = {processor: PROGRAM.with_name(f"{PROGRAM.name}-{processor}") for processor in PROCESSORS}
    return {processor: place for processor, place in places.items() if place.is_file()}


def version() -> str:
    """Version of the program.

    Raises
    ------
    MptuneError : it is missing, or does not run.
    """
    command = [str(program()), "--version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_ANSWER_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise MptuneError(f"{PROGRAM}: does not run: {error}; {REMEDY}") from None
    return done.stdout.split()[-1]


def program() -> Path:
    """The program, made executable if it came from an archive without permissions.

    Raises
    ------
    MptuneError : it is missing, or cannot be made executable.
    """
    if not PROGRAM.is_file():
        raise MptuneError(f"{PROGRAM}: the agent is missing; {REMEDY}")
    if not os.access(PROGRAM, os.X_OK):
        try:
            PROGRAM.chmod(0o755)
        except OSError as error:
            reason = error.strerror or error
            raise MptuneError(f"{PROGRAM}: must be executable: {reason}; chmod +x it") from None
    return PROGRAM
