"""`mptune ui` as its users start and end it."""

import json
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.ui.server import Server
from tests.plugins.program import command_line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
@pytest.mark.parametrize("as_json", [False, True])
def test_it_prints_its_address_serves_and_ends(
    number: signal.Signals, code: int, as_json: bool, made: Path
) -> None:
    line = command_line("ui", made, *(["--json"] if as_json else []))
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True) as program:
        assert program.stdout is not None
        first = "".join(program.stdout.readline() for _ in range(3 if as_json else 1))
        url = json.loads(first)["url"] if as_json else first.rstrip("\n")
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.status == 200 and answer.headers["Set-Cookie"].startswith("mptune-ui-")
        program.send_signal(number)
        rest, errors = program.communicate(timeout=60)
    assert (program.returncode, rest) == (code, "")
    assert errors == ("mptune: interrupted\n" if code else "")


def test_a_port_that_is_taken_is_refused_in_a_line(made: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = CliRunner().invoke(app, ["ui", str(made), "--port", str(port)])
    assert done.exit_code == 2 and done.stdout == ""
    assert (
        done.stderr == f"mptune: error: --port: expected a free port, found {port}: Address already in use\n"
    )


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http"])
def test_a_port_that_is_none_is_refused_in_a_line(port: str, made: Path) -> None:
    done = CliRunner().invoke(app, ["ui", str(made), "--port", port])
    assert done.exit_code == 2 and done.stderr.startswith("mptune: error: --port: expected")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["none", "empty", "file", "\0"])
def test_a_place_without_runs_is_refused_in_a_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["ui", f"{tmp_path}/{name}"])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    expected = "expected a run directory or a bundle" if name == "file" else "expected a run, a bundle, or"
    assert expected in done.stderr


@pytest.mark.parametrize("desktop", [False, True])
def test_a_browser_is_opened_only_where_there_is_a_desktop(
    desktop: bool, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(Server, "serve", Server.server_close)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if desktop:
        monkeypatch.setenv("DISPLAY", ":0")
    done = CliRunner().invoke(app, ["ui", str(made), "--open"])
    assert done.exit_code == 0 and len(opened) == desktop
    # Other users can read a command line: its token works once.
    assert opened != [done.stdout.strip()]
