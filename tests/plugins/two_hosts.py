"""A topology file of two real hosts of which little is known: only path A-X has a rate and an RTT."""

from pathlib import Path

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

#: What both say about themselves, besides their interfaces.
FACTS = {
    "rmem_max": 212992,
    "wmem_max": 212992,
    "mptcp": None,
    "path_manager": None,
    "kernel": "6.18",
    "machine": "x86_64",
}


def write(folder: Path) -> Path:
    """The file."""
    file = folder / "hosts.toml"
    file.write_text(TEXT, encoding="utf-8")
    return file
