"""Guard on the kernel in random dynamics, beside the kernel's path manager and mptcpd.

Each dynamic is one of `_dynamics.py` that a machine of two processors can emulate in real time: two or three
paths of 1 to 40 Mbit/s, at no time more than 80 Mbit/s together, compressed to 40 to 60 s; rates, delays and
losses step or drift, paths die and return, datagrams share a path. Everything above the network is this
machine's kernel, between two namespaces; all contenders get the same dynamic, seed and fixed buffer:

- default: the kernel's own path manager as it is, which opens no further subflow;
- fullmesh: the same with an endpoint for each interface, `fullmesh` for the sender's, and limits of 8;
- mptcpd: Debian's mptcpd with its default plug-in addr_adv, which makes such endpoints (without `fullmesh`);
- guard: mptune's, with what the agent samples;
- each path alone: one subflow.

mptcpd with net.mptcp.path_manager=userspace opens no further subflow in version 0.12: its plug-in sspi
reports "sspi_connection_established is unimplemented", and addr_adv makes endpoints, which concern the
kernel's path manager alone. This is tried once before the dynamics.

An event makes a subflow harmful if the simulator's fullmesh would be more than 10 % faster without it from
then on, and was not before. Trials that are done are kept in target/benchmarks/dynamics.jsonl and not
repeated; guard's are if the agent is another one. A trial that the machine was too busy for is repeated, at
last alone; a dynamic with one for which it never had the time does not count. With --write-docs the table
goes to docs/explanation/guard.md.
"""

import argparse
import concurrent.futures
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks.decision import _ratios
from benchmarks.decision._dynamics import Dynamic, drawn
from benchmarks.decision._harm import Change, Demotion, Harm, changes, demoted, demotions, harm
from benchmarks.decision._ratios import over
from benchmarks.shared import docs
from benchmarks.shared.contenders import Bench, Contender, KernelFullmesh, Missing, Mptcpd, fetched
from benchmarks.shared.measure import RESULTS, machine, write
from mptune.linux.agent import program
from mptune.testbeds import create as testbed
from mptune.trial import Bulk, ScriptedAction, Trial

DOCS = Path(__file__).parents[2] / "docs" / "explanation" / "guard.md"
CACHE = RESULTS.parent / "mptcpd"
KEPT = RESULTS / "dynamics.jsonl"

#: Seed of the first dynamic that is drawn: none of those on which guard was developed.
FIRST_SEED = 2_000_000
_SECOND = 10**9

#: Path managers by name; the paths alone come last, by their labels.
GUARD, MPTCPD = "guard", "mptcpd"
SHARED = ("default", "fullmesh", MPTCPD, GUARD)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One trial.

    Attributes
    ----------
    dynamic : digest of the dynamic, which another version may draw differently.
    agent : which agent sampled and managed, of guard alone.
    overloaded : why the trial is no evidence.
    """

    seed: int
    dynamic: str
    contender: str
    mbps: float
    changes: list[Change] = []
    limited: float | None = None
    failed: str | None = None
    overloaded: str | None = None
    agent: str | None = None
    subflows: int = 0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A dynamic, with the throughput of everybody in Mbit/s."""

    seed: int
    description: str
    minutes: float
    mbps: dict[str, float]
    alone: dict[str, float]
    changes: int
    limited: float | None
    demotions: list[Demotion]
    failed: dict[str, str]


def dynamics(count: int) -> list[Dynamic]:
    """The first ones that fit."""
    return drawn("small", FIRST_SEED, count)


# Trials


def digest(dynamic: Dynamic) -> str:
    """Of all that makes a dynamic."""
    return hashlib.blake2b(msgspec.json.encode(dynamic), digest_size=8).hexdigest()


class Job(NamedTuple):
    """A trial that is to be run."""

    dynamic: Dynamic
    contender: str


class Runner:
    """Runs trials and keeps their results."""

    def __init__(self, mptcpd: Path | None) -> None:
        self.bench, self._mptcpd = Bench(), mptcpd
        self.agent = hashlib.blake2b(program().read_bytes(), digest_size=8).hexdigest()
        self.results: dict[tuple[str, str], Result] = {}
        if KEPT.exists():
            for line in KEPT.read_bytes().splitlines():
                self._note(msgspec.json.decode(line, type=Result))

    def _note(self, result: Result) -> None:
        if result.overloaded is None and (result.contender != GUARD or result.agent == self.agent):
            self.results[result.dynamic, result.contender] = result

    def contenders(self, dynamic: Dynamic) -> list[str]:
        """Their names."""
        shared = [name for name in SHARED if name != MPTCPD or self._mptcpd is not None]
        return [*shared, *(path.label for path in dynamic.topology.paths)]

    def missing(self, chosen: Sequence[Dynamic]) -> list[Job]:
        """Trials without a result."""
        jobs = [Job(dynamic, name) for dynamic in chosen for name in self.contenders(dynamic)]
        return [job for job in jobs if (digest(job.dynamic), job.contender) not in self.results]

    def run(self, job: Job) -> Result:
        """Run one trial, whatever comes of it."""
        dynamic, name = job
        trial = _trial(dynamic, name)
        observation = self.bench.run(trial, self._contender(name))
        sampled_ns = float(observation.metadata.get("sampled_ns", 0))
        limited_ns = float(observation.metadata.get("window_limited_ns", 0))
        overloaded = observation.metadata.get("overloaded")
        return Result(
            seed=dynamic.seed,
            dynamic=digest(dynamic),
            contender=name,
            mbps=dynamic.mbps(observation.in_order_bytes),
            changes=changes(observation),
            limited=limited_ns / sampled_ns if sampled_ns else None,
            failed=None if observation.failed is None else str(observation.failed),
            overloaded=None if overloaded is None else str(overloaded),
            agent=self.agent if name == GUARD else None,
            subflows=len(observation.subflows),
        )

    def _contender(self, name: str) -> Callable[[], Contender] | None:
        if name == MPTCPD:
            assert self._mptcpd is not None
            root = self._mptcpd
            return lambda: Mptcpd(root, ["addr_adv"], userspace=False)
        return {"default": Contender, "fullmesh": KernelFullmesh}.get(name)

    def keep(self, result: Result) -> None:
        """Add a result to the file."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        with KEPT.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")
        self._note(result)

    def userspace(self, dynamic: Dynamic) -> str:
        """The actions of mptcpd for its own connections."""
        if self._mptcpd is None:
            return "mptcpd: not tried"
        root = self._mptcpd
        trial = msgspec.structs.replace(
            _trial(dynamic, MPTCPD), workload=Bulk(duration_ns=5 * _SECOND), script=()
        )
        seen = self.bench.run(trial, lambda: Mptcpd(root, ["sspi", "addr_adv"], userspace=True))
        complaints = [
            line for line in str(seen.metadata.get("contender", "")).splitlines() if "unimpl" in line
        ]
        why = f" ({complaints[0].strip().rstrip('.')})" if complaints else ""
        return (
            f"mptcpd with net.mptcp.path_manager=userspace, sspi and addr_adv: {len(seen.subflows)} of "
            f"{len(dynamic.topology.paths)} subflows{why}."
        )


def _trial(dynamic: Dynamic, name: str) -> Trial:
    return dynamic.trial(GUARD if name == GUARD else "default", None if name in SHARED else name)


def measure(runner: Runner, chosen: Sequence[Dynamic], at_once: int) -> None:
    """Run what is missing, dynamic by dynamic, so that what is kept is complete."""
    jobs = runner.missing(chosen)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress, runner.bench.awake:
        bar = progress.add_task("trials", total=len(jobs))
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            running = [pool.submit(runner.run, job) for job in jobs]
            try:
                for done in concurrent.futures.as_completed(running):
                    runner.keep(done.result())
                    progress.advance(bar)
            except BaseException:
                runner.bench.close()
                pool.shutdown(cancel_futures=True)
                raise


# The results


def _harm(dynamic: Dynamic) -> Harm:
    """The effect of its events on fullmesh, in the simulator."""
    bed = testbed("simulated")

    def bins(*without: ScriptedAction) -> list[int]:
        trial = _trial(dynamic, "fullmesh")
        script = (*dynamic.script, *without)
        return bed.run(msgspec.structs.replace(trial, pm="fullmesh", script=script)).bins

    def without(label: str, from_ns: int) -> list[int]:
        return bins(ScriptedAction(at_ns=from_ns, path=label, action="standby"))

    return harm(dynamic, bins(), without)


def outcomes(runner: Runner, chosen: Sequence[Dynamic]) -> Iterator[Outcome]:
    """The dynamics of which every trial counts."""
    for dynamic in chosen:
        names = runner.contenders(dynamic)
        measured = {name: runner.results.get((digest(dynamic), name)) for name in names}
        results = {name: result for name, result in measured.items() if result is not None}
        if len(results) < len(names):
            continue
        guard = results[GUARD]
        yield Outcome(
            seed=dynamic.seed,
            description=dynamic.description,
            minutes=dynamic.duration_ns / 60 / _SECOND,
            mbps={name: results[name].mbps for name in names if name in SHARED},
            alone={name: results[name].mbps for name in names if name not in SHARED},
            changes=len({when for when, _, _ in guard.changes}),
            limited=guard.limited,
            demotions=list(demotions(dynamic, guard.changes, _harm(dynamic))),
            failed={name: result.failed for name, result in results.items() if result.failed is not None},
        )


def ratios(done: Sequence[Outcome]) -> dict[str, list[float]]:
    """The comparisons, over all dynamics."""
    best = [max(outcome.alone.values()) for outcome in done]
    rows = {}
    for name in ("fullmesh", "mptcpd", "default"):
        if all(name in outcome.mbps for outcome in done):
            rows[f"guard / {name}"] = [over(outcome.mbps[GUARD], outcome.mbps[name]) for outcome in done]
    both = zip(done, best, strict=True)
    rows["guard / best single path"] = [over(outcome.mbps[GUARD], alone) for outcome, alone in both]
    both = zip(done, best, strict=True)
    rows["guard / better of fullmesh and best single path"] = [
        over(outcome.mbps[GUARD], max(alone, outcome.mbps["fullmesh"])) for outcome, alone in both
    ]
    both = zip(done, best, strict=True)
    rows["fullmesh / best single path"] = [over(outcome.mbps["fullmesh"], alone) for outcome, alone in both]
    return rows


_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def table(done: Sequence[Outcome]) -> list[list[str]]:
    """A row for each comparison."""
    return _ratios.table(ratios(done), _SHARES)


def facts(done: Sequence[Outcome], asked: int, userspace: str) -> list[str]:
    """Everything else, a line each."""
    about = machine()
    lines = [
        _ratios.changed([outcome.changes for outcome in done], [outcome.minutes for outcome in done]),
        demoted([demotion for outcome in done for demotion in outcome.demotions]),
    ]
    failed = [name for outcome in done for name in outcome.failed]
    kinds = {name if name in SHARED else "a path alone" for name in failed}
    counted = ", ".join(
        f"{kind} {sum((name if name in SHARED else 'a path alone') == kind for name in failed)}"
        for kind in sorted(kinds)
    )
    lines.append(f"Trials that stalled or failed (counted with what had arrived): {counted or 'none'}.")
    if asked > len(done):
        lines.append(f"Left out because the machine was too busy for a trial: {asked - len(done)} dynamics.")
    lines.append(userspace)
    lines.append(f"Linux {about['kernel']}, {about['cores']} processors ({about['processor']}).")
    return lines


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dynamics", type=int, default=40, help="how many (40)")
    parser.add_argument("--at-once", type=int, default=6, help="trials that wait or run at once, at most (6)")
    parser.add_argument("--fresh", action="store_true", help="forget all trials that were done")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table into {DOCS.name}")
    arguments = parser.parse_args()
    began = time.monotonic()
    if arguments.fresh:
        KEPT.unlink(missing_ok=True)
    console = Console()
    try:
        mptcpd = fetched(CACHE)
    except Missing as missing:
        console.print(f"without mptcpd: {missing}")
        mptcpd = None
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()))
    chosen = dynamics(arguments.dynamics)
    runner = Runner(mptcpd)
    userspace = runner.userspace(chosen[0])
    measure(runner, chosen, arguments.at_once)
    done = list(outcomes(runner, chosen))
    if not done:
        console.print("no dynamic of which every trial counts")
        return
    head, *rows = table(done)
    printed = Table(*head)
    for row in rows:
        printed.add_row(*row)
    console.print(printed)
    lines = facts(done, len(chosen), userspace)
    for line in lines:
        console.print(line)
    console.print(f"{time.monotonic() - began:.0f} s")
    write("dynamics", {"table": table(done), "facts": lines, "dynamics": msgspec.to_builtins(done)})
    if arguments.write_docs:
        docs.replace(DOCS, "dynamics", _ratios.markdown(len(done), table(done), lines))


if __name__ == "__main__":
    main()
