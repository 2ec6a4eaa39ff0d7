"""`mptune capture`: its screen, its JSON, its figure, two captures, and what it refuses."""

import json

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from tests.plugins import packets as made
from tests.plugins.bad_input import NO_FILES, Case, verdict
from tests.plugins.packets import Sent


def call(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """The capture of a simulated transfer, and the document of its run."""
    file = tmp_path_factory.mktemp("captures") / "trial.pcapng"
    options = ("--transfer", "1MiB", "--buffer", "256KiB", "--capture", file, "--json")
    return file, json.loads(call("run", "UiB-HU", *options).stdout)


def test_a_screen_has_every_subflow_and_fits(trial):
    lines = call("capture", trial[0]).stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 120
    assert "1 MPTCP connection, 0 plain TCP flows" in lines[0]
    for number in range(1, 5):
        assert sum(line.startswith(f"{number} ") for line in lines) == 2


def test_json_agrees_with_the_run(trial):
    file, run = trial
    found = json.loads(call("capture", file, "--json").stdout)
    (connection,) = found["connections"]
    assert connection["there"]["in_order_bytes"] == 2**20 and found["warnings"] == []
    retransmitted = [subflow["there"]["retransmitted"] for subflow in connection["subflows"]]
    assert retransmitted == [subflow["retransmitted"] for subflow in run["subflows"]]


def test_a_figure_of_the_largest_connection(trial, tmp_path):
    call("capture", trial[0], "--out", tmp_path / "course.svg")
    drawn = (tmp_path / "course.svg").read_text()
    assert drawn.startswith("<svg") and "payload sent (Mbit/s)" in drawn and "RTT (ms)" in drawn


def test_many_connections_are_shortened_unless_all_are_wanted(tmp_path):
    frames = []
    for number in range(6):
        packets = [
            (0, 0, {"flags": made.SYN, "options": made.capable()}),
            (9, 1, {"flags": made.SYN | made.ACK, "ack": 1, "options": made.capable(number + 1)}),
            (9.1, 0, {"seq": 1, "ack": 1, "options": made.capable(99, number + 1)}),
        ]
        frames += made.exchange(packets, ports=(1000 + number, 80))
    file = made.written(tmp_path / "some.pcap", frames)
    short, whole = call("capture", file).stdout, call("capture", file, "--details").stdout
    assert "Further connections: 4 (all: --details)" in short
    assert short.count("Connection ") == 2 and whole.count("Connection ") == 6


def test_names_in_a_capture_do_not_control_the_terminal(tmp_path):
    content = made.pcapng([Sent(1, made.tcp(options=made.dss(1, 1, 1), payload=1))])
    named = made.block("<", 1, b"\x65\0\0\0\0\0\0\0\2\0\4\0\x1b[2J\0\0\0\0")
    file = tmp_path / "some.pcapng"
    file.write_bytes(content + named)
    done = call("capture", file)
    assert "\x1b" not in done.output


def test_a_cut_file_is_one_warning(tmp_path, trial):
    file = tmp_path / "cut.pcapng"
    file.write_bytes(trial[0].read_bytes()[:-33])
    done = call("capture", file)
    assert len(done.stderr.splitlines()) == 1 and "read as far as it is whole" in done.stderr
    assert "1 MPTCP connection" in done.stdout


BAD = [
    Case(("capture", "none.pcap"), ("none.pcap",)),
    Case(("capture", "it"), ("it", "pcap or pcapng"), {"it": b"\0" * 100}),
    Case(("capture", "it"), ("it", "packets of TCP"), {"it": made.pcap([])}),
    Case(("capture", "it"), ("it", "whole capture"), {"it": made.pcap([]) + b"\xff" * 40}),
    Case(("capture", "it", "--out", "it.txt"), ("--out",), {"it": made.pcap([])}),
    Case(("run", "UiT-HAW", "--capture", "none/some.pcapng"), ("--capture",)),
    Case(("run", "UiT-HAW", "--testbed", "hosts", "--capture", "some.pcapng"), ("--capture", "hosts")),
    Case(("run", "UiT-HAW", "--connections", "2", "--capture", "some.pcapng"), ("connection",)),
    *(Case(("capture", "it"), ("it",), {"it": maker}) for maker in NO_FILES),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_bad_input_is_one_line(case, tmp_path, monkeypatch):
    assert verdict(case, tmp_path, monkeypatch) == "clean"
