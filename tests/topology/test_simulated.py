"""Effects of topology files in the simulator: they do what the file states, and the core takes what loads."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mptune import _core
from mptune.testbeds import create
from mptune.topology import Topology, _load
from mptune.trial import MSS, Bulk, Observation, Trial
from mptune.trial.stacks import VERSION_0_1

S = 1_000_000_000
#: Share of a full packet that is payload.
PAYLOAD = 1448 / 1500
#: Links are tested, and the memory of a receiver must not limit them.
PAYLOAD_STACK = msgspec.structs.asdict(VERSION_0_1)


def line(interface: dict[str, Any] | None = None, **tables: Any) -> Topology:
    """One path, a-b, with an RTT of 20 ms; its bottleneck is the receiver's down link of 12 Mbit/s.

    Parameters
    ----------
    interface : keys of the receiver's interface; None takes one out.
    tables : further tables of the file.
    """
    row: dict[str, Any] = {
        "isp": "b",
        "abbr": "b",
        "up": "12 Mbit/s",
        "down": "12 Mbit/s",
        "queue": "256 KiB",
        "delay": "1 ms",
    }
    row |= interface or {}
    sites = {
        "A": {
            "name": "A",
            "interfaces": [
                {
                    "isp": "a",
                    "abbr": "a",
                    "up": "1 Gbit/s",
                    "down": "1 Gbit/s",
                    "queue": "4 MB",
                    "delay": "1 ms",
                }
            ],
        },
        "B": {"name": "B", "interfaces": [{key: value for key, value in row.items() if value is not None}]},
    }
    core = tables.pop("core", {"delay": "8 ms", "jitter": "0 s"})
    raw = {"name": "line", "sender": "A", "receiver": "B", "sites": sites, "core": core} | tables
    return _load.from_tables(raw, "line.toml", "line.toml")


def run(topology: Topology, seconds: int = 20, cc: str = "cubic", *, ecn: bool = True) -> Observation:
    """Saturate the path."""
    trial = Trial(
        topology=topology,
        pm="default",
        cc=cc,
        buffer_bytes=4 * 2**20,
        seed=7,
        workload=Bulk(duration_ns=seconds * S),
        **PAYLOAD_STACK | {"ecn": ecn},
    )
    observation = create("simulated").run(trial)
    assert observation.failed is None
    return observation


def mbps(observation: Observation) -> float:
    return observation.throughput_bps / 1e6


def srtt_ms(observation: Observation) -> float:
    return observation.subflows[0].srtt_ns / 1e6


def test_throughput_under_a_trace_is_its_mean(tmp_path: Path) -> None:
    # A second at 12 packets per 10 ms, a second at 3: 9 Mbit/s.
    times = [*range(0, 1000, 10)] * 12 + [*range(1000, 2000, 10)] * 3 + [2000]
    (tmp_path / "wave.trace").write_text("".join(f"{time}\n" for time in sorted(times)), encoding="ascii")
    topology = line({"down": None, "trace_down": str(tmp_path / "wave.trace")})
    path = topology.paths[0]
    assert path.rate_bps == 1501 * 12_000 // 2
    assert run(topology).throughput_bps == pytest.approx(path.rate_bps * PAYLOAD, rel=0.02)


def test_throughput_under_a_schedule_is_its_mean() -> None:
    steps = [{"at": "0 s", "down": "16 Mbit/s"}, {"at": "1 s", "down": "4 Mbit/s"}]
    topology = line({"schedule": steps, "schedule_period": "2 s"})
    assert topology.paths[0].rate_bps == 10_000_000
    assert mbps(run(topology)) == pytest.approx(10 * PAYLOAD, rel=0.02)


def test_throughput_and_rtt_under_recordings_are_theirs(tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("time (s),down (Mbit/s)\n0,16\n1,4\n2,10\n", encoding="ascii")
    (tmp_path / "ping.txt").write_text(
        "".join(
            f"[{at + 0.02:.3f}] 64 bytes from 192.0.2.1: icmp_seq={at} ttl=9 time=20.0 ms\n"
            for at in range(1000, 1030)
        ),
        encoding="ascii",
    )
    names = {"trace_down": str(tmp_path / "rates.csv"), "trace": str(tmp_path / "ping.txt")}
    topology = line({"down": None, "delay": None} | names)
    assert topology.paths[0].rate_bps == 10_000_000
    assert topology.paths[0].base_rtt_ns == 38_000_000
    observation = run(topology)
    assert mbps(observation) == pytest.approx(10 * PAYLOAD, rel=0.03)
    assert observation.subflows[0].min_rtt_ns == pytest.approx(38e6, rel=0.05)


def test_an_outage_is_one() -> None:
    steps = [{"at": "5 s", "down": "0 bit/s"}, {"at": "10 s", "down": "12 Mbit/s"}]
    bins = run(line({"schedule": steps})).bins
    assert sum(bins[51:100]) == 0
    assert sum(bins[150:]) * 8 / 5e6 == pytest.approx(12 * PAYLOAD, rel=0.03)


def test_a_token_bucket_bounds_the_throughput() -> None:
    topology = line({"bucket_down": {"rate": "5 Mbit/s", "burst": "30 kB"}})
    assert mbps(run(topology)) == pytest.approx(5 * PAYLOAD, rel=0.02)


@pytest.mark.parametrize("discipline", ["codel", "fq_codel", "red", {"kind": "red", "ecn": True}])
def test_a_managed_queue_shortens_the_rtt_at_the_same_throughput(discipline: object) -> None:
    plain, managed = run(line()), run(line({"discipline_down": discipline}))
    assert mbps(managed) == pytest.approx(mbps(plain), rel=0.06)
    assert srtt_ms(managed) < 0.5 * srtt_ms(plain)


def test_a_queue_that_marks_drops_what_is_not_ecn_capable() -> None:
    topology = line({"discipline_down": {"kind": "red", "ecn": True}})
    marked, dropped = (run(topology, ecn=ecn).subflows[0] for ecn in (True, False))
    assert marked.counters["ecn_reductions"] > 0 == dropped.counters["ecn_reductions"]
    assert dropped.retransmitted > marked.retransmitted


def test_step_marking_keeps_dctcp_at_its_threshold_without_a_loss() -> None:
    observation = run(line({"discipline_down": {"kind": "step", "mark": "15 kB"}}), cc="dctcp")
    # The threshold is 10 ms of queue; DCTCP stays near it (SIGCOMM 2010, section 3.3).
    assert 20 < srtt_ms(observation) < 40
    assert observation.subflows[0].retransmitted == 0


def test_bursts_lose_their_mean() -> None:
    chain = {"enter": "0.5 %", "leave": "50 %", "bad_loss": "100 %"}
    topology = line({"gilbert_elliott_down": chain})
    observation = run(topology, seconds=60)
    sent = observation.in_order_bytes / MSS
    share = observation.subflows[0].retransmitted / sent
    assert share == pytest.approx(topology.paths[0].loss_ppb / 1e9, rel=0.3)


def test_duplicates_cost_acknowledgements_and_late_packets_arrive() -> None:
    plain = run(line())
    copied = run(line({"duplicate_down": "20 %"}))
    assert int(copied.metadata["events"]) > int(plain.metadata["events"])
    late = run(line({"reorder_down": {"probability": "1 %", "delay": "4 ms"}}))
    assert mbps(late) == pytest.approx(mbps(plain), rel=0.1)
    assert late != plain


def test_datagrams_take_their_share() -> None:
    flow = {"kind": "udp", "link": "B b down", "rate": "4 Mbit/s", "start": "0 s"}
    assert mbps(run(line(background=[flow]))) == pytest.approx(8 * PAYLOAD, rel=0.03)
    on_off = flow | {"on": "100 ms", "off": "300 ms", "lengths": "fixed"}
    assert mbps(run(line(background=[on_off]))) == pytest.approx(11 * PAYLOAD, rel=0.04)


def test_a_connection_beside_is_accepted() -> None:
    run(line(background=[{"kind": "tcp", "path": "a-b", "cc": "reno", "start": "5 s", "stop": "10 s"}]))


TIMES = st.sampled_from(["1 ns", "1 ms", "90 s"])
CHANCES = st.sampled_from(["1e-9", "0.1 %", "99.9999999 %"])
EFFECTS: dict[str, st.SearchStrategy[Any]] = {
    "jitter": st.sampled_from(["0 s", "1 ns", "100 s"]),
    "bucket_down": st.fixed_dictionaries(
        {"rate": st.sampled_from(["100 bit/s", "1 Gbit/s"]), "burst": st.sampled_from(["1500 B", "1 GiB"])}
    ),
    "discipline": st.sampled_from(["droptail", "red", "codel", "fq_codel", "step"])
    | st.fixed_dictionaries(
        {"kind": st.just("fq_codel"), "queues": st.sampled_from([1, 65_536]), "quantum": st.just("256 B")}
    )
    | st.fixed_dictionaries({"kind": st.just("red"), "max": st.sampled_from(["1 B", "1500 B"])})
    | st.fixed_dictionaries({"kind": st.just("codel"), "target": TIMES, "interval": st.just("100 s")}),
    "queue": st.sampled_from(["1500 B", "1 GiB"]),
    "gilbert_elliott": st.fixed_dictionaries({"enter": CHANCES, "leave": CHANCES, "good_loss": CHANCES}),
    "reorder_up": st.fixed_dictionaries({"probability": CHANCES, "delay": TIMES}),
    "duplicate": CHANCES,
    "schedule": st.sampled_from(
        [
            [
                {"at": "0 s", "down": "0 bit/s", "loss": "100 %"},
                {"at": "1000000 s", "up": "100 bit/s", "down": "1 Gbit/s", "loss": "1 %"},
            ],
            [{"at": "1 ns", "delay": "100 s"}],
        ]
    ),
    "up": st.sampled_from(["100 bit/s", "9000000 Gbit/s"]),
}
FLOWS = st.fixed_dictionaries(
    {
        "kind": st.just("udp"),
        "link": st.sampled_from(["A a up", "B b down", "a-b back"]),
        "rate": st.sampled_from(["100 bit/s", "1000 Gbit/s"]),
        "packet": st.sampled_from(["28 B", "1500 B"]),
        "on": st.just("120 s"),
        "off": st.sampled_from(["0 s", "1000000 s"]),
        "stop": st.sampled_from(["1 ns", "1000000 s"]),
    }
)


@settings(max_examples=200)
@given(st.fixed_dictionaries({}, optional=EFFECTS), st.lists(FLOWS, max_size=2))
def test_the_core_takes_the_bounds_of_every_effect(
    effects: dict[str, Any], flows: list[dict[str, str]]
) -> None:
    core = {"delay": "8 ms", "rate": "1 Mbit/s"}
    network = line(effects, background=flows, core=core).network()
    trial = {
        "network": network,
        "pm": "default",
        "cc": "cubic",
        "scheduler": "minrtt",
        "buffer_bytes": 2**20,
        "mss": MSS,
        "seed": 1,
        "workload": {"kind": "bulk", "duration_ns": 1},
    }
    assert json.loads(_core.simulate(json.dumps(trial).encode()))["in_order_bytes"] == 0
