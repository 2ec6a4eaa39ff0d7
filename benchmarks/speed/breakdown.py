"""Cost of the complete transport per packet above the bound of the simulator's speed, part by part.

It counts instructions with valgrind for the speed benchmark's first two cases and for `examples/bound`, a
bare NewReno loop on the same paths. Each instruction belongs to the innermost function of the core that it
was inlined from (rings belong to their users), and each function to a part. Two durations are counted and
subtracted, so the start is excluded. Instruction counts repeat exactly; times do not.
"""

import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.shared.measure import machine, write
from benchmarks.speed.simulator import two_paths
from mptune.trial import MSS

CORE = Path(__file__).parents[2] / "crates" / "mptune-core"
#: Simulated seconds that are counted, and that are subtracted.
SPANS = (60, 10)
TIMED_S = 600
RUNS = 5

#: Part -> its functions, as `file function`; the first match counts.
ROOMS = {
    "event queue": r"engine/queue|simulation|bound\.rs (main|advance)",
    "links": r"network/|bound\.rs transmit",
    "scoreboard: SACK, RACK, timers, PRR": r"sender/(loss|timer|undo)|tcp/recovery|engine/ranges"
    r"|acknowledgement\.rs (acknowledge_|note_|uncount|update_rack)"
    r"|sender/mod\.rs (in_flight|whole_window|next_retransmission|outstanding|reduce|change_state)",
    "ACK processing: RTT, windows": r"sender/acknowledgement|tcp/rtt|tcp/rate"
    r"|connection\S* (on_ack|on_sender_packet|acknowledge_to)|sender/mod\.rs (note_window_use|update_pacing)"
    r"|bound\.rs on_ack",
    "receiver: subflow and data level": r"tcp/receiver|mptcp/reassembly|mptcp/packet"
    r"|connection\S* (on_data|on_receiver_packet|acknowledge|payload)|bound\.rs on_data",
    "congestion control": r"congestion/",
    "statistics": r"mptcp/series",
    "scheduler and sending": r"mptcp/|tcp/|bound\.rs",
}
REST = "other (allocation, output)"


def trial(cc: str, seconds: int) -> dict[str, Any]:
    """The speed benchmark's trial on 100 + 50 Mbit/s."""
    return {
        "network": two_paths([100, 50]),
        "pm": "fullmesh",
        "cc": cc,
        "scheduler": "minrtt",
        "buffer_bytes": 16 << 20,
        "mss": MSS,
        "seed": 1,
        "workload": {"kind": "bulk", "duration_ns": seconds * 1_000_000_000},
    }


def built() -> dict[str, Path]:
    """Build the examples; name -> executable."""
    command = ["cargo", "build", "--release", "--locked", "-p", "mptune-core", "--examples"]
    done = subprocess.run(
        [*command, "--message-format=json"], check=True, stdout=subprocess.PIPE, text=True, cwd=CORE
    )
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    made = [message for message in messages if message.get("executable")]
    return {message["target"]["name"]: Path(message["executable"]) for message in made}


class Case:
    """A program to count.

    Parameters
    ----------
    program : executable.
    cc : congestion control of the trial; None for the bound.
    """

    def __init__(self, program: Path, cc: str | None) -> None:
        self.program = program
        self.cc = cc

    def run(self, seconds: int, *before: str) -> float:
        """Simulate this many seconds, optionally under another command; return the packets delivered."""
        text = "" if self.cc is None else json.dumps(trial(self.cc, seconds))
        command = [*before, str(self.program), str(seconds)]
        done = subprocess.run(command, check=True, input=text, stdout=subprocess.PIPE, text=True)
        outcome: dict[str, float] = json.loads(done.stdout)
        return outcome["packets"] if self.cc is None else outcome["in_order_bytes"] / MSS

    def instructions(self, seconds: int) -> tuple[Counter[int], int, float]:
        """Instructions by address, those in libraries, and packets."""
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as counted:
            options = ["--dump-instr=yes", "--compress-pos=no", "--compress-strings=no", "--quiet"]
            output = f"--callgrind-out-file={counted.name}"
            packets = self.run(seconds, "valgrind", "--tool=callgrind", *options, output)
            own, libraries = _own_costs(Path(counted.name), self.program.name)
        return own, libraries, packets

    def per_packet(self) -> dict[str, float]:
        """Part -> instructions per packet."""
        more, more_libraries, more_packets = self.instructions(SPANS[0])
        less, less_libraries, less_packets = self.instructions(SPANS[1])
        rooms: Counter[str] = Counter({REST: more_libraries - less_libraries})
        frames = _frames(self.program, list(more))
        for address, count in more.items():
            rooms[_room(frames[address])] += count - less[address]
        return {room: count / (more_packets - less_packets) for room, count in rooms.items()}

    def nanoseconds(self) -> float:
        """Processor time per packet, the shortest of several runs: other load only adds."""
        times = []
        for _ in range(RUNS):
            start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            packets = self.run(TIMED_S)
            used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start
            times.append(used / packets * 1e9)
        return min(times)


def _own_costs(counted: Path, program: str) -> tuple[Counter[int], int]:
    """From a callgrind file: the program's own instructions by address, and those of all libraries."""
    own: Counter[int] = Counter()
    libraries = 0
    inside = called = False
    for line in counted.read_text(encoding="utf-8").splitlines():
        if line.startswith("ob="):
            inside = line.endswith(program)
        elif line.startswith("calls="):
            called = True
        elif line.startswith("0x"):
            # The line after a call is the callee's cost, which the callee already has.
            if not called:
                address, _, count = line.split()
                if inside:
                    own[int(address, 16)] += int(count)
                else:
                    libraries += int(count)
            called = False
    return own, libraries


def _frames(program: Path, addresses: list[int]) -> dict[int, list[tuple[str, str]]]:
    """Functions and files of each address, the innermost first."""
    done = subprocess.run(
        ["addr2line", "-a", "-f", "-C", "-i", "-e", str(program)],
        check=True,
        input="\n".join(map(hex, addresses)),
        stdout=subprocess.PIPE,
        text=True,
    )
    frames: dict[int, list[tuple[str, str]]] = {}
    lines = iter(done.stdout.splitlines())
    current: list[tuple[str, str]] = []
    for line in lines:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            current = frames.setdefault(int(line, 16), [])
        else:
            current.append((line, next(lines)))
    return frames


def _room(frames: list[tuple[str, str]]) -> str:
    for function, file in frames:
        place = re.search(r"mptune-core/(?:src|examples)/([\w/]+\.rs)", file)
        if place and "engine/ring" not in place.group(1):
            name = re.search(r"(\w+)(?:<.*>)?$", re.sub(r"(::)?\{.*", "", function))
            if name:  # a closure without a path belongs to the function around it
                where = f"{place.group(1)} {name.group(1)}"
                return next((room for room, own in ROOMS.items() if re.search(own, where)), REST)
    return REST


def show(rows: Mapping[str, dict[str, float]], times: Mapping[str, float], console: Console) -> None:
    """Print the table: one row per part, one column per case."""
    table = Table("instructions per packet", *rows)
    for room in [*ROOMS, REST]:
        table.add_row(room, *(f"{row.get(room, 0):.0f}" for row in rows.values()))
    table.add_row("all", *(f"{sum(row.values()):.0f}" for row in rows.values()), end_section=True)
    table.add_row("ns per packet", *(f"{times[name]:.0f}" for name in rows))
    console.print(table)


def main() -> int:
    """Count, time and print."""
    missing = [tool for tool in ("valgrind", "addr2line") if shutil.which(tool) is None]
    if missing:
        print(f"skipped: {' and '.join(missing)} not found (Debian: valgrind, binutils)")
        return 0
    programs = built()
    cases = {
        "bound": Case(programs["bound"], None),
        "uncoupled (reno)": Case(programs["trial"], "reno"),
        "coupled (olia)": Case(programs["trial"], "olia"),
    }
    console = Console(width=120)
    console.print(", ".join(f"{key} {value}" for key, value in machine().items()), highlight=False)
    rows = {name: case.per_packet() for name, case in cases.items()}
    times = {name: case.nanoseconds() for name, case in cases.items()}
    show(rows, times, console)
    result: dict[str, Any] = {"instructions_per_packet": rows, "ns_per_packet": times}
    write("breakdown", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
