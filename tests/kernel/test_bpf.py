"""BPF congestion controls on the running kernel: they come, carry data over two subflows, and go.

Without a trace, also when the program that used them is killed.
"""

import json
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mptune.errors import MptuneError
from mptune.linux import bpf
from mptune.trial.congestion import PAIRS
from tests.plugins.bpf_objects import objects, verified
from tests.plugins.congestion_role import congestion_role
from tests.plugins.needs import BPF_SOURCES, BPF_TESTS

pytestmark = pytest.mark.needs("bpf")

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
COUNTING = Path("/proc/sys/kernel/bpf_stats_enabled")
ROUNDS = 10
SIZE = 2_000_000

Until = Callable[[Callable[[], object], str], None]
Transfer = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def transfer() -> Iterator[Transfer]:
    """Sends over two paths; answers what `bpf_transfer.py` found."""
    command = [sys.executable, str(Path(__file__).with_name("bpf_transfer.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        pipes = process.stdin, process.stdout

        def run(cc: str, size: int = SIZE, **options: bool) -> dict[str, Any]:
            pipes[0].write(json.dumps({"cc": cc, "size": size, **options}) + "\n")
            pipes[0].flush()
            answer = pipes[1].readline()
            assert answer, "the transfer ended without an answer"
            result: dict[str, Any] = json.loads(answer)
            return result

        yield run
        process.stdin.close()


def known() -> list[str]:
    return AVAILABLE.read_text().split()


@pytest.mark.parametrize("cc", BPF_SOURCES)
def test_comes_carries_a_transfer_and_goes_without_a_trace(cc, transfer, until: Until) -> None:
    before = objects()
    lesser = []
    for _ in range(ROUNDS):
        with bpf.loaded([cc]) as names:
            result = transfer(names[cc])
        assert (result["intact"], result["cc"]) == (True, names[cc])
        lesser.append(min(result["carried"]))
    assert statistics.median(lesser) > SIZE / 20, "one of the subflows carries nothing"
    until(lambda: names[cc] not in known(), f"{cc} to be gone")
    until(lambda: not objects() - before, f"what {cc} used to be gone")


@pytest.mark.parametrize("cc", PAIRS)
def test_a_pair_carries_a_transfer_drives_plain_tcp_and_goes_without_a_trace(cc, transfer, until) -> None:
    before = objects()
    with bpf.loaded([cc]) as names:
        # A walk over subflows is followed until it repeats, not 33 times: that took seconds.
        programs = [number for kind, number in objects() - before if kind == "prog"]
        assert programs and max(map(verified, programs)) < 15_000
        outcomes = [transfer(names[cc], mptcp=mptcp) for mptcp in (True, False)]
    assert [(outcome["intact"], outcome["cc"]) for outcome in outcomes] == [(True, names[cc])] * 2
    until(lambda: names[cc] not in known(), f"{cc} to be gone")
    until(lambda: not objects() - before, f"what {cc} used to be gone")


def test_of_several_prefixes_of_destinations_the_longest_counts(transfer) -> None:
    whole, part = ({"local": "10.0.1.1", "remote": f"10.0.0.0/{bits}"} for bits in (8, 24))
    low, high = 10_000_000, 1_000_000_000
    told = {
        "capped": [{**whole, "cap_bps": high}, {**part, "cap_bps": low}],
        "free": [{**whole, "cap_bps": low}, {**part, "cap_bps": high}],
    }
    carried = {}
    for name, paths in told.items():
        with bpf.told("cubic+cap", paths) as cc:
            results = [transfer(cc, 4 * SIZE) for _ in range(3)]
        assert all(result["intact"] for result in results)
        carried[name] = statistics.median(result["carried"][1] for result in results)
    assert carried["free"] > 2 * carried["capped"], carried


@pytest.mark.parametrize("cc", BPF_SOURCES)
def test_drives_plain_tcp(cc, transfer) -> None:
    with bpf.loaded([cc]) as names:
        result = transfer(names[cc], mptcp=False)
    assert (result["intact"], result["cc"]) == (True, names[cc])


@pytest.fixture
def counting(until: Until) -> Iterator[str]:
    """A congestion control that shows how many subflows a coupled one would count."""
    with congestion_role("mptune_counts", (BPF_TESTS / "counts_subflows.bpf.o").read_bytes()):
        yield "mptune_counts"
    until(lambda: "mptune_counts" not in known(), "the name to be free")


@pytest.mark.needs("bpf-tests")
def test_a_subflow_sees_its_sibling_unless_that_is_on_standby(transfer, counting) -> None:
    assert transfer(counting)["thresholds"] == [2, 2]
    results = [transfer(counting, standby=True) for _ in range(ROUNDS)]
    assert {result["thresholds"][0] for result in results} == {1}
    # While the other waits for a retransmission the kernel may send on standby: a tenth, now and then.
    assert statistics.median(result["carried"][1] for result in results) < SIZE / 20


@pytest.mark.needs("bpf-tests")
def test_two_connections_do_not_see_each_other(transfer, counting) -> None:
    assert transfer(counting, beside=True)["thresholds"] == [2, 2]


@pytest.mark.needs("bpf-tests")
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("without_cong_avoid", "Invalid argument"),
        ("without_ssthresh", "Invalid argument"),
        ("without_undo_cwnd", "Invalid argument"),
        ("not_gpl", "GPL"),
        ("writes_elsewhere", "only read is supported"),
    ],
)
def test_the_kernel_refuses(broken, reason, until: Until) -> None:
    before = objects()
    with congestion_role("mptune_broken", (BPF_TESTS / f"{broken}.bpf.o").read_bytes()) as role:
        refused = role.answer["reason"]
    assert refused.startswith("the kernel refuses mptune_broken: ") and reason in refused
    assert "\n" not in refused and "mptune_broken" not in known()
    until(lambda: not objects() - before, "what was refused to be gone")


def test_a_connection_keeps_the_algorithm_that_is_taken_back(transfer, until: Until) -> None:
    script = (
        "import socket, sys; s = socket.socket(); s.setsockopt(6, 13, b'mptune_vegas'); print(1, flush=True);"
        "sys.stdin.read(); print(s.getsockopt(6, 13, 16))"
    )
    with bpf.loaded(["vegas"]):
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None and process.stdout.readline() == "1\n"
    until(lambda: "mptune_vegas" not in known(), "the name to be free")
    with bpf.loaded(["vegas"]) as names:  # a second one beside that of the open socket
        assert transfer(names["vegas"])["intact"]
    answer, _ = process.communicate()
    assert "mptune_vegas" in answer


def holder(cc: str) -> subprocess.Popen[str]:
    """Another program that uses `cc` until its stdin ends."""
    script = (
        "import sys; from mptune.linux import bpf\n"
        f"with bpf.loaded([{cc!r}]): print(1, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    return process


def test_a_killed_program_leaves_nothing(until: Until) -> None:
    before = objects()
    process = holder("olia")
    assert "mptune_olia" in known()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until(lambda: "mptune_olia" not in known() and not objects() - before, "everything to be gone")


@pytest.mark.parametrize("first_leaves", [True, False])
def test_programs_share_it_and_the_last_one_takes_it_back(first_leaves, transfer, until: Until) -> None:
    first, second = holder("lia"), holder("lia")
    assert [link["name"] for link in bpf.registered()].count("mptune_lia") == 1
    leaving, staying = (first, second) if first_leaves else (second, first)
    leaving.communicate()
    assert transfer("mptune_lia")["intact"]
    staying.communicate()
    until(lambda: "mptune_lia" not in known(), "the last user's leaving to be noticed")


def test_one_taken_back_a_moment_ago_can_be_had_again(until: Until) -> None:
    for _ in range(30):
        with bpf.loaded(["scalable"]) as names:
            assert names["scalable"] in known()
    until(lambda: "mptune_scalable" not in known(), "it to be gone")


def test_an_algorithm_of_the_kernel_is_used_as_it_is(until: Until) -> None:
    before = {name for kind, name in objects() if kind == "prog"}
    with bpf.loaded(["reno", "cubic"]) as names:
        assert names == {"reno": "reno", "cubic": "cubic"}
        # Other tests have some for a moment.
        until(lambda: {name for kind, name in objects() if kind == "prog"} <= before, "no further program")


def test_what_cannot_be_had_is_refused_and_nothing_is_left(until: Until) -> None:
    with pytest.raises(MptuneError, match="nonsense: this kernel lacks it"), bpf.loaded(["olia", "nonsense"]):
        pass
    until(lambda: "mptune_olia" not in known(), "what was loaded before to be gone")


def test_statistics_count_calls_and_their_time(transfer) -> None:
    COUNTING.write_text("1")
    try:
        with bpf.loaded(["olia"]) as names:
            transfer(names["olia"])
            (olia,) = [entry for entry in bpf.status() if entry.cc == "olia"]
    finally:
        COUNTING.write_text("0")
    assert olia.calls > 100 and olia.ns > olia.calls


def inside_bpf_file_system(*lines: str) -> subprocess.CompletedProcess[str]:
    """Runs shell lines with a BPF file system of their own, which ends with them; M is the command mptune."""
    script = "\n".join(
        ["set -e", "mount -t bpf bpf /sys/fs/bpf", f"M='{sys.executable} -m mptune.cli'", *lines]
    )
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.needs("namespaces")
def test_load_persists_until_unload(until: Until) -> None:
    listing = f"grep -o mptune_balia {AVAILABLE} || echo gone"
    output = inside_bpf_file_system(
        "$M cc load balia scalable",
        listing,
        "$M cc status --json",
        "$M cc load balia",
        "$M cc unload balia scalable",
        "ls /sys/fs/bpf | grep mptune || echo empty",
        "$M cc unload balia || echo refused",
    )
    assert output.returncode == 0, output.stderr
    assert "mptune_balia\n" in output.stdout and '"pinned": true' in output.stdout
    assert "tcp_allowed_congestion_control=" in output.stdout
    assert output.stdout.endswith("empty\nrefused\n")
    until(lambda: "mptune_balia" not in known(), "it to be gone")


@pytest.mark.needs("namespaces")
def test_what_is_loaded_is_told_of_paths_again_without_a_reload(until: Until) -> None:
    load = "$M cc load reno+cap --caps"
    output = inside_bpf_file_system(
        f"{load} 10.0.1.1=2Mbit/s",
        f"{load} 10.0.1.1-10.9.0.0/16=1Mbit/s,fd00::1=3Mbit/s",
        f"{load} ''",
        "$M cc unload reno+cap",
    )
    assert output.returncode == 0, output.stderr
    assert output.stdout.count("reno+cap: loaded; its name for TCP_CONGESTION is reno_cap\n") == 3
    until(lambda: "reno_cap" not in known(), "it to be gone")


@pytest.mark.needs("namespaces")
def test_unloading_takes_nothing_from_a_program_that_uses_it(transfer, until: Until) -> None:
    output = inside_bpf_file_system("$M cc load hybla")
    assert output.returncode == 0, output.stderr  # its file system has ended, and so has its pin
    process = holder("hybla")
    output = inside_bpf_file_system("$M cc load hybla", "$M cc unload hybla")
    assert output.returncode == 0, output.stderr
    assert transfer("mptune_hybla")["intact"]
    process.communicate()
    until(lambda: "mptune_hybla" not in known(), "it to be gone")


@pytest.mark.needs("namespaces")
def test_without_the_privilege_to_register_programs_the_remedy_is_named() -> None:
    script = "from mptune.linux import bpf; print(bpf.availability('olia').reason)"
    command = ["setpriv", "--bounding-set=-all", sys.executable, "-c", script]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "mptune cc load olia" in completed.stdout
