"""The two namespaces: who reaches whom, and that nothing of them is left, however the program ends."""

import signal
import socket
import subprocess
import sys
from ipaddress import IPv6Address
from pathlib import Path

import msgspec
import pytest

from mptune.errors import TrialError
from mptune.linux import addresses
from mptune.linux.sandbox import leftovers
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from tests.plugins.emulation import links
from tests.plugins.netlink import inside
from tests.plugins.program import command_line
from tests.plugins.reruns import spoiled

pytestmark = pytest.mark.usefixtures("testbed")

#: Takes sites with devices, prints that, and then ends as its argument states or waits to be killed.
PROGRAM = """
import signal, sys
from mptune.linux import addresses
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.topology import load

topology = load(sys.argv[1])
with Sites() as sites, sites.start_emulator() as emulator:
    named = addresses.interfaces(topology)
    emulator.tell({"network": topology.network(), "seed": 1, "interfaces": sites.devices(named)})
    emulator.expect("ready", STEP_S)
    sites.configure(named)
    print(sites.run, flush=True)
    if sys.argv[2] == "fail":
        raise RuntimeError("on purpose")
    if sys.argv[2] == "wait":
        signal.pause()
"""


@pytest.fixture
def network(two):
    """The sites of `two` with a running emulator."""
    named = addresses.interfaces(two)
    with Sites() as sites, sites.start_emulator() as emulator:
        emulator.tell(
            {
                "network": two.network(),
                "seed": 1,
                "interfaces": sites.devices(named),
            }
        )
        emulator.expect("ready", STEP_S)
        sites.configure(named)
        emulator.tell({"action": "start"})
        yield sites, emulator


@pytest.mark.usefixtures("may_enter")
@pytest.mark.parametrize("version", ["ipv4", "ipv6"])
def test_the_pair_of_addresses_picks_the_path(network, two, version):
    """A datagram from interface i to interface j crosses the links of path (i, j) and no other's."""
    sites, emulator = network
    family = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}[version]
    sent = {}
    for count, path in enumerate(two.paths, start=1):
        source = getattr(addresses.interface("local", path.local_index), version)
        target = getattr(addresses.interface("remote", path.remote_index), version)
        with (
            inside(sites.local, lambda: socket.socket(family, socket.SOCK_DGRAM)) as sender,
            inside(sites.remote, lambda: socket.socket(family, socket.SOCK_DGRAM)) as receiver,
        ):
            sender.bind((source, 0))
            receiver.bind((target, 0))
            receiver.settimeout(STEP_S)
            for number in range(count):
                sender.sendto(bytes([number]), receiver.getsockname())
                data, origin = receiver.recvfrom(10)
                assert data == bytes([number]) and origin[0] == source
        sent[path.label] = count
    emulator.tell({"action": "stop"})
    links = {link["name"]: link["forwarded"] for link in emulator.expect("report", STEP_S)["links"]}
    assert {label: links[f"{label} forward"] for label in sent} == sent
    assert all(links[f"{label} back"] == 0 for label in sent)


def test_the_kernel_sends_nothing_of_its_own(network):
    """No neighbour discovery, no router solicitation: every packet on the links is a trial's."""
    _, emulator = network
    emulator.tell({"action": "stop"})
    report = emulator.expect("report", STEP_S)
    assert report["packets"] == report["unroutable"] == 0


def test_a_missing_device_is_named():
    with Sites() as sites, pytest.raises(TrialError, match="if7: No such device"):
        sites.configure({"local": [addresses.interface("local", 7)]})


def test_the_settings_inside_are_not_the_hosts():
    before = Path("/proc/sys/net/ipv4/tcp_no_metrics_save").read_text()
    with Sites() as sites:
        assert sites.settings["net.ipv4.tcp_no_metrics_save"] == "1"
        assert sites.settings["net.mptcp.enabled"] == "1"
        assert Path("/proc/sys/net/ipv4/tcp_no_metrics_save").read_text() == before


@pytest.mark.usefixtures("may_enter")
def test_two_at_once_do_not_meet():
    with Sites() as sites, Sites() as other:
        inodes = {
            inside(path, lambda: Path("/proc/thread-self/ns/net").stat().st_ino)
            for path in (sites.local, sites.remote, other.local, other.remote)
        }
        assert len(inodes) == 4 and sites.run != other.run


@pytest.mark.parametrize("how", ["succeed", "fail", "SIGINT", "SIGTERM", "SIGKILL"])
def test_nothing_is_left_however_the_program_ends(two_file, marked, until, how):
    how_to_end = how if how in ("succeed", "fail") else "wait"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(two_file), how_to_end],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with program:
        assert program.stdout is not None
        run = program.stdout.readline().strip()
        if how_to_end == "wait":
            assert len(marked(f"{leftovers.VARIABLE}={run}")) == 2
            program.send_signal(getattr(signal, how))
    until(lambda: not marked(f"{leftovers.VARIABLE}={run}"), "the end of all processes")


@pytest.mark.needs("root", "namespaces")  # to give it up: what another user runs are all such tests
@pytest.mark.measures("whether packets of a trial in real time were in time, without which it has no number")
def test_without_root_in_a_user_namespace(two_file):
    """Root without its capabilities is like any other user, but for the right to map its own number."""
    drop = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"]
    code = "from mptune.linux.sandbox.namespaces import Sites\nwith Sites() as sites: print(sites.user)"
    user = subprocess.run(
        [*drop, sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=STEP_S
    )
    assert user.stdout.startswith("/proc/")
    command = command_line("run", two_file, "--testbed", "namespaces", "--transfer", "100kB")
    done = subprocess.run([*drop, *command], capture_output=True, text=True, check=False)
    if "overloaded" in done.stderr:
        spoiled(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "97.66 KiB in" in done.stdout or "100 kB in" in done.stdout


#: A route to an address of the host itself: RTF_LOCAL, include/uapi/linux/ipv6_route.h.
LOCAL = 0x80000000


@pytest.mark.usefixtures("may_enter")
def test_what_arrives_is_delivered_as_soon_as_there_is_an_address():
    """Not a moment later, as the kernel does with IPv6 by itself: a first packet would be lost."""
    count = 64
    named = [addresses.interface("local", index) for index in range(count)]
    network = links(1)
    with Sites() as sites, sites.start_emulator() as emulator:
        devices = sites.devices({side: [addresses.interface(side, 0)] for side in addresses.SIDES})
        emulator.tell({"network": network, "seed": 1, "interfaces": devices})
        emulator.expect("ready", STEP_S)
        with inside(sites.local, Path("/proc/thread-self/net/ipv6_route").open) as routes:
            for interface in named:
                sites.configure({"local": [msgspec.structs.replace(interface, device="if0")]})
                routes.seek(0)
                lines = [line.split() for line in routes]
                own = {IPv6Address(bytes.fromhex(line[0])) for line in lines if int(line[8], 16) & LOCAL}
                assert IPv6Address(interface.ipv6) in own
