"""Trials that a busy machine spoiled: which they are, and how every testbed repeats them."""

from collections.abc import Callable

from mptune.trial import Observation

#: How often a trial is repeated because the machine was too busy for it.
REPETITIONS = 1

#: Where an observation says how long was waited for a quiet machine, seconds.
_WAITED = "waited_for_quiet_s"


def overloaded(observation: Observation) -> bool:
    """Whether the machine was too busy for real time, whatever else happened."""
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
    """Run a trial again; the observation says how many times it was, and how long was waited in all."""
    observation = measure()
    before, now = failed.metadata, observation.metadata
    now["repeated"] = int(before.get("repeated", 0)) + 1
    waited(observation, float(before.get(_WAITED, 0.0)))
    return observation


def waited(observation: Observation, seconds: float) -> None:
    """Note that so long was waited for a quiet machine, in addition to what it says already."""
    if seconds:
        observation.metadata[_WAITED] = round(float(observation.metadata.get(_WAITED, 0.0)) + seconds, 1)
