"""A path policy under 1,000 connections for long, while it is changed, killed, unloaded and loaded.

Two namespaces with two paths, whose full queues make round trips of 20 and 100 ms. Some connections always
have more to send, the others a message now and then; each has the congestion control of its time, and every
byte is compared (`_compared_traffic.py`). The daemon opens the second subflows. Meanwhile, at every
`--every`, one disturbance that `--seed` draws:

    reload    the program is unloaded and loaded again, under the name that connections have
    switch    new connections get another pair; the one before is unloaded, or not
    tell      a pair is told other caps, weights, or another order
    unload    nothing is loaded any more; connections keep what they have, new ones are refused it
    kill      SIGKILL for the process that holds a program, or for `mptune cc load` at its work
    reopen    the 100 oldest connections end, and as many begin

Before each it looks at the connections, the BPF objects and the memory. At the end everything is taken down,
and looked for. Status 1 if a connection stalled, broke or had a wrong byte, or if something was left or grew.
Ctrl-C ends it in order, with what was measured until then. Needs root. Programs are kept in a BPF file system
of its own, and nothing else on the machine may have a pair of cubic registered.

    python -m benchmarks.systems.soak --duration 24h --every 60s --seed 1
"""

import argparse
import contextlib
import gzip
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import RESULTS, machine, write
from benchmarks.systems import _daemon_load
from benchmarks.systems._daemon_load import CLIENT, CONNECTIONS, SERVER, cpu_s
from benchmarks.systems._disturbances import FIRST, MARK, PAIRS, PATIENCE_S, Policies, marked, within
from mptune.errors import MptuneError, TrialError
from mptune.linux import bpf
from mptune.linux.congestion import available
from mptune.linux.processor_load import Load
from mptune.linux.sandbox import syscalls, sysctls
from mptune.linux.sandbox.namespaces import Sites
from mptune.linux.sandbox.processes import Child
from mptune.units import parse_time
from tests.plugins.bpf_objects import KINDS, objects
from tests.plugins.netlink import inside

#: Bit/s, and bytes of the queue: 20 and 100 ms when it is full, which the busy connections see to.
LINKS = ((20_000_000, 50_000), (5_000_000, 62_500))
#: Connections that always have more to send, and how often another one has a message, s.
BUSY, MESSAGE_EVERY_S = 6, 15.0
#: Of both ends: buffers that grow stay small enough to be emptied in seconds.
SETTINGS = sysctls.buffer_limits(1 << 20)
#: All that was sent has arrived, and connections have ended, s.
CLOSING_S = 180.0
#: All of it is gone, s: the kernel keeps sockets that are being closed for 60 s.
GONE_S = 120.0
#: Growth that is a leak: the last quarter over the second one, as a ratio and besides as a difference.
GROWTH, GROWTH_MIB, GROWTH_FILES = 1.3, 2.0, 8
#: Stalls of which the sockets are kept.
KEPT = 5
_CLONE_NEWNS = 0x20000  # include/uapi/linux/sched.h
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One moment.

    Attributes
    ----------
    after : the disturbance before it.
    subflows : the client's, by congestion control; `held` those of a pair whose rate is 0.
    objects : BPF objects besides those of before, by kind.
    generations : loads whose programs connections have.
    memory_mib : resident, of the agents and of the traffic; `tcp_mib` is the kernel's, of all sockets.
    mptcp : MPTCP sockets that the kernel has memory for.
    files : open ones of the agents, and of this program.
    core_percent : of one processor since the last look: the traffic, the agents, this program and its
        children, and the whole machine.
    """

    at_s: float
    after: str
    traffic: dict[str, Any]
    subflows: dict[str, int]
    held: int
    objects: dict[str, int]
    generations: int
    memory_mib: dict[str, float]
    tcp_mib: float
    mptcp: int
    files: int
    core_percent: dict[str, float]


class Soak:
    """What runs, and what is seen of it."""

    def __init__(self, sites: Sites, traffic: Child, agents: list[int], before: set[tuple[str, int]]) -> None:
        self._sites, self._traffic, self._agents, self._before = sites, traffic, agents, before
        self._began = self._last = time.monotonic()
        self._cpu, self._load = self._processor_s(), Load.now()
        self.looks: list[Look] = []
        #: The first connections that stalled, and how often their sockets were kept.
        self.stalled: list[dict[str, Any]] = []
        self._kept = 0

    def look(self, after: str) -> Look:
        """Look at everything."""
        self._traffic.tell({"action": "look"})
        traffic = self._traffic.expect("looked", PATIENCE_S)
        subflows, held = _subflows(self._sites.local)
        new = objects() - self._before
        look = Look(
            at_s=time.monotonic() - self._began,
            after=after,
            traffic=traffic,
            subflows=subflows,
            held=held,
            objects={kind: sum(one == kind for one, _ in new) for kind in KINDS},
            generations=sum(number > 0 for number in traffic["generations"]),
            memory_mib={"agents": _resident_mib(self._agents), "traffic": _resident_mib([self._traffic.pid])},
            tcp_mib=inside(self._sites.local, _tcp_pages) * _PAGE_MIB,
            mptcp=_in_slab("MPTCP"),
            files=sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in [os.getpid(), *self._agents]),
            core_percent=self._core_percent(),
        )
        stalled = traffic.pop("stalled")
        if stalled != self.stalled and self._kept < KEPT:
            self._keep_sockets()
        self.stalled = stalled
        self.looks.append(look)
        return look

    def _processor_s(self) -> dict[str, float]:
        own = os.times()
        of_this = own.user + own.system + own.children_user + own.children_system
        return {"traffic": cpu_s([self._traffic.pid]), "agents": cpu_s(self._agents), "this": of_this}

    def _core_percent(self) -> dict[str, float]:
        now, cpu, load = time.monotonic(), self._processor_s(), Load.now()
        percent = {name: 100 * (cpu[name] - self._cpu[name]) / (now - self._last) for name in cpu}
        percent["machine"] = 100 * (os.cpu_count() or 1) * self._load.share_until(load)
        self._last, self._cpu, self._load = now, cpu, load
        return percent

    def _keep_sockets(self) -> None:
        """What the kernel tells of all sockets, beside the results, to find the reason of a stall."""
        self._kept += 1
        RESULTS.mkdir(parents=True, exist_ok=True)
        for side in ("local", "remote"):
            told = "".join(_ss(self._sites.of(side), words) for words in ("-HOtnoim", "-HOMnoim"))
            with gzip.open(RESULTS / f"soak-stall-{self._kept}-{side}.txt.gz", "wt") as file:
                file.write(told)


def _ss(namespace: str, words: str, *state: str) -> str:
    command = ["nsenter", f"--net={namespace}", "ss", words, *state]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _subflows(namespace: str) -> tuple[dict[str, int], int]:
    """Established subflows towards the server, by congestion control; how many of them are held."""
    names = [bpf.registered_name(pair) for pair in PAIRS]
    by_name: dict[str, int] = {}
    held = 0
    for line in _ss(namespace, "-HOtni", "state", "established").splitlines():
        if SERVER in line:
            words = line.split()
            name = next((name for name in names if name in words), "other")
            by_name[name] = by_name.get(name, 0) + 1
            # A rate of 0 is not printed.
            held += name != "other" and "pacing_rate" not in words
    return by_name, held


def _resident_mib(pids: Sequence[int]) -> float:
    pages = (int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) for pid in pids)
    return sum(pages) * _PAGE_MIB


def _tcp_pages() -> int:
    """Pages of memory of all TCP sockets of the machine."""
    lines = Path("/proc/thread-self/net/sockstat").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("TCP:")).split()[-1])


def _in_slab(name: str) -> int:
    """Objects of a kind for which the kernel has memory in use, a few too many."""
    lines = Path("/proc/slabinfo").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)


def _inside(namespaces: set[int]) -> list[str]:
    """Processes in these network namespaces, by their numbers (inodes)."""
    found = []
    for place in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            if place.stat().st_ino in namespaces:
                found.append(place.parts[2])
    return found


def _is_empty(found: Callable[[], Sequence[str]]) -> bool:
    return not found()


class Before:
    """What there was, for what is left."""

    def __init__(self) -> None:
        self.objects, self._mptcp = objects(), _in_slab("MPTCP")
        #: Of the run.
        self.namespaces: set[int] = set()
        self._log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._log, 0, os.SEEK_END)

    def left(self) -> Iterator[str]:
        """What is there besides, after a while."""
        checks: dict[str, Callable[[], Sequence[str]]] = {
            "BPF objects": lambda: sorted(f"{kind} {number}" for kind, number in objects() - self.objects),
            "names": lambda: [pair for pair in PAIRS if bpf.registered_name(pair) in available()],
            "processes in the namespaces": lambda: _inside(self.namespaces),
            "processes": marked,
            # Memory of a socket that is gone may be kept for the next one.
            "MPTCP sockets": lambda: (
                [str(_in_slab("MPTCP"))] if _in_slab("MPTCP") > self._mptcp + 500 else []
            ),
        }
        for what, found in checks.items():
            if not within(GONE_S, partial(_is_empty, found)):
                yield f"left: {what}: {', '.join(found())}"

    def complaints(self) -> Iterator[str]:
        """Warnings of the kernel since then."""
        with contextlib.suppress(BlockingIOError):
            while record := os.read(self._log, 1 << 13).decode(errors="replace"):
                if any(word in record for word in ("WARNING:", "BUG:", "Oops", "hung task", "stalls on")):
                    yield f"the kernel: {record.partition(';')[2].partition(chr(10))[0]}"
        os.close(self._log)


def faults(looks: Sequence[Look], last: dict[str, Any]) -> Iterator[str]:
    """What must not be, of the connections and of memory."""
    for name in ("wrong", "lost", "changed", "stalls"):
        if last[name]:
            yield f"{name}: {last[name]}"
    for reason, count in last["broken"].items():
        yield f"connections that broke: {count} ({reason})"
    series: dict[str, tuple[Sequence[float], float]] = {
        "memory of the agents, MiB": ([look.memory_mib["agents"] for look in looks], GROWTH_MIB),
        "open files": ([look.files for look in looks], GROWTH_FILES),
    }
    for what, (values, least) in series.items():
        quarter = len(values) // 4
        if quarter:
            early = statistics.median(values[quarter : 2 * quarter])
            late = statistics.median(values[-quarter:])
            if late > GROWTH * early and late > early + least:
                yield f"{what}: from {early:.1f} to {late:.1f}"


def run(asked: argparse.Namespace, before: Before, found: list[str]) -> tuple[list[Look], dict[str, Any]]:
    """The soak; its looks, and the last word of the traffic."""
    with ExitStack() as stack:
        sites = stack.enter_context(_daemon_load.joined(LINKS, SETTINGS))
        before.namespaces = {Path(path).stat().st_ino for path in (sites.local, sites.remote)}
        case = next(case for case in _daemon_load.CASES if case.name == asked.manager)
        agents = stack.enter_context(_daemon_load.managed(case, sites, None))
        command = [sys.executable, "-m", "benchmarks.systems._compared_traffic"]
        traffic = stack.enter_context(Child("traffic", command, sites.run))
        policies = Policies(traffic, random.Random(asked.seed))
        stack.callback(policies.end)
        ends = {"local": sites.local, "remote": sites.remote, "server": SERVER, "source": CLIENT[0]}
        load = {"connections": asked.connections, "busy": BUSY, "every_s": MESSAGE_EVERY_S}
        policies.load(FIRST)
        traffic.tell({**ends, **load, "seed": asked.seed})
        policies.use(FIRST)
        soak = Soak(sites, traffic, agents, before.objects)
        until, after = time.monotonic() + asked.duration, "begin"
        try:
            while time.monotonic() < until:
                time.sleep(min(asked.every, max(0.0, until - time.monotonic())))
                look = soak.look(after)
                print(" | ".join(f"{word}" for word in row(look)), flush=True)
                after = policies.disturb()
        except KeyboardInterrupt:
            print("ending", flush=True)
        except (MptuneError, OSError) as error:
            found.append(f"it broke off: {error}")
        last = dict(soak.looks[-1].traffic) if soak.looks else {}
        traffic.tell({"action": "close"})
        try:
            last = traffic.expect("closed", CLOSING_S)
        except (TrialError, KeyboardInterrupt) as error:
            found.append(f"connections do not end: {error}")
            traffic.tell({"action": "look"})
            with contextlib.suppress(TrialError):
                last = traffic.expect("looked", PATIENCE_S)
        policies.end()
        found += policies.faults
    return soak.looks, last


HEAD: tuple[str, ...] = (
    "min",
    "after",
    "alive",
    "subflows",
    "held",
    "MB compared",
    "wrong",
    "stalls",
    "longest wait (s)",
)
HEAD += ("BPF programs/maps/links", "generations", "agents (MiB)", "TCP (MiB)", "files", "core (%)")


def row(look: Look) -> list[str]:
    """For people."""
    told = look.traffic
    return [
        f"{look.at_s / 60:.1f}",
        look.after,
        str(told["alive"]),
        str(sum(look.subflows.values())),
        str(look.held),
        f"{told['compared'] / 1e6:.0f}",
        str(told["wrong"] + told["lost"]),
        str(told["stalls"]),
        f"{told['longest_s']:.1f}",
        "/".join(str(look.objects[kind]) for kind in ("prog", "map", "link")),
        f"{look.generations} of {look.objects['btf']}",
        f"{look.memory_mib['agents']:.1f}",
        f"{look.tcp_mib:.0f}",
        str(look.files),
        "/".join(f"{look.core_percent[name]:.0f}" for name in ("traffic", "agents", "this", "machine")),
    ]


def report(looks: Sequence[Look], last: dict[str, Any], found: Sequence[str]) -> None:
    """The table and the facts."""
    console = Console(width=190)
    table = Table(*HEAD)
    shown = {*range(0, len(looks), max(1, len(looks) // 10)), len(looks) - 1} if looks else set()
    for index in sorted(shown):
        table.add_row(*row(looks[index]))
    console.print(table)
    for name in ("opened", "ended", "sent", "compared", "wrong", "lost", "alone", "refused", "changed"):
        console.print(f"{name}: {last.get(name, 0):,}")
    console.print(f"stalls: {last.get('stalls', 0)}, longest wait {last.get('longest_s', 0):.1f} s")
    for what in sorted({look.after.partition(" ")[0] for look in looks} - {"begin"}):
        console.print(f"{what}: {sum(look.after.startswith(what) for look in looks)} times")
    console.print(f"faults: {len(found)}")
    for fault in found:
        console.print(f"  {fault}")


def seconds(text: str) -> float:
    """A time, as an option."""
    return parse_time(text) / 1e9


def main() -> None:
    """Run, report, and judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--duration", type=seconds, default=seconds("24h"), help="until it ends (24h)")
    parser.add_argument("--every", type=seconds, default=seconds("60s"), help="between disturbances (60s)")
    parser.add_argument("--seed", type=int, default=1, help="of the disturbances and the payload (1)")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help=f"({CONNECTIONS})")
    managers = [case.name for case in _daemon_load.CASES if case.name != "mptcpd"]
    parser.add_argument("--manager", choices=managers, default="fullmesh, userspace")
    asked = parser.parse_args()
    if taken := [pair for pair in PAIRS if bpf.registered_name(pair) in available()]:
        parser.error(f"another program has registered {', '.join(taken)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A BPF file system of its own: what is pinned there is gone with this program, however it ends.
    syscalls.unshare(_CLONE_NEWNS)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "bpf", "bpf", str(bpf.PINS.parent)], check=True)
    os.environ[MARK] = str(os.getpid())
    print(", ".join(f"{name} {value}" for name, value in machine().items()), flush=True)
    before, found = Before(), list[str]()
    looks, last = run(asked, before, found)
    found += [*(faults(looks, last) if last else ["nothing was seen"]), *before.left(), *before.complaints()]
    report(looks, last, found)
    result = {"asked": vars(asked), "looks": msgspec.to_builtins(looks), "last": last, "faults": found}
    write("soak", result)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
