"""Data that a campaign still sends, and data that its store recorded as sent.

Bytes are the testbed's business, and so are limits; this module only knows the trials.
"""

from typing import Any

import msgspec

from mptune.campaign.definition import Definition, SweepOptions
from mptune.optimisation.options import OptimiseOptions
from mptune.store import Store, StoredTrial
from mptune.testbeds import Testbed
from mptune.trial import Bulk, Transfer, Trial, Workload, size_of, time_or_size


def recall(definition: Definition, store: Store, testbed: Testbed) -> int:
    """Let a testbed that counts what is sent count the trials in the store.

    Returns
    -------
    How long they lasted, nanoseconds; 0 with another testbed.

    Raises
    ------
    InputError : the store cannot be read.
    """
    if not testbed.counts:
        return 0
    lasted_ns = 0
    for trial in store.trials():
        if trial.testbed == testbed.name:
            observation = store.observation(trial.key)
            testbed.recall(_asked(definition, trial), observation)
            lasted_ns += observation.duration_ns
    return lasted_ns


def to_come(definition: Definition, store: Store, lasted_ns: int) -> Workload | None:
    """Trials that are not in the store, as one workload; None if it is not known before they are planned.

    Parameters
    ----------
    lasted_ns : how long those in the store lasted.
    """
    options = definition.options
    if isinstance(options, OptimiseOptions):
        if options.budget_ns is None:
            return None
        return Bulk(duration_ns=max(0, options.rounds * options.budget_ns - lasted_ns))
    if options.impact is not None:
        return None  # as many as it takes
    done = [trial for trial in store.trials() if trial.purpose == "sweep"]
    return _missing(options, done)


def _missing(options: SweepOptions, done: list[StoredTrial]) -> Workload:
    """Workload of a sweep's missing trials."""
    if options.transfers:
        sizes = [size_of(configuration.workload) or 0 for configuration in options.configurations({})]
        sent = sum(stored.settings["transfer_bytes"] for stored in done)
        return Transfer(bytes=options.rounds * options.runs * sum(sizes) - sent)
    missing = options.rounds * options.swept_trials - len(done)
    if options.workload is not None:
        return options.workload.lasting(missing * options.duration_ns)
    return Bulk(duration_ns=missing * options.duration_ns)


def _asked(definition: Definition, stored: StoredTrial) -> Trial:
    """A trial of the store, with all that decides how much it sends."""
    return Trial(
        topology=definition.topology.later(stored.round * (definition.options.every_ns or 0)),
        pm=stored.pm,
        cc=stored.cc,
        buffer_bytes=stored.buffer_bytes,
        seed=0,
        workload=_workload(stored.settings),
    )


def _workload(settings: dict[str, Any]) -> Workload:
    """Workload of a trial with these settings."""
    if (whole := settings.get("workload")) is not None:
        sent: Workload = msgspec.convert(whole, Workload)
        return sent
    return time_or_size(settings.get("duration_ns"), settings.get("transfer_bytes"))
