"""The agent in its role `congestion`, with an object that it registers under a name."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mptune.linux import agent


class Role:
    """A process in that role, which has an order."""

    def __init__(self, process: "subprocess.Popen[str]", line: object) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self.answer = self.tell(line)

    def tell(self, line: object) -> dict[str, Any]:
        """An order, and the answer to it."""
        self._stdin.write(json.dumps(line) + "\n")
        self._stdin.flush()
        answer: dict[str, Any] = json.loads(self._stdout.readline())
        return answer


@contextmanager
def congestion_role(
    name: str, content: bytes, *, told: Sequence[Mapping[str, Any]] = (), **variables: str
) -> Iterator[Role]:
    """The role with an object, told of paths, ended with its input."""
    with subprocess.Popen(
        agent.command("congestion"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    ) as process:
        order = {"action": "register", "name": name, "object": base64.b64encode(content).decode()}
        yield Role(process, {**order, "paths": told} if told else order)
