"""Loss where the kernel uses other subflows than the answer: from the run's trials, else simulated.

It decides nothing; the sets are `mptune.apply.plan`'s.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from mptune.apply.plan import Outline
from mptune.errors import InputError, MptuneError
from mptune.result.run_data import TrialRow
from mptune.runner.planning import plan_trials
from mptune.runner.runner import TrialRunner
from mptune.statistics import Summary, summarise, summary_of
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.trial import DEFAULT_FAMILY, FIXED, Bulk, Configuration
from mptune.trial.metrics import THROUGHPUT

#: Seeds of a simulated comparison, and the least pairs of measured trials that replace it.
_SEEDS = 5
_LEAST = 2
#: Longest simulated trial, nanoseconds.
_LONGEST_NS = 10_000_000_000
#: Kept apart from the seeds of the run.
_APART = 1_000_003


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput with the answer's subflows and with the kernel's, Mbit/s.

    Attributes
    ----------
    source : trials of the run, or the simulator.
    testbed : where those trials ran.
    asked, got : of the two sets; None if every trial failed.
    change : got minus asked, run by run; None where no run succeeded with both.
    share : its mean as a share of what was asked for.
    """

    source: Literal["measured", "simulated"]
    testbed: str
    asked: Summary | None
    got: Summary | None
    change: Summary | None
    share: float | None


def loss(outline: Outline, *, simulate: bool = True) -> Loss | str:
    """The loss, or why it is unknown, as a sentence.

    Parameters
    ----------
    simulate : whether the simulator may be asked if there are no such trials.
    """
    if outline.answered.objective:
        return f"What that costs in {outline.answered.objective} was not measured."
    if (measured := _measured(outline)) is not None:
        return measured
    if not simulate:
        return "What that costs was not measured."
    try:
        return _simulated(outline)
    except InputError as error:
        return f"What that costs is unknown: {error}."
    except MptuneError as error:
        return f"What that costs could not be simulated: {error}."


def _measured(outline: Outline) -> Loss | None:
    """From trials with the answer's congestion control and buffer, of both sets with the same seeds."""
    answered = outline.answered
    answer, run = answered.answer, answered.run
    if answer.opm in ("ndiffports", "binder"):
        return None
    sets: dict[frozenset[str], dict[tuple[str, int, int], float]] = {}
    for trial in run.trials:
        alike = (trial.cc, trial.buffer_bytes, trial.buffer_mode) == (
            answer.occ,
            answer.obs_bytes,
            answer.buffer_mode or FIXED,
        )
        carried = _carried(outline, trial)
        if alike and carried is not None and trial.throughput_mbps is not None and trial.failed is None:
            sets.setdefault(carried, {})[trial.purpose, trial.round, trial.run] = trial.throughput_mbps
    asked, got = (sets.get(frozenset(labels), {}) for labels in (outline.wanted, outline.used))
    both = [key for key in asked if key in got]
    if len(both) < _LEAST:
        return None
    return _compared(
        [asked[key] for key in both], [got[key] for key in both], "measured", answered.testbed or "elsewhere"
    )


def _carried(outline: Outline, trial: TrialRow) -> frozenset[str] | None:
    """The subflows that carried data in a trial; None if they are unknown."""
    if trial.transfer_bytes is not None or trial.purpose not in ("sweep", "search", "shortlist", "confirm"):
        return None
    if trial.pm == "fullmesh":
        return frozenset(path.label for path in outline.answered.topology.paths)
    if trial.pm == "default":
        return frozenset([trial.initial_path or outline.answered.topology.initial_path])
    if trial.pm == "pcdc":
        own = (impact.optional for impact in outline.answered.run.impact if impact.cc == trial.cc)
        return frozenset(trial.subflows or next(own, ())) or None
    return None


def _simulated(outline: Outline) -> Loss:
    """From a few seeds of the simulator."""
    answered = outline.answered
    answer, options = answered.answer, answered.options
    common: dict[str, Any] = {
        "cc": answer.occ,
        "buffer_bytes": answer.obs_bytes,
        "buffer_mode": answer.buffer_mode or FIXED,
        "receive_buffer_bytes": answer.receive_bytes,
        "family": answer.family or DEFAULT_FAMILY,
        "initial_path": outline.initial,
        "workload": Bulk(duration_ns=min(int(options.get("duration_ns") or _LONGEST_NS), _LONGEST_NS)),
    }
    asked = Configuration(pm="pcdc", pm_options={"active": outline.wanted}, **common)
    if answer.opm in ("ndiffports", "binder"):
        asked = Configuration(pm=answer.opm, pm_options=_of_path_manager(options, answer.opm), **common)
    got = Configuration(pm="pcdc", pm_options={"active": outline.used}, **common)
    planned = plan_trials(
        answered.topology,
        [asked, got],
        purpose="confirm",
        runs=_SEEDS,
        base_seed=int(options.get("seed") or 0) + _APART,
    )
    records = TrialRunner(SimulatedTestbed()).measure(planned)
    pairs = [
        (mine.throughput_mbps, other.throughput_mbps)
        for mine, other in zip(records[:_SEEDS], records[_SEEDS:], strict=True)
        if mine.throughput_mbps is not None and other.throughput_mbps is not None
    ]
    if not pairs:
        return Loss(
            source="simulated",
            testbed=SimulatedTestbed.name,
            asked=summary_of(THROUGHPUT.values(records[:_SEEDS])),
            got=summary_of(THROUGHPUT.values(records[_SEEDS:])),
            change=None,
            share=None,
        )
    ours, theirs = zip(*pairs, strict=True)
    return _compared(ours, theirs, "simulated", SimulatedTestbed.name)


def _of_path_manager(options: Mapping[str, Any], pm: str) -> dict[str, Any]:
    """Options of a path manager as the run had them."""
    given = (options.get("pm_options") or {}).get(pm)
    return {name: value for name, value in given.items() if value is not None} if given else {}


def _compared(
    asked: Sequence[float], got: Sequence[float], source: Literal["measured", "simulated"], testbed: str
) -> Loss:
    change = summarise([theirs - ours for ours, theirs in zip(asked, got, strict=True)])
    mean = summarise(asked).mean
    return Loss(
        source=source,
        testbed=testbed,
        asked=summarise(asked),
        got=summarise(got),
        change=change,
        share=change.mean / mean if mean else None,
    )
