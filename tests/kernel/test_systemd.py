"""Tasks left to systemd, under a real one: the daemon's unit, and the wait for a confirmation."""

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mptune.daemon import units
from mptune.daemon.client import Client
from mptune.linux import agent
from tests.kernel.systemd_world import Systemd
from tests.plugins.needs import ROOT
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("root")

#: Where the agent is there: outside of homes.
AGENT = Path("/usr/local/lib/mptune-agent")
POLICY = Path("/etc/mptune/policy.toml")
UNIT = "mptune.service"
#: Relative to the root directory there.
STATE = Path("var/lib/private/mptune-daemon")
CAP_NET_ADMIN = 1 << 12

FULLMESH = '[[policy]]\nname = "sites"\nto = ["10.77.0.0/16"]\npolicy = "fullmesh"\n'
_FAR = """
ip netns add far
for n in 1 2; do
    ip link add a$n type veth peer name b$n netns far
    ip address add 10.77.$n.1/24 dev a$n
    ip link set a$n up
    ip -n far address add 10.77.$n.2/24 dev b$n
    ip -n far link set b$n up
done
ip -n far link set lo up
ip netns exec far ip mptcp endpoint add 10.77.2.2 dev b2 signal
ip netns exec far ip mptcp limits set subflows 4 add_addr_accepted 4
ip mptcp limits set subflows 4 add_addr_accepted 4
"""
_SERVER = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("0.0.0.0", 8000))
    server.listen()
    print("ready", flush=True)
    held = server.accept()[0]
    while part := held.recv(4096): held.sendall(part)
"""
_CLIENT = """
import socket, sys
one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
one.connect(("10.77.1.2", 8000))
for line in sys.stdin:
    one.sendall(line.encode())
    print(one.recv(4096).decode(), end="", flush=True)
"""


@pytest.fixture(scope="module")
def systemd() -> Iterator[Systemd]:
    with tempfile.TemporaryDirectory(prefix="mptune-systemd-") as name:
        made = Systemd(Path(name))
        try:
            made.run("bash", "-ec", _FAR)
            place = made.root / AGENT.relative_to("/")
            place.write_bytes(agent.program().read_bytes())
            place.chmod(0o755)
            yield made
        finally:
            made.close()


@pytest.fixture
def service(systemd: Systemd) -> Iterator[Systemd]:
    """The daemon's unit, as `mptune daemon --unit` writes it, started."""
    (systemd.root / "etc/mptune").mkdir(exist_ok=True)
    (systemd.root / POLICY.relative_to("/")).write_text(FULLMESH)
    programs = units.Programs(agent=AGENT, mptune=("mptune",))
    for name, text in units.texts(programs, POLICY, None).items():
        # Long enough for somebody who is slow to see what is between two daemons.
        unhurried = text.replace("RestartSec=1s", "RestartSec=5s")
        (systemd.root / "etc/systemd/system" / name).write_text(unhurried)
    systemd.run("systemctl", "daemon-reload")
    systemd.run("systemctl", "reset-failed", UNIT, fails=True)
    assert systemd.run("systemctl", "start", UNIT, fails=True).returncode == 0, systemd.said(UNIT)
    yield systemd
    systemd.run("systemctl", "stop", UNIT)


def manager(systemd: Systemd) -> str:
    """The path manager there."""
    return systemd.run("cat", "/proc/sys/net/mptcp/path_manager").stdout.strip()


def main_process(systemd: Systemd) -> int:
    (pid,) = systemd.properties(UNIT, "MainPID")
    return int(pid)


def is_another(systemd: Systemd, before: int) -> bool:
    """A daemon after that one is ready."""
    pid, state = systemd.properties(UNIT, "MainPID", "ActiveState")
    return int(pid) not in (0, before) and state == "active"


def policies(systemd: Systemd) -> dict[str, dict[str, object]]:
    """The daemon's status of its policies."""
    with Client(systemd.root / "run/mptune/daemon.sock") as client:
        status = client.ask("status")
    return {policy["name"]: policy for policy in status["policies"]}


@contextmanager
def connection(systemd: Systemd) -> Iterator[subprocess.Popen[str]]:
    """A connection, opened here; the other end returns each line."""
    far = systemd.near("nsenter", f"--net={systemd.root}/run/netns/far", "--", sys.executable, "-c", _SERVER)
    server = subprocess.Popen(far, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None and server.stdout.readline() == "ready\n"
    near = systemd.near(sys.executable, "-c", _CLIENT)
    client = subprocess.Popen(near, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield client
    finally:
        for end in (client, server):
            end.kill()
            end.communicate()


def echoes(client: subprocess.Popen[str], line: str) -> bool:
    assert client.stdin is not None and client.stdout is not None
    client.stdin.write(line)
    client.stdin.flush()
    return client.stdout.readline() == line


def test_the_service_runs_as_nobody_in_particular_with_one_capability(service):
    inner = main_process(service)
    status = service.run("cat", f"/proc/{inner}/status").stdout.split("\n")
    fields = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    assert all(int(number) > 0 for number in fields["Uid"].split())
    for kind in ("CapEff", "CapPrm", "CapBnd"):
        assert int(fields[kind], 16) == CAP_NET_ADMIN, kind
    assert manager(service) == "userspace"


def test_it_steers_connections_and_reads_its_file_again(service):
    with connection(service) as client:
        assert echoes(client, "one\n")
        until(lambda: policies(service)["sites"]["active"] == 2, "a second subflow")
        (service.root / POLICY.relative_to("/")).write_text(FULLMESH.replace("sites", "others"))
        service.run("systemctl", "reload", UNIT)
        until(lambda: "others" in policies(service), "the new policies")
        assert echoes(client, "two\n")


@pytest.mark.parametrize("whom", ["main", "all"])
def test_killed_it_gives_the_path_manager_back_and_is_started_again(service, whom):
    """Also if its watchdog is killed at the same moment: then the unit's last command does it."""
    before = main_process(service)
    with connection(service) as client:
        assert echoes(client, "one\n")
        service.run("systemctl", "kill", "--signal=KILL", f"--kill-who={whom}", UNIT)
        until(lambda: manager(service) == "kernel", "the kernel's path manager")
        until(lambda: is_another(service, before), "another daemon")
        assert manager(service) == "userspace"
        assert echoes(client, "two\n")


def test_stopped_it_leaves_nothing(service):
    service.run("systemctl", "stop", UNIT)
    assert manager(service) == "kernel"
    assert not (service.root / "run/mptune").exists()
    assert not list((service.root / STATE).iterdir())


def endpoints(systemd: Systemd) -> list[str]:
    return systemd.run("ip", "mptcp", "endpoint").stdout.splitlines()


def test_endpoints_of_a_daemon_that_was_killed_are_known_to_the_next(service):
    (service.root / POLICY.relative_to("/")).write_text(f'[daemon]\nmode = "endpoints"\n{FULLMESH}')
    service.run("ip", "route", "add", "default", "via", "10.77.1.2", "dev", "a1")
    try:
        service.run("systemctl", "restart", UNIT)
        until(lambda: endpoints(service), "an endpoint")
        made, before = endpoints(service), main_process(service)
        with connection(service) as client:
            assert echoes(client, "one\n")
            service.run("systemctl", "kill", "--signal=KILL", "--kill-who=all", UNIT)
            until(lambda: is_another(service, before), "another daemon")
            # It began at an endpoint, with which all its subflows would have ended.
            assert echoes(client, "two\n")
        assert endpoints(service) == made
        service.run("systemctl", "stop", UNIT)
        assert endpoints(service) == []
    finally:
        service.run("ip", "route", "del", "default")


WMEM = "/proc/sys/net/ipv4/tcp_wmem"


def waits_by(systemd: Systemd) -> str:
    """Apply a setting that nobody confirms, by a program that is gone then; who waits for that."""
    order = {
        "action": "apply",
        "settings": [{"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "4096 16384 741376"}],
        "run": "a run",
        "confirm_within_s": 20,
    }
    copy = systemd.root / "tmp/mptune-agent"
    copy.write_bytes(agent.program().read_bytes())
    copy.chmod(0o755)
    output = systemd.run("/tmp/mptune-agent", "settings", text=json.dumps(order) + "\n").stdout
    answer = json.loads(output.splitlines()[-1])
    copy.unlink()
    assert systemd.run("cat", WMEM).stdout.split()[2] == "741376", output
    by = answer["confirm"]["by"]
    assert isinstance(by, str)
    return by


def test_nobody_confirms_and_a_unit_puts_everything_back(systemd):
    """It was started by a session that is gone, and so is the program that it came from."""
    before = systemd.run("cat", WMEM).stdout
    assert waits_by(systemd) == "systemd"
    listed = systemd.run("systemctl", "list-units", "--plain", "--no-legend", "mptune-revert-*").stdout
    unit = listed.split()[0]
    until(lambda: systemd.run("cat", WMEM).stdout == before, "the value from before")
    until(lambda: systemd.properties(unit, "LoadState") == ["not-found"], "the end of the unit")


def test_where_a_unit_cannot_execute_the_program_a_process_waits(systemd):
    """Some mount /var without the right to execute anything there."""
    before, place = systemd.run("cat", WMEM).stdout, "/var/lib/mptune"
    systemd.run("mkdir", "-p", place)
    systemd.run("mount", "-t", "tmpfs", "-o", "noexec,mode=0755", "tmpfs", place)
    try:
        assert waits_by(systemd) == "process"
        until(lambda: systemd.run("cat", WMEM).stdout == before, "the value from before")
    finally:
        systemd.run("umount", "--lazy", place)


#: Prints what is at the address of the metrics.
FETCH = (
    "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9464/metrics').read().decode())"
)
METRICS = f'[daemon]\nmetrics = "127.0.0.1:9464"\n{FULLMESH}'


def test_the_unit_lets_the_daemon_show_its_metrics_where_it_is_told(service):
    """The one that is written without an address lets it open no socket of the Internet."""
    policy = service.root / POLICY.relative_to("/")
    policy.write_text(METRICS)
    service.run("systemctl", "stop", UNIT)
    assert service.run("systemctl", "start", UNIT, fails=True).returncode != 0
    assert "expected an address of this machine with a free port" in service.said(UNIT)
    programs = units.Programs(agent=AGENT, mptune=("mptune",))
    for name, text in units.texts(programs, POLICY, None, "127.0.0.1:9464").items():
        (service.root / "etc/systemd/system" / name).write_text(text)
    service.run("systemctl", "daemon-reload")
    service.run("systemctl", "reset-failed", UNIT, fails=True)
    assert service.run("systemctl", "start", UNIT, fails=True).returncode == 0, service.said(UNIT)
    fetched = subprocess.run(
        service.near(sys.executable, "-c", FETCH), capture_output=True, text=True, check=True
    ).stdout
    assert 'mptune_connections{policy="sites"} 0\n' in fetched and fetched.rstrip().endswith("# EOF")


@pytest.mark.needs("deb")
def test_the_package_is_installed_serves_and_leaves_nothing(systemd, tmp_path, monkeypatch):
    """By dpkg itself, with the scripts of the package beside a systemd at work."""
    monkeypatch.syspath_prepend(str(ROOT / "shipping"))
    package = importlib.import_module("deb").pack(agent.program(), tmp_path)
    (systemd.root / "tmp" / package.name).write_bytes(package.read_bytes())

    def left() -> list[str]:
        wanted = f"etc/systemd/system/multi-user.target.wants/{UNIT}"
        places = ["etc/mptune", str(STATE), "var/lib/mptune-daemon", "usr/sbin/mptune-agent", "run/mptune"]
        places += [f"lib/systemd/system/{UNIT}", "usr/share/doc/mptune-daemon", wanted]
        return [
            place
            for place in places
            if (systemd.root / place).is_symlink() or (systemd.root / place).exists()
        ]

    # What the tests before have left.
    before = ("/etc/mptune", f"/etc/systemd/system/{UNIT}", f"/{STATE}", "/var/lib/mptune-daemon")
    # And what keeps packages from starting and stopping services, as in images of containers.
    systemd.run("rm", "-rf", *before, "/usr/sbin/policy-rc.d")
    systemd.run("systemctl", "daemon-reload")
    assert left() == []
    systemd.run("dpkg", "--install", f"/tmp/{package.name}")
    assert systemd.properties(UNIT, "ActiveState", "UnitFileState") == ["inactive", "disabled"]
    (systemd.root / "etc/mptune").mkdir()
    (systemd.root / POLICY.relative_to("/")).write_text(METRICS)
    assert systemd.run("systemctl", "enable", "--now", UNIT, fails=True).returncode == 0, systemd.said(UNIT)
    assert manager(systemd) == "userspace"
    fetched = subprocess.run(
        systemd.near(sys.executable, "-c", FETCH), capture_output=True, text=True, check=True
    ).stdout
    assert "mptune_daemon_info{" in fetched
    systemd.run("dpkg", "--install", f"/tmp/{package.name}")  # as an update does
    assert systemd.properties(UNIT, "ActiveState") == ["active"]
    systemd.run("dpkg", "--purge", "mptune-daemon")
    assert manager(systemd) == "kernel" and left() == []
