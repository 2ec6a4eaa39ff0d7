"""Arms of an adaptive sweep: combinations and buffers, which grow in number where the answer may be.

The strategy decides which of them may be the answer; nothing is measured here.
"""

import math
from collections.abc import Iterable, Sequence

from mptune.decision.selection import whole_buffer
from mptune.impact import Impact
from mptune.optimisation.candidates import FLOOR, asked, competing, sets_compete
from mptune.optimisation.job import Job
from mptune.optimisation.set_search import SetSearch
from mptune.strategy import Arm, Verdict
from mptune.trial import Combination
from mptune.units import MIB

#: Arms whose neighbours join: the likeliest.
_BEST = 2

#: Buffers per octave.
_PER_OCTAVE = 4

#: The largest buffer is multiplied by this at most where throughput still rises there.
_LARGER = 4


class Arms:
    """The arms and buffers of the question, both in the order in which the strategy numbers them.

    Attributes
    ----------
    combinations : one for each arm.
    buffers : bytes, ascending.
    """

    def __init__(self, job: Job, impacts: Sequence[Impact]) -> None:
        self.job, options = job, job.options
        self.combinations: list[Combination] = []
        self._join([*asked(options), *competing(options, job.mptcp, impacts)])
        self.buffers = geometric(options.buffers) if options.extend else tuple(sorted(options.buffers))

    def arms(self) -> tuple[Arm, ...]:
        """The arms as the strategy wants them."""
        return tuple(Arm(combination, self._active(combination)) for combination in self.combinations)

    def widen(self, verdict: Verdict) -> bool:
        """Add an octave of buffers where the answer may lie beyond an end; whether there were any."""
        options, ratio = self.job.options, 2 ** (1 / _PER_OCTAVE)
        if not options.extend:
            return False
        low, high = self.buffers[0], self.buffers[-1]
        new: list[int] = []
        if verdict.sizes[0] == 0:
            steps = (whole_buffer(low / ratio**step / MIB) for step in range(_PER_OCTAVE, 0, -1))
            new += [size for size in steps if size >= FLOOR]
        # By single runs the answer seems to be the last buffer but one as often where throughput still rises.
        if verdict.sizes[1] >= len(self.buffers) - 2 and 2 * high <= _LARGER * max(options.buffers):
            steps = (whole_buffer(high * ratio**step / MIB) for step in range(1, _PER_OCTAVE + 1))
            new += [size for size in steps if self.job.may_have(size)]
        self.buffers = tuple(sorted({*self.buffers, *new}))
        return bool(new)

    def add_neighbours(self, verdict: Verdict) -> bool:
        """Let sets of subflows beside those of the best arms compete; whether there were any."""
        job, options = self.job, self.job.options
        if not sets_compete(options, job.mptcp):
            return False
        search = SetSearch(job.mptcp, options.ccs, job.optional, mesh="fullmesh" in options.pms)
        best = [self.combinations[arm] for arm in verdict.contenders[:_BEST]]
        return self._join(neighbour for combination in best for neighbour in search.around(combination))

    def _join(self, combinations: Iterable[Combination]) -> bool:
        """Let more arms compete; whether there were any that do something of their own."""
        known = {self._does(combination) for combination in self.combinations}
        before = len(self.combinations)
        for combination in combinations:
            if (does := self._does(combination)) not in known:
                known.add(does)
                self.combinations.append(combination)
        return len(self.combinations) > before

    def _does(self, combination: Combination) -> tuple[object, ...]:
        """Effect of a combination: PCDC with every subflow is FullMesh."""
        active = self._active(combination)
        return (
            active if active else combination.pm,
            combination.is_tcp,
            combination.cc,
            combination.initial_path,
        )

    def _active(self, combination: Combination) -> frozenset[str]:
        return active(self.job, combination)


def active(job: Job, combination: Combination) -> frozenset[str]:
    """The subflows that carry data; empty where only the path manager knows."""
    if combination.pm == "fullmesh":
        return frozenset(path.label for path in job.mptcp.paths)
    own = job.optional.get(combination.cc, ()) if combination.pm == "pcdc" else ()
    return frozenset(combination.subflows or own)


def geometric(buffers: Sequence[int]) -> tuple[int, ...]:
    """Buffers from the smallest to the largest, a quarter of an octave apart, in whole KiB."""
    low, high = min(buffers), max(buffers)
    steps = max(1, round(_PER_OCTAVE * math.log2(high / low)))
    return tuple(
        sorted({whole_buffer(low * (high / low) ** (step / steps) / MIB) for step in range(steps + 1)})
    )
