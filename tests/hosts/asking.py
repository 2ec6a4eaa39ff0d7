"""Commands of mptune that work on the hosts of a world, as this user calls them."""

import json
import os
import subprocess

from mptune.machines.ssh import VARIABLE
from tests.hosts.world import World
from tests.plugins.program import command_line


def mptune(world: World, *words: object) -> dict:
    """A command's result as JSON."""
    done = subprocess.run(
        command_line(*words, "--json"),
        env={**os.environ, VARIABLE: str(world.bin / "ssh")},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict = json.loads(done.stdout)
    return result
