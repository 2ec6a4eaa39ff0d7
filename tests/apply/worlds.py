"""Runs to plan from: small simulated campaigns, and the same with another answer or another network.

And machines that were never asked: what would have been read on them.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mptune.apply.machine import Reading, Seen
from mptune.apply.plan import Present
from mptune.campaign.definition import read_definition
from mptune.campaign.execution import start
from mptune.topology import Site, load

#: Two sites with two interfaces each. M is metered.
NETWORK = """
name = "home"
sender = "H"
receiver = "S"

[sites.H]
name = "home"
[[sites.H.interfaces]]
isp = "Fibre"
abbr = "F"
device = "eth1"
ipv4 = "10.0.1.2"
up = "10 Mbit/s"
down = "10 Mbit/s"
[[sites.H.interfaces]]
isp = "Mobile"
abbr = "M"
device = "wwan0"
ipv4 = "10.0.2.2"
up = "4 Mbit/s"
down = "4 Mbit/s"
metered = true

[sites.S]
name = "server"
[[sites.S.interfaces]]
isp = "Transit"
abbr = "T"
device = "ens3"
ipv4 = "203.0.113.7"
up = "100 Mbit/s"
down = "100 Mbit/s"
[[sites.S.interfaces]]
isp = "Volunteers"
abbr = "V"
device = "ens4"
ipv4 = "198.51.100.7"
up = "100 Mbit/s"
down = "100 Mbit/s"

[[core.segments]]
path = "F-T"
rtt = "20 ms"
[[core.segments]]
path = "F-V"
rtt = "30 ms"
[[core.segments]]
path = "M-T"
rtt = "60 ms"
[[core.segments]]
path = "M-V"
rtt = "70 ms"
"""

#: The network with addresses of IPv6, but none of V.
DUAL = (
    NETWORK.replace('ipv4 = "10.0.1.2"', 'ipv4 = "10.0.1.2"\nipv6 = "2001:db8:1::2"')
    .replace('ipv4 = "10.0.2.2"', 'ipv4 = "10.0.2.2"\nipv6 = "2001:db8:2::2"')
    .replace('ipv4 = "203.0.113.7"', 'ipv4 = "203.0.113.7"\nipv6 = "2001:db8:7::7"')
)

CAMPAIGN = """
topology = "home.toml"
buffer_mode = "fixed"
[factors]
pm = ["fullmesh", "pcdc"]
cc = ["cubic"]
buffers = "0.1,0.2,0.4,0.8"
[trials]
strategy = "{strategy}"
{how}
duration = "2s"
[impact]
runs = 2
duration = "2s"
[decision]
resamples = 0
off_by = 0
confirm_runs = 2
"""

DEFAULT_ROUTES = {
    "eth1": {"family": "ipv4", "table": 254, "via": "10.0.1.1", "metric": 100},
    "wwan0": {"family": "ipv4", "table": 102, "via": "10.0.2.1", "metric": 0},
}

#: The machine of site H as the agent reports it: a table of its own for M.
HOME = Present(
    sysctls={
        "net.ipv4.tcp_rmem": "4096 131072 6291456",
        "net.ipv4.tcp_wmem": "4096 16384 4194304",
        "net.core.rmem_max": "212992",
        "net.core.wmem_max": "212992",
        "net.ipv4.tcp_congestion_control": "bbr",
        "net.mptcp.enabled": "0",
        "net.mptcp.path_manager": "kernel",
    },
    interfaces=(
        {
            "device": "eth1",
            "addresses": [{"ip": "10.0.1.2", "prefix": 24}, {"ip": "fe80::1", "prefix": 64}],
            "default_routes": [DEFAULT_ROUTES["eth1"]],
        },
        {
            "device": "wwan0",
            "addresses": [{"ip": "10.0.2.2", "prefix": 24}],
            "default_routes": [DEFAULT_ROUTES["wwan0"]],
        },
    ),
    rules=({"family": "ipv4", "priority": 102, "from": "10.0.2.2/32", "table": 102},),
    congestion_controls=("reno", "cubic", "bbr"),
    endpoints={},
    limits=(2, 0),
    memory_bytes=2**30,
)

#: The machine of site S, both of whose devices have a default route.
SERVER = msgspec.structs.replace(
    HOME,
    sysctls={**HOME.sysctls, "net.ipv4.tcp_rmem": "8192 131072 33554432"},
    interfaces=tuple(
        {
            "device": device,
            "addresses": [{"ip": address, "prefix": 24}],
            "default_routes": [{"family": "ipv4", "table": 254, "via": gateway, "metric": 100}],
        }
        for device, address, gateway in (
            ("ens3", "203.0.113.7", "203.0.113.1"),
            ("ens4", "198.51.100.7", "198.51.100.1"),
        )
    ),
    rules=(),
)


def make_runs(place: Path, *strategies: str) -> None:
    """Measure the network by some strategies; each run directory has the strategy's name."""
    hows = {"grid": "runs = 2", "adaptive": 'budget = "60s"'}
    (place / "home.toml").write_text(NETWORK)
    for strategy in strategies:
        file = place / f"{strategy}.toml"
        file.write_text(CAMPAIGN.format(strategy=strategy, how=hows[strategy]))
        start(read_definition(file), place / strategy, wait=lambda time: None)


def altered(
    run: Path, place: Path, network: str | None = None, *, reverse: bool = False, **answer: Any
) -> Path:
    """A copy of a run with another network, other options (as `options`), or other parts of the answer."""
    shutil.copytree(run, place)
    config = json.loads((place / "config.json").read_text())
    config["options"] |= answer.pop("options", {})
    if network is not None or reverse:
        file = place / "home.toml"
        file.write_text(NETWORK if network is None else network)
        topology = load(file)
        config["topology"] = msgspec.to_builtins(topology.reversed() if reverse else topology)
    (place / "config.json").write_text(json.dumps(config))
    result = json.loads((place / "result.json").read_text()) | answer
    (place / "result.json").write_text(json.dumps(result))
    return place


def looked(*hosts: Seen) -> Callable[..., Any]:
    """Looks at no machine: what is seen of the sender's, and of the receiver's."""
    seen = iter(hosts)

    def look(site: Site, file: str, use: Callable[[Seen], Any]) -> Any:
        return use(next(seen, Seen(reason="nobody looked")))

    return look


def reads(*present: dict[str, Any], foreign: tuple[str, ...] = ()) -> Callable[..., Reading]:
    """Reads settings: always these."""
    return lambda asked: Reading(present=present, foreign=foreign)
