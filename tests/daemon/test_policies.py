"""The policy file, as the agent and Python read it together, and `mptune daemon --check`."""

import json
from datetime import datetime, timedelta
from datetime import time as Time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.daemon import client, policies
from mptune.daemon.policies import Remeasure
from mptune.errors import InputError

pytestmark = pytest.mark.needs("linux")

ANSWER = {
    "version": 1,
    "pm": "pcdc",
    "pm_options": {"active": [0]},
    "paths": [{"label": "A-X", "local": 0, "remote": 0, "pairs": [["10.0.1.2", "10.9.0.1"]]}],
    "expected_mbit_s": 210,
}
POLICY = """
[daemon]
socket = "/run/elsewhere.sock"
[[policy]]
name = "my-sites"
to = ["10.9.0.0/16"]
run = "my-sites"
[remeasure]
hours = "22:30-05:00"
max_data = "2GB"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "my-sites"
    place.mkdir()
    (place / "policy.json").write_text(json.dumps(ANSWER))
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path / "policy.toml"


def mptune(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["daemon", *map(str, arguments)])


def test_a_file_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy_file = policies.read(file)
    assert (policy_file.socket, policy_file.runs) == (
        Path("/run/elsewhere.sock"),
        {"my-sites": file.parent / "my-sites"},
    )
    assert policy_file.remeasure == Remeasure(
        begin=Time(22, 30), end=Time(5), max_data_bytes=2_000_000_000, budget_ns=600_000_000_000
    )
    monkeypatch.setenv(policies.VARIABLE, str(file))
    assert policies.socket_of(None) == Path("/run/elsewhere.sock")
    monkeypatch.setenv(client.VARIABLE, "/run/another.sock")
    assert policies.socket_of(None) == Path("/run/another.sock")


def test_it_is_shown_and_checked(file: Path) -> None:
    done = mptune("--check", "--policy", file)
    assert done.exit_code == 0
    assert "my-sites" in done.output and "all others" in done.output and "is right" in done.output
    assert json.loads(mptune("--check", "--json", "--policy", file).output)["policies"][0]["pm"] == "pcdc"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("colour = 1", "colour: expected one of buffers, daemon, default, policy, remeasure, found"),
        ('[[policy]]\nname = "my-sites"\nto = ["10.8.0.0/16"]\npolicy = "guard"', "found"),
        ('[default]\npolicy = "fullmash"', "default.policy: expected one of default"),
        ("[", "expected TOML"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(file: Path, wrong: str, expected: str) -> None:
    file.write_text(f"{wrong}\n{POLICY}" if "=" in wrong.partition("\n")[0] else f"{POLICY}\n{wrong}")
    done = mptune("--check", "--policy", file)
    assert done.exit_code == 2
    assert done.output.startswith(f"mptune: error: {file}: ") and done.output.count("\n") == 1
    assert expected in done.output


def test_amounts_are_those_of_every_file(file: Path) -> None:
    file.write_text(POLICY.replace("2GB", "0.0000000001GB"))
    with pytest.raises(InputError, match=r"remeasure.max_data: expected a size in steps of 1 B"):
        policies.read(file)


@pytest.mark.parametrize(
    ("hours", "now", "left"),
    [
        (("02:00", "05:00"), "02:00", 3 * 60),
        (("02:00", "05:00"), "04:59", 1),
        (("02:00", "05:00"), "05:00", 0),
        (("02:00", "05:00"), "01:59", 0),
        (("22:30", "05:00"), "23:00", 6 * 60),
        (("22:30", "05:00"), "04:00", 60),
        (("22:30", "05:00"), "12:00", 0),
    ],
)
def test_hours_are_of_the_day_and_may_go_over_midnight(hours: Any, now: str, left: int) -> None:
    begin, end = map(Time.fromisoformat, hours)
    allowed = Remeasure(begin=begin, end=end, max_data_bytes=None, budget_ns=1)
    moment = datetime.fromisoformat(f"2026-11-20T{now}:00+00:00")
    assert allowed.left(moment) == timedelta(minutes=left)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--check", "--restore"), "--restore: expected without --check, found both"),
        (("/tmp",), "DIR: expected only with --unit"),
        (("--json",), "--json: expected with --check"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...], expected: str) -> None:
    done = mptune(*arguments)
    assert done.exit_code == 2 and expected in done.output


def test_nothing_is_left_to_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPTUNE_RUN_DIRECTORY", str(tmp_path / "run"))
    assert mptune("--restore").output == "Nothing was left to put back.\n"
    assert json.loads(mptune("--restore", "--json").output)["names"] == []
