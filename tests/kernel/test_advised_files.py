"""Advised files on a kernel, in a namespace of its own: the script's stop takes back its start."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.apply import files
from mptune.apply.plan import plan, resolve
from tests.apply.worlds import HOME, altered, make_runs
from tests.plugins import needs

pytestmark = pytest.mark.needs("linux", "root", "namespaces")

#: The devices and routes of `HOME`. The kernel makes routes of IPv6 by itself, some time later.
NETWORK = """
six=/proc/sys/net/ipv6/conf/default/disable_ipv6
[ ! -e $six ] || echo 1 > $six || exit 1
ip link set lo up
for one in "eth1 10.0.1.2/24" "wwan0 10.0.2.2/24"; do
    name="${one% *}"
    ip link add $name type veth peer name peer-$name && ip link set peer-$name up || exit 1
    ip address add ${one#* } dev $name && ip link set $name up || exit 1
done
ip route add default via 10.0.1.1 dev eth1 proto dhcp metric 100 mtu 1400
ip route add default via 10.0.2.1 dev wwan0 table 102 congctl reno
"""
SHOW = "ip -d route show table all; ip rule; ip mptcp endpoint show; ip mptcp limits show"
RUN = f"""
{NETWORK}
({SHOW}) > before
sh "$1" start || exit 1
({SHOW}) > during
sh "$1" start 2>/dev/null
sh "$1" stop || exit 1
({SHOW}) > after
"""


def test_start_and_stop_leave_routes_and_endpoints_as_they_were(tmp_path: Path):
    mesh = ["F-T", "F-V", "M-T", "M-V"]
    make_runs(tmp_path, "grid")
    run = altered(
        tmp_path / "grid",
        tmp_path / "run",
        protocol="mptcp",
        opm="fullmesh",
        subflows=mesh,
        standby=[],
        occ="cubic",
    )
    sender, _ = plan(run)
    endpoints = {"10.0.2.2": ("subflow", "fullmesh")}
    files.write([resolve(sender, msgspec.structs.replace(HOME, endpoints=endpoints))], tmp_path / "files")
    script = tmp_path / "files/H/tuned/mptune/script.sh"
    unshare = shutil.which("unshare", path=needs.ADMINISTRATION)
    assert unshare is not None
    command = [unshare, "--net", "sh", "-c", RUN, "sh", str(script)]
    environment = {**os.environ, "PATH": needs.ADMINISTRATION}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, during, after = ((tmp_path / name).read_text() for name in ("before", "during", "after"))
    assert "10.0.1.2 id 101 subflow fullmesh dev eth1" in during
    assert "10.0.2.2 id 102 subflow fullmesh dev wwan0" in during
    assert "add_addr_accepted 1 subflows 3" in during
    changed = [line for line in during.splitlines() if "congctl cubic" in line]
    assert len(changed) == 2
    # What a route has besides stays.
    assert "proto dhcp" in changed[0] + changed[1] and "mtu 1400" in changed[0] + changed[1]
    assert after.splitlines() == [line.replace(" congctl reno", "") for line in before.splitlines()]


DISPATCHED = f"""
{NETWORK}
eval "$2"
({SHOW}) > before
eval "$3" || exit 1
({SHOW}) > during
ip route replace default via 10.0.1.1 dev eth1 proto dhcp metric 100
eval "$4" || exit 1
({SHOW}) > after
"""
#: As NetworkManager and networkd-dispatcher call their scripts, which is `$1`: for one device, when it is
#: gone (networkd-dispatcher does not), when it comes up, and when it has another lease or is up again.
CALLS = {
    "NetworkManager": ('sh "$1" eth1 down', 'sh "$1" eth1 up', 'sh "$1" eth1 dhcp4-change'),
    "networkd-dispatcher": ("true", 'IFACE=eth1 sh "$1"', 'IFACE=eth1 STATE=routable sh "$1"'),
}


def test_dispatchers_give_a_route_its_congestion_control_back(tmp_path: Path):
    make_runs(tmp_path, "grid")
    settings: dict[str, Any] = {
        "protocol": "mptcp",
        "opm": "fullmesh",
        "subflows": ["F-T", "F-V", "M-T", "M-V"],
        "standby": [],
    }
    sender, _ = plan(altered(tmp_path / "grid", tmp_path / "run", occ="cubic", **settings))
    files.write([resolve(sender, HOME)], tmp_path / "files")
    unshare = shutil.which("unshare", path=needs.ADMINISTRATION)
    assert unshare is not None
    environment = {**os.environ, "PATH": needs.ADMINISTRATION}
    for folder, calls in CALLS.items():
        script = str(tmp_path / "files/H" / folder / "90-mptune")
        command = [unshare, "--net", "sh", "-c", DISPATCHED, "sh", script, *calls]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        before, during, after = ((tmp_path / name).read_text() for name in ("before", "during", "after"))
        assert "congctl cubic" not in before and "congctl reno" in before
        for text in (during, after):
            assert "add_addr_accepted 1 subflows 3" in text
            changed = [line for line in text.splitlines() if "congctl cubic" in line]
            assert len(changed) == 1 and "dev eth1" in changed[0] and "proto dhcp" in changed[0]
            assert "congctl reno" in text  # the other device's
            # NetworkManager makes endpoints itself, of its flags.
            assert text.count(" id 101 ") == (folder == "networkd-dispatcher")
