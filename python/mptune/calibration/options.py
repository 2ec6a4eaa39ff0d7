"""The options of a calibration, for command lines and Python; it loads nothing that calculates."""

from typing import Annotated

from mptune.calibration.parameters import KINDS, USUAL
from mptune.options import Option, Options, choice, count, names, share, time
from mptune.options.trials import Jobs, Seed
from mptune.trial.stacks import DEFAULT_STACK, STACKS

#: Rates, losses and the like are inferred from this many networks at least.
_FEWEST_NETWORKS = 150


class CalibrationOptions(Options, frozen=True, kw_only=True):
    """Options of a calibration."""

    budget: Annotated[
        int,
        Option(
            count(_FEWEST_NETWORKS, 1_000_000),
            "Number of networks to simulate, each with every row.",
            flag="--budget",
        ),
    ] = 800
    values: Annotated[
        tuple[str, ...],
        Option(
            names(lambda: KINDS), "Kinds of values to infer, where the file assumes them.", flag="--values"
        ),
    ] = USUAL
    discrepancy: Annotated[
        float,
        Option(share(), "Error to expect of the simulator even for the right network.", flag="--discrepancy"),
    ] = 0.12
    stack: Annotated[
        str,
        Option(
            choice(lambda: STACKS),
            "MPTCP implementation of rows that name none.",
            flag="--stack",
        ),
    ] = DEFAULT_STACK
    longest_ns: Annotated[
        int,
        Option(
            time(positive=True),
            "Longest simulation of a row, whatever its duration; at least 40 round trips.",
            flag="--longest",
        ),
    ] = 15_000_000_000
    seed: Seed = 1
    jobs: Jobs = None
