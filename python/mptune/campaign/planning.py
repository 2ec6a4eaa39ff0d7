"""From configurations to trials: every configuration in every run, with the run's seed.

It decides nothing about which configurations are worth measuring: the callers do.
"""

from collections.abc import Iterable

import msgspec

from mptune.campaign.records import PlannedTrial
from mptune.campaign.seeds import seed_for
from mptune.testbeds import Trial
from mptune.topology import Topology


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What MPCOA varies: path manager, congestion control, buffer, and the subflows that go with them.

    Attributes
    ----------
    active, standby_order : as in `Trial`; None and empty leave it to the path manager.
    """

    pm: str
    cc: str
    buffer_bytes: int
    active: tuple[str, ...] | None = None
    standby_order: tuple[str, ...] = ()


def plan(
    topology: Topology,
    configurations: Iterable[Configuration],
    *,
    purpose: str,
    runs: int,
    duration_ns: int,
    base_seed: int,
) -> list[PlannedTrial]:
    """Trials of a saturated sender: configuration by configuration, run by run.

    Parameters
    ----------
    purpose : one of `mptune.campaign.seeds.PURPOSES`.
    duration_ns : of each trial, nanoseconds.
    """
    return [
        PlannedTrial(
            purpose=purpose,
            run=run,
            trial=Trial(
                topology=topology,
                pm=configuration.pm,
                cc=configuration.cc,
                buffer_bytes=configuration.buffer_bytes,
                active=configuration.active,
                standby_order=configuration.standby_order,
                duration_ns=duration_ns,
                seed=seed_for(base_seed, purpose, run),
            ),
        )
        for configuration in configurations
        for run in range(runs)
    ]
