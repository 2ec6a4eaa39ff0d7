"""Networks on which path policies show, and trials over them, for kernels in real and in virtual time.

The effects are several times the scatter.
"""

from pathlib import Path
from typing import Literal

from mptune.topology import Topology, load
from mptune.trial import Bulk, Observation, Trial

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


def by_path(observation: Observation) -> dict[str, float]:
    """Mbit/s of each path, after slow start and its losses."""
    second = len(observation.bins) // SECONDS
    return {
        subflow.path: sum(subflow.bins[2 * second :]) * 8 / (SECONDS - 2) / 1e6
        for subflow in observation.subflows
    }
