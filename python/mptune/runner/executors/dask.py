"""Trials on the workers of a dask scheduler, on as many machines as there are.

A trial travels by value (`_worker.run` gets its bytes) and its observation comes back the same way; the store
stays with this process. Short trials travel several at a time, as each journey costs the client and the
scheduler more than a millisecond. Only a testbed whose trials give the same observation on any machine can
be used. What ends with a worker is run again by another one; what a worker has had for too long is given to
another one too, and the first observation counts: both are the same. A scheduler that is restarted, with its
workers, gets what is missing once more.

dask.distributed is an optional dependency and imported on first use.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from mptune.errors import Failure, InputError, MptuneError
from mptune.runner.executors import _worker
from mptune.runner.executors._base import failed_observation
from mptune.testbeds import Testbed
from mptune.trial import Observation, Ran, Trial

T = TypeVar("T")

#: Longest time for a scheduler to answer at first, and to come back, seconds.
_ANSWER_S, _RETURN_S = 10.0, 300.0

#: Interval at which this process lists the workers and looks for late trials, seconds.
_LOOK_UP_S = 0.5

#: Longest wait for an observation that a worker has announced, seconds; after it the trial is run again.
_FETCH_S = 5.0

#: Batches given out per thread of the workers: one to run, and one to begin with when it ends.
_PER_THREAD = 2

#: Batches are as large as this many seconds of a worker, which is what a killed one loses; longer trials
#: travel alone. The most trials of one.
_BATCH_S, _MOST_TRIALS = 0.25, 64

#: Weight of the newest batch in the mean of how long a trial takes.
_NEWEST = 0.2

#: A trial that has ended this many groups of workers (dask itself tries several) has failed.
_MOST_KILLED = 10


class _Sent(NamedTuple):
    numbers: tuple[int, ...]
    future: Any
    at: float
    started: float


class Dask:
    """Runs trials on the workers of the scheduler at an address."""

    name = "dask"

    def __init__(self, scheduler: str, timeout_s: float, workers: int | None = None) -> None:
        self._scheduler, self._timeout_s, self._workers = scheduler, timeout_s, workers
        self._note = ""

    def check(self, testbed: Testbed) -> None:
        """Refuse a testbed that is this machine or two others; name what to install."""
        if not testbed.anywhere:
            raise InputError(
                "--executor", "", f"expected threads with the testbed {testbed.name}, found {self.name}"
            )
        _library()

    def note(self) -> str:
        """Number of workers, or the object of the wait."""
        return self._note

    @contextmanager
    def started(
        self, testbed: Testbed, trials: Sequence[Trial], keep: Callable[[int, Ran, Observation], T]
    ) -> Iterator[Sequence[Future[T]]]:
        """As in `Executor`; what workers still run at the end of the block is dropped.

        Raises
        ------
        MptuneError : no scheduler answers.
        """
        run = _Run(self, testbed.name, trials, keep)
        thread = threading.Thread(target=run.drive, name="dask", daemon=True)
        thread.start()
        try:
            yield run.futures
        finally:
            run.stop.set()
            thread.join()
            run.close()

    def connect(self) -> Any:
        """Connect to the scheduler.

        Raises
        ------
        MptuneError : no scheduler answers.
        """
        try:
            return _library().Client(self._scheduler, timeout=_ANSWER_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise MptuneError(
                f"{self._scheduler}: no scheduler of dask answers ({reason}): start one with: dask scheduler"
            ) from None

    def places(self, workers: int) -> int:
        """Number of trials in flight for this many threads of workers."""
        self._note = f"{workers} at once" if workers else f"waiting for workers at {self._scheduler}"
        return min(workers, self._workers or workers) * _PER_THREAD

    def away(self) -> None:
        """Note that the scheduler is away."""
        self._note = f"waiting for the scheduler at {self._scheduler}"

    @property
    def timeout_s(self) -> float:
        """Time after which a trial is given to another worker too."""
        return self._timeout_s


class _Run(Generic[T]):
    """The trials of one block: one thread gives them out and takes what comes back."""

    def __init__(
        self,
        dask: Dask,
        testbed: str,
        trials: Sequence[Trial],
        keep: Callable[[int, Ran, Observation], T],
    ) -> None:
        self.futures: list[Future[T]] = [Future() for _ in trials]
        self.stop = threading.Event()
        self._dask, self._testbed, self._trials, self._keep = dask, testbed, trials, keep
        self._client = dask.connect()
        self._identity = _worker.identity(testbed)
        self._waiting = deque(range(len(trials)))
        self._out: dict[str, _Sent] = {}
        self._finished: SimpleQueue[str] = SimpleQueue()
        #: Workers that a trial has ended; such trials travel alone.
        self._killed: dict[int, int] = {}
        self._workers: dict[str, int] = {}
        #: Seconds that a trial takes on a worker, of late; None before the first one.
        self._lasts_s: float | None = None
        #: Trials that were late, and may be out more than once.
        self._copied: set[int] = set()
        #: Workers that were too slow with a trial, until they end one.
        self._slow: set[str] = set()
        self._looked_at = 0.0

    def drive(self) -> None:
        """Run all trials, or until `stop`; an error goes to every future that has no result."""
        try:
            while not self.stop.is_set() and not all(future.done() for future in self.futures):
                self._look_up()
                self._give_out()
                with suppress(Empty):
                    self._take(self._finished.get(timeout=_LOOK_UP_S))
                    while True:
                        self._take(self._finished.get_nowait())
        except Exception as error:
            for future in self.futures:
                if not future.done():
                    future.set_exception(error)

    def close(self) -> None:
        """Give back what is out, and leave the scheduler."""
        with suppress(Exception):  # the scheduler may be gone
            self._client.cancel([sent.future for sent in self._out.values()], force=True)
        with suppress(Exception):
            self._client.close(timeout=_FETCH_S)

    def _look_up(self) -> None:
        """Update the list of workers and late trials; wait for a scheduler that went away."""
        if (now := time.monotonic()) - self._looked_at < _LOOK_UP_S:
            return
        self._looked_at = now
        if self._client.status != "running":
            self._return()
            return
        try:
            self._workers = self._client.nthreads()
            late = [key for key, transfer in self._out.items() if now - transfer.at > self._dask.timeout_s]
            having = self._client.processing() if late else {}
        except (OSError, TimeoutError):
            return  # the connection is just being lost
        has = {key: worker for worker, keys in having.items() for key in keys}
        for key in late:
            sent = self._out[key]
            if key in has:
                self._slow.add(has[key])
            # It stays out as well: the first observation counts.
            self._out[key] = sent._replace(at=now)
            self._copied.update(sent.numbers)
            self._waiting.extendleft(reversed(self._missing(sent)))

    def _return(self) -> None:
        """Wait for the scheduler, and give out again what it had."""
        self._dask.away()
        begin = time.monotonic()
        while not self.stop.wait(_LOOK_UP_S):
            if self._client.status == "running":
                break
            if self._client.status in ("closed", "closing"):
                with suppress(MptuneError):
                    self._client = self._dask.connect()
                    break
            if time.monotonic() - begin > _RETURN_S:
                raise MptuneError("the scheduler of dask did not come back; every finished trial is kept")
        for key in list(self._out):
            self._rerun(key)
        self._looked_at = 0.0

    def _give_out(self) -> None:
        """Send trials to the scheduler, not many more than its workers can run at once."""
        places = self._dask.places(sum(self._workers.values()))
        fast = [worker for worker in self._workers if worker not in self._slow]
        while len(self._out) < places and self._client.status == "running":
            if not (numbers := self._batch(places)):
                break
            key = f"mptune-{uuid4()}"
            future = self._client.submit(
                _worker.run,
                self._identity,
                self._testbed,
                [msgspec.msgpack.encode(self._trials[number]) for number in numbers],
                key=key,
                pure=False,
                workers=fast if self._slow and fast else None,
            )
            self._out[key] = _Sent(numbers, future, time.monotonic(), time.time())
            future.add_done_callback(lambda _, key=key: self._finished.put(key))

    def _batch(self, places: int) -> tuple[int, ...]:
        """The next trials that travel together; fewer near the end, so that no worker has the last ones."""
        most = 1
        if self._lasts_s is not None:
            fair = len(self._waiting) // places
            most = max(1, min(round(_BATCH_S / max(self._lasts_s, 1e-6)), fair, _MOST_TRIALS))
        numbers: list[int] = []
        while self._waiting and len(numbers) < most:
            index = self._waiting.popleft()
            if self.futures[index].done():
                continue
            if index in self._killed:
                if numbers:
                    self._waiting.appendleft(index)
                    break
                most = 1
            numbers.append(index)
        return tuple(numbers)

    def _missing(self, sent: _Sent) -> list[int]:
        """Trials of a batch that have not come back by another one."""
        return [number for number in sent.numbers if not self.futures[number].done()]

    def _rerun(self, key: str) -> None:
        """Put trials back among those to run, unless other copies of them have ended."""
        sent = self._out.pop(key)
        sent.future.release()
        self._waiting.extendleft(reversed(self._missing(sent)))

    def _take(self, key: str) -> None:
        """Take what came back for a batch."""
        sent = self._out.get(key)
        if sent is None:  # another copy of it was faster, or it was given out again
            return
        library = _library()
        try:
            outcome: _worker.Outcome = sent.future.result(timeout=_FETCH_S)
        except library.KilledWorker:
            for number in sent.numbers:
                self._killed[number] = self._killed.get(number, 0) + 1
            if len(sent.numbers) > 1 or self._killed[sent.numbers[0]] < _MOST_KILLED:
                self._rerun(key)
                return
            died = Failure("died", "every worker that ran it ended")
            self._done(key, [failed_observation(self._testbed, died)], time.time() - sent.started)
            return
        except (ImportError, AttributeError) as error:
            raise MptuneError(
                f"a worker cannot run trials ({error}): install mptune {self._identity} on every worker"
            ) from None
        except Exception:
            # Cancelled with its scheduler, or its worker ended before the observation was fetched.
            if sent.future.status == "error":
                raise
            self._rerun(key)
            return
        self._judge(key, outcome)

    def _judge(self, key: str, outcome: _worker.Outcome) -> None:
        word, worker, *values = outcome
        self._slow.discard(worker)
        if word == "other":
            raise MptuneError(
                f"{worker}: has mptune {values[0]}, not {self._identity}: install the same one there"
            )
        if word == "input":
            raise InputError(*values)
        packed, took_s = values
        lasted_s = took_s / len(packed)
        self._lasts_s = (
            lasted_s if self._lasts_s is None else _NEWEST * lasted_s + (1 - _NEWEST) * self._lasts_s
        )
        observations = [msgspec.msgpack.decode(observation, type=Observation) for observation in packed]
        # What each took there, whatever time it waited for its worker, and its outcome to be read here.
        self._done(key, observations, lasted_s)

    def _done(self, key: str, observations: Sequence[Observation], lasted_s: float) -> None:
        """Hand over observations of trials that lasted so long each, each once."""
        transfer = self._out.pop(key)
        transfer.future.release()
        now = time.time()
        for number, observation in zip(transfer.numbers, observations, strict=True):
            if not (future := self.futures[number]).done():
                future.set_result(self._keep(number, Ran(now - lasted_s, now), observation))
        if self._copied.intersection(transfer.numbers):
            for other in [other for other, sent in self._out.items() if not self._missing(sent)]:
                self._out.pop(other).future.release()


def _library() -> Any:
    """dask.distributed.

    Raises
    ------
    MptuneError : it is not installed.
    """
    try:
        import distributed
    except ImportError:
        raise MptuneError("--executor dask needs dask.distributed: pip install 'mptune[dask]'") from None
    # What it logs about lost connections is handled, and shown beside the progress. The client's logger has a
    # level of its own.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return distributed
