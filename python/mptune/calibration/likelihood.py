"""Fit of a simulated network to measurements: errors of the logarithm, under Student's t.

The logarithm, because throughputs of paths differ by orders of magnitude; Student's t, because now and then a
simulated trial collapses where the measured one did not, and a single row must not decide everything.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mptune.table.configured import Measured
from mptune.topology import Topology
from mptune.trial import Bulk, Observation, Trial

#: Degrees of freedom of Student's t.
DEGREES: Final = 4.0

#: Least share of what was measured that counts as simulated: a stalled trial is very wrong, not infinitely.
_LEAST_SHARE: Final = 0.02

#: A subflow's throughput is compared after adding this share of the total: what carries nearly nothing in
#: both is right.
_OF_TOTAL: Final = 0.02

#: Discrepancy of a subflow's throughput, in multiples of that of the total: schedulers move data.
_SUBFLOW_TIMES: Final = 2.0

#: Round trips that a simulated trial lasts at least, however short the user wants it.
_ROUND_TRIPS: Final = 40

Floats = npt.NDArray[np.float64]


class Simulated(msgspec.Struct, frozen=True):
    """A simulated row: its value in the unit of the measured one, and Mbit/s by subflow."""

    value: float
    subflows: dict[str, float]


def trials(topology: Topology, rows: Sequence[Measured], longest_ns: int, seed: int) -> list[Trial]:
    """A trial for each row, no longer than `longest_ns` or 40 round trips."""
    rtt_ns = max(path.base_rtt_ns for path in topology.paths)
    limit = max(longest_ns, _ROUND_TRIPS * rtt_ns)
    made = []
    for row in rows:
        configuration = row.configuration
        if isinstance(configuration.workload, Bulk):
            shortened = min(configuration.workload.duration_ns, limit)
            configuration = configuration.under(Bulk(duration_ns=shortened))
        made.append(Trial(topology=topology, **configuration.fields(), seed=seed))
    return made


def simulated(row: Measured, observation: Observation) -> Simulated:
    """Result of a trial in the form of the row."""
    seconds = max(observation.duration_ns, 1) / 1e9
    subflows = dict.fromkeys(row.subflows, 0.0)
    for subflow in observation.subflows:
        if subflow.path in subflows:
            subflows[subflow.path] += subflow.bytes * 8e-6 / seconds
    if row.metric == "throughput":
        value = 0.0 if observation.failed else observation.throughput_bps / 1e6
    else:
        done = observation.completion_ns
        value = math.inf if observation.failed or done is None else done / 1e9
    return Simulated(value, subflows)


def scales(rows: Sequence[Measured], discrepancy: float) -> Floats:
    """Scale of the error of each number: discrepancy of the model, and spread of the measurement.

    Parameters
    ----------
    discrepancy : of the logarithm of a total: 0.12 is about 12 %.
    """
    values: list[float] = []
    for row in rows:
        values.append(math.hypot(discrepancy, row.spread))
        values += [math.hypot(_SUBFLOW_TIMES * discrepancy, row.spread)] * len(row.subflows)
    return np.array(values)


def errors(rows: Sequence[Measured], results: Sequence[Simulated]) -> Floats:
    """Logarithms of simulated over measured numbers: of each row its value, then its subflows."""
    values: list[float] = []
    for row, result in zip(rows, results, strict=True):
        value = min(max(result.value, _LEAST_SHARE * row.value), row.value / _LEAST_SHARE)
        values.append(math.log(value / row.value))
        more = _OF_TOTAL * (row.value if row.metric == "throughput" else sum(row.subflows.values())) or 1e-3
        values += [
            math.log((result.subflows[label] + more) / (mbps + more)) for label, mbps in row.subflows.items()
        ]
    return np.array(values)


def log_likelihood(scaled: Floats) -> Floats:
    """Logarithm of Student's t, up to a constant, of errors over their scales; the sum over the last axis."""
    terms = np.log1p(scaled**2 / DEGREES)
    return np.asarray(-(DEGREES + 1) / 2 * terms.sum(axis=-1))
