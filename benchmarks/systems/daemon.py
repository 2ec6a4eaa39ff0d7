"""Cost and gain of the daemon, beside the kernel's path manager and mptcpd.

load: 1,000 connections between two namespaces, two subflows each; five always have more to send, the others
send 1 kB every 10 s; alone, and with 200 short connections a second besides (a request of 200 bytes, an
answer of 2,000). Share of a core over a minute, peak memory, and the time until a new connection has its
second subflow.

resilience: the scenario of `resilience.py`, the path that carries most cut for 4 s during a transfer, with
an ordinary program on the kernel: its paths are managed by the daemon, by the kernel, or by mptcpd. The
payload is compared, byte by byte.

pcdc: the scenario of `pcdc_effect.py`, from Bergen to Svalbard: transfers of the sizes of PCDC's classes, and
a saturated sender, with the measured optional set in a policy.json.

What was measured is kept in target/benchmarks/daemon-*.jsonl, with a digest of the agent, and not repeated
until --fresh, so that a table can be measured in parts (--only, --network, --most). With --write-docs it goes
to docs/how-to/daemon.md.
"""

import argparse
import hashlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared import docs
from benchmarks.shared.contenders import Bench, Contender, KernelFullmesh, Missing, Mptcpd, fetched
from benchmarks.shared.measure import RESULTS, machine, write
from benchmarks.systems import _daemon_load, resilience
from benchmarks.systems._managers import UnderDaemon
from mptune.linux.agent import program, version
from mptune.topology import Topology, load
from mptune.trial import Bulk, Observation, ScriptedAction, Transfer, Trial

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "daemon.md"
CACHE = RESULTS.parent / "mptcpd"
ROOT = Path(__file__).parents[1]
MIB = 1 << 20
_SECOND = 10**9
#: Of the scenarios.
PCDC_NETWORK = ROOT.parent / "scenarios" / "UiB-UNIS.toml"
PCDC_BUFFER_BYTES = 16 * MIB
SIZES = (256 << 10, 768 << 10, 4 * MIB, 16 * MIB)
SATURATED_S = 20
T = TypeVar("T")


class Kept(Generic[T]):
    """Results in a file, by what they are of; the latest of each counts."""

    def __init__(self, name: str, kind: type[T], key: Callable[[T], Any], *, fresh: bool) -> None:
        self._file = RESULTS / f"daemon-{name}.jsonl"
        self._key = key
        self._found: dict[Any, T] = {}
        if fresh:
            self._file.unlink(missing_ok=True)
        if self._file.exists():
            for line in self._file.read_bytes().splitlines():
                result = msgspec.json.decode(line, type=kind)
                self._found[key(result)] = result

    def get(self, *key: Any) -> T | None:
        """Its measurements."""
        return self._found.get(key)

    def add(self, result: T) -> T:
        """Keep another one."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")
        self._found[self._key(result)] = result
        return result


def agent_digest() -> str:
    """The identity of the agent."""
    return hashlib.blake2b(program().read_bytes(), digest_size=8).hexdigest()


def mptcpd() -> Path | None:
    """The program mptcpd, if available."""
    try:
        return fetched(CACHE)
    except Missing as missing:
        print(f"without mptcpd: {missing}")
        return None


# Trials of an ordinary program


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A trial.

    Attributes
    ----------
    failed, overloaded : why it has no number, or why its number does not count.
    corrupt : what was received is not what was sent.
    """

    case: str
    contender: str
    run: int
    mbps: float
    seconds: float | None = None
    before_mbps: float = 0.0
    during_mbps: float = 0.0
    after_mbps: float = 0.0
    takeover_ms: float | None = None
    repeated_kib: float | None = None
    subflows: int = 0
    failed: str | None = None
    corrupt: bool = False
    overloaded: str | None = None
    agent: str | None = None


def result(case: str, contender: str, run: int, trial: Trial, seen: Observation) -> Result:
    """The figures of an observation."""
    again = seen.metadata.get("reinjected_bytes")
    takeover = seen.metadata.get("takeover_ms")
    overloaded = seen.metadata.get("overloaded")
    return Result(
        case=case,
        contender=contender,
        run=run,
        mbps=seen.throughput_bps / 1e6,
        seconds=None if seen.completion_ns is None else seen.completion_ns / 1e9,
        before_mbps=resilience.mbps(seen, resilience.BEFORE),
        during_mbps=resilience.mbps(seen, resilience.DURING),
        after_mbps=resilience.mbps(seen, resilience.AFTER),
        takeover_ms=None if takeover is None else float(takeover),
        repeated_kib=None if again is None else float(again) / 1024,
        subflows=len(seen.subflows),
        failed=None if seen.failed is None else str(seen.failed),
        corrupt=seen.failed is not None and seen.failed.kind == "corrupt",
        overloaded=None if overloaded is None else str(overloaded),
        agent=agent_digest() if contender.startswith("daemon") else None,
    )


Contenders = dict[str, Callable[[], Contender]]


def contenders(active: Sequence[str], standby: Sequence[str] | None, root: Path | None) -> Contenders:
    """The path managers, by name."""
    contenders: Contenders = {"kernel, default": Contender, "kernel, fullmesh": KernelFullmesh}
    if root is not None:
        contenders["mptcpd"] = lambda: Mptcpd(root, ["addr_adv"], userspace=False)
    contenders["daemon, fullmesh"] = lambda: UnderDaemon("fullmesh")
    contenders["daemon, guard"] = lambda: UnderDaemon("guard")
    contenders["daemon, pcdc"] = lambda: UnderDaemon("pcdc", active=active, standby=standby)
    contenders["daemon, pcdc, endpoints"] = lambda: UnderDaemon("pcdc", "endpoints", active, standby)
    return contenders


def selected(names: Sequence[str], only: Sequence[str] | None) -> Iterator[str]:
    """Those that are asked for."""
    for name in names:
        if not only or any(part in name for part in only):
            yield name


def run_all(
    kept: Kept[Result], bench: Bench, case: str, trials: Sequence[Trial], among: Contenders,
    only: Sequence[str] | None, until: float,
) -> None:  # fmt: skip
    """Run what is missing of a case, until the time is over."""
    for run, trial in enumerate(trials):
        for name in selected(list(among), only):
            before = kept.get(case, name, run)
            if (before is not None and before.overloaded is None) or time.monotonic() > until:
                continue
            done = kept.add(result(case, name, run, trial, bench.run(trial, among[name])))
            words = done.overloaded or done.failed or f"{done.mbps:.1f} Mbit/s"
            print(f"{case} | {name} | {run} | {done.takeover_ms} ms | {words}", flush=True)


def key(result: Result) -> tuple[str, str, int]:
    """The key of a result."""
    return result.case, result.contender, result.run


def resilience_cases() -> Iterator[tuple[str, Topology, str]]:
    """Networks, with the path that is cut."""
    for name in resilience.NETWORKS:
        topology = load(name)
        yield topology.name, topology, resilience.busiest(topology)


def measure_resilience(asked: argparse.Namespace) -> list[list[str]]:
    """The path that carries most is cut."""
    kept = Kept("resilience", Result, key, fresh=asked.fresh)
    bench, root, until = Bench(), mptcpd(), time.monotonic() + asked.most
    rows = [["network, path cut", "paths managed by", "before (Mbit/s)", "during", "at the end"]]
    rows[0] += ["take-over (ms)", "repeated (KiB)", "runs", "wrong bytes"]
    with bench.awake:
        for name, topology, path in resilience_cases():
            standby = [other.label for other in topology.paths if other.label != path][:1]
            among = contenders([path], standby, root)
            if not asked.network or any(part in name for part in asked.network):
                run_all(kept, bench, name, list(_cut(topology, path, asked.runs)), among, asked.only, until)
            for contender in among:
                results = [result for run in range(asked.runs) if (result := kept.get(name, contender, run))]
                rows += _resilience_row(f"{name}, {path}", contender, results)
    return rows


def _cut(topology: Topology, path: str, runs: int) -> Iterator[Trial]:
    script = (
        ScriptedAction(at_ns=resilience.CUT * _SECOND, path=path, action="down"),
        ScriptedAction(at_ns=resilience.RESTORED * _SECOND, path=path, action="up"),
    )
    for run in range(runs):
        yield Trial(
            topology=topology,
            pm="default",
            cc="cubic",
            buffer_bytes=resilience.BUFFER_BYTES,
            seed=run + 1,
            workload=Bulk(duration_ns=resilience.END * _SECOND),
            initial_path=path,
            script=script,
        )


def median(values: Sequence[float | None], spec: str) -> str:
    """With the range of several."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    middle = format(statistics.median(known), spec)
    return middle if len(known) == 1 else f"{middle} ({min(known):{spec}}-{max(known):{spec}})"


def _resilience_row(case: str, contender: str, results: Sequence[Result]) -> Iterator[list[str]]:
    good = [result for result in results if result.overloaded is None and not result.corrupt]
    if good:
        yield [
            case,
            contender,
            median([result.before_mbps for result in good], ".1f"),
            median([result.during_mbps for result in good], ".1f"),
            median([result.after_mbps for result in good], ".1f"),
            median([result.takeover_ms for result in good], ".0f"),
            median([result.repeated_kib for result in good], ".0f"),
            _counted(good),
            str(sum(result.corrupt for result in results))
            if any(result.corrupt for result in results)
            else "none",
        ]


def _counted(results: Sequence[Result]) -> str:
    failed = sum(result.failed is not None for result in results)
    return f"{len(results)} (stalled: {failed})" if failed else str(len(results))


def measure_pcdc(asked: argparse.Namespace) -> list[list[str]]:
    """Transfers under the measured set."""
    kept = Kept("pcdc", Result, key, fresh=asked.fresh)
    bench, root, until = Bench(), mptcpd(), time.monotonic() + asked.most
    topology = load(PCDC_NETWORK)
    among = contenders(["U-U"], None, root)
    rows = [["congestion control", "paths managed by"]]
    rows[0] += [f"{size >> 10} KiB (ms)" for size in SIZES] + [f"saturated {SATURATED_S} s (Mbit/s)", "runs"]
    with bench.awake:
        for cc in ("cubic", "olia"):
            own = dict(among)
            if cc == "olia":
                own["daemon, pcdc, the paper's set (U-U, U-T)"] = lambda: UnderDaemon(
                    "pcdc", active=["U-U", "U-T"]
                )
            cases = {f"{cc}, {size or 'saturated'}": size for size in (*SIZES, None)}
            if not asked.network or any(part in cc for part in asked.network):
                for name, size in cases.items():
                    run_all(kept, bench, name, list(_transfers(topology, cc, size, asked.runs)), own,
                            asked.only, until)  # fmt: skip
            for contender in own:
                rows += _pcdc_row(kept, cc, contender, cases, asked.runs)
    return rows


def _transfers(topology: Topology, cc: str, size: int | None, runs: int) -> Iterator[Trial]:
    for run in range(runs):
        yield Trial(
            topology=topology,
            pm="default",
            cc=cc,
            buffer_bytes=PCDC_BUFFER_BYTES,
            seed=run + 1,
            workload=Bulk(duration_ns=SATURATED_S * _SECOND) if size is None else Transfer(bytes=size),
        )


def _pcdc_row(
    kept: Kept[Result], cc: str, contender: str, cases: dict[str, int | None], runs: int
) -> Iterator[list[str]]:
    cells, counts = [], []
    for name, size in cases.items():
        results = [result for run in range(runs) if (result := kept.get(name, contender, run))]
        good = [result for result in results if result.overloaded is None and result.failed is None]
        counts.append(len(good))
        values = (
            [result.mbps for result in good]
            if size is None
            else [1e3 * (result.seconds or 0) for result in good]
        )
        cells.append(median(values, ".1f" if size is None else ".0f"))
    if any(counts):
        yield [cc, contender, *cells, "/".join(map(str, counts if len(set(counts)) > 1 else counts[:1]))]


# Load


def measure_load(asked: argparse.Namespace) -> list[list[str]]:
    """Many connections."""
    kept = Kept("load", _daemon_load.Load, lambda load: (load.case, load.short), fresh=asked.fresh)
    root, until = mptcpd(), time.monotonic() + asked.most
    rows = []
    for short in (0, _daemon_load.SHORT):
        for case in _daemon_load.CASES:
            if case.name == "mptcpd" and root is None:
                continue
            if (
                kept.get(case.name, short) is None
                and list(selected([case.name], asked.only))
                and (not asked.network or str(short) in asked.network)
                and time.monotonic() < until
            ):
                done = kept.add(_daemon_load.measure(case, short, asked.seconds, root, agent_digest()))
                print(" | ".join(_daemon_load.table([done])[-1]), flush=True)
            if load := kept.get(case.name, short):
                rows.append(load)
    return _daemon_load.table(rows)


# The results


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The table for the docs."""
    about = machine()
    sentence = (
        f"Linux {about['kernel']}, {about['cores']} processors ({about['processor']}), mptune {version()}."
    )
    return "\n".join([*docs.table(rows), "", sentence])


COMMANDS = {"load": measure_load, "resilience": measure_resilience, "pcdc": measure_pcdc}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=COMMANDS)
    parser.add_argument("--only", action="append", help="path managers whose names have this in them")
    parser.add_argument("--network", action="append", help="networks, congestion controls or loads, likewise")
    parser.add_argument("--runs", type=int, default=3, help="of each trial (3)")
    parser.add_argument("--seconds", type=float, default=60.0, help="over which the load is measured (60)")
    parser.add_argument("--most", type=float, default=1e9, help="begin nothing after this many seconds")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table into {DOCS.name}")
    asked = parser.parse_args()
    console = Console(width=180)
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()))
    console.print(f"load average {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    rows = COMMANDS[asked.what](asked)
    printed = Table(*rows[0])
    for row in rows[1:]:
        printed.add_row(*row)
    console.print(printed)
    write(f"daemon-{asked.what}", rows)
    if asked.write_docs:
        docs.replace(DOCS, f"daemon-{asked.what}", markdown(rows))


if __name__ == "__main__":
    main()
