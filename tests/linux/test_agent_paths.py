"""The agent's role `paths`: its answer to impossible input."""

import json
import subprocess

import pytest

from mptune.linux import agent

PATH = {"label": "A-X", "local": 0, "remote": 0, "pairs": [["10.64.0.1", "10.65.0.1"]]}


def answer(*lines, namespace=None):
    done = subprocess.run(
        agent.command("paths", namespace),
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
        ([], "configuration: expected a line of JSON"),
        ([{"side": "middle"}], "unknown variant `middle`, expected `sender` or `receiver`"),
        ([{"side": "sender"}], "missing field `assignment`"),
        (
            [{"side": "sender", "assignment": {"pm": "fullmash", "paths": [PATH]}}],
            "path manager: pm: expected one of default, fullmesh",
        ),
        (
            [{"side": "sender", "assignment": {"pm": "pcdc", "paths": [PATH], "pm_options": {"activ": [0]}}}],
            "path manager: pm_options: expected one of active",
        ),
    ],
    ids=["nothing", "no such side", "no assignment", "no such policy", "no such option"],
)
def test_what_cannot_be_is_an_error_with_its_reason(lines, reason):
    status, (message,) = answer(*lines)
    assert status == 1
    assert message["event"] == "error"
    assert reason in message["reason"]


def test_a_namespace_that_is_not_there_is_named():
    sender = {"side": "sender", "assignment": {"pm": "fullmesh", "paths": [PATH]}}
    for line in (sender, {"side": "receiver"}):
        status, (message,) = answer(line, namespace="/proc/1/ns/nothing")
        assert status == 1
        assert message["event"] == "error"
        assert "/proc/1/ns/nothing" in message["reason"] and "\n" not in message["reason"]
