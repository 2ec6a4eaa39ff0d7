"""From configurations to trials: every configuration in every run, with the run's seed.

The callers decide which configurations are worth measuring.
"""

from collections.abc import Iterable

from mptune.runner.seeds import seed_for
from mptune.topology import Topology
from mptune.trial import Configuration, PlannedTrial, Trial


def plan_trials(
    topology: Topology,
    configurations: Iterable[Configuration],
    *,
    purpose: str,
    runs: int,
    base_seed: int,
    round_: int = 0,
    first: int = 0,
) -> list[PlannedTrial]:
    """Trials: configuration by configuration, run by run.

    Parameters
    ----------
    purpose : one of `mptune.runner.seeds.PURPOSES`.
    round_ : of a campaign that is repeated over time; each round has different seeds.
    first : number of the first run, where earlier ones are done.
    """
    return [
        plan_run(
            topology,
            configuration,
            purpose=purpose,
            run=run,
            base_seed=base_seed,
            round_=round_,
        )
        for configuration in configurations
        for run in range(first, first + runs)
    ]


def plan_run(
    topology: Topology,
    configuration: Configuration,
    *,
    purpose: str,
    run: int,
    base_seed: int,
    round_: int = 0,
) -> PlannedTrial:
    """One run of a configuration; parameters as in `plan_trials`."""
    return PlannedTrial(
        purpose=purpose,
        run=run,
        round=round_,
        trial=Trial(
            topology=topology,
            **configuration.fields(),
            seed=seed_for(base_seed, purpose, run, round_),
        ),
    )
