"""The promises of the testbed `hosts`, between the two machines of tests/hosts, which share our processors.

- overhead: seconds that a trial takes beyond its duration, in one session, and the first with the connections
  and the agent's delivery; less than 1.5 s a trial is asked for.
- kills: something is killed at a random moment of a session, again and again, drawn from the seed: the
  controller, its ssh, the agent, its guardian, a role, sshd's session, or all of a machine, which is then
  started anew. Both machines must be as before within 10 s (settings, endpoints, rules, processes, files,
  ports): since the kill, or since the end of the session where that went on.
- agrees: throughputs of the testbeds `hosts` and `namespaces` in the same emulated network, run by run in
  turn, and whether they differ by more than the runs of one testbed do among themselves.
- answer (only if named): what `mptune optimise --budget` answers on both.

Needs root, sshd, nft and sudo; agrees and answer an idle machine. Prints tables and writes JSON.

    python -m benchmarks.systems.hosts [overhead] [kills] [agrees] [answer] [--trials 60] [--kills 200]
"""

import argparse
import contextlib
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.shared.measure import machine, write
from benchmarks.systems import _kills
from benchmarks.systems._kills import KINDS, Row
from mptune.linux.awake import Awake
from mptune.machines.ssh import VARIABLE
from mptune.testbeds import create
from mptune.testbeds import hosts as testbed
from mptune.testbeds.hosts import HostsTestbed
from mptune.topology import load
from mptune.trial import Bulk, Observation, Trial
from tests.hosts.world import World

SLOW = Path(__file__).with_name("_slow_ssh.py")
PARTS = ("overhead", "kills", "agrees", "answer")
MEASURED = PARTS[:3]
SECOND = 1_000_000_000
#: Seconds a trial may take beyond its duration.
TARGET_S = 1.5
#: The differences between trials of `overhead`.
SORTS: dict[str, dict[str, Any]] = {
    "fullmesh": {"pm": "fullmesh"},
    "fullmesh, buffers that grow": {"pm": "fullmesh", "buffer_mode": "auto"},
    "plain TCP": {"pm": "default", "protocol": "tcp"},
}
#: The differences between trials of `agrees`.
MANAGERS, CONTROLS, BUFFERS = ("default", "fullmesh"), ("cubic", "reno"), (1 << 16, 1 << 18, 1 << 20)
#: The question of `answer`.
QUESTION = ("--pm", "fullmesh,default", "--cc", "cubic,reno", "--buffers", "128KiB:1MiB:128KiB")
QUICK = ("--duration", "5s", "--impact-duration", "4s")
ANSWERED = ("protocol", "opm", "occ", "subflows", "obs_mib", "otp_mbps")


def prepare() -> None:
    """Lift the limit of the processors' load: both machines have those of this one."""
    testbed._BUSY = 2.0


@contextlib.contextmanager
def world(rtt_ms: float = 0) -> Iterator[Path]:
    """Two machines that `ssh` reaches; their topology file, which describes the network between them.

    Parameters
    ----------
    rtt_ms : of the way to either machine, for sessions alone.
    """
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory() as directory, World(Path(directory)) as made:
        slow = [sys.executable, str(SLOW), str(rtt_ms)] if rtt_ms else []
        os.environ[VARIABLE] = shlex.join([*slow, str(made.bin / "ssh")])
        queues = {uplink.uplink.queue_bytes for ones in made.uplinks.values() for uplink in ones}
        (queue,) = queues
        # As the emulator between the machines has it: nothing beside the access links, and no jitter.
        known = f'queue = "{queue} B"\njitter = "0 ms"\ndelay ='
        file = Path(directory, "world.toml")
        text = made.topology().replace("delay =", known)
        file.write_text(f'{text}[core]\ndelay = "0 ms"\njitter = "0 ms"\n', encoding="utf-8")
        try:
            yield file
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before


# Overhead


def overhead(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Trials in one session; seconds beyond their duration."""
    return [_overhead(options.overhead_seconds, options.trials, rtt_ms) for rtt_ms in options.rtt]


def _overhead(duration_s: float, trials: int, rtt_ms: float) -> dict[str, Any]:
    """With hosts that are so far away from the program here."""
    delays: dict[str, list[float]] = {name: [] for name in SORTS}
    failed: list[str] = []
    repeated = 0
    with world(rtt_ms) as file, contextlib.closing(HostsTestbed()) as bed:
        topology = load(str(file))

        def measure(name: str, number: int) -> tuple[float, Observation]:
            settings = {"cc": "cubic", "buffer_bytes": 1 << 19, **SORTS[name]}
            asked = Trial(
                topology=topology,
                seed=number,
                workload=Bulk(duration_ns=round(duration_s * SECOND)),
                **settings,
            )
            began = time.monotonic()
            observation = bed.run(asked)
            return time.monotonic() - began - duration_s, observation

        first, _ = measure("fullmesh", 0)
        delivered = [machine.delivered for machine in bed._machines.values()]
        for number in range(1, trials + 1):
            name = list(SORTS)[number % len(SORTS)]
            seconds, observation = measure(name, number)
            if observation.failed is not None:
                failed.append(f"{name}: {observation.failed.reason}")
            elif "repeated" in observation.metadata:
                repeated += 1
            else:
                delays[name].append(seconds)
    print(f"\n## Seconds beyond the duration of {duration_s:g} s, {rtt_ms:g} ms to either host\n")
    print("| trials | n | median | 90 % | maximum |\n|---|---|---|---|---|")
    for name, values in {**delays, "all": [delay for ones in delays.values() for delay in ones]}.items():
        if values:
            cells = (f"{value:.2f}" for value in (statistics.median(values), share(values, 0.9), max(values)))
            print(f"| {name} | {len(values)} | {' | '.join(cells)} |")
    slow = sum(delay >= TARGET_S for ones in delays.values() for delay in ones)
    print(f"\nnot below {TARGET_S:g} s: {slow}; repeated for overload: {repeated}; failed: {len(failed)}")
    print(f"first trial, with connections and delivery to {sum(delivered)} of 2 hosts: {first:.2f} s")
    for complaint in failed:
        print(f"failed: {complaint}")
    return {
        "duration_s": duration_s,
        "rtt_ms": rtt_ms,
        "first_s": first,
        "delivered": delivered,
        "beyond_s": delays,
        "repeated": repeated,
        "failed": failed,
    }


def share(values: Sequence[float], part: float) -> float:
    """The smallest value that is not exceeded by this part of them."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


# Kills


def kills(options: argparse.Namespace) -> dict[str, Any]:
    """Random kills, in some pairs of machines at once."""
    drawn = _kills.drawn(options.kills, options.seed)
    until_s = time.time() + 60 * options.kill_minutes
    rows: list[Row] = []
    lock = threading.Lock()
    workers = []
    for index in range(options.worlds):
        command = [sys.executable, _kills.__file__]
        workers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        asked = {"kills": msgspec.to_builtins(drawn[index :: options.worlds]), "until_s": until_s}
        assert workers[-1].stdin is not None
        workers[-1].stdin.write(json.dumps(asked) + "\n")
        workers[-1].stdin.close()

    def read(worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            row = msgspec.json.decode(line, type=Row)
            with lock:
                rows.append(row)
                print(f"{len(rows)}/{len(drawn)} {summary(row)}", flush=True)

    readers = [threading.Thread(target=read, args=[worker]) for worker in workers]
    try:
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()
    rows.sort(key=lambda row: row.number)
    print(f"\n## {len(rows)} kills\n")
    print("| killed | n | settings changed then | left | complaints | restored, s: median | maximum |")
    print("|---|---|---|---|---|---|---|")
    for name in (*KINDS, "all"):
        if some := [row for row in rows if name in (row.kind, "all")]:
            print(line_of(name, some))
    went = Counter((row.goes_on, row.next_s is not None) for row in rows)
    print(f"\nsessions that were to go on: {went[True, True] + went[True, False]}, did: {went[True, True]}")
    for result in rows:
        if result.left or result.complaint:
            print(f"\n{summary(result)}")
    return {"seed": options.seed, "worlds": options.worlds, "rows": msgspec.to_builtins(rows)}


def summary(row: Row) -> str:
    """One line, and what was left in more of them."""
    restored = "not restored" if row.restored_s is None else f"restored in {row.restored_s:.2f} s"
    words = [f"{row.number}: {row.kind} ({row.target})", "changed" if row.changed else "unchanged", restored]
    if row.next_s is not None:
        words.append(f"went on after {row.next_s:.2f} s")
    return "\n".join([", ".join(words), *filter(None, (row.complaint, row.left))])


def line_of(name: str, rows: Sequence[Row]) -> str:
    """A line of the table."""
    times = [row.restored_s for row in rows if row.restored_s is not None]
    cells = [
        name,
        len(rows),
        sum(row.changed for row in rows),
        sum(bool(row.left) for row in rows),
        sum(bool(row.complaint) for row in rows),
        f"{statistics.median(times):.2f}" if times else "-",
        f"{max(times):.2f}" if times else "-",
    ]
    return f"| {' | '.join(map(str, cells))} |"


# Agreement


class Pair(msgspec.Struct, frozen=True):
    """Throughputs of a configuration on both testbeds, Mbit/s."""

    pm: str
    cc: str
    buffer_bytes: int
    hosts: list[float]
    namespaces: list[float]

    @property
    def judged(self) -> bool:
        """There are runs enough on both."""
        return min(len(self.hosts), len(self.namespaces)) >= 2

    @property
    def difference(self) -> float:
        """Of the means, relative to the namespaces'."""
        return statistics.mean(self.hosts) / statistics.mean(self.namespaces) - 1

    @property
    def spread(self) -> tuple[float, float]:
        """Standard deviations of the runs, relative."""
        hosts, namespaces = self.hosts, self.namespaces
        return (
            statistics.stdev(hosts) / statistics.mean(hosts),
            statistics.stdev(namespaces) / statistics.mean(namespaces),
        )

    @property
    def errors(self) -> float:
        """The difference in standard errors (Welch's t)."""
        ones = (self.hosts, self.namespaces)
        error = math.sqrt(sum(statistics.variance(sample) / len(sample) for sample in ones))
        gap = statistics.mean(self.hosts) - statistics.mean(self.namespaces)
        return gap / error if error else 0.0 if not gap else math.copysign(math.inf, gap)


def agrees(options: argparse.Namespace) -> dict[str, Any]:
    """The same trials on both testbeds, run by run in turn."""
    failed: list[str] = []
    cells = [(pm, cc, buffer) for pm in MANAGERS for cc in CONTROLS for buffer in BUFFERS]
    rates: dict[tuple[str, int], list[float]] = {}
    with world() as file, contextlib.closing(HostsTestbed()) as hosts:
        topology = load(str(file))
        beds: dict[str, Callable[[Trial], Observation]] = {
            "hosts": hosts.run,
            "namespaces": create("namespaces").run,
        }
        for run in range(options.runs):
            for index, (pm, cc, buffer) in enumerate(cells):
                asked = Trial(
                    topology=topology,
                    pm=pm,
                    cc=cc,
                    buffer_bytes=buffer,
                    seed=1 + run,
                    workload=Bulk(duration_ns=round(options.seconds * SECOND)),
                )
                for name, measure in beds.items():
                    observation = measure(asked)
                    if observation.failed is not None:
                        failed.append(f"{name}, {pm}, {cc}, {buffer >> 10} KiB: {observation.failed.reason}")
                    else:
                        rates.setdefault((name, index), []).append(observation.throughput_bps / 1e6)
    pairs = [
        Pair(*cell, rates.get(("hosts", index), []), rates.get(("namespaces", index), []))
        for index, cell in enumerate(cells)
    ]
    print(f"\n## Both testbeds, {options.runs} runs of {options.seconds:g} s, Mbit/s\n")
    print("| | hosts | namespaces | difference, % | standard errors | spread of runs, % |")
    print("|---|---|---|---|---|---|")
    judged = [pair for pair in pairs if pair.judged]
    for pair in judged:
        hosts_spread, namespaces_spread = pair.spread
        print(
            f"| {pair.pm}, {pair.cc}, {pair.buffer_bytes >> 10} KiB | {statistics.mean(pair.hosts):.2f} | "
            f"{statistics.mean(pair.namespaces):.2f} | {100 * pair.difference:+.1f} | {pair.errors:+.1f} | "
            f"{100 * hosts_spread:.1f}, {100 * namespaces_spread:.1f} |"
        )
    if judged:
        gaps = [abs(pair.difference) for pair in judged]
        spreads = [value for pair in judged for value in pair.spread]
        print(
            f"\ndifference: median {statistics.median(gaps):.1%}, largest {max(gaps):.1%}; spread of runs: "
            f"median {statistics.median(spreads):.1%}, largest {max(spreads):.1%}"
        )
    for complaint in failed:
        print(f"failed: {complaint}")
    return {"seconds": options.seconds, "pairs": msgspec.to_builtins(pairs), "failed": failed}


# Answers


def answer(options: argparse.Namespace) -> dict[str, Any]:
    """`mptune optimise` on both testbeds, with the same budget."""
    answers: dict[str, Any] = {}
    with world() as file:
        for name in ("hosts", "namespaces"):
            out = file.with_name(name)
            words = ["optimise", str(file), "--testbed", name, "--budget", options.budget, *QUESTION, *QUICK]
            command = [sys.executable, "-m", "benchmarks.systems.hosts", "--mptune", *words]
            command += ["--out", str(out), "--json", "--quiet"]
            began = time.monotonic()
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                print(f"{name}: exit code {done.returncode}")
                continue
            answers[name] = {"seconds": time.monotonic() - began, **json.loads(done.stdout)}
    print(f"\n## Answers, budget {options.budget}\n")
    print(f"| testbed | {' | '.join(ANSWERED)} | confirmed | certainty | wall clock, s |")
    print(f"|{'---|' * (len(ANSWERED) + 4)}")
    for name, answer in answers.items():
        reached = (answer.get("reached") or {}).get("steps") or [{}]
        cells = [answer.get(key) for key in ANSWERED]
        cells += [answer.get("confirmed"), reached[-1].get("certainty"), round(answer["seconds"])]
        print(f"| {name} | {' | '.join(map(str, cells))} |")
    return answers


def main() -> None:
    """Measure and print."""
    prepare()
    if sys.argv[1:2] == ["--mptune"]:
        from mptune.cli import main as mptune

        sys.argv[1:2] = []
        mptune()
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default: all but the last"
    )
    parser.add_argument("--trials", type=int, default=60, help="of overhead")
    parser.add_argument("--overhead-seconds", type=float, default=1.0, help="duration of those")
    parser.add_argument(
        "--rtt", type=float, nargs="+", default=[0, 50], help="of overhead: to either machine, ms"
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the kills")
    parser.add_argument("--worlds", type=int, default=2, help="pairs of machines for the kills, side by side")
    parser.add_argument("--kill-minutes", type=float, default=60.0, help="no kill begins later than this")
    parser.add_argument("--runs", type=int, default=5, help="of each configuration of agrees")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of those")
    parser.add_argument("--budget", default="7min", help="of each answer")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"PART: expected any of {', '.join(PARTS)}, found {', '.join(sorted(unknown))}")
    print(", ".join(f"{key}: {value}" for key, value in machine().items()))
    print(", ".join(f"{key}: {value}" for key, value in vars(options).items()))
    with Awake():
        for part in options.parts or MEASURED:
            measure = {"overhead": overhead, "kills": kills, "agrees": agrees, "answer": answer}[part]
            write(f"hosts-{part}", measure(options))


if __name__ == "__main__":
    main()
