"""Reports of the daemon: at its socket, as metrics, to systemd, on devices and on a changed network."""

import http.client
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pyroute2
import pytest
from prometheus_client.openmetrics import parser

from mptune.daemon.client import Client
from mptune.monitor import daemon as hearing
from tests.plugins.daemon_world import FULLMESH, KERNEL, daemon_of, pcdc
from tests.plugins.netlink import inside
from tests.plugins.path_world import KIB, World
from tests.plugins.program import command_line
from tests.plugins.waiting import PATIENCE_S, until

pytestmark = pytest.mark.usefixtures("may_manage_paths")


@contextmanager
def without_a_route_of_its_own(world: World, address: str) -> Iterator[None]:
    """A device with an address whose packets leave by another device."""

    def add() -> None:
        with pyroute2.IPRoute() as routes:
            routes.link("add", ifname="spare", kind="veth", peer={"ifname": "peer"})
            index = routes.link_lookup(ifname="spare")[0]
            routes.addr("add", index=index, address=address, prefixlen=24)
            for end in (index, *routes.link_lookup(ifname="peer")):
                routes.link("set", index=end, state="up")
            routes.rule("add", src=address, table=100, priority=50)

    def remove() -> None:
        with pyroute2.IPRoute() as routes:
            routes.rule("del", src=address, table=100, priority=50)
            routes.link("del", ifname="spare")

    inside(world.sites.local, add)
    try:
        yield
    finally:
        inside(world.sites.local, remove)


def test_an_address_whose_packets_leave_elsewhere_is_reported(daemon, world):
    daemon.write('[[policy]]\nname = "one"\nto = ["10.65.0.0/16"]\npolicy = "fullmesh"\n')
    with without_a_route_of_its_own(world, "10.77.0.1"):
        daemon.begin()
        line = daemon.heard("10.77.0.1 on spare is not used")
        assert line.startswith("warning: ") and "leave by if0 (it needs a rule" in line
        of = {
            interface["address"]: interface
            for interface in daemon.ask("status")["interfaces"]
            if interface["address"]
        }
        assert of["10.77.0.1"] == {
            "device": "spare", "address": "10.77.0.1", "used": False, "why": "packets from it leave by if0",
        }  # fmt: skip
        others = [interface for address, interface in of.items() if address.startswith("10.64.")]
        assert others and all(other["used"] and not other["why"] for other in others)
    assert not [line for line in daemon.said if "10.64." in line]


@pytest.mark.needs("namespaces")
def test_status_lists_unused_devices_with_the_reason(daemon, world):
    policy = '[[policy]]\nname = "one"\nto = ["10.65.0.0/16"]\npolicy = "fullmesh"\n'
    daemon.write(policy, interfaces=["if0", "spare", "nowhere"])
    with without_a_route_of_its_own(world, "10.77.0.1"):
        inside(world.sites.local, lambda: subprocess.run(["ip", "link", "set", "spare", "down"], check=True))
        daemon.begin()
        interfaces = daemon.ask("status")["interfaces"]
        assert "if0" in {interface["device"] for interface in interfaces if interface["used"]}
        why = {interface["device"]: interface["why"] for interface in interfaces if not interface["used"]}
        assert why["spare"] == "it is down"
        assert why["nowhere"] == "there is no such device"
        assert why["if1"] == why["peer"] == "not among daemon.interfaces" and "lo" not in why
        completed = subprocess.run(
            command_line("status", "--policy", daemon.file),
            env=daemon.env, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "no: there is no such device" in completed.stdout


def test_systemd_is_notified(world, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE_S)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with daemon_of(world, tmp_path, **env) as daemon:
            daemon.write(FULLMESH)
            daemon.begin()
            heard = [listener.recv(4096).decode() for _ in range(3)]
            assert heard[0].startswith("READY=1\nSTATUS=mode userspace") and "WATCHDOG=1" in heard[1:]
            daemon.kill(signal.SIGTERM)
            until(lambda: listener.recv(4096) == b"STOPPING=1", "the end")


def test_watch_hears_what_it_did(daemon, world, accepting, monkeypatch):
    daemon.write(pcdc(daemon))
    daemon.begin()
    monkeypatch.setenv(hearing.VARIABLE, str(daemon.socket))
    events = hearing.connect()
    assert events is not None
    daemon.process.send_signal(signal.SIGHUP)
    heard = until(events.take, "an event")
    assert [event.what for event in heard] == ["reloaded"] and heard[0].line.startswith(
        "reloaded: 2 policies of "
    )
    daemon.kill(signal.SIGTERM)
    until(lambda: events.take() == [] and events.ended, "the end")
    events.close()


def test_a_reader_that_never_reads_holds_nobody_up(daemon, world, accepting):
    daemon.begin()
    with ExitStack() as stack:
        silent = stack.enter_context(Client(daemon.socket))
        for _ in range(20_000):
            # Answers that it never reads, until its requests are not taken any more either.
            try:
                silent._socket.setblocking(False)
                silent._socket.send(b'{"action": "status"}\n')
            except BlockingIOError:
                break
        with world.transfer() as transfer:
            transfer.more(100 * KIB)
            status = until(
                lambda: (answer := daemon.ask("status"))["policies"][-1]["connections"] and answer, "it"
            )
        assert status["readers"] == 2 and status["memory_bytes"] < 64 << 20


def metrics(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The text format of Prometheus, read strictly: every family has HELP, TYPE, then its samples, once."""
    label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
    sample = re.compile(rf"([a-z][a-z0-9_]*)(?:\{{({label}(?:,{label})*)\}})? ([0-9.e+-]+|NaN|[+-]Inf)")
    families: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    assert text.endswith("\n")
    name, expects_type = "", False
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, words = line.removeprefix("# HELP ").partition(" ")
            assert words and name not in families and not expects_type
            families[name], expects_type = {}, True
            continue
        if expects_type:
            assert re.fullmatch(rf"# TYPE {name} (counter|gauge)", line), line
            expects_type = False
            continue
        match = sample.fullmatch(line)
        assert match and match[1] == name, line
        labels = tuple(re.findall(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"', match[2] or ""))
        assert labels not in families[name]
        families[name][labels] = float(match[3])
    assert all(families.values())
    return families


def test_metrics_are_what_prometheus_reads(daemon, world, accepting):
    daemon.write(pcdc(daemon, expected=30.0))
    daemon.begin()
    with world.transfer() as transfer:
        transfer.more(500 * KIB)
        until(lambda: daemon.policy("answer")["standby"] == 2, "subflows")
        done = subprocess.run(
            command_line("status", "--metrics", "--policy", daemon.file),
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    families = metrics(done.stdout)
    answer = (("policy", "answer"),)
    assert families["mptune_connections"][answer] == 1
    assert families["mptune_subflows"][(*answer, ("role", "standby"))] == 2
    assert families["mptune_expected_bits_per_second"] == {answer: 30e6}
    assert (
        families["mptune_daemon_in_force"] == {(): 1} and families["mptune_daemon_memory_bytes"][()] > 1 << 18
    )
    for name in families:
        kind = re.search(rf"^# TYPE {name} (\w+)$", done.stdout, re.M)
        assert kind and (kind[1] == "counter") == name.endswith("_total")


@pytest.fixture
def loopback(world: World) -> Iterator[None]:
    """127.0.0.1 on the daemon's side."""

    def be(state: str) -> None:
        with pyroute2.IPRoute() as routes:
            routes.link("set", index=routes.link_lookup(ifname="lo")[0], state=state)

    inside(world.sites.local, lambda: be("up"))
    try:
        yield
    finally:
        inside(world.sites.local, lambda: be("down"))


def fetched(world: World, where: str, method: str = "GET") -> tuple[int, str | None, str]:
    """Status, content type and text of the metrics."""

    def fetch() -> tuple[int, str | None, str]:
        connection = http.client.HTTPConnection(where, timeout=PATIENCE_S)
        try:
            connection.request(method, "/metrics")
            answer = connection.getresponse()
            return answer.status, answer.getheader("content-type"), answer.read().decode()
        finally:
            connection.close()

    return inside(world.sites.local, fetch)


def test_metrics_over_http_are_open_metrics(daemon, world, accepting, loopback):
    daemon.write(pcdc(daemon, expected=30.0), metrics="127.0.0.1:0")
    daemon.begin()
    where = daemon.ask("status")["metrics"]
    assert daemon.heard("metrics: ").strip().endswith(f"http://{where}/metrics")
    with world.transfer() as transfer, ExitStack() as stack:
        address = ("127.0.0.1", int(where.split(":")[1]))
        for _ in range(8):  # who never asks holds nobody up
            silent = inside(world.sites.local, lambda: socket.create_connection(address))
            stack.enter_context(silent)
        transfer.more(500 * KIB)
        until(lambda: daemon.policy("answer")["standby"] == 2, "subflows")
        status, kind, text = fetched(world, where)
        assert (status, kind) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        assert fetched(world, where, "HEAD") == (200, kind, "")
        assert fetched(world, where, "POST")[0] == 405
    # It refuses units that no name ends in, samples without their suffix, and a text without its end.
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    kinds = {name: (family.type, family.unit) for name, family in families.items()}
    assert kinds["mptune_daemon"] == ("info", "") and kinds["mptune_sent_bytes"] == ("counter", "bytes")
    assert kinds["mptune_expected_bits_per_second"] == ("gauge", "bits_per_second")
    standby = {"policy": "answer", "role": "standby"}
    assert [it.value for it in families["mptune_subflows"].samples if it.labels == standby] == [2]
    # The same, by the same names, as for node_exporter.
    older = metrics(daemon.ask("metrics")["text"])
    assert {sample.name for family in families.values() for sample in family.samples} == set(older)


def test_an_address_that_is_taken_is_refused(daemon, world, loopback):
    daemon.write(FULLMESH)
    with inside(world.sites.local, lambda: socket.create_server(("127.0.0.1", 0))) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = daemon.done("--metrics", where)
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1
        assert refused.stderr.startswith(
            f"--metrics: expected an address of this machine with a free port, found {where}: "
        )
    assert daemon.path_manager() == KERNEL and not daemon.run.exists()
    daemon.write(FULLMESH, metrics="192.0.2.7:9464")
    refused = daemon.done()
    assert refused.returncode == 2 and refused.stderr.startswith(
        f"{daemon.file}: daemon.metrics: expected an address"
    )


@pytest.mark.parametrize(("expected", "outdated"), [(200.0, True), (None, False)])
def test_a_network_that_gives_less_than_was_measured_is_reported(
    world, tmp_path, accepting, expected, outdated
):
    with daemon_of(world, tmp_path, MPTUNE_NOTICE_WINDOW_MS="6000") as daemon:
        daemon.write(pcdc(daemon, expected=expected))
        daemon.begin()
        with world.transfer() as transfer:
            if outdated:
                line = daemon.heard("outdated")
                assert "predicts 200 Mbit/s (180 to 220), seen" in line and "for 6 s: measure again" in line
            transfer.more(2000 * KIB)
        status = daemon.policy("answer")
        assert status["outdated"] == outdated
        if outdated:
            assert 10 < status["seen_low_mbit_s"] <= status["seen_high_mbit_s"] < 45
            assert len([line for line in daemon.said if "outdated" in line]) == 1


def test_a_program_that_sends_little_is_no_evidence_about_the_network(world, tmp_path, accepting):
    with daemon_of(world, tmp_path, MPTUNE_NOTICE_WINDOW_MS="1500") as daemon:
        daemon.write(pcdc(daemon, expected=200.0))
        daemon.begin()
        with pair_of(world) as (sender, receiver):
            began = daemon.ask("status")["uptime_s"]

            def enough() -> bool:
                sender.sendall(bytes(1000))
                receiver.recv(1 << 16)
                return bool(daemon.ask("status")["uptime_s"] > began + 3 * 1.5)

            until(enough, "three times as long as is looked back")
        status = daemon.policy("answer")
        assert status["sent_bytes"] > 0
        assert (status["outdated"], status["seen_low_mbit_s"]) == (False, None)


@contextmanager
def pair_of(world: World) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection from an ordinary program to another."""

    def made() -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)

    with inside(world.sites.remote, made) as listener, inside(world.sites.local, made) as sender:
        listener.bind(("10.65.0.1", 0))
        listener.listen()
        sender.bind(("10.64.0.1", 0))
        sender.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            yield sender, accepted


def test_thousands_of_short_connections_leave_nothing_in_memory(daemon, world, accepting):
    daemon.begin()

    def memory_after(count: int) -> int:
        before = daemon.policy("default")["opened"]
        for _ in range(count):
            with pair_of(world) as (sender, receiver):
                sender.sendall(b"x")
                receiver.recv(1)
        until(lambda: daemon.policy("default")["opened"] >= before + count, "all connections")
        until(lambda: daemon.policy("default")["connections"] == 0, "their end")
        return int(daemon.ask("status")["memory_bytes"])

    first = memory_after(1500)  # more than are kept for reports
    assert memory_after(1500) < 1.2 * first
