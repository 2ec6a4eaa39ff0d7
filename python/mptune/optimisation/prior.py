"""The simulator's predictions for the arms of a real testbed: where to look first.

Single short trials of the same topology, one per octave of the buffer. A prediction may be wrong; by how much
is learnt from drawn networks, and what becomes of it is the strategy's business
(`mptune.strategy.Question.prior`). It takes no time on the testbed.
"""

import math
from collections.abc import Callable, Sequence

from mptune.decision.kinds import factors
from mptune.decision.model_error import shipped
from mptune.runner.planning import plan_run
from mptune.runner.runner import TrialRunner
from mptune.runner.running import Advance
from mptune.statistics import quantile
from mptune.strategy import Arm
from mptune.testbeds import create
from mptune.topology import Topology
from mptune.trial import Bulk, Combination, Configuration, PlannedTrial, Record, Workload

#: Simulated trials last this long at most, nanoseconds: what is left of slow start is the same for all.
_DURATION_NS = 10_000_000_000

#: Buffers between two that are simulated.
_STEP = 4


class Prior:
    """Predictions of arms and buffers, simulated when they are asked for and kept.

    Parameters
    ----------
    configuration : of an arm with a buffer, bytes.
    workload, seed : of the testbed's trials; a saturated sender sends for less.
    worths : as in `mptune.optimisation.asking.Sought`.
    """

    #: A progress is worth showing: trials are simulated.
    takes_time = True
    named = "{}"

    def __init__(
        self,
        topology: Topology,
        configuration: Callable[[Combination, int], Configuration],
        workload: Workload,
        seed: int,
        worths: Callable[[Sequence[Record]], list[float | None]],
    ) -> None:
        self._topology, self._configuration = topology, configuration
        if isinstance(workload, Bulk):
            workload = Bulk(duration_ns=min(workload.duration_ns, _DURATION_NS))
        self._workload, self._seed, self._worths = workload, seed, worths
        self._runner = TrialRunner(create("simulated"))
        self._known: dict[tuple[Combination, int], float] = {}

    def rows(
        self, arms: Sequence[Arm], buffers: Sequence[int], progress: Advance | None = None
    ) -> tuple[tuple[float, ...], ...]:
        """Throughputs, Mbit/s: a row per arm, a value per buffer (bytes, ascending)."""
        combinations = [arm.combination for arm in arms]
        some = sorted({*buffers[::_STEP], buffers[-1]})
        missing = [
            (arm, buffer_bytes)
            for arm in combinations
            for buffer_bytes in some
            if (arm, buffer_bytes) not in self._known
        ]
        self._simulate(missing, progress)
        return tuple(
            tuple(self._between(arm, some, buffer_bytes) for buffer_bytes in buffers) for arm in combinations
        )

    def error(self, arms: Sequence[Arm], buffers: Sequence[int]) -> tuple[float, float] | None:
        """Error of these predictions for a kernel, as shares of the throughput: median and 90th percentile.

        The median over all arms and buffers whose error is known; None where none is, as for what is no
        throughput.
        """
        if not isinstance(self._workload, Bulk):
            return None
        learnt = shipped()
        trials = (
            self._planned(arm.combination, buffer_bytes).trial for arm in arms for buffer_bytes in buffers
        )
        spreads = sorted(learnt.scale.of(factors(trial)) for trial in trials if not learnt.unknown(trial))
        if not spreads:
            return None
        middle = quantile(spreads, 0.5)
        return math.expm1(middle * learnt.scale.half), math.expm1(middle * learnt.scale.nine_tenths)

    def _planned(self, arm: Combination, buffer_bytes: int) -> PlannedTrial:
        return plan_run(
            self._topology,
            self._configuration(arm, buffer_bytes).under(self._workload),
            purpose="search",
            run=0,
            base_seed=self._seed,
        )

    def _simulate(self, ones: Sequence[tuple[Combination, int]], progress: Advance | None) -> None:
        if not ones:
            return
        planned = [self._planned(arm, buffer_bytes) for arm, buffer_bytes in ones]
        records = self._runner.measure(planned, progress=progress)
        for configuration, record in zip(ones, records, strict=True):
            self._known[configuration] = self._worths([record])[0] or 0.0

    def _between(self, arm: Combination, some: Sequence[int], buffer_bytes: int) -> float:
        """Along a straight line over the logarithm of the buffer."""
        above = next(number for number in some if number >= buffer_bytes)
        if above == buffer_bytes:
            return self._known[arm, buffer_bytes]
        below = max(number for number in some if number < buffer_bytes)
        share = math.log(buffer_bytes / below) / math.log(above / below)
        low, high = self._known[arm, below], self._known[arm, above]
        return round(low + share * (high - low), 9)
