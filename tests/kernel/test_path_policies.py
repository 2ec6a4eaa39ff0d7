"""Path policies on the running kernel, over the emulated network: their gain, and no cost elsewhere.

Networks where the effects are several times the scatter.
"""

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from mptune.topology import Topology, load
from mptune.trial import Bulk, Observation, PathParameters, Transfer, Trial
from mptune.trial.congestion import PATH_POLICIES

pytestmark = pytest.mark.needs("bpf")

#: Payload of 20 Mbit/s, Mbit/s.
WHOLE = 19.2
SECONDS = 5

NETWORK = """
name = "{name}"
sender = "S"
receiver = "R"
[sites.S]
name = "sender"
{interfaces}
[sites.R]
name = "receiver"
[[sites.R.interfaces]]
isp = "X"
abbr = "X"
up = "1 Gbit/s"
down = "1 Gbit/s"
delay = "0.1 ms"
queue = "4 MiB"
[core]
jitter = "0 ms"
{segments}
"""
INTERFACE = """
[[sites.S.interfaces]]
isp = "{label}"
abbr = "{label}"
up = "{rate} Mbit/s"
down = "1 Gbit/s"
delay = "0.1 ms"
queue_up = "{queue} KiB"
"""
SEGMENT = """
[[core.segments]]
path = "{label}-X"
rtt = "{rtt} ms"
loss = "{loss} %"
"""


def network(folder: Path, *paths: tuple[int, int], loss: float = 0) -> Topology:
    """Paths of a rate in Mbit/s and an RTT in ms, with queues of 64 KiB or 50 ms."""
    labels = "ABCD"[: len(paths)]
    queues = [max(64, rate * 50 // 8) for rate, _ in paths]
    interfaces = (
        INTERFACE.format(label=label, rate=rate, queue=queue)
        for label, (rate, _), queue in zip(labels, paths, queues, strict=True)
    )
    segments = (
        SEGMENT.format(label=label, rtt=rtt, loss=loss) for label, (_, rtt) in zip(labels, paths, strict=True)
    )
    file = folder / "network.toml"
    file.write_text(
        NETWORK.format(name="network", interfaces="".join(interfaces), segments="".join(segments))
    )
    return load(file)


def trial(
    topology: Topology, cc: str, buffer_bytes: int, protocol: Literal["mptcp", "tcp"] = "mptcp"
) -> Trial:
    return Trial(
        topology=topology,
        protocol=protocol,
        pm="fullmesh" if protocol == "mptcp" else "default",
        cc=cc,
        buffer_bytes=buffer_bytes,
        seed=1,
        workload=Bulk(duration_ns=SECONDS * 1_000_000_000),
    )


def mbps(observation: Observation) -> float:
    return observation.in_order_bytes * 8 / SECONDS / 1e6


@pytest.mark.measures("how much of a quick path a slow one leaves unused depends on when packets meet")
@pytest.mark.timeout(120)
def test_hold_keeps_a_slow_path_from_holding_up_a_quick_one(side_by_side, tmp_path) -> None:
    # A quarter of the product of both rates and the larger RTT: Cubic alone gets a third of the quick path.
    unlike = network(tmp_path, (20, 20), (5, 200))
    trials = {cc: trial(unlike, cc, 156_250) for cc in ("cubic", "cubic+hold", "olia+hold")}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    assert gained["cubic+hold"] > 0.95 * WHOLE and gained["olia+hold"] > 0.9 * WHOLE
    assert gained["cubic"] < 0.7 * WHOLE, "the network no longer shows what hold is for"


@pytest.mark.measures("how fast slow start ends on two paths at a time")
@pytest.mark.timeout(120)
def test_hold_leaves_equal_paths_alone(side_by_side, tmp_path) -> None:
    alike = network(tmp_path, (20, 30), (20, 30))
    trials = {cc: trial(alike, cc, 1_000_000) for cc in ("cubic", "cubic+hold")}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    assert gained["cubic+hold"] > 0.97 * gained["cubic"] > 1.7 * WHOLE


@pytest.mark.measures("when the second subflow is established, beside the first data")
def test_hold_keeps_a_buffer_from_going_whole_into_the_first_subflow(side_by_side, tmp_path) -> None:
    # 1 MB, written before there is a second subflow, takes 4 s of the first one's 2 Mbit/s.
    slow_first = network(tmp_path, (2, 20), (20, 20))
    transfer = Transfer(bytes=1_000_000)
    trials = {
        cc: msgspec.structs.replace(trial(slow_first, cc, 4_000_000), workload=transfer)
        for cc in ("cubic", "cubic+hold")
    }
    took = {cc: observation.completion_ns or 0 for cc, observation in side_by_side(trials).items()}
    assert took["cubic+hold"] < 0.5 * took["cubic"]


def by_path(observation: Observation) -> dict[str, float]:
    """Mbit/s of each path, after slow start and its losses."""
    second = len(observation.bins) // SECONDS
    return {
        subflow.path: sum(subflow.bins[2 * second :]) * 8 / (SECONDS - 2) / 1e6
        for subflow in observation.subflows
    }


@pytest.mark.measures("how fast slow start ends on two paths at a time")
@pytest.mark.timeout(120)
def test_a_capped_path_carries_its_cap_and_another_is_left_alone(side_by_side, tmp_path) -> None:
    alike = network(tmp_path, (20, 20), (20, 30))
    plain = trial(alike, "cubic+cap", 500_000)
    capped = msgspec.structs.replace(plain, path_parameters=PathParameters(caps={"B-X": 3_000_000}))
    gained = side_by_side({"plain": plain, "capped": capped})
    assert by_path(gained["plain"])["B-X"] > 0.9 * WHOLE
    rates = by_path(gained["capped"])
    assert rates["B-X"] == pytest.approx(3, rel=0.05) and rates["A-X"] > 0.9 * WHOLE


@pytest.mark.measures("how fast slow start ends on two paths at a time")
@pytest.mark.timeout(120)
def test_weights_are_the_shares(side_by_side, tmp_path) -> None:
    """A third of the payload belongs on a path that could carry half of it."""
    alike = network(tmp_path, (20, 20), (20, 30))
    plain = msgspec.structs.replace(trial(alike, "cubic+weight", 4_000_000), buffer_mode="auto")
    weights = {name: {"A-X": share, "B-X": 3 - share} for name, share in (("less", 1), ("more", 2))}
    told = {
        name: msgspec.structs.replace(plain, path_parameters=PathParameters(weights=weight))
        for name, weight in weights.items()
    }
    for name, observation in side_by_side(told).items():
        rates = by_path(observation)
        total = sum(rates.values())
        for path, weight in weights[name].items():
            assert rates[path] / total == pytest.approx(weight / 3, rel=0.1)
        assert total > 0.9 * 1.5 * WHOLE


@pytest.mark.measures("how fast slow start ends on two paths at a time")
@pytest.mark.timeout(120)
def test_the_second_path_is_for_what_the_preferred_one_cannot_carry(side_by_side, tmp_path) -> None:
    """Buffers of half a window of one path fill none; large ones fill both."""
    alike = network(tmp_path, (20, 40), (20, 40))
    told = PathParameters(order=("B-X", "A-X"))
    trials = {
        size: msgspec.structs.replace(trial(alike, "cubic+prefer", size), path_parameters=told)
        for size in (40_000, 1_000_000)
    }
    gained = {size: by_path(observation) for size, observation in side_by_side(trials).items()}
    small, large = gained[40_000], gained[1_000_000]
    assert small["A-X"] < 0.05 * small["B-X"] and small["B-X"] > 0.2 * WHOLE
    assert sum(large.values()) > 0.9 * 2 * WHOLE


@pytest.mark.parametrize("policy", PATH_POLICIES)
@pytest.mark.parametrize("window", ["cubic", "reno"])
@pytest.mark.parametrize("loss", [0, 0.1])
@pytest.mark.measures("which packets the random losses hit depends on when each is sent")
@pytest.mark.timeout(120)
def test_recovery_is_the_kernels(side_by_side, tmp_path, window, loss, policy) -> None:
    """Plain TCP, where a policy decides nothing: only `cong_control` in place of `cong_avoid` is new."""
    lossy = network(tmp_path, (20, 20), loss=loss)
    trials = {cc: trial(lossy, cc, 1_000_000, "tcp") for cc in (window, f"{window}+{policy}")}
    gained = {cc: mbps(observation) for cc, observation in side_by_side(trials).items()}
    assert gained[f"{window}+{policy}"] == pytest.approx(gained[window], rel=0.01 if not loss else 0.04)
