"""Has ansible-lint look at the role of `mptune advise --files` (`make lint-ansible`)."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mptune.apply import files
from mptune.apply.plan import plan, resolve
from tests.apply.worlds import HOME, SERVER, altered, make_runs

#: With endpoints, routes and a BPF program: every task that a role may have.
ANSWER: dict[str, Any] = {
    "protocol": "mptcp",
    "opm": "fullmesh",
    "subflows": ["F-T", "F-V", "M-T", "M-V"],
    "standby": [],
    "occ": "olia",
    "buffer_mode": "auto",
    "obs_bytes": 1 << 20,
}


def main() -> int:
    """Return ansible-lint's exit code for the sender's role."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make_runs(place, "grid")
        hosts = plan(altered(place / "grid", place / "run", **ANSWER))
        read = [resolve(host, present) for host, present in zip(hosts, (HOME, SERVER), strict=True)]
        files.write(read, place / "files")
        command = ["ansible-lint", "--offline", "--profile", "production"]
        return subprocess.run(command, cwd=place / "files/H/ansible", check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
