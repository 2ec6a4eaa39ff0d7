"""An exported run read back: what a capture tells is what the run itself counted."""

import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from benchmarks.shared import random_networks
from mptune import load
from mptune.capture import export
from mptune.capture.connections import Connection, examine
from mptune.testbeds import create
from mptune.trial import Bulk, Observation, Transfer, Trial
from mptune.trial.stacks import STACKS

SECOND = 10**9


def trial(seed: int, stack: str, **others: object) -> Trial:
    """A trial on a drawn network."""
    known: dict[str, object] = {
        "topology": random_networks.random_network(seed),
        "pm": "fullmesh",
        "cc": ("cubic", "olia", "reno")[seed % 3],
        "buffer_bytes": 2 ** (17 + seed % 6),
        "seed": seed,
        "workload": Bulk(duration_ns=2 * SECOND),
        **msgspec.structs.asdict(STACKS[stack]),
    }
    return Trial(**{**known, **others})  # type: ignore[arg-type]


def exported(made: Trial, file: Path) -> tuple[Observation, Connection]:
    """A run's own counts, and the only connection of its capture."""
    observation, run = create("simulated").record(made)
    export.write(made, run, file)
    analysis = examine(file).analysis
    assert analysis.warnings == analysis.limits == [] and analysis.plain == 0
    (connection,) = analysis.connections
    return observation, connection


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 8, 9, 11, 12])
@pytest.mark.parametrize("stack", ["linux", "v0.9x"])
def test_a_capture_tells_what_the_run_counted(tmp_path, seed, stack):
    made = trial(seed, stack)
    observation, connection = exported(made, tmp_path / "run.pcapng")
    assert connection.whole and not connection.fallback and not connection.findings
    assert connection.back.sent_bytes == 0
    assert len(connection.subflows) == len(observation.subflows)
    for seen, subflow in zip(connection.subflows, observation.subflows, strict=True):
        there = seen.there
        assert there.packets == subflow.counters["sent"]
        assert there.retransmitted == subflow.retransmitted
        assert there.reinjected == subflow.counters["reinjected"]
        base_ms = made.topology.path(subflow.path, "").base_rtt_ns / 1e6
        assert (seen.handshake_ms or 0) >= base_ms and (there.rtt_ms or base_ms) >= base_ms
    told = observation.metadata
    assert connection.there.reinjected_bytes == told["reinjected_bytes"]
    # A receiver drops what is beyond its window, which a capture sees arriving.
    if not told["beyond_window"]:
        assert connection.there.in_order_bytes == observation.in_order_bytes
        assert [seen.there.first_bytes for seen in connection.subflows] == [
            subflow.bytes for subflow in observation.subflows
        ]
    # The last segments wait for a delayed acknowledgement.
    assert 0 <= observation.in_order_bytes - connection.there.acked_bytes <= 2 * 1460
    assert (connection.there.in_order_bytes or 0) >= observation.in_order_bytes


def test_lost_packets_are_those_that_were_sent_again(tmp_path):
    made = trial(1, "v0.9x", workload=Transfer(bytes=2**20, deadline_ns=60 * SECOND))
    observation, connection = exported(made, tmp_path / "run.pcapng")
    assert observation.completion_ns and connection.there.in_order_bytes == 2**20
    for seen in connection.subflows:
        assert seen.there.lost is not None and abs(seen.there.lost - seen.there.retransmitted) <= 2
        assert seen.there.delay_ms is not None and seen.there.delay_ms > 0


@pytest.mark.parametrize("family", ["ipv4", "ipv6", "both"])
def test_every_family_has_addresses_of_its_own(tmp_path, family):
    topology = load("UiT-HAW").over(family)
    made = trial(1, "linux", topology=topology, family=family, buffer_bytes=2**20)
    _, connection = exported(made, tmp_path / "run.pcapng")
    brackets = {subflow.client.startswith("[") for subflow in connection.subflows}
    assert brackets == {"ipv4": {False}, "ipv6": {True}, "both": {False, True}}[family]
    pairs = {(subflow.client, subflow.server) for subflow in connection.subflows}
    assert len(pairs) == len(topology.paths)


def test_plain_tcp_has_no_option_of_mptcp(tmp_path):
    made = trial(1, "linux", topology=load("UiT-HAW"), protocol="tcp", pm="default")
    _, run = create("simulated").record(made)
    export.write(made, run, tmp_path / "run.pcapng")
    analysis = examine(tmp_path / "run.pcapng").analysis
    assert analysis.connections == [] and analysis.plain == 1


def test_a_recording_changes_nothing_and_the_same_trial_gives_the_same_file(tmp_path):
    made = trial(4, "linux")
    observation, run = create("simulated").record(made)
    for name in ("one", "two"):
        export.write(made, run, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    plain = create("simulated").run(made)
    counts = {name: value for name, value in plain.metadata.items() if name != "events"}
    assert counts == {name: value for name, value in observation.metadata.items() if name != "events"}
    assert plain.subflows == observation.subflows


def test_standby_subflows_ask_to_be(tmp_path):
    made = trial(1, "linux", topology=load("UiT-HAW"))
    _, run = create("simulated").record(made)
    export.write(made, run, tmp_path / "run.pcapng", frozenset({"T-D"}))
    (connection,) = examine(tmp_path / "run.pcapng").analysis.connections
    assert [subflow.backup for subflow in connection.subflows] == [False, True]


@pytest.mark.needs("tshark")
def test_wireshark_finds_nothing_malformed_and_the_same_tokens(tmp_path):
    file = tmp_path / "run.pcapng"
    made = trial(6, "linux", workload=Bulk(duration_ns=SECOND))
    _, connection = exported(made, file)
    checks = [f"-o{name}:TRUE" for name in ("tcp.check_checksum", "ip.check_checksum")]
    checksums = "ip.checksum.status == Bad || tcp.checksum.status == Bad"
    wrong = f"_ws.malformed || _ws.expert.group == Malformed || {checksums}"

    def read(*options: str) -> str:
        command = ["tshark", "-r", str(file), *checks, *options]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout

    assert read("-Y", wrong, "-c", "20") == ""
    fields = ["tcp.stream", "tcp.options.mptcp.recvtok", "frame.interface_name"]
    flags = [part for field in fields for part in ("-e", field)]
    joins = read("-Y", "tcp.options.mptcp.recvtok", "-Tjson", *flags)
    layers = [packet["_source"]["layers"] for packet in json.loads(joins)]
    tokens = {int(token, 0) for layer in layers for token in layer["tcp.options.mptcp.recvtok"]}
    assert {f"{token:08x}" for token in tokens} == {connection.server_token}
    assert {layer["frame.interface_name"][0].split()[1] for layer in layers} == {"sender", "receiver"}
