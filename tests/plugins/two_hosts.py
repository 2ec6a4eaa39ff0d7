"""A topology file of two real hosts of which little is known: only path A-X has a rate and an RTT."""

from pathlib import Path
from typing import Any

from mptune.errors import Failure
from mptune.topology import Topology
from mptune.trial import Observation, SubflowObservation, Trial
from tests.plugins.trials import with_workload

TEXT = """
name = "hosts"
sender = "S"
receiver = "R"

[sites.S]
name = "Laptop"
ssh = "me@laptop.example"

[[sites.S.interfaces]]
isp = "Fibre"
abbr = "A"
device = "eth0"
up = { value = "41 Mbit/s", measured = "2026-11-22, 5 probes" }

[[sites.S.interfaces]]
isp = "Cable"
abbr = "B"
device = "eth1"

[[sites.S.interfaces]]
isp = "Mobile"
abbr = "C"
device = "wwan0"
metered = true
max_data = "2 GB"

[sites.R]
name = "Server"
ssh = "server"

[[sites.R.interfaces]]
isp = "Transit"
abbr = "X"
ipv4 = "192.0.2.1"
down = "1 Gbit/s"

[[core.segments]]
path = "A-X"
rtt = { value = "300 us", measured = "2026-11-22, smallest of 20" }
"""

#: What it leaves out, in the order of the file.
MISSING = (
    "sites.S.interfaces.A.down",
    "sites.S.interfaces.B.up",
    "sites.S.interfaces.B.down",
    "sites.S.interfaces.C.up",
    "sites.S.interfaces.C.down",
    "sites.R.interfaces.X.up",
    "core.segments.B-X.rtt",
    "core.segments.C-X.rtt",
)

#: Facts of both, besides their interfaces.
FACTS = {
    "rmem_max": 212992,
    "wmem_max": 212992,
    "mptcp": None,
    "path_manager": None,
    "kernel": "6.18",
    "machine": "x86_64",
}
#: What such a host answers when it is asked for all of it.
LOOKED = {
    "interfaces": [
        {"device": "lo", "addresses": [{"ip": "127.0.0.1", "prefix": 8}]},
        {"device": "eth0", "addresses": [{"ip": "10.0.0.2", "prefix": 24}, {"ip": "fd00::2", "prefix": 64}]},
        {"device": "eth1", "addresses": [{"ip": "fe80::1", "prefix": 64}, {"ip": "10.1.0.2", "prefix": 24}]},
        {"device": "wwan0", "addresses": [{"ip": "100.64.0.9", "prefix": 10}]},
        {"device": "ens3", "addresses": [{"ip": "192.0.2.1", "prefix": 24}]},
    ],
    "sysctls": {"net.mptcp.enabled": "1", "net.mptcp.path_manager": "kernel", "net.mptcp.pm_type": "0"},
    "congestion_controls": {"available": ["reno", "cubic", "mptune_olia"], "allowed": ["reno"]},
    "bpf": "no libbpf.so.1: install libbpf1",
    **FACTS,
    "offloads": {},
}


def write(folder: Path) -> Path:
    """The file."""
    file = folder / "hosts.toml"
    file.write_text(TEXT, encoding="utf-8")
    return file


def trial(topology: Topology, /, **changes: Any) -> Trial:
    """A trial between them: of 1 MB, unless something else is asked for."""
    settings = {"pm": "fullmesh", "cc": "cubic", "buffer_bytes": 2**16, "seed": 1, "topology": topology}
    sent = {} if "duration_ns" in changes else {"transfer_bytes": 10**6}
    return Trial(**with_workload(settings | sent | changes))


def observation(path: str, size: int, retransmitted: int = 0, failed: Failure | None = None) -> Observation:
    """Observation of a trial that sends this many bytes over one path."""
    flow = SubflowObservation(
        path=path,
        active=True,
        bytes=size,
        srtt_ns=1,
        min_rtt_ns=1,
        retransmitted=retransmitted,
        timeouts=0,
        bins=[],
    )
    return Observation(
        testbed="hosts", duration_ns=1, in_order_bytes=size, bins=[], subflows=[flow], failed=failed
    )
