"""The simulator's speed beside others', in one run: htsim and ns-2 on the same networks; and itself.

Everything runs on one core, taking turns, so that what else the machine does concerns all alike; what is
compared is processor time. A figure is million data packets delivered in order per second of it: the median
of the rounds, with the range. A ratio is the median of the rounds' ratios. What was delivered is compared
with the capacity of the links, and a row shows where that was missed: there the work was not the same.

A connection over several paths: in mptune with SACK, data level, receive window and delayed ACKs, in htsim
NewReno per subflow without a data level and with an ACK for every packet, once with acknowledgements that are
only delayed and once through links with queues like mptune's. In ns-2 each subflow is a TCP of its own, with
SACK and delayed ACKs. Packets of data have the same size everywhere. In htsim slow start ends where the path
is full, since its recovery from an overshoot would take most of the time at high rates.

The peers are not dependencies. ns-2 is Debian's package ns2, or any `ns` on the path. htsim is a library:
`benchmarks/speed/drivers/htsim.cpp` is a main program for it, which you compile against yours, both with
optimisation, and name with --htsim. A peer that is not there is named and left out. Where the machine counts
instructions (perf), the table has them too, without those of the start.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import machine, spread, write
from benchmarks.speed.simulator import timed

ROUNDS = 7
DRIVERS = Path(__file__).parent / "drivers"

#: Bytes of a full data packet: 1448 of payload and the headers that the core counts.
PACKET_BYTES = 1500
#: A delivery between these shares of what the links can carry is the same work.
SAME_WORK = (0.95, 1.01)


class Link(NamedTuple):
    """Both directions of a link: rate, one-way delay, and a drop-tail queue of so many bytes."""

    rate_bps: int
    delay_ns: int
    queue_bytes: int


class Case(NamedTuple):
    """A network and how long it is simulated.

    Attributes
    ----------
    local, remote : links at the two ends. A subflow goes from each local link to each remote one; without
        remote links, over its local link alone. The local ones are the bottlenecks.
    ccs : congestion control by the contender's first word; who is not named takes no part.
    """

    name: str
    local: tuple[Link, ...]
    remote: tuple[Link, ...]
    ccs: dict[str, str]
    seconds: int

    def packets(self, seconds: int) -> float:
        """Data packets that the local links can carry."""
        return sum(link.rate_bps for link in self.local) * seconds / (8 * PACKET_BYTES)


#: One-way delays of the two paths, milliseconds.
DELAYS_MS = (10, 20)
#: Of a remote link, taken from the local ones before it; its rate is this many times the sum of theirs.
REMOTE_MS = 2
WIDER = 10


def access(rates_mbps: Sequence[float], parts: int = 1, remote_ms: int = 0) -> tuple[Link, ...]:
    """A local link per rate, or `parts` that share its rate, with queues of one bandwidth-delay product."""
    return tuple(
        Link(
            round(rate * 1e6 / parts),
            (delay_ms - remote_ms) * 1_000_000,
            round(rate * 1e6 / parts / 8 * 2 * delay_ms / 1000),
        )
        for rate, delay_ms in zip(rates_mbps, DELAYS_MS, strict=True)
        for _ in range(parts)
    )


def wide(rates_mbps: Sequence[float], number: int) -> tuple[Link, ...]:
    """Remote links that are no bottleneck."""
    rate_bps = round(WIDER * sum(rates_mbps) * 1e6)
    queue_bytes = round(rate_bps / 8 * 2 * max(DELAYS_MS) / 1000)
    return (Link(rate_bps, REMOTE_MS * 1_000_000, queue_bytes),) * number


UNCOUPLED = {"mptune": "reno", "htsim": "uncoupled", "ns-2": "uncoupled"}
LIA = {"mptune": "lia", "htsim": "lia"}
SLOW, FAST = (100, 50), (1000, 500)

CASES = (
    Case("100 + 50 Mbit/s, uncoupled", access(SLOW), (), UNCOUPLED, 600),
    Case("100 + 50 Mbit/s, LIA", access(SLOW), (), LIA, 600),
    Case("1000 + 500 Mbit/s, uncoupled", access(FAST), (), UNCOUPLED, 120),
    Case("eight subflows, disjoint", access(SLOW, parts=4), (), UNCOUPLED, 600),
    Case(
        "two subflows, a shared link",
        access(SLOW, remote_ms=REMOTE_MS),
        wide(SLOW, 1),
        UNCOUPLED,
        600,
    ),
    Case("eight subflows, shared links", access(SLOW, remote_ms=REMOTE_MS), wide(SLOW, 4), UNCOUPLED, 600),
)


def network(case: Case) -> dict[str, Any]:
    """The case as the core's JSON has it: link 2n there, 2n + 1 back."""
    named = [
        *((f"local {number}", link) for number, link in enumerate(case.local)),
        *((f"remote {number}", link) for number, link in enumerate(case.remote)),
    ]
    links = [
        {"name": f"{name} {direction}", **link._asdict()}
        for name, link in named
        for direction in ("there", "back")
    ]
    paths = []
    for near in range(len(case.local)):
        for far in range(max(1, len(case.remote))):
            hops = [near, len(case.local) + far] if case.remote else [near]
            forward, reverse = [2 * hop for hop in hops], [2 * hop + 1 for hop in reversed(hops)]
            paths.append(
                {
                    "label": f"{near}-{far}",
                    "local": near,
                    "remote": far,
                    "forward": forward,
                    "reverse": reverse,
                }
            )
    return {"links": links, "paths": paths}


class Contender(NamedTuple):
    """A contender: the word in `Case.ccs`, its name in the table, and its command for a case."""

    word: str
    name: str
    command: Callable[[Case, int], list[str]]


def ours(stack: str) -> Callable[[Case, int], list[str]]:
    """The simulator: this file again, in a process of its own."""

    def command(case: Case, seconds: int) -> list[str]:
        argument = json.dumps([network(case), case.ccs["mptune"], seconds, stack])
        return [sys.executable, "-m", "benchmarks.speed.peers", "--case", argument]

    return command


def of_htsim(program: Path, options: Sequence[str] = ()) -> Callable[[Case, int], list[str]]:
    """The driver with the case as its options."""

    def command(case: Case, seconds: int) -> list[str]:
        words = [str(program), "--cc", case.ccs["htsim"], "--seconds", str(seconds), *options]
        words += ["--packet-bytes", str(PACKET_BYTES)]
        for option, links in (("--local", case.local), ("--remote", case.remote)):
            for link in links:
                words += [option, ":".join(map(str, link))]
        return words

    return command


def of_ns2(program: str) -> Callable[[Case, int], list[str]]:
    """ns-2 with our script; its queues count packets."""

    def listed(links: Sequence[Link]) -> str:
        return " ".join(f"{{{rate} {delay} {queue // PACKET_BYTES}}}" for rate, delay, queue in links)

    def command(case: Case, seconds: int) -> list[str]:
        sizes = [str(seconds), str(PACKET_BYTES)]
        return [program, str(DRIVERS / "ns2.tcl"), *sizes, listed(case.local), listed(case.remote)]

    return command


MPTUNE, LINUX = (
    Contender("mptune", "mptune", ours("payload")),
    Contender("mptune", "mptune, linux", ours("linux")),
)


def contenders(htsim: Path | None) -> tuple[list[Contender], list[str]]:
    """The contenders, and the reason of each peer that is absent."""
    contenders, absent = [MPTUNE, LINUX], []
    if htsim is None:
        absent.append(
            "htsim: left out; --htsim names the program compiled from benchmarks/speed/drivers/htsim.cpp"
        )
    elif shutil.which(htsim) is None:
        absent.append(f"htsim: left out; {htsim} is not a program")
    else:
        contenders += [
            Contender("htsim", "htsim", of_htsim(htsim.absolute())),
            Contender("htsim", "htsim, ACK queues", of_htsim(htsim.absolute(), ["--ack-queues"])),
        ]
    ns = shutil.which("ns")
    if ns is None:
        absent.append("ns-2: left out; there is no program ns on the path (Debian has it in the package ns2)")
    else:
        contenders.append(Contender("ns-2", "ns-2", of_ns2(ns)))
    return contenders, absent


class Run(NamedTuple):
    """The result of a run; `instructions` is None where they cannot be counted."""

    packets: float
    cpu_s: float
    instructions: int | None
    compiler: str | None

    @property
    def rate(self) -> float:
        """Million packets per second of processor time."""
        return self.packets / self.cpu_s / 1e6 if self.cpu_s else 0.0


def counted(command: list[str], file: Path) -> list[str]:
    """The command with its instructions counted into a file."""
    return ["perf", "stat", "-x,", "-e", "instructions:u", "-o", str(file), "--", *command]


def instructions_in(file: Path) -> int | None:
    """Instructions counted by perf; None if it could not."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        value = line.split(",", 1)[0]
        if value.isdigit():
            return int(value)
    return None


def counters_work() -> bool:
    """True if this machine counts instructions."""
    if shutil.which("perf") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "counts")
        subprocess.run(counted(["true"], file), check=False, capture_output=True)
        return instructions_in(file) is not None


def run(command: list[str], counting: bool) -> Run:
    """One run in a process of its own.

    Raises
    ------
    SystemExit : it failed, or its last line is not what was agreed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "counts")
        whole = counted(command, file) if counting else command
        done = subprocess.run(whole, check=False, capture_output=True, text=True, cwd=folder)
        instructions = instructions_in(file) if counting else None
    last_line = done.stdout.strip().rsplit("\n", 1)[-1]
    try:
        if done.returncode:
            raise ValueError(f"exit {done.returncode}: {done.stderr.strip()[-300:]}")
        report = json.loads(last_line)
        cpu_s = report["cpu_s"] if "cpu_s" in report else report["ticks"] / os.sysconf("SC_CLK_TCK")
        return Run(report["packets"], cpu_s, instructions, report.get("compiler"))
    except (ValueError, KeyError, TypeError) as wrong:
        raise SystemExit(
            f"{Path(command[0]).name}: expected a last line of JSON, found {last_line!r} ({wrong})"
        ) from None


def median_ratio(some: Sequence[Run], others: Sequence[Run]) -> float:
    """Median over the rounds."""
    return statistics.median(
        run.rate / other.rate for run, other in zip(some, others, strict=True) if other.rate
    )


def measured(
    case: Case, taking_part: Sequence[Contender], rounds: int, part: float, counting: bool
) -> dict[str, Any]:
    """Every contender's runs of this case, interleaved, and its first second alone if instructions count."""
    seconds = max(1, round(part * case.seconds))
    runs: dict[str, list[Run]] = {contender.name: [] for contender in taking_part}
    for _ in range(rounds):
        for contender in taking_part:
            runs[contender.name].append(run(contender.command(case, seconds), counting))
    starts = {
        contender.name: run(contender.command(case, 1), counting) for contender in taking_part if counting
    }
    return {"seconds": seconds, "runs": runs, "starts": starts}


def per_packet(runs: Sequence[Run], start: Run | None) -> float | None:
    """Instructions per packet, without the first second."""
    if start is None or start.instructions is None:
        return None
    values = [
        (run.instructions - start.instructions) / (run.packets - start.packets)
        for run in runs
        if run.instructions is not None and run.packets > start.packets
    ]
    return statistics.median(values) if values else None


def remark(case: Case, runs: Sequence[Run], seconds: int) -> str:
    """Empty if it delivered what the links can carry."""
    share = statistics.median(run.packets for run in runs) / case.packets(seconds)
    return "" if SAME_WORK[0] <= share <= SAME_WORK[1] else f"delivered {share:.1%} of what the links carry"


def against_itself(results: dict[str, dict[str, Any]]) -> list[tuple[str, float]]:
    """Ratios between the simulator's own cases."""
    two, shared = "100 + 50 Mbit/s, uncoupled", "two subflows, a shared link"
    pairs = [
        ("eight subflows, disjoint / two paths", "eight subflows, disjoint", two),
        ("two subflows, a shared link / two disjoint paths", shared, two),
        ("eight subflows, shared links / two disjoint paths", "eight subflows, shared links", two),
    ]
    ratios = [
        (name, median_ratio(results[some]["runs"]["mptune"], results[other]["runs"]["mptune"]))
        for name, some, other in pairs
        if some in results and other in results
    ]
    for case, result in results.items():
        ratios.append(
            (
                f"linux / payload, {case}",
                median_ratio(result["runs"][LINUX.name], result["runs"][MPTUNE.name]),
            )
        )
    return ratios


def version_of_ns() -> str:
    """The version of ns-2."""
    done = subprocess.run(
        ["ns", "-"], input="puts [ns-version]\n", capture_output=True, text=True, check=False
    )
    return " ".join(done.stdout.split()) or "of unknown version"


def chosen_core(asked: int | None) -> int:
    """The core that everything runs on: the one asked for, or the last of those this process may use."""
    allowed = os.sched_getaffinity(0)
    core = max(allowed) if asked is None else asked
    if core not in allowed:
        raise SystemExit(f"--core {core}: this process may use {', '.join(map(str, sorted(allowed)))}")
    return core


def about(core: int, counting: bool, options: argparse.Namespace) -> dict[str, Any]:
    """The machine, and how the measurement was made."""
    return {
        **machine(),
        "core": core,
        "rounds": options.rounds,
        "part": options.part,
        "instructions": "counted" if counting else "not counted: this machine has no counters",
        "ns-2": version_of_ns() if shutil.which("ns") else "none",
    }


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--htsim", type=Path, metavar="PROGRAM", help="htsim with our driver")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--part", type=float, default=1.0, help="part of the simulated time, for a short look"
    )
    parser.add_argument("--core", type=int, help="the core to use (default: the last)")
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains this")
    return parser.parse_args(words)


def main() -> None:
    """Run every case and print the tables."""
    asked = parsed()
    if asked.case is not None:
        result = timed(*json.loads(asked.case))
        json.dump({"packets": result["packets"], "cpu_s": result["cpu_s"]}, sys.stdout)
        return
    console = Console(width=170)
    taking_part, absent = contenders(asked.htsim)
    cases = [case for case in CASES if asked.only is None or asked.only in case.name]
    if not cases:
        raise SystemExit(f"--only {asked.only}: none of {', '.join(case.name for case in CASES)}")
    core = chosen_core(asked.core)
    os.sched_setaffinity(0, {core})
    counting = counters_work()
    described = about(core, counting, asked)
    console.print(", ".join(f"{key} {value}" for key, value in described.items()), highlight=False)
    for line in absent:
        console.print(line, style="yellow", highlight=False)
    measurements: dict[str, dict[str, Any]] = {}
    for case in cases:
        there = [contender for contender in taking_part if contender.word in case.ccs]
        measurements[case.name] = measured(case, there, asked.rounds, asked.part, counting)
        console.print(f"{case.name}: done", highlight=False)
    results, itself = (
        [result_fields(case, measurements[case.name]) for case in cases],
        against_itself(measurements),
    )
    show(console, results, itself)
    write("peers", {"about": described, "absent": absent, "cases": results, "itself": dict(itself)})


def result_fields(case: Case, result: dict[str, Any]) -> dict[str, Any]:
    """A case and all its runs, as JSON has them."""
    runs: dict[str, list[Run]] = result["runs"]
    return {
        "case": case.name,
        "local": [link._asdict() for link in case.local],
        "remote": [link._asdict() for link in case.remote],
        "ccs": case.ccs,
        "simulated_s": result["seconds"],
        "contenders": {
            name: {
                "runs": [each._asdict() for each in several],
                "million_packets_per_s": [each.rate for each in several],
                "instructions_per_packet": per_packet(several, result["starts"].get(name)),
                "mptune_is_times": median_ratio(runs[MPTUNE.name], several),
                "remark": remark(case, several, result["seconds"]),
            }
            for name, several in runs.items()
        },
    }


def show(console: Console, results: list[dict[str, Any]], itself: list[tuple[str, float]]) -> None:
    """The two tables."""
    table = Table("case", "s", "", "million packets/s", "instructions/packet", "mptune is", "")
    for result in results:
        for number, (name, of) in enumerate(result["contenders"].items()):
            count = of["instructions_per_packet"]
            table.add_row(
                *("" if number else result["case"], "" if number else str(result["simulated_s"])),
                name,
                spread(of["million_packets_per_s"]),
                "" if count is None else f"{count:.0f}",
                "" if name == MPTUNE.name else f"x {of['mptune_is_times']:.2f}",
                of["remark"],
            )
    console.print(table)
    beside = Table("mptune against itself", "ratio of packets/s")
    for name, ratio in itself:
        beside.add_row(name, f"{ratio:.2f}")
    console.print(beside)
    compilers = {
        each["compiler"] for result in results for of in result["contenders"].values() for each in of["runs"]
    }
    for compiler in compilers - {None}:
        console.print(f"compiler of htsim's driver: {compiler}", highlight=False)


if __name__ == "__main__":
    main()
