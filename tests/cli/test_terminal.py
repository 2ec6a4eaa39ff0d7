"""Text of files, hosts and programs is data wherever it comes out: every source with every place.

Each source is read by what reads it; what is refused there is an error, which comes out, too. Nothing that
controls a terminal or turns the direction of letters comes out, brackets are brackets, and nothing is lost.
"""

import html
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import typer
from typer.testing import CliRunner

from mptune._terminal import Terminal
from mptune.apply import files
from mptune.apply._settings import Intent
from mptune.apply.plan import HostPlan
from mptune.campaign.definition import read_definition
from mptune.cli import app
from mptune.cli._common import console, emit_json, program
from mptune.cli._tables import section, table
from mptune.errors import Failure, InputError, MptuneError, TrialError
from mptune.machines._messages import message_of
from mptune.monitor.columns import COLUMNS, safe_cell
from mptune.monitor.figures import Machine
from mptune.monitor.shape import census
from mptune.monitor.view import View
from mptune.report import markup
from mptune.report.sections import Table
from mptune.runner.progress import Reporter
from mptune.table import read_measurements
from mptune.topology import Topology, load
from tests.monitor import reports

#: CSI and OSC, in seven bits and in eight, what moves within a line, and two directions.
CONTROLS = ("\x1b[2J", "\x1b]0;t\x07", "\x9b1m", "\r", "\x08", "\u202e", "\u2066")
MARKUP = "[/x][red]r[/red][link=u]l:smile:"
EVIL = {"controls": f"x{''.join(CONTROLS)}y", "markup": f"x{MARKUP}y"}
#: A character that may not come out, in anything but colours and movements of rich's own.
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

NETWORK = """
name = "net"
description = "DESCRIPTION"
sender = "A"
receiver = "B"
[sites.A]
name = "SITE"
[[sites.A.interfaces]]
isp = "ISP"
abbr = "P"
up = "10 Mbit/s"
down = "10 Mbit/s"
[sites.B]
name = "other"
[[sites.B.interfaces]]
isp = "Q"
abbr = "Q"
up = "10 Mbit/s"
down = "10 Mbit/s"
[core]
rtt = "40 ms"
"""


# Sources.


def written(name: str, tmp_path: Path, text: str) -> Path:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    return tmp_path / name


def network(word: str, text: str, tmp_path: Path) -> Topology:
    return load(written("net.toml", tmp_path, NETWORK.replace(f'"{word}"', json.dumps(text))))


def campaign(text: str, tmp_path: Path) -> str:
    lines = f"topology = 'UiT-HAW'\nname = {json.dumps(text)}\n"
    return read_definition(written("campaign.toml", tmp_path, lines)).name


def level(text: str, tmp_path: Path) -> str:
    rows = "".join(f'{size},{size},"{text}"\n' for size in (1, 2, 3))
    measurements = read_measurements(
        str(written("m.csv", tmp_path, f"throughput_mbps,buffer_mib,cc\n{rows}"))
    )
    return measurements.rows[0].levels["cc"]


def from_host(text: str, tmp_path: Path) -> str:
    line = {"event": "said", "id": 1, "line": {"event": "x", "device": text}}
    device: str = message_of(json.dumps(line).encode(), "alice")["line"]["device"]
    return device


def refusal(text: str, tmp_path: Path) -> str:
    line = json.dumps({"event": "refused", "id": 1, "reason": text}).encode()
    return str(TrialError(f"alice: {message_of(line, 'alice')['reason']}", "refused"))


SOURCES: dict[str, Callable[[str, Path], str]] = {
    "topology name": lambda text, place: network("net", text, place).name,
    "topology description": lambda text, place: network("DESCRIPTION", text, place).description,
    "site": lambda text, place: network("SITE", text, place).sender.name,
    "interface": lambda text, place: network("ISP", text, place).sender.interfaces[0].isp,
    "campaign": campaign,
    "CSV column": level,
    "host's reply": from_host,
    "agent's reason": refusal,
    "failed trial": lambda text, place: Failure("stalled", text).reason,
    "program": lambda text, place: text,
}


# Where it comes out.

Sink = Callable[[str, pytest.MonkeyPatch, pytest.CaptureFixture[str]], str]


def lossless(text: str) -> str:
    """Text written with an escape of its own there, as the others write it."""
    return re.sub(RAW, lambda match: repr(match[0])[1:-1], text)


class Tty(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def in_table(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    printed = table(text, f"| {text}")
    printed.add_row(text, text)
    section(console(), text, printed)
    console().print(text)
    return captured.readouterr().out


def in_error(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    done = _ended(InputError(text, text, text))
    assert len(done.splitlines()) == 1
    return done


def in_unexpected_error(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    done = _ended(ValueError(text))
    assert len(done.splitlines()) == 1
    return done


def in_traceback(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    return _ended(ValueError(text), "--debug")


def _ended(error: Exception, *options: str) -> str:
    failing: typer.Typer = program()

    def work() -> None:
        raise error

    failing.command()(work)
    return CliRunner().invoke(failing, [*options, "work"]).stderr


def in_progress(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    stream = io.StringIO()
    reporter = Reporter(stream=stream)
    reporter.notice(text)
    with reporter.phase(text) as advance:
        assert advance is not None
        advance(1, 1, text)
    return stream.getvalue()


def in_bar(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    """Without what rich writes itself: colours, and the cursor hidden and moved."""
    patch.setenv("COLUMNS", "400")
    patch.setenv("TERM", "xterm")
    stream = Tty()
    with Reporter(stream=stream).phase(text) as advance:
        assert advance is not None
        advance(1, 2, text)
    printed = stream.getvalue()
    assert not any(control in printed for control in CONTROLS if control != "\r")
    return re.sub(r"\x1b\[(?:[\d;]*m|\?25[lh]|1A|2K)|\r", "", printed)


def in_watch(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    machine = Machine("")
    for now in (0, 1):
        machine.update(census(reports.report(now, reports.connection(command=text))))
    view = View()
    view.open_all()
    cells = [safe_cell(column, row).text for row in view.rows([machine]) for column in COLUMNS]
    return "\n".join(cells)


def in_json(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    emit_json({text: [text]})
    printed = captured.readouterr().out
    assert json.loads(printed) == {text: [text]}
    return printed + lossless(text)


def in_report(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    page = markup.tables([Table(title=text, rows=[{text: text}])]) + markup.facts({text: text})
    assert "<x" not in page
    return html.unescape(page)


def in_chart(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    data = markup.data("charts", markup.shortened({"values": [{"a": text}]}))
    (value,) = json.loads(data.partition(">")[2].rpartition("<")[0])["values"]
    return data + str(value["a"])


def in_files(text: str, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> str:
    """The files of `mptune advise --files`: what controls is refused, and the refusal comes out."""
    host = HostPlan(
        site="A",
        name=text,
        ssh=None,
        part="sender",
        settings=(),
        why=(),
        notes=(),
        differs=(),
        unknown=(),
        intent=cast(Intent, None),  # nothing is made from it here
    )
    try:
        return "\n".join(file.content.decode() for file in files.made(host))
    except InputError as error:
        return f"{error} {lossless(text)}"


SINKS: dict[str, Sink] = {
    "table": in_table,
    "error": in_error,
    "unexpected error": in_unexpected_error,
    "--debug": in_traceback,
    "progress": in_progress,
    "bar": in_bar,
    "watch": in_watch,
    "JSON": in_json,
    "report": in_report,
    "chart": in_chart,
    "files": in_files,
}


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("sink", SINKS)
def test_text_is_data(
    sink: str,
    source: str,
    evil: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        text = SOURCES[source](EVIL[evil], tmp_path)
    except MptuneError as error:
        text = str(error)
    printed = SINKS[sink](text, monkeypatch, capsys)
    assert not RAW.findall(printed)
    expected = EVIL[evil] if evil == "markup" else r"x\x1b[2J\x1b]0;t\x07\x9b1m\r\x08\u202e\u2066y"
    assert expected in printed


# Commands as a whole.


def test_paths_shows_a_file_with_brackets_as_it_is(tmp_path: Path) -> None:
    text = NETWORK
    for word in ("net", "DESCRIPTION", "SITE", "ISP"):
        text = text.replace(f'"{word}"', f'"{word}{MARKUP}"')
    for options in ((), ("--assumptions",), ("--json",)):
        done = CliRunner().invoke(app, ["paths", str(written("net.toml", tmp_path, text)), *options])
        assert done.exit_code in (0, 2) and "unexpected" not in done.stderr
        assert done.exit_code == 2 or (done.stdout.count(MARKUP) >= 1 and not RAW.findall(done.stdout))


@pytest.mark.parametrize("name", ["n" * 100_000, "\x1b[2J" * 20_000, "[/x]" * 20_000])
@pytest.mark.parametrize("command", ["paths", "run", "buffers", "optimise"])
def test_a_long_argument_is_refused_in_one_line_with_an_end(command: str, name: str) -> None:
    done = CliRunner().invoke(app, [command, name])
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1 and len(done.stderr) < 1100
    assert not RAW.findall(done.stderr)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_table_that_is_too_wide_is_broken_between_words_and_keeps_its_names(width: int) -> None:
    stream = io.StringIO()
    wide = table("", "alice", "bob", "| load")
    buffers = "rmem_max 4194304, wmem_max 4194304, tcp_rmem 33554432, tcp_wmem 4194304"
    wide.add_row("congestion control reno", "in the kernel", "in the kernel", "1.25")
    wide.add_row("buffers (bytes)", buffers, buffers, "2")
    Terminal(file=stream, width=width).print(wide)
    lines = stream.getvalue().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines) and "…" not in stream.getvalue()
    assert lines[1].startswith("congestion control reno  in the kernel ") and lines[1].rstrip().endswith(
        "1.25"
    )
    words = stream.getvalue().replace(",", " ").split()
    assert words.count("33554432") == words.count("wmem_max") == 2
