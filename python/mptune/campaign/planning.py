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
    """What a campaign varies: path manager, congestion control, buffer, and the subflows that go with them.

    Attributes
    ----------
    active, standby_order : as in `Trial`; None and empty leave it to the path manager.
    initial_path, scheduler : as in `Trial`.
    transfer_bytes : a transfer of so many bytes; None is a saturated sender.
    """

    pm: str
    cc: str
    buffer_bytes: int
    active: tuple[str, ...] | None = None
    standby_order: tuple[str, ...] = ()
    initial_path: str | None = None
    scheduler: str = "minrtt"
    transfer_bytes: int | None = None


def plan(
    topology: Topology,
    configurations: Iterable[Configuration],
    *,
    purpose: str,
    runs: int,
    duration_ns: int,
    base_seed: int,
    round_: int = 0,
) -> list[PlannedTrial]:
    """Trials: configuration by configuration, run by run.

    Parameters
    ----------
    purpose : one of `mptune.campaign.seeds.PURPOSES`.
    duration_ns : of each trial of a saturated sender, nanoseconds.
    round_ : of a campaign that is repeated over time; each has seeds of its own.
    """
    return [
        PlannedTrial(
            purpose=purpose,
            run=run,
            round=round_,
            trial=Trial(
                topology=topology,
                pm=configuration.pm,
                cc=configuration.cc,
                buffer_bytes=configuration.buffer_bytes,
                active=configuration.active,
                standby_order=configuration.standby_order,
                initial_path=configuration.initial_path,
                scheduler=configuration.scheduler,
                duration_ns=duration_ns if configuration.transfer_bytes is None else None,
                transfer_bytes=configuration.transfer_bytes,
                seed=seed_for(base_seed, purpose, run, round_),
            ),
        )
        for configuration in configurations
        for run in range(runs)
    ]
