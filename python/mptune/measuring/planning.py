"""From configurations to trials: every configuration in every run, with the run's seed.

The callers decide which configurations are worth measuring.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from mptune._text import on_subflows, plain_tcp
from mptune.measuring.records import PlannedTrial
from mptune.measuring.seeds import seed_for
from mptune.testbeds import DEFAULT_FAMILY, FIXED, PLAIN_TCP, ScriptedAction, Trial
from mptune.testbeds.stacks import DEFAULT_STACK, STACKS, Stack
from mptune.topology import Topology


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a campaign varies; the fields have the same names as in `Trial`.

    Attributes
    ----------
    buffer_mode, pm_options, initial_path, protocol, family : as in `Trial`.
    stack : its members are fields of the trial.
    script : as in `Trial`.
    transfer_bytes : size of a transfer; None is a saturated sender.
    """

    pm: str
    cc: str
    buffer_bytes: int
    buffer_mode: str = FIXED
    pm_options: dict[str, Any] = {}
    initial_path: str | None = None
    stack: Stack = STACKS[DEFAULT_STACK]
    transfer_bytes: int | None = None
    script: tuple[ScriptedAction, ...] = ()
    protocol: Literal["mptcp", "tcp"] = "mptcp"
    family: str = DEFAULT_FAMILY

    @property
    def manager(self) -> str:
        """The path manager with its subflows, or plain TCP with its path, for tables and sentences."""
        if self.protocol == PLAIN_TCP:
            return plain_tcp(self.initial_path or "")
        return on_subflows(self.pm, self.active)

    def fields(self) -> dict[str, Any]:
        """The fields of a trial that have this configuration."""
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name != "stack"}
        return own | msgspec.structs.asdict(self.stack)

    @property
    def active(self) -> tuple[str, ...] | None:
        """Subflows that carry data under pcdc; None leaves it to the path manager."""
        return self.pm_options.get("active")

    @property
    def standby_order(self) -> tuple[str, ...]:
        """Standby subflows under pcdc, first to take over first."""
        order: tuple[str, ...] = self.pm_options.get("standby_order", ())
        return order


def plan_trials(
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
    purpose : one of `mptune.measuring.seeds.PURPOSES`.
    duration_ns : of each trial of a saturated sender, nanoseconds.
    round_ : of a campaign that is repeated over time; each round has different seeds.
    """
    return [
        plan_run(
            topology,
            configuration,
            purpose=purpose,
            run=run,
            duration_ns=duration_ns,
            base_seed=base_seed,
            round_=round_,
        )
        for configuration in configurations
        for run in range(runs)
    ]


def plan_run(
    topology: Topology,
    configuration: Configuration,
    *,
    purpose: str,
    run: int,
    duration_ns: int,
    base_seed: int,
    round_: int = 0,
    ends_early: bool = False,
) -> PlannedTrial:
    """One run of a configuration; parameters as in `plan_trials`, and `ends_early` as in `Trial`."""
    return PlannedTrial(
        purpose=purpose,
        run=run,
        round=round_,
        trial=Trial(
            topology=topology,
            **configuration.fields(),
            duration_ns=duration_ns if configuration.transfer_bytes is None else None,
            seed=seed_for(base_seed, purpose, run, round_),
            ends_early=ends_early,
        ),
    )
