"""How much a campaign still sends, and what its store says that it sent before.

Bytes are the testbed's business, and so are limits; this module tells it what is known of the trials.
"""

from typing import NamedTuple

from mptune.campaign.definition import Definition, SweepOptions
from mptune.optimisation.options import OptimiseOptions
from mptune.store import Store, StoredTrial
from mptune.testbeds import Testbed
from mptune.trial import Trial


class Sending(NamedTuple):
    """What trials send at most: for how long, or how much payload; None is not known."""

    lasting_ns: int | None = None
    transfer_bytes: int | None = None


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


def to_come(definition: Definition, store: Store, lasted_ns: int) -> Sending:
    """What the trials send that are not in the store, as far as that is known before they are planned.

    Parameters
    ----------
    lasted_ns : how long those in the store lasted.
    """
    options = definition.options
    if isinstance(options, OptimiseOptions):
        if options.budget_ns is None:
            return Sending()
        return Sending(max(0, options.rounds * options.budget_ns - lasted_ns))
    if options.impact is not None:
        return Sending()  # as many as it takes
    done = [trial for trial in store.trials() if trial.purpose == "sweep"]
    return _missing(options, done)


def _missing(options: SweepOptions, done: list[StoredTrial]) -> Sending:
    """What the trials of a sweep send that are not done."""
    if options.transfers:
        sizes = [configuration.transfer_bytes or 0 for configuration in options.configurations({})]
        sent = sum(stored.settings["transfer_bytes"] for stored in done)
        return Sending(transfer_bytes=options.rounds * options.runs * sum(sizes) - sent)
    return Sending((options.rounds * options.swept_trials - len(done)) * options.duration_ns)


def _asked(definition: Definition, stored: StoredTrial) -> Trial:
    """A trial of the store, with all that decides how much it sends."""
    return Trial(
        topology=definition.topology.later(stored.round * (definition.options.every_ns or 0)),
        pm=stored.pm,
        cc=stored.cc,
        buffer_bytes=stored.buffer_bytes,
        seed=0,
        duration_ns=stored.settings.get("duration_ns"),
        transfer_bytes=stored.settings.get("transfer_bytes"),
    )
