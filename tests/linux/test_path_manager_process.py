"""The path manager as a process: what it says to input that cannot be."""

import json
import subprocess
import sys

import pytest

PATH = {"label": "A-X", "local": 0, "remote": 0, "pairs": [["10.64.0.1", "10.65.0.1"]]}


def answer(*lines):
    done = subprocess.run(
        [sys.executable, "-m", "mptune.linux.path_manager"],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "truncated"),
        ([{"sender": None}], "sender"),
        (
            [{"sender": "/nowhere", "receiver": None, "assignment": {"pm": "fullmash", "paths": [PATH]}}],
            "pm: one of default, fullmesh",
        ),
        (
            [{"sender": "/nowhere", "receiver": None, "assignment": {"pm": "fullmesh", "paths": [PATH]}}],
            "/nowhere: cannot be entered",
        ),
    ],
    ids=["nothing", "no namespace", "no such policy", "no such namespace"],
)
def test_what_cannot_be_is_an_error_with_its_reason(lines, reason):
    status, (message,) = answer(*lines)
    assert status == 1
    assert message["event"] == "error"
    assert reason in message["reason"]
