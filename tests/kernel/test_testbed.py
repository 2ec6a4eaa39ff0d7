"""Trials on the running kernel: what they give, what they withstand, and that they leave nothing behind."""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from mptune.errors import Failure, InputError
from mptune.linux import awake, bpf
from mptune.linux.sandbox import leftovers
from mptune.runner.running import run_trials
from mptune.testbeds import create
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.trial import BIN_NS
from mptune.trial.stacks import STACKS
from tests.plugins.netlink import inside
from tests.plugins.program import running
from tests.plugins.trials import SECOND
from tests.plugins.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("testbed")

MS = 1_000_000


@pytest.fixture
def killer(marked, until):
    """Kills a process of this program's trials by its command line once a megabyte was carried."""
    threads = []

    def process(part):
        mark = f"{leftovers.VARIABLE}={os.getpid()}-"
        return next((pid for pid, command in marked(mark).items() if part in command), None)

    def carried(pid):
        fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        return int(fields["wchar"])

    def kill(part):
        def act():
            emulator = until(lambda: process("\0emulator\0"), "the emulator")
            until(lambda: carried(emulator) > 10**6, "a megabyte on the links")
            os.kill(process(part), signal.SIGKILL)

        threads.append(threading.Thread(target=act, daemon=True))
        threads[-1].start()

    yield kill
    for thread in threads:
        thread.join(20)


def by_path(observation):
    return {subflow.path: subflow for subflow in observation.subflows}


def steady_bps(observation):
    """Throughput of the median second behind the first: one with a timeout in it moves it little."""
    per_second = SECOND // BIN_NS
    starts = range(per_second, len(observation.bins) - per_second + 1)
    return 8 * statistics.median(sum(observation.bins[start : start + per_second]) for start in starts)


@pytest.mark.measures(
    "slow start, and a timeout if a retransmission is lost in it, take their parts of the time"
)
def test_a_saturated_trial_fills_both_paths(measured):
    """40 and 20 Mbit/s, of which headers take 5 %: a quarter in spite of the start and of timeouts in it.

    How much it is, and which path carries more, is exact in guests (tests/virtual/test_virtual.py).
    """
    observation = measured(duration_ns=2 * SECOND)
    assert observation.failed is None
    assert 14e6 < observation.throughput_bps < 58e6
    assert observation.duration_ns == 2 * SECOND and len(observation.bins) == 2 * SECOND // BIN_NS
    assert sum(observation.bins) == observation.in_order_bytes
    subflows = by_path(observation)
    assert set(subflows) == {"W-X", "N-X"}
    assert min(subflow.bytes for subflow in subflows.values()) > 0
    assert 20 * MS <= subflows["W-X"].min_rtt_ns < 30 * MS
    assert 40 * MS <= subflows["N-X"].min_rtt_ns < 50 * MS


def test_a_steady_trial_ends_early(measured):
    """In a tenth of the buffer that would fill the queues, so that nothing is lost."""
    asked_ns = 20 * SECOND
    observation = measured(pm="default", buffer_bytes=2**16, duration_ns=asked_ns, ends_early=True)
    assert observation.failed is None
    assert 0 < observation.duration_ns < asked_ns / 2
    assert len(observation.bins) == observation.duration_ns / BIN_NS
    assert sum(observation.bins) == observation.in_order_bytes
    so_far_bps = observation.in_order_bytes * 8e9 / observation.duration_ns
    assert observation.expected_bps == pytest.approx(so_far_bps, rel=0.2)
    # The sender stopped too: what the network carried is not that of the whole duration.
    carried = observation.metadata["emulator_bytes"]
    assert carried < 0.7 * observation.expected_bps / 8e9 * asked_ns


def test_what_could_explain_a_result_comes_with_it(measured):
    metadata = measured().metadata
    assert metadata["kernel"] == os.uname().release
    assert metadata["scheduler"] == "default" and metadata["cc_effective"] == "cubic"
    assert "reno" in str(metadata["congestion_controls"]).split()
    assert metadata["requested_rcvbuf"] == 2**20 and metadata["effective_receiver_rcvbuf"] == 2**21
    assert metadata["sysctl net.mptcp.path_manager"] == "userspace"
    assert metadata["offloads local if0"] == "tso gso gro"
    assert 0 < metadata["emulator_processors"] < 1 and 0 < metadata["meter_processors"] < 2
    assert 0 <= metadata["emulator_late_p50_ms"] <= metadata["emulator_late_p99_ms"] <= 1


def test_ecn_can_be_switched_off_for_a_trial(measured):
    assert measured(transfer_bytes=1000, ecn=False).metadata["sysctl net.ipv4.tcp_ecn"] == "0"
    assert measured(transfer_bytes=1000).metadata["sysctl net.ipv4.tcp_ecn"] == "1"


def test_a_transfer_arrives_whole(measured):
    observation = measured(transfer_bytes=1_000_001)
    assert observation.failed is None
    assert observation.in_order_bytes == 1_000_001
    assert observation.completion_ns == observation.duration_ns
    # At no more than the rate of both links, and at a tenth of it in spite of the slow start.
    assert 1 < observation.completion_ns / (8 * 1_000_001 / 60e6 * SECOND) < 10


@pytest.mark.measures("slow start overflows the queue; a retransmission that is lost again costs a timeout")
def test_plain_tcp_agrees_with_the_simulator_and_is_no_fallback(measured, trial):
    """One path of 20 Mbit/s with 1448 bytes of payload in a packet of 1500."""
    plain = {"protocol": "tcp", "pm": "default", "initial_path": "N-X", "duration_ns": 4 * SECOND}
    observation = measured(**plain)
    assert observation.failed is None and observation.metadata["fallback"] is False
    assert [subflow.path for subflow in observation.subflows] == ["N-X"]
    simulated = create("simulated").run(trial(**plain))
    assert steady_bps(observation) == pytest.approx(steady_bps(simulated), rel=0.02)
    assert steady_bps(observation) == pytest.approx(20e6 * 1448 / 1500, rel=0.02)
    assert observation.throughput_bps == pytest.approx(simulated.throughput_bps, rel=0.2)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("emulator", "\0emulator\0"),
        ("sender", "\0sender\0"),
        ("receiver", "\0receiver\0"),
        ("path manager", "\0paths\0"),
        ("namespace holder", "\0namespaces\0"),
    ],
)
def test_a_killed_process_fails_the_trial_and_the_campaign_goes_on(testbed, trial, killer, name, command):
    killer(command)
    observations = run_trials(
        testbed, [trial(duration_ns=20 * SECOND), trial(transfer_bytes=50_000)], workers=1
    )
    if name == "namespace holder" and observations[0].duration_ns == 20 * SECOND:
        return  # it came too late: the others keep the namespaces open by their sockets and devices
    assert observations[0].failed == Failure("died", f"{name} was killed by signal 9")
    assert observations[0].duration_ns < 20 * SECOND
    assert observations[1].in_order_bytes == 50_000


def test_what_the_kernel_cannot_do_is_refused(testbed, trial):
    with pytest.raises(InputError, match="--scheduler: expected kernel"):
        testbed.run(trial(scheduler="blest"))
    with pytest.raises(InputError, match="--opportunistic"):
        testbed.run(trial(opportunistic=True))
    with pytest.raises(InputError, match="--stack: expected linux, the only one of the testbed namespaces"):
        testbed.run(trial(**msgspec.structs.asdict(STACKS["v0.9x"])))
    with pytest.raises(InputError, match=r"initial path.*W-X, N-X.*found 'Z-Z'"):
        testbed.run(trial(initial_path="Z-Z"))


def test_a_congestion_control_the_kernel_lacks_is_refused_by_name(testbed, trial):
    with pytest.raises(InputError, match=r"--cc: .*cubic.*found wvegas: .*BPF"):
        testbed.run(trial(cc="wvegas"))


def test_without_the_mark_there_is_no_program():
    """What needs one without the mark would fail only where there is no clang."""
    assert bpf.programs() == []


def test_two_at_once_do_not_disturb_each_other(trial):
    """Two programs run the same trial at the same time, with the same addresses and device names."""
    code = (
        "import sys, msgspec\n"
        "from mptune.testbeds import create\n"
        "from mptune.trial import Trial\n"
        "trial = msgspec.json.decode(sys.stdin.buffer.read(), type=Trial)\n"
        "observation = create('namespaces').run(trial)\n"
        "print(msgspec.json.encode(observation).decode())\n"
    )
    spec = msgspec.json.encode(trial(transfer_bytes=3_000_000))
    programs = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for program in programs:
        assert program.stdin is not None
        program.stdin.write(spec)
        program.stdin.close()
        program.stdin = None
    for program in programs:
        observation = json.loads(program.communicate(timeout=PATIENCE_S)[0])
        assert observation["in_order_bytes"] == 3_000_000
        assert {subflow["path"] for subflow in observation["subflows"]} == {"W-X", "N-X"}


def left_behind():
    """Descriptors, devices, children and threads of this process."""
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - iterdir keeps one open itself
        "devices": [name for _, name in socket.if_nameindex()],
        "children": Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split(),
        "threads": threading.active_count(),
    }


def deserted_namespaces():
    """Network namespaces of the whole machine without a process, roughly: the kernel keeps some in stock.

    Those of other programs, such as a second run of these tests, have processes.
    """
    lines = Path("/proc/slabinfo").read_text().splitlines() if os.geteuid() == 0 else []
    living = next((int(line.split()[1]) for line in lines if line.startswith("net_namespace ")), 0)
    inhabited = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            inhabited.add((process / "ns/net").stat().st_ino)
    return living - len(inhabited)


def test_twenty_trials_leave_nothing_behind(testbed, trial, until, marked):
    testbed.run(trial(transfer_bytes=20_000))  # loads what is loaded once
    mark = f"{leftovers.VARIABLE}={os.getpid()}-"
    before, running, namespaces = left_behind(), marked(mark), deserted_namespaces()
    observations = run_trials(testbed, [trial(transfer_bytes=20_000, seed=seed) for seed in range(20)])
    assert [observation.in_order_bytes for observation in observations] == [20_000] * 20
    assert left_behind() == before
    assert marked(mark) == running
    # The kernel takes namespaces down in its own time.
    until(lambda: deserted_namespaces() < namespaces + 20, "the end of forty namespaces")


def test_a_session_keeps_the_processors_awake_and_leaves_nothing_behind(testbed, marked, monkeypatch):
    monkeypatch.setattr(awake, "LATE_S", -1.0)  # as where wake-ups are late
    mark = f"{leftovers.VARIABLE}={os.getpid()}-"
    before = marked(mark)
    with NamespacesTestbed().session():
        (started,) = (command for pid, command in marked(mark).items() if pid not in before)
        assert started.endswith("\0awake\0")
    assert marked(mark) == before


def command(*arguments):
    """A command with trials that last longer than any test."""
    return running(*arguments, "--testbed", "namespaces", "--duration", "60s")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_command_that_was_ended(two_file, testbed, marked, until, how):
    with command("run", str(two_file)) as program:
        mark = f"{leftovers.VARIABLE}={program.pid}-"
        until(lambda: any("sender" in command for command in marked(mark).values()), "the sender")
        program.send_signal(how)
        _, complaint = program.communicate(timeout=PATIENCE_S)
        until(lambda: not marked(mark), "the end of all processes")
        if how == signal.SIGINT:
            assert program.returncode == 130 and complaint == b"mptune: interrupted\n"


@pytest.mark.parametrize(
    "meanwhile", ["\0namespaces\0", "\0emulator\0", "\0sender\0"], ids=["namespaces", "emulator", "sender"]
)
@pytest.mark.parametrize("everyone", [True, False], ids=["group", "program"])
def test_a_campaign_is_broken_off_at_once(two_file, testbed, marked, until, everyone, meanwhile):
    """A terminal sends Ctrl-C to a process group, kill(1) to a process; a trial takes a minute."""
    with command("impact", str(two_file), "--runs", "2", "--quiet") as program:
        mark = f"{leftovers.VARIABLE}={program.pid}-"
        until(lambda: any(meanwhile in command for command in marked(mark).values()), f"the {meanwhile}")
        (os.killpg if everyone else os.kill)(program.pid, signal.SIGINT)
        _, complaint = program.communicate(timeout=PATIENCE_S)
        assert (program.returncode, complaint) == (130, b"mptune: interrupted\n")
        # One that was just being started is ended by the kernel, a moment after the program.
        until(lambda: not marked(mark), "the end of all processes")


def test_a_socket_of_the_host_is_not_in_the_way(measured):
    """Addresses and ports are the namespaces' own."""
    with inside(None, lambda: socket.create_server(("127.0.0.1", 0))):
        assert measured(transfer_bytes=10_000).failed is None


def test_buffers_that_grow_stay_below_their_limit_and_leave_the_hosts_alone(measured):
    """The connection's receive buffer grows beyond its first 128 KiB; the host's sysctls stay as they are."""
    limits = [Path("/proc/sys/net/ipv4", name) for name in ("tcp_rmem", "tcp_wmem")]
    before = [file.read_text() for file in limits]
    observation = measured(buffer_mode="auto", duration_ns=2 * SECOND)
    assert observation.failed is None
    metadata = observation.metadata
    assert metadata["sysctl net.ipv4.tcp_rmem"] == "4096 131072 1048576"
    assert 131072 < metadata["effective_receiver_rcvbuf"] <= 2**20
    # 16384 bytes until a subflow is established, then at least ten segments of each.
    assert metadata["effective_sender_sndbuf"] > 16384
    assert not any(name.startswith("requested_") for name in metadata)
    assert [file.read_text() for file in limits] == before
