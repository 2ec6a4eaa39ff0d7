"""Trials of a benchmark stored under target/benchmarks, so that an interrupted one continues.

Not a benchmark. Simulated trials belong to one build of the simulator: another build starts anew
(`stored_results`). The kernel's do not (`measured`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.shared.measure import RESULTS, machine
from mptune import _core
from mptune.runner.runner import Memory
from mptune.store import Campaign, Store, create, open_store
from mptune.trial import Observation, PlannedTrial, Ran, Record


class WithoutSeries(NamedTuple):
    """A store that keeps no time series, which nothing here looks at: there are very many trials."""

    store: Memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

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
        """Store a finished trial without its series."""
        subflows = [msgspec.structs.replace(subflow, bins=[]) for subflow in observation.subflows]
        small = msgspec.structs.replace(observation, bins=[], subflows=subflows)
        self.store.finish(key, planned, small, record, testbed=testbed, ran=ran)


@contextmanager
def _opened(path: Path, name: str, *, fresh: bool) -> Iterator[Store]:
    """The store in a file; a new one if there is none, or if `fresh`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if fresh:
        path.unlink(missing_ok=True)
    about = Campaign(name=name, settings={}, environment=dict(machine()))
    with open_store(path) if path.exists() else create(path, about) as store:
        yield store


@contextmanager
def stored_results(benchmark: str, name: str, *, fresh: bool) -> Iterator[Memory]:
    """The simulated trials so far of a part of a benchmark; none at all if `fresh`."""
    build = blake2b(Path(str(_core.__file__)).read_bytes(), digest_size=6).hexdigest()
    with _opened(RESULTS / benchmark / build / f"{name}.sqlite", name, fresh=fresh) as store:
        yield WithoutSeries(store)


@contextmanager
def measured(benchmark: str, *, fresh: bool) -> Iterator[Store]:
    """The kernel's trials so far of a benchmark; none at all if `fresh`."""
    with _opened(RESULTS / f"{benchmark}.sqlite", benchmark, fresh=fresh) as store:
        yield store
