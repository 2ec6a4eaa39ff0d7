"""Trials that a busy machine spoiled: which they are, and how every testbed repeats them."""

from collections.abc import Callable

from mptune.trial import Observation

#: Most repetitions of a trial for which the machine was too busy.
REPETITIONS = 1

#: Key of an observation's wait for a quiet machine, seconds.
_WAITED = "waited_for_quiet_s"


def overloaded(observation: Observation) -> bool:
    """True if the machine was too busy for real time, whatever else happened."""
    return "overloaded" in observation.metadata


def in_time(
    first: Observation,
    measure: Callable[[], Observation],
    spoiled: Callable[[Observation], bool] = overloaded,
) -> Observation:
    """An observation, or if the machine was too busy for it, that of its repetition.

    Parameters
    ----------
    measure : runs the trial once more.
    spoiled : whether it is repeated.
    """
    for _ in range(REPETITIONS):
        if not spoiled(first):
            break
        first = again(first, measure)
    return first


def again(failed: Observation, measure: Callable[[], Observation]) -> Observation:
    """Run a trial again; the observation records the number of repetitions and the total wait."""
    observation = measure()
    before, now = failed.metadata, observation.metadata
    now["repeated"] = int(before.get("repeated", 0)) + 1
    waited(observation, float(before.get(_WAITED, 0.0)))
    return observation


def waited(observation: Observation, seconds: float) -> None:
    """Add a wait for a quiet machine to those that it records already."""
    if seconds:
        observation.metadata[_WAITED] = round(float(observation.metadata.get(_WAITED, 0.0)) + seconds, 1)
