"""Run directories read: their documents, their curves, and the trials in their store.

Everything is checked as it is read, so that any fault in a directory becomes a one-line error. It draws
nothing and writes nothing.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from mptune import files
from mptune._text import on_subflows, over, plain_tcp
from mptune.errors import InputError
from mptune.optimisation.over_time import TABLE
from mptune.result.answer import (
    Answer,
    ImpactSets,
    ObjectiveAnswer,
    RoundRow,
    SizesAnswer,
    beginning,
    chosen,
    last_answering,
)
from mptune.result.documents import read_document
from mptune.result.run_data import (
    ComparedRow,
    Config,
    ConfigFile,
    CurvePoint,
    RoundFlow,
    RunData,
    TimeStep,
    TrialRow,
)
from mptune.routes.followed import read_followed
from mptune.runner.seeds import OF_CAMPAIGN
from mptune.statistics import quantile
from mptune.store import Store, StoredTrial, open_store
from mptune.store.directory import COMPARED, CONFIG, RESULT, STORE, is_unfinished, no_end, no_run
from mptune.store.round_trips import path_rtts
from mptune.testbeds import stack_title
from mptune.topology import Topology, from_document
from mptune.trial import FIXED, PLAIN_TCP, bits_per_second
from mptune.trial.kept import is_tcp, sent_of
from mptune.trial.records import family_of, members_of, stack_of
from mptune.units import MIB

#: Most combinations of path manager and congestion control for which each is drawn over time.
_PANORAMA = 24

#: Most combinations of a sweep whose messages are drawn.
_QUICKEST = 6


class _ImpactFile(msgspec.Struct):
    impact: tuple[ImpactSets, ...] = ()


def read_runs(directories: Sequence[Path]) -> list[RunData]:
    """Read run directories, each labelled by the shortest unique end of its path.

    Raises
    ------
    InputError : as `read_run`, or a directory is named twice.
    """
    whole = [files.resolved(directory) for directory in directories]
    for index, route in enumerate(whole):
        if route in whole[:index]:
            raise InputError(str(directories[index]), "", "expected each run once, found this one twice")
    return [read_run(path, label) for path, label in zip(directories, _labels(whole), strict=True)]


def _labels(paths: Sequence[Path]) -> list[str]:
    length = 1
    while len({path.parts[-length:] for path in paths}) < len(paths):
        length += 1
    return ["/".join(path.parts[-length:]) for path in paths]


def read_run(directory: Path, label: str) -> RunData:
    """Read a run directory.

    Raises
    ------
    InputError : not a run directory, its campaign is not complete, or a file in it is damaged.
    MptuneError : its store is locked against reading.
    """
    if is_unfinished(directory):
        raise no_end(directory)
    config = read_document(directory, CONFIG, ConfigFile)
    if config is None:
        raise no_run(directory)
    is_by_size = bool(config.options.get("transfers")) and config.options.get("confirm_runs") is not None
    is_by_objective = bool(config.options.get("workload")) and config.options.get("confirm_runs") is not None
    answer = None if is_by_size or is_by_objective else read_document(directory, RESULT, Answer)
    by_objective = read_document(directory, RESULT, ObjectiveAnswer) if is_by_objective else None
    by_size = read_document(directory, RESULT, SizesAnswer) if is_by_size else None
    impact = read_document(directory, "impact.json", _ImpactFile) or _ImpactFile()
    topology = None
    if config.topology:
        topology = from_document(config.topology, str(directory), f"{CONFIG}: topology")
    with _store(directory) as store:
        own = _own_sets(answer, impact.impact) if by_objective is None else _no_sets(config.options)
        trials = () if store is None else _trials(store, config.options, own, answer)
        if store is not None:
            trials = tuple(_with_delay(store, trial) for trial in trials)
        foreign = 0 if store is None else store.foreign()
        answering = None if answer is None else last_answering(answer)
        current = [trial for trial in trials if answering in (None, trial.round)]
        # Of transfers and messages times are shown, not the throughput on the way.
        selected, panorama = () if is_by_size or is_by_objective else _selected(current), _panorama(current)
        delayed = _confirming(trials) if is_by_objective else _quickest(trials)
        seen = (
            {}
            if store is None
            else {trial.key: store.observation(trial.key) for trial in (*selected, *panorama, *delayed)}
        )
        rtts = () if store is None else tuple(path_rtts(store))
        by_round = () if store is None else tuple(_by_round(store, trials, answer, selected))
    return RunData(
        label=label,
        name=_name(config, topology, label),
        config=config,
        answer=answer,
        by_size=by_size,
        by_objective=by_objective,
        compared=tuple(_compared(directory)) if is_by_objective else (),
        impact=impact.impact,
        topology=topology,
        trials=trials,
        foreign=foreign,
        curves=tuple(_curves(directory, "curves.csv")),
        steps=tuple(_steps(directory)),
        rtts=rtts,
        routes=read_followed(directory),
        by_round=by_round,
        shown=selected,
        panorama=panorama,
        delayed=tuple(trial for trial in delayed if seen[trial.key].delays_ns),
        observations=seen,
    )


def _name(config: Config, topology: Topology | None, label: str) -> str:
    """Its name in the answer: the file of measurements, or the topology."""
    if "from" in config.options:
        return Path(str(config.options["from"])).stem
    return label if topology is None else topology.name


def _store(directory: Path) -> AbstractContextManager[Store | None]:
    path = directory / STORE
    return open_store(path, write=False) if files.is_file(path) else nullcontext()


#: Fields of a trial, and the options that give the order in which their values were requested.
_ASKED = (("pm", "pms"), ("cc", "ccs"), ("initial_path", "initial_paths"), ("transfer_bytes", "transfers"))

#: Trials on another testbed than the campaign's are shown with the answer alone.
_PURPOSES = {name: place for place, name in enumerate(OF_CAMPAIGN)}


#: The set that PCDC has of itself, by round and congestion control.
_OwnSets = Mapping[tuple[int, str], Sequence[str]]


def _own_sets(answer: Answer | None, impact: Sequence[ImpactSets]) -> _OwnSets:
    """From the signs of the impact factors, which each round measures anew."""
    rounds = () if answer is None else answer.rounds
    if not rounds:
        return {(0, sets.cc): sets.optional for sets in impact}
    return {
        (row.round, cc): own
        for row in rounds
        if row.answer is not None
        for cc, own in row.answer.optional.items()
    }


def _no_sets(options: dict[str, Any]) -> _OwnSets:
    """Of an answer by an objective every set of PCDC was chosen."""
    return {(0, cc): () for cc in options.get("ccs") or ()}


def _trials(
    store: Store, options: dict[str, Any], own: _OwnSets, answer: Answer | None
) -> tuple[TrialRow, ...]:
    """Trials in the order requested; the store has them in the order in which they ended.

    Where buffers that grow and fixed ones competed, those of the answer, and the papers' default.
    """
    orders = {
        field: {value: place for place, value in enumerate(options.get(option) or ())}
        for field, option in _ASKED
    }

    def place(trial: TrialRow) -> list[int]:
        asked = [orders[field].get(getattr(trial, field), len(orders[field])) for field, _ in _ASKED]
        return [_PURPOSES[trial.purpose], *asked]

    stored = [trial for trial in store.trials() if trial.purpose in _PURPOSES and _is_shown(trial, answer)]
    variants = [
        _variant(trial) for trial in stored if not is_tcp(trial.settings) and not _is_default(trial, answer)
    ]
    mixed = [number for number, values in enumerate(zip(*variants, strict=True)) if len(set(values)) > 1]
    return tuple(sorted((_trial(trial, mixed, own) for trial in stored), key=place))


def _is_shown(stored: StoredTrial, answer: Answer | None) -> bool:
    """True for a trial with the buffers of the answer, and for one of the default."""
    mode = None if answer is None else answer.buffer_mode
    return mode in (None, _buffer_mode(stored)) or _is_default(stored, answer)


def _is_default(stored: StoredTrial, answer: Answer | None) -> bool:
    """True for a trial of the default that the answer was confirmed beside."""
    default = None if answer is None else answer.default
    if default is None or stored.purpose != "confirm" or _buffer_mode(stored) != FIXED:
        return False
    own = stored.pm, stored.cc, stored.buffer_bytes
    return own == (default.pm, default.cc, round(default.buffer_mib * MIB))


def _variant(stored: StoredTrial) -> tuple[str, str]:
    """Stack and mode of the buffers, in words."""
    return stack_of(stored.settings), f"{_buffer_mode(stored)} buffers"


def _buffer_mode(stored: StoredTrial) -> str:
    return str(stored.settings.get("buffer_mode", FIXED))


def _trial(stored: StoredTrial, mixed: Sequence[int], own: _OwnSets) -> TrialRow:
    """A trial as a row; `mixed` are the parts of `_variant` that are not the same in all trials of MPTCP."""
    variant, path = _variant(stored), stored.settings.get("initial_path")
    subflows = chosen(stored.pm, stored.settings.get("active", ()), own.get((stored.round, stored.cc)))
    manager = ", ".join([on_subflows(stored.pm, subflows), *(variant[part] for part in mixed)])
    tcp = is_tcp(stored.settings)
    return TrialRow(
        key=stored.key,
        testbed=stored.testbed,
        purpose=stored.purpose,
        round=stored.round,
        run=stored.run,
        pm=PLAIN_TCP if tcp else stored.pm,
        manager=plain_tcp(path or "") if tcp else manager,
        stack=f"{stack_title(stored.testbed, members_of(stored.settings))}{over(family_of(stored.settings))}",
        buffer_mode=_buffer_mode(stored),
        cc=stored.cc,
        buffer_bytes=stored.buffer_bytes,
        buffer_mib=stored.buffer_bytes / MIB,
        started=stored.started,
        initial_path=None if tcp else path,
        transfer_bytes=stored.settings.get("transfer_bytes"),
        workload=dict(sent_of(stored.settings)) or None,
        failed=stored.failed,
        throughput_mbps=stored.throughput_mbps,
        completion_s=None if stored.completion_ns is None else stored.completion_ns / 1e9,
        subflows=subflows,
    )


def _with_delay(store: Store, trial: TrialRow) -> TrialRow:
    """A trial with the 99th percentile of its delays or times, if it has any."""
    if trial.workload is None or trial.failed is not None:
        return trial
    delays = sorted(store.observation(trial.key).delays_ns)
    return msgspec.structs.replace(trial, p99_ms=quantile(delays, 0.99) / 1e6 if delays else None)


def _confirming(trials: Sequence[TrialRow]) -> tuple[TrialRow, ...]:
    """Trials of messages or requests that confirm an answer."""
    return tuple(
        trial
        for trial in trials
        if trial.purpose == "confirm" and trial.failed is None and trial.p99_ms is not None
    )


def _quickest(trials: Sequence[TrialRow]) -> tuple[TrialRow, ...]:
    """Of a sweep with messages or requests trials of some combinations, the best first.

    Of each those with its best buffer.
    """
    groups: dict[tuple[object, ...], dict[int, list[TrialRow]]] = {}
    for trial in trials:
        if trial.purpose == "sweep" and trial.p99_ms is not None:
            combination = trial.manager, trial.cc, trial.initial_path
            groups.setdefault(combination, {}).setdefault(trial.buffer_bytes, []).append(trial)

    def delay(ones: Sequence[TrialRow]) -> float:
        return sum(trial.p99_ms or 0.0 for trial in ones) / len(ones)

    best = sorted((min(by_buffer.values(), key=delay) for by_buffer in groups.values()), key=delay)
    return tuple(trial for ones in best[:_QUICKEST] for trial in ones)


def _selected(trials: Sequence[TrialRow]) -> tuple[TrialRow, ...]:
    """Trials that confirm; for a sweep, all runs of the configuration with the largest mean throughput."""
    usable = [trial for trial in trials if trial.failed is None]
    confirming = tuple(trial for trial in usable if trial.purpose == "confirm")
    if confirming:
        return confirming
    groups: dict[tuple[object, ...], list[TrialRow]] = {}
    for trial in usable:
        if trial.purpose == "sweep" and trial.is_saturated and not trial.round:
            key = trial.manager, trial.cc, trial.buffer_bytes, trial.initial_path
            groups.setdefault(key, []).append(trial)
    best = max(groups.values(), key=_mean, default=[])
    return tuple(best)


def _by_round(
    store: Store, trials: Sequence[TrialRow], answer: Answer | None, selected: Sequence[TrialRow]
) -> Iterator[RoundFlow]:
    """Load of the paths in each round: with its own answer or, of a sweep, with the configuration shown."""
    if len({trial.round for trial in trials}) < 2 or not selected:
        return
    own = {} if answer is None else {row.round: row for row in answer.rounds}
    groups: dict[int, list[TrialRow]] = {}
    for trial in trials:
        if trial.failed is None and trial.is_saturated and _is_of_round(trial, own, selected[0]):
            groups.setdefault(trial.round, []).append(trial)
    began = min(trial.started for trial in trials)
    for number, ones in sorted(groups.items()):
        mbps: dict[str, float] = {}
        for seen in (store.observation(trial.key) for trial in ones):
            for subflow in seen.subflows:
                rate = bits_per_second(subflow.bytes, seen.duration_ns) / 1e6 / len(ones)
                mbps[subflow.path] = mbps.get(subflow.path, 0.0) + rate
        yield RoundFlow(
            round=number,
            at_s=own[number].at_s if number in own else ones[0].started - began,
            manager=ones[0].manager,
            cc=ones[0].cc,
            mbps=mbps,
        )


def _is_of_round(trial: TrialRow, own: Mapping[int, RoundRow], shown: TrialRow) -> bool:
    if not own:
        same = trial.manager, trial.cc, trial.buffer_bytes, trial.initial_path
        return trial.purpose == "sweep" and same == (
            *(shown.manager, shown.cc, shown.buffer_bytes),
            shown.initial_path,
        )
    row = own.get(trial.round)
    if row is None or row.answer is None or trial.purpose != "confirm":
        return False
    answered = row.answer.opm, row.answer.occ, row.answer.obs_bytes
    return (trial.pm, trial.cc, trial.buffer_bytes) == answered


def _mean(trials: Sequence[TrialRow]) -> float:
    return sum(trial.throughput_mbps or 0.0 for trial in trials) / len(trials)


def _panorama(trials: Sequence[TrialRow]) -> tuple[TrialRow, ...]:
    """The first usable run of each combination with the largest buffer, unless there are too many.

    Of PCDC it is the one with its own set.
    """
    swept = [
        trial
        for trial in trials
        if trial.purpose == "sweep" and trial.failed is None and trial.is_saturated and not trial.subflows
    ]
    largest = max((trial.buffer_bytes for trial in swept), default=0)
    first: dict[tuple[str, str], TrialRow] = {}
    for trial in swept:
        if trial.buffer_bytes == largest:
            first.setdefault((trial.cc, trial.manager), trial)
    return tuple(first.values()) if 1 < len(first) <= _PANORAMA else ()


def _curves(directory: Path, name: str) -> Iterator[CurvePoint]:
    """Fitted curves; none if there is no such file."""
    path = directory / name
    try:
        with files.reading_table(path) as file:
            for row in csv.DictReader(file):
                numbers = {
                    column: float(text) for column, text in row.items() if column.endswith("_mbps") and text
                }
                yield CurvePoint(
                    pm=beginning(
                        on_subflows(row["pm"], (row.get("subflows") or "").split()), row.get("initial_path")
                    ),
                    cc=row["cc"],
                    buffer_mib=float(row["buffer_mib"]),
                    predicted_mbps=numbers["predicted_mbps"],
                    low_mbps=numbers.get("low_mbps"),
                    high_mbps=numbers.get("high_mbps"),
                )
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise InputError(
            str(directory), name, f"expected the table of fitted curves: {files.reason(error)}"
        ) from None


def _compared(directory: Path) -> Iterator[ComparedRow]:
    """Configurations compared with an answer by an objective; none if there is no such file."""
    path = directory / COMPARED
    try:
        with files.reading_table(path) as file:
            for row in csv.DictReader(file):
                known = {name: text or None for name, text in row.items()}
                for name in ("within_limits", "chosen"):
                    known[name] = (known[name] or "").lower()
                yield msgspec.convert(known, ComparedRow, strict=False)
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise InputError(
            str(directory), COMPARED, f"expected the table of what was compared: {files.reason(error)}"
        ) from None


def _steps(directory: Path) -> Iterator[TimeStep]:
    """Round trips and retransmissions over time; none if there is no such file."""
    path = directory / TABLE
    try:
        with files.reading_table(path) as file:
            for row in csv.DictReader(file):
                yield msgspec.convert(row, TimeStep, strict=False)
    except FileNotFoundError:
        return
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(
            str(directory), TABLE, f"expected the table of round trips: {files.reason(error)}"
        ) from None
