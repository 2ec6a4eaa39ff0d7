"""Files that the agent reads: a pipe or a device in their place ends with a line, and holds nothing up."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from mptune.linux import agent
from tests.plugins.waiting import PATIENCE_S

pytestmark = pytest.mark.needs("linux")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A pipe that nobody writes to."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def done(*command: object, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(agent.program()), *map(str, command)],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("file", "words"), [("pipe", "a named pipe"), ("/dev/zero", "a device"), (".", "a dir")]
)
def test_a_policy_file_that_is_none_is_named(pipe, file, words):
    place = pipe.parent / file
    completed = done("daemon", "--check", "--policy", place)
    assert (completed.returncode, completed.stdout) == (2, "")
    assert completed.stderr.startswith(f"{place}: expected a policy file, found {words}")
    assert completed.stderr.count("\n") == 1


@pytest.mark.parametrize(("file", "words"), [("pipe", "a named pipe"), ("/dev/zero", "a device")])
def test_an_answer_that_is_none_is_named(tmp_path, pipe, file, words):
    (tmp_path / "policy.json").symlink_to(pipe.parent / file)
    policy = tmp_path / "policy.toml"
    policy.write_text(f'[[policy]]\nname = "x"\nto = ["10.9.0.0/16"]\nrun = "{tmp_path}"\n')
    completed = done("daemon", "--check", "--policy", policy)
    assert completed.returncode == 2 and completed.stderr.count("\n") == 1
    assert f"policy.json: expected an answer, found {words}" in completed.stderr


@pytest.mark.parametrize(("file", "words"), [("pipe", "a named pipe"), ("/dev/zero", "a device")])
def test_a_journal_of_settings_that_is_none_is_named(tmp_path, pipe, file, words):
    inode = Path("/proc/self/ns/net").stat().st_ino
    for name in ("applied.json", f"applied-{inode}.json"):
        (tmp_path / name).symlink_to(pipe.parent / file)
    order = json.dumps({"action": "status"}) + "\n"
    answer = json.loads(done("settings", text=order, MPTUNE_STATE_DIRECTORY=str(tmp_path)).stdout)
    assert (answer["event"], answer["because"]) == ("refused", "journal")
    assert f"expected a file, found {words}" in answer["reason"]


def test_a_namespace_that_is_a_pipe_is_named(pipe):
    for option in ("--netns", "--userns"):
        completed = done(option, pipe, "watch")
        assert completed.returncode == 1 and f"{option}: {pipe}: Invalid argument" in completed.stdout
