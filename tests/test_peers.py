"""Comparison of benchmarks/speed/peers.py, and its lines about peers that are not there."""

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"

#: A `perf stat` that writes this line and runs the command.
PERF = """while [ "$1" != -- ]; do [ "$1" = -o ] && echo "{}" > "$2"; shift; done; shift; exec "$@\""""


@pytest.fixture
def peers(monkeypatch):
    return importlib.import_module("benchmarks.speed.peers")


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def case(peers):
    return peers.CASES[0]


class TestWhoTakesPart:
    def test_without_peers_it_lists_what_to_do_about_each(self, peers, monkeypatch):
        monkeypatch.setenv("PATH", "/nonexistent")
        contenders, absent = peers.contenders(None)
        assert [contender.name for contender in contenders] == ["mptune", "mptune, linux"]
        htsim, ns2 = absent
        assert "--htsim" in htsim
        assert "package ns2" in ns2
        driver = next(word for word in htsim.split() if word.endswith(".cpp"))
        assert (BENCHMARKS.parent / driver).is_file()

    def test_what_is_named_but_is_not_a_program_is_refused(self, peers, tmp_path):
        _, absent = peers.contenders(tmp_path / "htsim")
        assert f"{tmp_path / 'htsim'} is not a program" in absent[0]

    def test_peers_that_are_there_take_part_with_a_driver_that_exists(
        self, peers, case, tmp_path, monkeypatch
    ):
        monkeypatch.setenv("PATH", str(tmp_path))
        program(tmp_path / "ns", "exit 0")
        contenders, absent = peers.contenders(program(tmp_path / "htsim", "exit 0"))
        assert not absent
        assert [contender.name for contender in contenders[2:]] == ["htsim", "htsim, ACK queues", "ns-2"]
        script = contenders[-1].command(case, 1)[1]
        assert Path(script).is_file()

    def test_a_core_that_may_not_be_used_is_refused(self, peers):
        beyond = max(os.sched_getaffinity(0)) + 1
        with pytest.raises(SystemExit, match=f"--core {beyond}"):
            peers.chosen_core(beyond)


class TestTheCases:
    def test_the_simulator_delivers_over_every_path_and_no_more_than_the_links_carry(self, peers):
        for case in peers.CASES:
            seconds = 3
            network = peers.network(case)
            result = peers.timed(network, case.ccs["mptune"], seconds, "payload")
            assert 0.3 * case.packets(seconds) < result["packets"] <= case.packets(seconds)
            assert len(network["paths"]) == len(case.local) * max(1, len(case.remote))

    def test_a_connection_crosses_its_local_link_first_and_returns_in_reverse(self, peers):
        case = next(case for case in peers.CASES if len(case.remote) > 1)
        network = peers.network(case)
        names = [link["name"] for link in network["links"]]
        for path in network["paths"]:
            forward = [names[link] for link in path["forward"]]
            assert forward == [f"local {path['local']} there", f"remote {path['remote']} there"]
            back = [names[link].replace("back", "there") for link in path["reverse"]]
            assert back == forward[::-1]

    def test_every_case_has_the_same_round_trips(self, peers):
        for case in peers.CASES:
            remote_ns = case.remote[0].delay_ns if case.remote else 0
            assert {link.delay_ns + remote_ns for link in case.local} == {10_000_000, 20_000_000}

    def test_less_than_the_links_carry_is_reported(self, peers, case):
        def delivered(share):
            return [peers.Run(share * case.packets(10), 1.0, None, None)]

        assert peers.remark(case, delivered(0.99), 10) == ""
        assert "50.0%" in peers.remark(case, delivered(0.5), 10)
        assert "110.0%" in peers.remark(case, delivered(1.1), 10)


class TestARun:
    def test_the_last_line_counts(self, peers):
        text = "print('chatter'); print('{\"packets\": 6, \"cpu_s\": 2}')"
        run = peers.run([sys.executable, "-c", text], counting=False)
        assert run.rate == 3e-6

    def test_ticks_are_turned_into_seconds(self, peers):
        ticks = os.sysconf("SC_CLK_TCK")
        report = json.dumps({"packets": 8, "ticks": 2 * ticks})
        assert peers.run(["echo", report], counting=False).cpu_s == 2

    @pytest.mark.parametrize("text", ["echo nothing", "echo '{}'", "echo broken >&2; exit 3"])
    def test_a_peer_that_fails_ends_the_measurement_in_one_line(self, peers, tmp_path, text):
        with pytest.raises(SystemExit, match="peer: expected a last line of JSON") as caught:
            peers.run([str(program(tmp_path / "peer", text))], counting=False)
        assert "\n" not in str(caught.value)

    def test_instructions_are_those_that_perf_wrote(self, peers, tmp_path, monkeypatch):
        program(tmp_path / "perf", PERF.format("700,,instructions:u,1,100"))
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        assert peers.counters_work()
        run = peers.run(["echo", '{"packets": 1, "cpu_s": 1}'], counting=True)
        assert run.instructions == 700
        start = run._replace(instructions=200, packets=0)
        assert peers.per_packet([run], start) == 500

    def test_a_machine_without_counters_is_recognised(self, peers, tmp_path, monkeypatch):
        program(tmp_path / "perf", PERF.format("<not supported>,,instructions:u"))
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        assert not peers.counters_work()
