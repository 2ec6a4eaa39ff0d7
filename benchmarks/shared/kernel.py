"""Trials of a benchmark on the kernel: which count, and overloaded ones measured again.

Not a benchmark.
"""

from collections.abc import Callable, Sequence

import msgspec

from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.store import Store
from mptune.testbeds import create as testbed
from mptune.testbeds import overloaded
from mptune.trial import Observation, PlannedTrial

#: Attempts at an overloaded trial.
ATTEMPTS = 4


def believed(observations: Sequence[Observation]) -> list[Observation]:
    """Observations on a machine that kept up."""
    return [observation for observation in observations if not overloaded(observation)]


def on_the_kernel(
    store: Store,
    name: str,
    planned: Sequence[PlannedTrial],
    again: Callable[[Observation], bool] = overloaded,
) -> list[Observation]:
    """The kernel's results in one network.

    Each network has its own testbed: how many trials it runs side by side depends on the most demanding one.

    Parameters
    ----------
    again : whether to measure once more; after `ATTEMPTS` the last result stands.
    """
    runner, reporter = TrialRunner(testbed("namespaces"), None, store), Reporter()
    observations: dict[int, Observation] = {}
    for attempt in range(ATTEMPTS):
        missing = {
            index: msgspec.structs.replace(trial, round=attempt)
            for index, trial in enumerate(planned)
            if index not in observations or again(observations[index])
        }
        if not missing:
            break
        with reporter.phase(name if attempt == 0 else f"{name}, again") as progress:
            runner.measure(list(missing.values()), progress=progress)
        observations |= {
            index: store.observation(store.key("namespaces", trial)) for index, trial in missing.items()
        }
    return [observations[index] for index in range(len(planned))]


def valid_on_the_kernel(store: Store, name: str, planned: Sequence[PlannedTrial]) -> list[Observation | None]:
    """Likewise, but a failed trial is measured again too; None if it failed or was overloaded each time."""
    observations = on_the_kernel(
        store, name, planned, lambda observation: observation.failed is not None or overloaded(observation)
    )
    return [
        None if observation.failed is not None or overloaded(observation) else observation
        for observation in observations
    ]
