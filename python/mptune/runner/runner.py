"""The trial runner: a testbed, the number of trials at once, and the store that keeps measured trials.

All measurements use it, so that all of them survive an interruption: with a store, only the missing trials
are run. It knows no purpose and no statistics.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import msgspec

from mptune._text import digits
from mptune.runner.executors import Executor, Threads
from mptune.runner.executors.ahead import Ahead
from mptune.runner.running import Advance, reduce_trials
from mptune.testbeds import Testbed
from mptune.trial import Observation, PlannedTrial, Ran, Record
from mptune.trial.metrics import Metric
from mptune.trial.objectives import usual_of
from mptune.trial.records import record
from mptune.units import format_size

#: Makes the record to keep of a planned trial.
Reduce = Callable[[PlannedTrial, Observation], Record]


class Memory(Protocol):
    """Keeps finished trials across an interruption: `mptune.store.Store` on a disk."""

    def key(self, testbed: str, planned: PlannedTrial) -> bytes:
        """Digest of everything that defines a trial."""
        ...

    def finished(self) -> frozenset[bytes]:
        """Keys of all trials that need not be run again."""
        ...

    def expect(self, purpose: str, round_: int, left: int) -> None:
        """Note how many trials a phase has: those that are finished, and so many more."""
        ...

    def finish(
        self,
        key: bytes,
        planned: PlannedTrial,
        observation: Observation,
        record: Record,
        *,
        testbed: str,
        ran: Ran,
    ) -> None:
        """Store a finished trial."""
        ...

    def flush(self) -> None:
        """Return when everything stored is safe."""
        ...

    def records(self, keys: Iterable[bytes]) -> dict[bytes, Record]:
        """Records of finished trials, by key."""
        ...


class Tally:
    """The best trial so far and the number of failures, for the progress display."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._best: Record | None = None
        self._failed = 0

    def add(self, trial_record: Record) -> None:
        """Count a finished trial."""
        with self._lock:
            if trial_record.throughput_mbps is None:
                self._failed += 1
            elif self._best is None or _is_better(trial_record, self._best):
                self._best = trial_record

    def note(self, more: str = "") -> str:
        """Path manager, congestion control and buffer of the best trial, how many failed, and what else."""
        best, parts = self._best, []
        if best is not None and (value := _metric(best).of(best)) is not None:
            size, unit = format_size(best.buffer_bytes, 3), _metric(best).unit
            parts.append(f"best {digits(value)} {unit} ({best.manager}, {best.cc}, {size})")
        if self._failed:
            parts.append(f"{self._failed} failed")
        if more:
            parts.append(more)
        return ", ".join(parts)


def _metric(trial_record: Record) -> Metric:
    """Metric that judges a trial on the way: its throughput, or the delay of its messages."""
    return usual_of(trial_record)


def _is_better(trial_record: Record, other: Record) -> bool:
    """True if it is better than one of the same phase."""
    metric = _metric(trial_record)
    ours, theirs = metric.of(trial_record), metric.of(other)
    return ours is not None and (theirs is None or metric.worth(ours) > metric.worth(theirs))


class TrialRunner(NamedTuple):
    """Runner of trials on a testbed.

    Attributes
    ----------
    workers : trials in parallel, as in `mptune.runner.running.run_trials`.
    store : keeps every observation, and has those of an interrupted run; None keeps nothing.
    executor : where they are run, as in `mptune.runner.running.run_trials`.
    """

    testbed: Testbed
    workers: int | None = None
    store: Memory | None = None
    executor: Executor | None = None

    @property
    def at_once(self) -> int:
        """Trials that run at once on a testbed where they do not disturb each other."""
        return self.workers or len(os.sched_getaffinity(0))

    @contextmanager
    def ahead(self, foresee: Callable[[], Iterable[PlannedTrial]]) -> Iterator["TrialRunner"]:
        """A runner that runs trials before they are asked for, where only processor time is at stake.

        Elsewhere the runner itself.

        Parameters
        ----------
        foresee : as in `mptune.runner.executors.ahead.Ahead`.
        """
        is_here = self.executor is None or isinstance(self.executor, Threads)
        if not is_here or not self.testbed.anywhere or self.testbed.pace is not None or self.at_once < 2:
            yield self
            return
        with Ahead(self.at_once, lambda: (planned.trial for planned in foresee())) as executor:
            yield self._replace(executor=executor)

    def measure(
        self,
        planned: Sequence[PlannedTrial],
        *,
        reduce: Reduce = record,
        progress: Advance | None = None,
        before: int = 0,
    ) -> list[Record]:
        """Records of planned trials, in their order; errors as in `mptune.runner.running.run_trials`.

        Parameters
        ----------
        reduce : makes the record of a trial. A store keeps the record, so it must be the same when resumed.
        before : trials of the same phase that an earlier call measured; the progress counts them too.

        Raises
        ------
        MptuneError : the store cannot be written.
        """
        tally = Tally()

        def keep(trial: PlannedTrial, ran: Ran, observation: Observation) -> Record:
            reduced = reduce(trial, observation)
            if self.testbed.pace is not None:
                reduced = msgspec.structs.replace(reduced, took_s=ran.took_s)
            tally.add(reduced)
            return reduced

        if self.store is not None:
            return self._resume(self.store, planned, keep, tally, progress, before)

        def advance(done: int, total: int, note: str = "") -> None:
            if progress is not None:
                progress(before + done, before + total, tally.note(note))

        return reduce_trials(
            self.testbed,
            [trial.trial for trial in planned],
            lambda index, ran, observation: keep(planned[index], ran, observation),
            workers=self.workers,
            progress=advance,
            executor=self.executor,
        )

    def _resume(
        self,
        store: Memory,
        planned: Sequence[PlannedTrial],
        reduce: Callable[[PlannedTrial, Ran, Observation], Record],
        tally: "Tally",
        progress: Advance | None,
        before: int,
    ) -> list[Record]:
        """Run the trials that the store does not have; identical planned trials are run once."""
        keys = [store.key(self.testbed.name, trial) for trial in planned]
        known = store.finished()
        missing = {key: one for key, one in zip(keys, planned, strict=True) if key not in known}
        distinct = len(set(keys))
        left = Counter((trial.purpose, trial.round) for trial in missing.values())
        for purpose, number in dict.fromkeys((trial.purpose, trial.round) for trial in planned):
            store.expect(purpose, number, left[purpose, number])
        order = list(missing.items())

        def keep(index: int, ran: Ran, observation: Observation) -> Record:
            key, trial = order[index]
            reduced = reduce(trial, ran, observation)
            store.finish(key, trial, observation, reduced, testbed=self.testbed.name, ran=ran)
            return reduced

        def advance(done: int, total: int, note: str = "") -> None:
            if progress is not None:
                progress(before + distinct - total + done, before + distinct, tally.note(note))

        fresh = reduce_trials(
            self.testbed,
            [pair.trial for _, pair in order],
            keep,
            workers=self.workers,
            progress=advance,
            executor=self.executor,
        )
        store.flush()
        records = store.records(key for key in keys if key in known)
        records.update(zip(missing, fresh, strict=True))
        return [records[key] for key in keys]
