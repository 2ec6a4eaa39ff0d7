"""Predictions of throughput learnt from many simulated trials: where to look first without a trial.

Some small networks of rectified units, each trained on its own order of the same trials; their mean is the
prediction. What they know is in `learnt_prior.json`, which `benchmarks/decision/learning.py` makes;
the features are in `learnt_features.py`.
"""

import base64
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from mptune.files import read_bytes
from mptune.optimisation.learnt_features import CONTROLS, VERSION, Floats, of_configuration, of_subflows
from mptune.runner.running import Advance
from mptune.strategy import Arm
from mptune.topology import Topology

#: The shipped file.
SHIPPED = Path(__file__).with_name("learnt_prior.json")

#: Throughputs below this share of the rate are told apart no more.
LEAST = 0.01

_Positive = Annotated[float, msgspec.Meta(gt=0)]


class Learnt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was learnt.

    Attributes
    ----------
    features : version of `learnt_features`.
    mptune : version whose simulator made the trials.
    networks, trials : numbers that it was learnt from.
    error : of networks that it was not learnt from: shares of the largest throughput within which a half and
        nine tenths of the errors lie, the level being known.
    centre, spread : of each feature.
    layers : of each network, its matrices, one after the other; each has a last row that is added. Base64 of
        little-endian numbers of 32 bits, row by row.
    shapes : rows and columns of each matrix.
    """

    features: int
    mptune: str
    networks: int
    trials: int
    error: tuple[_Positive, _Positive]
    centre: tuple[float, ...]
    spread: tuple[_Positive, ...]
    layers: tuple[tuple[str, ...], ...]
    shapes: tuple[tuple[int, int], ...]

    def predicted(self, features: Floats) -> Floats:
        """Throughputs as shares of the rate of all subflows together.

        Parameters
        ----------
        features : shape (configurations, features).
        """
        inputs = (features - np.array(self.centre)) / np.array(self.spread)
        total = np.zeros(len(inputs))
        for network in self.layers:
            values = inputs
            for number, (text, shape) in enumerate(zip(network, self.shapes, strict=True), 1):
                matrix = np.frombuffer(base64.b64decode(text), dtype="<f4").reshape(shape).astype(np.float64)
                values = values @ matrix[:-1] + matrix[-1]
                if number < len(network):
                    values = np.maximum(values, 0.0)
            total += values[:, 0]
        shares: Floats = np.clip(total / len(self.layers), math.sqrt(LEAST), 1.0) ** 2
        return shares


class LearntPrior:
    """Predictions for arms and buffers of a network.

    Parameters
    ----------
    grown : only the sender's buffer has the size, and grows up to it.
    """

    takes_time = False
    named = "learnt, {}"

    def __init__(self, topology: Topology, *, grown: bool) -> None:
        self._topology, self._grown = topology, grown

    def rows(
        self, arms: Sequence[Arm], buffers: Sequence[int], _progress: Advance | None = None
    ) -> tuple[tuple[float, ...], ...]:
        """Throughputs, Mbit/s: a row per arm, a value per buffer (bytes).

        None at all if a congestion control is unknown, or the subflows of an arm are.
        """
        if any(arm.combination.cc not in CONTROLS or not arm.active for arm in arms):
            return ()
        subflows = {active: of_subflows(self._topology, active) for active in {arm.active for arm in arms}}
        features = [
            of_configuration(
                subflows[arm.active],
                arm.combination.cc,
                buffer_bytes,
                mesh=arm.combination.pm == "fullmesh",
                plain=arm.combination.is_tcp,
                grown=self._grown,
            )
            for arm in arms
            for buffer_bytes in buffers
        ]
        shares = shipped().predicted(np.array(features)).reshape(len(arms), len(buffers))
        totals = np.array([subflows[arm.active].total_bps / 1e6 for arm in arms])
        # Rounded: sums of many numbers differ in their last digits from one machine to the other.
        rows = (np.round(shares, 6) * totals[:, None]).tolist()
        return tuple(map(tuple, rows))

    def error(self, _arms: Sequence[Arm], _buffers: Sequence[int]) -> tuple[float, float]:
        """As `mptune.strategy.Question.prior_error`."""
        return shipped().error


@cache
def shipped() -> Learnt:
    """The shipped file."""
    learnt = msgspec.json.decode(read_bytes(SHIPPED), type=Learnt)
    assert learnt.features == VERSION, "learnt from other features"
    return learnt
