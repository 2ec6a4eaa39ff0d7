"""Guard in random dynamics, beside fullmesh and every path alone, in the simulator.

Each dynamic (`_dynamics.py`) is a network of two to four paths that changes while one connection uses it for
60 to 120 s: rates, delays and losses step or drift, paths die and return, other traffic comes and goes. The
stack is `linux`; buffers are fixed, from 0.1 to 4 products. Goals, over a whole dynamic:

- at least 95 % of the best single path (the best of them in hindsight), and at least 95 % of fullmesh;
- at most one change a minute in the median;
- a subflow that an event makes harmful (the connection would be more than 10 % faster without it) is demoted
  within 3 s.

A connection differs from itself with another seed as well, so fullmesh is also compared with itself. Every
dynamic with its events is in the JSON. With --write-docs the table goes to docs/explanation/guard.md.
"""

import argparse
import concurrent.futures
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.decision import _ratios
from benchmarks.decision._dynamics import Dynamic, random_dynamic
from benchmarks.decision._harm import Demotion, Harm, changes, demoted, demotions, harm
from benchmarks.decision._ratios import over
from benchmarks.shared import docs
from benchmarks.shared.measure import write
from mptune.testbeds import create as testbed
from mptune.trial import Observation, ScriptedAction

DOCS = Path(__file__).parents[2] / "docs" / "explanation" / "guard.md"

#: Seeds of the first dynamics: those that guard was developed on are never reported.
DEVELOPED = 1
FRESH = 1_000_000
_SECOND = 10**9


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One dynamic; throughputs in Mbit/s over the whole of it.

    Attributes
    ----------
    default, best_single : the topology's first path alone, and the best of all alone.
    subset : the best set of paths that stays the same for the whole dynamic, where that was asked for.
    again : fullmesh with another seed.
    changes : moments at which guard changed roles.
    stalled : those of the trials that stopped for good.
    """

    seed: int
    description: str
    minutes: float
    guard: float
    fullmesh: float
    again: float
    default: float
    best_single: float
    changes: int
    demotions: list[Demotion]
    stalled: list[str]
    subset: float | None = None


class _Runner:
    """Trials of one dynamic."""

    def __init__(self, dynamic: Dynamic) -> None:
        self._dynamic, self._bed = dynamic, testbed("simulated")
        self.stalled: list[str] = []

    def run(
        self,
        pm: str,
        *,
        path: str | None = None,
        active: Sequence[str] = (),
        script: Sequence[ScriptedAction] = (),
        seed: int = 0,
    ) -> Observation:
        trial = msgspec.structs.replace(
            self._dynamic.trial(pm, path),
            seed=self._dynamic.seed + seed,
            pm_options={"active": list(active)} if active else {},
            script=(*self._dynamic.script, *script),
        )
        observation = self._bed.run(trial)
        if observation.failed is not None:
            self.stalled.append(f"{pm} {path or ' '.join(active)}".strip())
        return observation

    def mbps(self, observation: Observation) -> float:
        return self._dynamic.mbps(observation.in_order_bytes)


def _harm(dynamic: Dynamic, runner: _Runner, fullmesh: Observation) -> Harm:
    def without(label: str, from_ns: int) -> list[int]:
        script = [ScriptedAction(at_ns=from_ns, path=label, action="standby")]
        return runner.run("fullmesh", script=script).bins

    return harm(dynamic, fullmesh.bins, without)


def measure(seed: int, *, demoting: bool, subsets: bool) -> Outcome:
    """Every trial of one dynamic."""
    dynamic = random_dynamic(seed)
    runner = _Runner(dynamic)
    labels = [path.label for path in dynamic.topology.paths]
    guard, fullmesh = runner.run("guard"), runner.run("fullmesh")
    alone = [runner.mbps(runner.run("default", path=label)) for label in labels]
    done = changes(guard)
    result = {"guard": runner.mbps(guard), "fullmesh": runner.mbps(fullmesh)}
    again = runner.mbps(runner.run("fullmesh", seed=FRESH))
    stalled = list(runner.stalled)
    harmed = list(demotions(dynamic, done, _harm(dynamic, runner, fullmesh))) if demoting else []
    best = max(alone)
    subset = None
    if subsets:
        parts = [
            [label for bit, label in enumerate(labels) if number >> bit & 1]
            for number in range(1, 2 ** len(labels))
        ]
        tried = [
            runner.mbps(runner.run("pcdc", active=part)) for part in parts if 1 < len(part) < len(labels)
        ]
        subset = max([*tried, best, result["fullmesh"]])
    return Outcome(
        seed=seed,
        description=dynamic.description,
        minutes=dynamic.duration_ns / 60 / _SECOND,
        again=again,
        default=alone[0],
        best_single=best,
        changes=len({change.at_s for change in done}),
        demotions=harmed,
        stalled=stalled,
        subset=subset,
        **result,
    )


def _idle() -> None:
    """Worker processes take only what nobody else wants."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _measured(arguments: tuple[int, bool, bool]) -> Outcome:
    seed, demoting, subsets = arguments
    return measure(seed, demoting=demoting, subsets=subsets)


def ratios(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """The comparisons, over all dynamics."""
    rows = {
        "guard / fullmesh": [over(outcome.guard, outcome.fullmesh) for outcome in outcomes],
        "guard / best single path": [over(outcome.guard, outcome.best_single) for outcome in outcomes],
        "guard / better of both": [
            over(outcome.guard, max(outcome.fullmesh, outcome.best_single)) for outcome in outcomes
        ],
        "guard / default path": [over(outcome.guard, outcome.default) for outcome in outcomes],
        "fullmesh / best single path": [over(outcome.fullmesh, outcome.best_single) for outcome in outcomes],
        "fullmesh / better of both": [
            over(outcome.fullmesh, max(outcome.fullmesh, outcome.best_single)) for outcome in outcomes
        ],
        "best single path / better of both": [
            over(outcome.best_single, max(outcome.fullmesh, outcome.best_single)) for outcome in outcomes
        ],
        "fullmesh, another seed / fullmesh": [over(outcome.again, outcome.fullmesh) for outcome in outcomes],
    }
    if any(outcome.subset is not None for outcome in outcomes):
        rows["guard / best constant set"] = [over(outcome.guard, outcome.subset or 0) for outcome in outcomes]
    return rows


_SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95)


def table(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A row for each comparison."""
    return _ratios.table(ratios(outcomes), _SHARES, 1)


def facts(outcomes: Sequence[Outcome]) -> list[str]:
    """The other goals, a line each."""
    demotions = [demotion for outcome in outcomes for demotion in outcome.demotions]
    stalls = (
        sum("guard" in outcome.stalled for outcome in outcomes),
        sum("fullmesh" in outcome.stalled for outcome in outcomes),
    )
    lines = [
        _ratios.changed(
            [outcome.changes for outcome in outcomes], [outcome.minutes for outcome in outcomes], 2
        ),
        f"Stalled for good: guard in {stalls[0]} of {len(outcomes)}, "
        f"fullmesh with one of two seeds in {stalls[1]}.",
    ]
    if demotions:
        lines.append(demoted(demotions))
    return lines


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dynamics", type=int, default=1000, help="how many (1000)")
    parser.add_argument(
        "--seed",
        type=int,
        default=FRESH,
        help=f"of the first dynamic ({FRESH}; developed on {DEVELOPED} to 400)",
    )
    parser.add_argument("--processes", type=int, default=2, help="how many at once (2)")
    parser.add_argument("--subsets", action="store_true", help="try every constant set of paths too")
    parser.add_argument("--no-harm", action="store_true", help="leave out the times of demotions")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table into {DOCS.name}")
    arguments = parser.parse_args()
    began = time.monotonic()
    work = [
        (arguments.seed + number, not arguments.no_harm, arguments.subsets)
        for number in range(arguments.dynamics)
    ]
    with concurrent.futures.ProcessPoolExecutor(arguments.processes, initializer=_idle) as pool:
        outcomes = list(pool.map(_measured, work, chunksize=8))
    head, *rows = table(outcomes)
    printed = Table(*head)
    for row in rows:
        printed.add_row(*row)
    console = Console()
    console.print(printed)
    for line in facts(outcomes):
        console.print(line)
    console.print(f"{time.monotonic() - began:.0f} s")
    write(
        "guard",
        {"table": table(outcomes), "facts": facts(outcomes), "dynamics": msgspec.to_builtins(outcomes)},
    )
    if arguments.write_docs:
        docs.replace(DOCS, "guard", _ratios.markdown(len(outcomes), table(outcomes), facts(outcomes)))


if __name__ == "__main__":
    main()
