"""The section of how a strategy that learns reached its decision: what it tried, and what dropped out when.

Beside the trials it needs only what was believed after each step; why a candidate dropped out follows from
what the trials until then had given.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mptune._text import digits
from mptune.report.charts import reached as charts
from mptune.report.charts.style import Key
from mptune.report.choices import Choices
from mptune.report.sections._base import Panel, Rows, Section, Table, without
from mptune.result.answer import Answer, Reached, Step
from mptune.result.run_data import RunData, TrialRow
from mptune.result.wording import PREDICTION, lasting
from mptune.units import MIB, format_size

#: Path manager and congestion control, as `TrialRow.name`.
Name = tuple[str, str]

#: Candidates in the table that is open; all are in the one behind a click.
_ROWS = 15

#: From this many seconds on the axis of time is in minutes.
_MINUTES_S = 300

#: With larger buffers the throughput may fall this far below what suffices before that is the reason.
_COLLAPSE = 0.1

#: A buffer up to this many times the answer's counts as the same: buffers are whole KiB.
_SAME = 1.05


class _Done(NamedTuple):
    """A trial of the sweep: its place among them, from 1, and after how many seconds it began and ended."""

    number: int
    begun_s: float
    seconds: float
    trial: TrialRow

    @property
    def throughput_mbps(self) -> float | None:
        """0 for a connection that stalled; None where the trial proves nothing."""
        failed = self.trial.failed
        return 0.0 if failed is not None and failed.kind == "stalled" else self.trial.throughput_mbps


class Dropped(NamedTuple):
    """Fate of a candidate.

    Attributes
    ----------
    until : the first step at which it was out for good; None if it never was.
    """

    name: Name
    until: Step | None
    why: str


def reached(run: RunData, choices: Choices) -> Iterator[Section]:
    """The race of the candidates over time, and why each dropped out.

    By an objective without the reasons, which are about throughput over the buffer.
    """
    answer = run.answer
    if run.by_objective is not None and run.by_objective.reached is not None:
        yield from _searched(run, run.by_objective.reached, run.by_objective.unit)
        return
    if answer is None or answer.reached is None or not answer.reached.steps:
        return
    course, done = answer.reached, in_order(run, answer.reached)
    if not done:
        return
    unit, unit_s = _scale(course)
    ends = done[0].begun_s / unit_s, course.steps[-1].seconds / unit_s
    elapsed = charts.Elapsed(f"after_{unit}", unit, ends)
    fates = fates_of(answer, run.answering, done)
    tried = Counter(step.trial.name for step in done)
    # What stayed to the end, and what was tried most often.
    ranked = sorted((fate for fate in fates if tried[fate.name]), key=lambda dropped: _rank(dropped, tried))
    named = [_label(each_dropped.name) for each_dropped in ranked[: charts.NAMED]]
    left = len(ranked) - len(named)
    others = f"{left} {'other' if left == 1 else 'others'}"
    colours = Key(field="shown", title="candidate", names=(*named, *((others,) if left else ())), marks=True)
    trials = _trial_rows(done, named, others, elapsed.column, unit_s)
    steps = _step_rows(course, elapsed.column, unit_s)
    rows = [_fate_row(fate, done, unit, unit_s) for fate in fates]
    yield Section(
        name="reached",
        title="Course of the decision",
        lead=" ".join([*sentences(run, course), *_reading(course), _OF_TRIALS]),
        panels=[
            *_beliefs(steps, elapsed),
            Panel(title="Trials", chart=charts.trials(_grey_first(trials, others), steps, colours, elapsed)),
        ],
        key=colours,
        open=[Table(title=_open_title(len(rows)), rows=rows[:_ROWS], headings=_HEADINGS)],
        tables=[
            *([Table(title="Every candidate", rows=rows, headings=_HEADINGS)] if len(rows) > _ROWS else ()),
            Table(title="Belief after each step", rows=steps, source="result.json"),
            Table(title="Trials in their order", rows=without(trials, "shown", "share")),
        ],
    )


_HEADINGS = {
    "best_mean_mbps": "best mean (Mbit/s)",
    "at_mib": "with (MiB)",
    "out_after_trials": "out after (trials)",
    "out_after_min": "out after (min)",
    "out_after_s": "out after (s)",
}


def _searched(run: RunData, course: Reached, objective_unit: str) -> Iterator[Section]:
    """The same of an objective: candidates and certainty over time."""
    if not course.steps:
        return
    unit, unit_s = _scale(course)
    elapsed = charts.Elapsed(f"after_{unit}", unit, (0.0, course.steps[-1].seconds / unit_s))
    steps = _step_rows(course, elapsed.column, unit_s)
    for row, step in zip(steps, course.steps, strict=True):
        row[f"value ({objective_unit})"] = None if step.value is msgspec.UNSET else step.value
    yield Section(
        name="reached",
        title="Course of the decision",
        lead=" ".join([*sentences(run, course), *_reading(course)]),
        panels=_beliefs(steps, elapsed),
        tables=[Table(title="Belief after each step", rows=steps, source="result.json")],
    )


def _scale(course: Reached) -> tuple[str, float]:
    """Unit of the axis of time, and its length in seconds."""
    return ("min", 60.0) if course.steps[-1].seconds >= _MINUTES_S else ("s", 1.0)


def _beliefs(steps: Rows, elapsed: charts.Elapsed) -> list[Panel]:
    return [
        Panel(title="Candidates", chart=charts.race(steps, elapsed)),
        Panel(title="Certainty", chart=charts.certainty(steps, elapsed)),
    ]


def _open_title(count: int) -> str:
    if count <= _ROWS:
        return "When each candidate dropped out"
    return f"When candidates dropped out: the last {_ROWS} of {count}"


def _reading(course: Reached) -> Iterator[str]:
    """Sentences on reading the figure."""
    asked = f"{100 * course.certainty_asked:g} %"
    yield "Candidates: those that may still be the best; dashed: all that competed."
    yield f"Certainty: what the answer may miss at most, with {asked} certainty."


_OF_TRIALS = (
    "Trials: a mark for each, larger with more throughput; grey: buffers that may still be the answer."
)


def sentences(run: RunData, course: Reached) -> Iterator[str]:
    """Certainty, effort, reason of the end, and the effort of a full grid."""
    last = course.steps[-1]
    certain = f"{100 * last.certainty:.3g} % certain within {100 * last.room:.2g} %"
    asked = f"{100 * course.certainty_asked:g} % asked for"
    after = f"after {last.trials} trials and {lasting(course.spent_s)} on the testbed"
    if course.ended == "certain":
        yield f"It ended because the answer was {certain} ({asked}), {after}."
    elif course.ended == "budget":
        budget = "" if course.budget_s is None else f" of {lasting(course.budget_s)}"
        yield f"The budget{budget} ended it: the answer is {certain} ({asked}), {after}."
    else:
        yield f"It ended because everything was measured: the answer is {certain} ({asked}), {after}."
    grid = grid_trials(run) if run.by_objective is None else None
    if grid is not None:
        share = digits(100 * last.trials / grid, 2)
        yield f"That is {share} % of the {grid} trials of a full grid of what was asked for."
    if last.prior in PREDICTION:
        yield PREDICTION[last.prior]


def grid_trials(run: RunData) -> int | None:
    """Trials of every combination asked for with every buffer; None if the options do not determine it."""
    options = run.config.options
    try:
        combinations = len(options["pms"]) * len(options["ccs"]) * max(1, len(options["initial_paths"]))
        return int(options["runs"]) * len(options["buffers"]) * combinations or None
    except (KeyError, TypeError):
        return None


def in_order(run: RunData, course: Reached) -> list[_Done]:
    """The trials of the sweep in the order in which they were asked for, a step's in any order.

    The end of a trial lies evenly between those of its step and of the one before.
    """
    round_ = run.answering_round
    swept = [trial for trial in run.trials if trial.purpose == "sweep" and round_ in (None, trial.round)]
    swept.sort(key=lambda trial: trial.started)
    first, last = course.steps[0], course.steps[-1]
    each_s = run.config.options.get("duration_ns", 0) / 1e9
    if last.trials > first.trials:
        each_s = (last.seconds - first.seconds) / (last.trials - first.trials)
    done, number, begun_s = [], 0, first.seconds - first.trials * each_s
    for step in course.steps:
        count = step.trials - number
        for place, trial in enumerate(swept[number : step.trials], 1):
            begin, end = (begun_s + at * (step.seconds - begun_s) / count for at in (place - 1, place))
            done.append(_Done(number + place, begin, end, trial))
        number, begun_s = step.trials, step.seconds
    return done


def fates_of(answer: Answer, answering: Name, done: Sequence[_Done]) -> list[Dropped]:
    """Fates of all candidates: the best, then those still open, then the dropped ones, the latest first."""
    course = answer.reached
    if course is None:
        return []
    names = [candidate.name for candidate in course.candidates]
    last = course.steps[-1]
    best, still_open = names[last.candidate], [names[contender] for contender in last.contenders]
    fates = [Dropped(best, None, "the answer" if best == answering else "the best of these")]
    fates += [Dropped(pair, None, "still open") for pair in still_open if pair != best]
    known = {each_dropped.name for each_dropped in fates}
    out = []
    for name in dict.fromkeys([*names, *(finished.trial.name for finished in done)]):
        if name not in known:
            step = _out(course, name, names, done)
            out.append(Dropped(name, step, why(name, step, done, answer.sacrifice)))

    def rank(dropped: Dropped) -> tuple[float, float, Name]:
        trials = math.inf if dropped.until is None else dropped.until.trials
        return -trials, -_best(_means(dropped.name, done))[1], dropped.name

    out.sort(key=rank)
    return fates + out


def _rank(dropped: Dropped, tried: Mapping[Name, int]) -> tuple[bool, int]:
    return dropped.until is not None, 0 if dropped.until is None else -tried[dropped.name]


def _out(course: Reached, name: Name, names: Sequence[Name], done: Sequence[_Done]) -> Step:
    """The first step at which a candidate was out for good."""
    place = names.index(name) if name in names else None
    inside = [
        number for number, step in enumerate(course.steps) if place in (*step.contenders, step.candidate)
    ]
    if inside:
        return course.steps[inside[-1] + 1]
    # It was never likely: out as soon as it was tried.
    tried = next((finished.number for finished in done if finished.trial.name == name), 0)
    return next(step for step in course.steps if step.trials >= tried)


def why(name: Name, step: Step, done: Sequence[_Done], sacrifice: float) -> str:
    """Why a candidate dropped out at a step, by what the trials until then had given."""
    until = [finished for finished in done if finished.number <= step.trials]
    mine = _means(name, until)
    if not mine:
        return "not measured by then: similar configurations were enough"
    best = max(
        mean
        for other in {finished.trial.name for finished in until}
        for mean in _means(other, until).values()
    )
    allowed = (1 - sacrifice) * best
    enough = [buffer_bytes for buffer_bytes, mean in mine.items() if mean >= allowed]
    if not enough:
        return f"slower by {100 * (1 - max(mine.values()) / best):.0f} %"
    buffer_bytes, reasons = min(enough), []
    if buffer_bytes > _SAME * step.buffer_bytes:
        reasons.append(_needs(mine, buffer_bytes, allowed, step.buffer_bytes))
    low, low_mbps = min(
        ((number, mean) for number, mean in mine.items() if number >= buffer_bytes), key=lambda row: row[1]
    )
    if low_mbps < allowed * (1 - _COLLAPSE):
        reasons.append(f"falls to {digits(low_mbps, 3)} Mbit/s with {format_size(low, 3)}")
    return "; ".join(reasons) or "no better than the answer"


def _needs(mine: Mapping[int, float], buffer_bytes: int, allowed: float, here: int) -> str:
    """By how much the smallest buffer (bytes) that was enough is larger than the answer's."""
    needed = digits(buffer_bytes / here, 2)
    short = [number for number, mean in mine.items() if here <= number < buffer_bytes and mean < allowed]
    if not short:
        return f"fast enough with {needed} times the buffer, not tried with less"
    if max(short) <= _SAME * here:
        return f"needs up to {needed} times the buffer"
    return f"needs {digits(max(short) / here, 2)} to {needed} times the buffer"


def _means(name: Name, done: Sequence[_Done]) -> dict[int, float]:
    """Mean throughputs of a candidate, Mbit/s, by buffer, bytes."""
    seen: dict[int, list[float]] = {}
    for step in done:
        if step.trial.name == name and (mbps := step.throughput_mbps) is not None:
            seen.setdefault(step.trial.buffer_bytes, []).append(mbps)
    return {buffer_bytes: math.fsum(values) / len(values) for buffer_bytes, values in sorted(seen.items())}


def _best(means: dict[int, float]) -> tuple[int, float]:
    """Buffer and throughput of the largest mean; of equals the smaller buffer."""
    return max(means.items(), key=lambda row: (row[1], -row[0]), default=(0, -1.0))


def _label(name: Name) -> str:
    return ", ".join(name)


def _fate_row(dropped: Dropped, done: Sequence[_Done], unit: str, unit_s: float) -> dict[str, Any]:
    means = _means(dropped.name, done)
    buffer_bytes, mbps = _best(means)
    return {
        "candidate": _label(dropped.name),
        "trials": sum(each.trial.name == dropped.name for each in done),
        "best_mean_mbps": mbps if means else None,
        "at_mib": buffer_bytes / MIB if means else None,
        "out_after_trials": None if dropped.until is None else dropped.until.trials,
        f"out_after_{unit}": None if dropped.until is None else round(dropped.until.seconds / unit_s, 1),
        "why": dropped.why,
    }


def _step_rows(course: Reached, column: str, unit_s: float) -> Rows:
    return [
        {
            column: step.seconds / unit_s,
            "trials": step.trials,
            "best": _label(course.candidates[step.candidate].name),
            "buffer_mib": step.buffer_bytes / MIB,
            "certainty_percent": 100 * step.certainty,
            "room_percent": 100 * step.room,
            "contenders": len(step.contenders),
            "competing": step.among,
            "smallest_mib": step.buffers[0] / MIB,
            "largest_mib": step.buffers[1] / MIB,
        }
        for step in course.steps
    ]


def _grey_first(rows: Rows, others: str) -> Rows:
    """Grey rows first: later marks cover earlier ones."""
    return sorted(rows, key=lambda row: row["shown"] != others)


def _trial_rows(done: Sequence[_Done], named: Sequence[str], others: str, column: str, unit_s: float) -> Rows:
    top = max((step.throughput_mbps or 0.0 for step in done), default=0.0) or 1.0
    rows = []
    for step in done:
        name, mbps = _label(step.trial.name), step.throughput_mbps
        rows.append(
            {
                column: step.seconds / unit_s,
                "candidate": name,
                "buffer_mib": step.trial.buffer_mib,
                "run": step.trial.run,
                "throughput_mbps": mbps,
                "shown": name if name in named else others,
                "share": (mbps or 0.0) / top,
            }
        )
    return rows
