"""The result of a calibration: each value with its interval, each row beside what is simulated."""

import math
from typing import Literal

import msgspec

from mptune.calibration.parameters import Parameter
from mptune.topology import Topology

#: Degree to which the data determine a value: by the width of its interval beside that of the prior's.
Determined = Literal["well", "weakly", "not"]

#: Largest share of the prior's interval at which a value is well determined, and determined at all.
WELL, WEAKLY = 0.5, 0.85

#: Root mean square of errors over their scales above which no network explains the data.
MOST_MISFIT = 2.5


class Inferred(msgspec.Struct, frozen=True, kw_only=True):
    """A value, in words, and in the topology's unit (bit/s, ns, bytes, ppb, connections).

    Attributes
    ----------
    key : as in `Topology.provenance`; of connections "background." and the name of the link.
    value : of the likeliest network; where the data do not determine it, the stated one.
    low, median, high : 10 %, 50 % and 90 % quantiles of the posterior.
    width : of the interval, as a share of the prior's.
    """

    key: str
    kind: str
    prior: str
    stated: str
    value: str
    low: str
    high: str
    determined: Determined
    width: float
    number: int
    low_number: int
    median_number: int
    high_number: int


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the data, merged where several have one configuration.

    Attributes
    ----------
    measured, nominal, simulated : Mbit/s, or s for a completion: measured, on the network as stated, and on
        the likeliest one.
    error : logarithm of simulated over measured, in scales of the likelihood.
    """

    rows: tuple[int, ...]
    configuration: str
    metric: str
    measured: float
    nominal: float
    simulated: float
    error: float


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A calibrated network.

    Attributes
    ----------
    misfit, nominal_misfit : root mean squares of errors over their scales; about 1 where the model is right.
    error, nominal_error : mean absolute logarithm of simulated over measured: 0.1 is about 10 %.
    networks : how many were simulated.
    complete : Ctrl-C did not end it.
    topology : with the values of the likeliest network; `values` are those that differ from the file's.
    """

    name: str
    data: str
    inferred: tuple[Inferred, ...]
    fitted: tuple[Fitted, ...]
    misfit: float
    nominal_misfit: float
    error: float
    nominal_error: float
    networks: int
    seed: int
    discrepancy: float
    complete: bool
    topology: Topology
    values: dict[str, tuple[Parameter, int]]

    @property
    def worst(self) -> Fitted:
        """The row that is explained worst."""
        return max(self.fitted, key=lambda row: abs(row.error))

    @property
    def explains(self) -> bool:
        """True if the likeliest network explains the data."""
        return self.misfit <= MOST_MISFIT

    @property
    def unexplained(self) -> str:
        """Why no network explains the data, in one sentence."""
        worst = self.worst
        rows = ", ".join(map(str, worst.rows))
        unit = "Mbit/s" if worst.metric == "throughput" else "s"
        return (
            "expected data that some plausible network explains; the nearest of "
            f"{self.networks} is off by {off(self.error)} on average, most at row {rows} "
            f"({worst.configuration}: {worst.measured:.3g} {unit} measured, {worst.simulated:.3g} simulated)"
        )


def off(logarithm: float) -> str:
    """A mean error of logarithms as a percentage or a factor."""
    factor = math.exp(abs(logarithm))
    return f"{factor - 1:.0%}" if factor < 2 else f"a factor of {factor:.2g}"
