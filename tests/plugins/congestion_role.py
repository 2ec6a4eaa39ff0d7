"""The agent in its role `congestion`, with an object that it registers under a name."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mptune.linux import agent


class Role:
    """A process in that role, which has an order."""

    def __init__(self, process: "subprocess.Popen[str]", line: object) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process, self._stdin = process, process.stdin
        self._stdin.write(json.dumps(line) + "\n")
        self._stdin.flush()
        self.answer: dict[str, Any] = json.loads(process.stdout.readline())


@contextmanager
def congestion_role(name: str, content: bytes, **variables: str) -> Iterator[Role]:
    """The role with an object, ended with its input."""
    with subprocess.Popen(
        agent.command("congestion"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    ) as process:
        yield Role(
            process, {"action": "register", "name": name, "object": base64.b64encode(content).decode()}
        )
