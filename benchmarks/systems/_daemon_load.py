"""Many connections under the daemon, and under the others: processor time, memory, how soon subflows open.

Not a benchmark; see `daemon.py`. Two namespaces with two pairs of devices, 25 Mbit/s each with a queue of
10 ms; `_traffic.py` runs in both. All connections go to the server's first address and have two subflows:
one from each address of the client.
"""

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyroute2

from benchmarks.shared.contenders import KERNELS, Mptcpd, add_endpoint, limit
from benchmarks.systems import _traffic
from benchmarks.systems._managers import Daemon
from mptune.errors import TrialError
from mptune.linux.sandbox.namespaces import Sites
from tests.plugins.netlink import inside

CONNECTIONS, BUSY, SHORT = 1000, 5, 200
#: Measured connections a second, how many, and how long each lives, s.
PROBES_PER_S, PROBES, PROBE_S = 10, 50, 1.0
SERVER, CLIENT = "10.0.0.2", ("10.0.0.1", "10.0.1.1")
#: The two paths: bit/s, and bytes of the queue.
LINKS = ((25_000_000, 32_000), (25_000_000, 32_000))
#: Before anything is measured: what a beginning costs is measured apart.
SETTLING_S = 3.0


class Case(NamedTuple):
    """A path manager: `pm` is the daemon's policy, or None for the others."""

    name: str
    pm: str | None = None
    mode: str = ""


CASES = (
    Case("kernel"),
    Case("mptcpd"),
    *(Case(f"{pm}, {mode}", pm, mode) for mode in ("userspace", "endpoints") for pm in ("fullmesh", "guard")),
)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One case under one load.

    Attributes
    ----------
    subflows : sockets of the client side while it is measured.
    core_percent : of the manager and, of the daemon, its watchdog.
    opening_ms : its processor time until all connections were open.
    opened_ms : from a connection's establishment to that of its second subflow: median and 95 %.
    missing : probes without a second subflow.
    finished : short connections, since all others were open.
    lasted_s : since then.
    """

    case: str
    short: int
    seconds: float
    subflows: int
    core_percent: float | None
    peak_mib: float | None
    opening_ms: float | None
    opened_ms: tuple[float, float] | None
    missing: int
    finished: int
    lasted_s: float = 1.0
    load_average: float
    agent: str | None = None


@contextmanager
def joined(
    links: Sequence[tuple[int, int]] = LINKS, settings: Mapping[str, str] | None = None
) -> Iterator[Sites]:
    """The namespaces, with further settings."""
    with Sites({**KERNELS, **(settings or {})}) as sites:
        for number, (rate_bps, queue_bytes) in enumerate(links):
            inside(sites.local, partial(_join, sites, number, rate_bps, queue_bytes))
            inside(sites.remote, partial(_address, number, "2"))
        limit(sites.remote)
        yield sites


def _join(sites: Sites, number: int, rate_bps: int, queue_bytes: int) -> None:
    with open(sites.remote) as remote, pyroute2.IPRoute() as routes:  # noqa: PTH123 - a namespace
        routes.link(
            "add",
            ifname=f"eth{number}",
            kind="veth",
            peer={"ifname": f"eth{number}", "net_ns_fd": remote.fileno()},
        )
    index = _address(number, "1")
    table = 100 + number
    with pyroute2.IPRoute() as routes:
        routes.rule("add", src=f"10.0.{number}.1", table=table)
        routes.route("add", dst="10.0.0.0/24", oif=index, table=table)
        routes.tc("add", "tbf", index, 0x10000, rate=rate_bps // 8, burst=16_000, limit=queue_bytes)


def _address(number: int, host: str) -> int:
    with pyroute2.IPRoute() as routes:
        index: int = routes.link_lookup(ifname=f"eth{number}")[0]
        routes.addr("add", index=index, address=f"10.0.{number}.{host}", prefixlen=24)
        routes.link("set", index=index, state="up")
    return index


class _Program:
    """A half of the traffic."""

    def __init__(self, namespace: str, *words: str) -> None:
        command = ["nsenter", f"--net={namespace}", sys.executable, _traffic.__file__, *words]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise TrialError("a half of the traffic has ended")
        return line

    def finish(self) -> str:
        """No more orders; its last line."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.line()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def cpu_s(pids: list[int]) -> float:
    """Processor time so far, s."""
    return sum(
        int(task.read_text(encoding="ascii").split()[0]) / 1e9
        for pid in pids
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat")
    )


def peak_mib(pids: list[int]) -> float:
    """Their largest resident memory."""

    def of(pid: int) -> float:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024

    return sum(map(of, pids))


@contextmanager
def managed(case: Case, sites: Sites, mptcpd: Path | None) -> Iterator[list[int]]:
    """The processes of who manages the paths of the client."""
    if case.pm is not None:
        policy = f'[[policy]]\nname = "load"\nto = ["10.0.0.0/24"]\npolicy = "{case.pm}"\n'
        daemon = Daemon(sites.local, case.mode, policy)
        try:
            yield daemon.pids
        finally:
            daemon.end()
    elif case.name == "mptcpd":
        assert mptcpd is not None
        contender = Mptcpd(mptcpd, ["addr_adv"], userspace=False)
        try:
            yield [contender.begin(sites.local, CLIENT)]
        finally:
            contender.end()
    else:
        limit(sites.local)
        for number, address in enumerate(CLIENT):
            add_endpoint(sites.local, address, "dev", f"eth{number}", "subflow")
        yield []


def subflows(namespace: str) -> int:
    """Established TCP sockets towards the server's ports."""
    command = ["nsenter", f"--net={namespace}", "ss", "-Htn", "state", "established"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sum(SERVER in line for line in done.stdout.splitlines())


def probe(namespace: str) -> tuple[list[float], int]:
    """Times from the establishment of a connection to that of its second subflow, ms; how many had none."""
    command = ["nsenter", f"--net={namespace}", "stdbuf", "-oL", "ip", "-ts", "mptcp", "monitor"]
    monitor = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    try:
        alive = []
        for _ in range(PROBES):
            client = inside(namespace, _traffic.mptcp)
            client.bind((CLIENT[0], 0))
            client.connect((SERVER, _traffic.PORT + 2))
            client.sendall(b"x")
            alive.append(client)
            if len(alive) > PROBES_PER_S * PROBE_S:
                alive.pop(0).close()
            time.sleep(1 / PROBES_PER_S)
        time.sleep(PROBE_S)
    finally:
        monitor.terminate()
        output = monitor.communicate()[0]
    for client in alive:
        client.close()
    return _opened(output)


def _opened(output: str) -> tuple[list[float], int]:
    began: dict[str, float] = {}
    joined: dict[str, float] = {}
    line = re.compile(r"\[\S+T(\d+):(\d+):([\d.]+)\] *\[ *(\w+)\] token=(\w+)(.*)")
    for hours, minutes, seconds, event, token, rest in line.findall(output):
        at_ms = 1e3 * (3600 * int(hours) + 60 * int(minutes) + float(seconds))
        if event == "ESTABLISHED" and f"dport={_traffic.PORT + 2} " in f"{rest} ":
            began[token] = at_ms
        elif event == "SF_ESTABLISHED" and token in began:
            joined.setdefault(token, at_ms)
    return [at - began[token] for token, at in joined.items()], PROBES - len(joined)


def measure(case: Case, short: int, seconds: float, mptcpd: Path | None, agent: str) -> Load:
    """One row."""
    with ExitStack() as stack:
        sites = stack.enter_context(joined())
        pids = stack.enter_context(managed(case, sites, mptcpd))
        server = _Program(sites.remote, "server", SERVER)
        stack.callback(server.end)
        server.line()
        before = cpu_s(pids)
        words = ("--connections", str(CONNECTIONS), "--busy", str(BUSY), "--short", str(short))
        client = _Program(sites.local, "client", SERVER, CLIENT[0], *words)
        stack.callback(client.end)
        client.line()
        opened_at = time.monotonic()
        time.sleep(SETTLING_S)
        opening_ms = 1e3 * (cpu_s(pids) - before)
        began, before = time.monotonic(), cpu_s(pids)
        time.sleep(seconds if pids else 0)
        percent = 100 * (cpu_s(pids) - before) / (time.monotonic() - began)
        count = subflows(sites.local)
        times, missing = probe(sites.local)
        times.sort()
        finished, lasted_s = int(client.finish().split()[1]), time.monotonic() - opened_at
        opened = (statistics.median(times), times[int(0.95 * len(times))]) if times else None
        return Load(
            case=case.name,
            short=short,
            seconds=seconds,
            subflows=count,
            core_percent=percent if pids else None,
            peak_mib=peak_mib(pids) if pids else None,
            opening_ms=opening_ms if pids else None,
            opened_ms=opened,
            missing=missing,
            finished=finished,
            lasted_s=lasted_s,
            load_average=float(Path("/proc/loadavg").read_text(encoding="ascii").split()[0]),
            agent=agent if case.pm is not None else None,
        )


def table(rows: list[Load]) -> list[list[str]]:
    """For people."""

    def text(value: float | None, spec: str) -> str:
        return "-" if value is None else format(value, spec)

    head = ["path manager", "short connections a second", "subflows", "share of a core (%)"]
    head += ["memory, peak (MiB)", "opening 1,000 (CPU ms)", "second subflow after (ms): median, 95 %"]
    head += ["without it"]
    lines = [head]
    for row in rows:
        opened = "-" if row.opened_ms is None else f"{row.opened_ms[0]:.1f}, {row.opened_ms[1]:.1f}"
        if row.short and row.missing:
            # The monitor, `ip mptcp monitor`, loses events when there are this many.
            opened = "not known"
        lines.append(
            [
                row.case,
                f"{row.finished / row.lasted_s:.0f}",
                str(row.subflows),
                text(row.core_percent, ".2f"),
                text(row.peak_mib, ".1f"),
                text(row.opening_ms, ".0f"),
                opened,
                "not known" if opened == "not known" else f"{row.missing} of {PROBES}",
            ]
        )
    return lines
