"""What guard gives in random dynamics, beside fullmesh and every path alone, in the simulator.

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
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

import _docs
from _dynamics import Dynamic, Event, random_dynamic
from _measure import write
from mptune.testbeds import Observation, ScriptedAction, Trial
from mptune.testbeds import create as testbed

DOCS = Path(__file__).parents[1] / "docs" / "explanation" / "guard.md"

#: Share of a rival below which guard misses its goal.
GOAL = 0.95
#: Gain without a subflow from which on it is harmful, and how long it may stay so, s.
HARM = 0.10
DEMOTED_S = 3.0
#: How long after an event its harm is looked at, s, and how much of that is left out: the beginning.
HARM_S = 12
BEGINNING_S = 2
#: Seeds of the first dynamics: those that guard was developed on are never reported.
DEVELOPED = 1
FRESH = 1_000_000
_SECOND = 10**9
_BIN_S = 0.1


class Demotion(msgspec.Struct, frozen=True):
    """A subflow that an event made harmful while guard used it.

    Attributes
    ----------
    gain : of the connection without it, from the event on.
    after_s : from the event until guard demoted it; None if it did not before the next event.
    """

    event: str
    gain: float
    after_s: float | None


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


class Change(NamedTuple):
    """Guard changed the role of a path's subflow."""

    at_s: float
    path: str
    role: str


def changes(observation: Observation) -> list[Change]:
    """What guard did, in order of time."""
    found = []
    for one in filter(None, str(observation.metadata.get("path_manager_changes", "")).split(", ")):
        at, path, role = one.replace(" ms: ", " ").split(" ")
        found.append(Change(float(at) / 1e3, path, role))
    return found


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
        dynamic = self._dynamic
        trial = Trial(
            topology=dynamic.topology,
            pm=pm,
            cc=dynamic.cc,
            buffer_bytes=dynamic.buffer_bytes,
            seed=dynamic.seed + seed,
            duration_ns=dynamic.duration_ns,
            initial_path=path,
            pm_options={"active": list(active)} if active else {},
            script=(*dynamic.script, *script),
        )
        observation = self._bed.run(trial)
        if observation.failed is not None:
            self.stalled.append(f"{pm} {path or ' '.join(active)}".strip())
        return observation

    def mbps(self, observation: Observation) -> float:
        """Over the whole dynamic: nothing arrives any more once it has stalled."""
        return observation.in_order_bytes * 8e3 / self._dynamic.duration_ns


def _rate(observation: Observation, from_s: float, to_s: float) -> float:
    """Bytes per bin between two times."""
    bins = observation.bins[int(from_s / _BIN_S) : int(to_s / _BIN_S)]
    return statistics.mean(bins) if bins else 0.0


def _demotions(
    dynamic: Dynamic, runner: _Runner, fullmesh: Observation, done: list[Change]
) -> Iterator[Demotion]:
    """Find the events that make a subflow harmful, and when guard demoted it.

    Harm is what fullmesh gains from doing without the subflow from the event on; a subflow that was harmful
    before the event is not counted, nor one that guard does not use then.
    """
    ends = [event.at_ns / _SECOND for event in dynamic.events[1:]] + [dynamic.duration_ns / _SECOND]
    for event, end_s in zip(dynamic.events, ends, strict=False):
        at_s, label = event.at_ns / _SECOND, dynamic.topology.paths[event.path].label
        until_s = min(end_s, at_s + HARM_S)
        roles = [change.role for change in done if change.path == label and change.at_s <= at_s]
        if until_s - at_s < 2 * BEGINNING_S or (roles and roles[-1] == "standby") or "dies" in event.words:
            continue
        after = _gain(runner, fullmesh, event, label, event.at_ns, (at_s + BEGINNING_S, until_s))
        before_s = max(0.0, at_s - HARM_S)
        if after <= HARM or _gain(runner, fullmesh, event, label, 0, (before_s, at_s)) > HARM:
            continue
        off = (
            one.at_s - at_s
            for one in done
            if one.path == label and one.role == "standby" and at_s < one.at_s <= end_s
        )
        yield Demotion(event.words, after, next(off, None))


def _gain(
    runner: _Runner, fullmesh: Observation, event: Event, label: str, from_ns: int, span: tuple[float, float]
) -> float:
    """What fullmesh gains within a span of time if a path carries nothing from some time on."""
    script = [ScriptedAction(at_ns=from_ns, path=label, action="standby")]
    without, whole = _rate(runner.run("fullmesh", script=script), *span), _rate(fullmesh, *span)
    return without / whole - 1 if whole else float(without > 0) * 10


def measure(seed: int, *, harm: bool, subsets: bool) -> Outcome:
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
    demotions = list(_demotions(dynamic, runner, fullmesh, done)) if harm else []
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
        demotions=demotions,
        stalled=stalled,
        subset=subset,
        **result,
    )


def _idle() -> None:
    """Worker processes take only what nobody else wants."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _measured(arguments: tuple[int, bool, bool]) -> Outcome:
    seed, harm, subsets = arguments
    return measure(seed, harm=harm, subsets=subsets)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def ratios(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """What is compared with what, over all dynamics."""

    def over(one: float, other: float) -> float:
        return one / max(other, 0.01)

    rows = {
        "guard / fullmesh": [over(one.guard, one.fullmesh) for one in outcomes],
        "guard / best single path": [over(one.guard, one.best_single) for one in outcomes],
        "guard / better of both": [over(one.guard, max(one.fullmesh, one.best_single)) for one in outcomes],
        "guard / default path": [over(one.guard, one.default) for one in outcomes],
        "fullmesh / best single path": [over(one.fullmesh, one.best_single) for one in outcomes],
        "fullmesh / better of both": [
            over(one.fullmesh, max(one.fullmesh, one.best_single)) for one in outcomes
        ],
        "best single path / better of both": [
            over(one.best_single, max(one.fullmesh, one.best_single)) for one in outcomes
        ],
        "fullmesh, another seed / fullmesh": [over(one.again, one.fullmesh) for one in outcomes],
    }
    if any(one.subset is not None for one in outcomes):
        rows["guard / best constant set"] = [over(one.guard, one.subset or 0) for one in outcomes]
    return rows


_SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95)


def table(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A row for each comparison: geometric mean, quantiles, share of dynamics below the goal."""
    rows = [["", "mean", *(f"{100 * share:.0f} %" for share in _SHARES), f"below {100 * GOAL:.0f} %"]]
    for name, values in ratios(outcomes).items():
        mean = statistics.geometric_mean([max(value, 1e-3) for value in values])
        missed = sum(value < GOAL for value in values) / len(values)
        cells = [f"{quantile(values, share):.2f}" for share in _SHARES]
        rows.append([name, f"{mean:.2f}", *cells, f"{100 * missed:.1f} %"])
    return rows


def facts(outcomes: Sequence[Outcome]) -> list[str]:
    """The other goals, a line each."""
    per_minute = [one.changes / one.minutes for one in outcomes]
    unchanged = sum(one.changes == 0 for one in outcomes)
    demotions = [demotion for one in outcomes for demotion in one.demotions]
    times = [one.after_s for one in demotions if one.after_s is not None]
    stalls = (
        sum("guard" in one.stalled for one in outcomes),
        sum("fullmesh" in one.stalled for one in outcomes),
    )
    lines = [
        f"Changes a minute: median {statistics.median(per_minute):.2f}, "
        f"90 % {quantile(per_minute, 0.9):.1f}, "
        f"most {max(per_minute):.1f}; none in {unchanged} of {len(outcomes)} dynamics.",
        f"Stalled for good: guard in {stalls[0]} of {len(outcomes)}, "
        f"fullmesh with one of two seeds in {stalls[1]}.",
    ]
    if demotions:
        soon = sum(time <= DEMOTED_S for time in times)
        middle = f", median of these {statistics.median(times):.1f} s" if times else ""
        lines.append(
            f"Subflows made harmful by an event: {len(demotions)}; demoted within {DEMOTED_S:.0f} s {soon}, "
            f"before the next event {len(times)}{middle}."
        )
    return lines


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The table and the facts, for the docs."""
    head, *rows = table(outcomes)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(
        [f"{len(outcomes)} dynamics:", "", *lines, "", *(f"- {line}" for line in facts(outcomes))]
    )


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
        help=f"of the first dynamic ({FRESH}; developed on {DEVELOPED} to 200)",
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
    shown = Table(*head)
    for row in rows:
        shown.add_row(*row)
    console = Console()
    console.print(shown)
    for line in facts(outcomes):
        console.print(line)
    console.print(f"{time.monotonic() - began:.0f} s")
    write(
        "guard",
        {"table": table(outcomes), "facts": facts(outcomes), "dynamics": msgspec.to_builtins(outcomes)},
    )
    if arguments.write_docs:
        _docs.replace(DOCS, "guard", markdown(outcomes))


if __name__ == "__main__":
    main()
