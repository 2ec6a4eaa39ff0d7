"""MPCOA's decision: which combination, and how small a buffer, once the response curves are known.

Eq. 9-12 of MPCOA with its sacrifice delta, its two readings of Eq. 11, and its tie rule. It takes
any fitted response model and measures nothing.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from mptune.errors import MptuneError
from mptune.response import Curve
from mptune.trial import Combination
from mptune.units import MIB

#: Share of the best throughput given up for a smaller buffer unless the user chooses another: delta of MPCOA
#: Eq. 10, with the value of the paper.
SACRIFICE = 0.07

#: Buffers closer than this are one buffer, MiB: half of the last digit MPCOA Table 5 prints.
BUFFER_TIE_MIB = 0.005

#: Throughputs closer than this share of the larger are one throughput. MPCOA calls 0.867 and 0.868
#: Mbit/s equal (section 5.3, errata E4); half a percent is less than trials resolve.
THROUGHPUT_TIE = 0.005

#: The path manager that yields to any other one when all else is equal: it is the more complicated.
LAST_CHOICE = "pcdc"


#: OBS is rounded up to whole multiples of this, bytes, before it is measured or used.
BUFFER_STEP = 1024


def whole_buffer(mib: float) -> int:
    """Bytes of a buffer, rounded up to whole `BUFFER_STEP`s (a millionth of a step is rounding error)."""
    return BUFFER_STEP * math.ceil(mib * MIB / BUFFER_STEP - 1e-6)


class Optimum(msgspec.Struct, frozen=True, kw_only=True):
    """The four outputs of MPCOA (Eq. 12), throughput and buffer as the model predicts them.

    Attributes
    ----------
    subflows, initial_path : as in `Combination`.
    buffer_mib : OBS, MiB.
    throughput_mbps : OTP, the model's throughput at OBS, Mbit/s.
    """

    pm: str
    cc: str
    subflows: tuple[str, ...] = ()
    initial_path: str = ""
    buffer_mib: float
    throughput_mbps: float

    @property
    def combination(self) -> Combination:
        """Path manager, congestion control, and subflows and initial path if they were chosen."""
        return Combination(self.pm, self.cc, self.subflows, self.initial_path)


class BufferRange(msgspec.Struct, frozen=True, kw_only=True):
    """Buffers an answer may have: everything between the ends of the sweep, or its grid points alone.

    MPCOA Eq. 10 restricts the answer to the grid, its Table 5 lies off it (errata E3): off the grid is
    the default.

    Attributes
    ----------
    grid : swept buffers, MiB, ascending.
    """

    grid: tuple[float, ...]
    on_grid: bool = False

    def within(self, limits: tuple[float, float] | None) -> "BufferRange":
        """Give the part of the range within limits, MiB; all of it without limits.

        Raises
        ------
        MptuneError : nothing is left.
        """
        if limits is None:
            return self
        grid = tuple(bs for bs in self.grid if limits[0] <= bs <= limits[1])
        if not grid:
            raise MptuneError(f"no buffer of the grid is within {limits[0]:.6g} to {limits[1]:.6g} MiB")
        return BufferRange(grid=grid, on_grid=self.on_grid)

    def maximum(self, curve: Curve) -> float:
        """Largest throughput of a curve, Mbit/s."""
        if self.on_grid:
            return max(curve.predict(bs) for bs in self.grid)
        return curve.maximum(self.grid[0], self.grid[-1])[1]

    def smallest(self, curve: Curve, throughput: float) -> float | None:
        """Smallest buffer that reaches a throughput, MiB (Eq. 10); None if none does."""
        if self.on_grid:
            return next((bs for bs in self.grid if curve.predict(bs) >= throughput), None)
        return curve.smallest_buffer(throughput, self.grid[0], self.grid[-1])


def _global_targets(maxima: Mapping[Combination, float], sacrifice: float) -> dict[Combination, float]:
    """Everyone must come within the sacrifice of the best maximum of all.

    The reading that reproduces Table 5. Its narrower form, to look at the combination with the best
    maximum alone, gives the same answer in all three published scenarios; this one also sees that
    another combination may reach the same throughput with less.
    """
    target = (1 - sacrifice) * max(maxima.values())
    return dict.fromkeys(maxima, target)


def _literal_targets(maxima: Mapping[Combination, float], sacrifice: float) -> dict[Combination, float]:
    """Everyone must come within the sacrifice of its own maximum: Eq. 11 as printed.

    It favours whatever is satisfied soonest, however slow it is (errata E1).
    """
    return {combination: (1 - sacrifice) * maximum for combination, maximum in maxima.items()}


Targets = Callable[[Mapping[Combination, float], float], dict[Combination, float]]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of MPCOA Eq. 9-12.

    Attributes
    ----------
    targets : the throughput that each combination has to reach.
    reaches : the target must hold from the chosen buffer up to this many times its size; of several the first
        one that some combination can meet counts.
    observed : a maximum is not less than what was surely observed, even where the curve lies below.
    """

    targets: Targets
    reaches: tuple[float, ...] = (1.0,)
    observed: bool = False


#: Name -> reading. The papers take the smallest buffer that reaches the target, whatever lies above. But
#: buffers are shared, grow by themselves and are set by others, and throughput may collapse with more of
#: them: the robust reading wants the target to hold up to the largest buffer measured, or if no combination
#: can do that, up to twice the size.
READINGS: dict[str, Reading] = {
    "robust": Reading(targets=_global_targets, reaches=(math.inf, 2.0), observed=True),
    "global": Reading(targets=_global_targets),
    "literal": Reading(targets=_literal_targets),
}


class Candidates:
    """Curves that may be chosen, with the maximum of each: ask `best` for as many sacrifices as needed.

    Where every subflow helps under a congestion control, PCDC does what FullMesh does, and MPCOA chooses
    FullMesh (sections 5.3 and 5.4): PCDC is then not a candidate.

    Parameters
    ----------
    curves : the fitted curve of every combination.
    homogeneous : congestion controls under which every subflow helps.
    measured : smallest and largest buffer with a usable observation, MiB, where that is less than the
        range: beyond it a curve is a guess, and no answer.
    ceilings : measured buffer (MiB) -> upper end of the 95 % interval of its mean (Mbit/s): where a curve
        lies above that, the observations are believed.
    floors : the largest lower end of such an interval, Mbit/s, of each combination.

    Raises
    ------
    MptuneError : no curve predicts any throughput.
    """

    def __init__(
        self,
        curves: Mapping[Combination, Curve],
        buffers: BufferRange,
        *,
        homogeneous: Collection[str] = (),
        measured: Mapping[Combination, tuple[float, float]] | None = None,
        ceilings: Mapping[Combination, Mapping[float, float]] | None = None,
        floors: Mapping[Combination, float] | None = None,
    ) -> None:
        self._floors = floors or {}
        limits = measured or {}
        self._curves = {
            c: curve for c, curve in curves.items() if not _is_fullmesh_again(c, curves, homogeneous)
        }
        self._ceilings = ceilings or {}
        self._profiles: dict[tuple[Combination, float], Profile] = {}
        self._ranges = {c: buffers.within(limits.get(c)) for c in self._curves}
        maxima = {c: self._ranges[c].maximum(curve) for c, curve in self._curves.items()}
        self.maxima = {combination: maximum for combination, maximum in maxima.items() if maximum > 0}
        if not self.maxima:
            raise MptuneError("the response model predicts no throughput for any combination")

    def best(self, sacrifice: float = SACRIFICE, reading: str = "global") -> Optimum:
        """Choose the combination with the smallest sufficient buffer.

        Of candidates equal in buffer the faster wins, and of those equal in both the simpler path manager.

        Parameters
        ----------
        sacrifice : delta of Eq. 10, the share of the maximum given up for a smaller buffer, in [0, 1).
        reading : name in `READINGS`.
        """
        how = READINGS[reading]
        floors = self._floors if how.observed else {}
        maxima = {c: max(maximum, floors.get(c, 0.0)) for c, maximum in self.maxima.items()}
        targets = how.targets(maxima, sacrifice)
        for reach in how.reaches:
            if optima := self._reaching(targets, reach):
                return _smallest(optima)
        # No combination holds its target over the last reach: the target is the best that one can hold.
        held = {c: self._profile(c, how.reaches[-1]).most for c in self.maxima}
        if max(held.values()) <= 0:
            # Every combination stalls with some buffer of every such stretch: the curves are all there is.
            return _smallest(self._reaching(how.targets(self.maxima, sacrifice), 1.0))
        return _smallest(self._reaching(how.targets(held, sacrifice), how.reaches[-1]))

    def _reaching(self, targets: Mapping[Combination, float], reach: float) -> list[Optimum]:
        """The smallest sufficient buffer of every combination that has one."""
        optima = []
        for combination, target in targets.items():
            curve, range_ = self._curves[combination], self._ranges[combination]
            if reach > 1:
                buffer = self._profile(combination, reach).smallest(target)
            else:
                buffer = range_.smallest(curve, target)
            if buffer is not None:
                optima.append(
                    Optimum(**combination._asdict(), buffer_mib=buffer, throughput_mbps=curve.predict(buffer))
                )
        return optima

    def _profile(self, combination: Combination, reach: float) -> "Profile":
        key = combination, reach
        if key not in self._profiles:
            ceilings = self._ceilings.get(combination, {})
            self._profiles[key] = Profile(
                self._curves[combination], self._ranges[combination], ceilings, reach
            )
        return self._profiles[key]


class Profile:
    """Throughput that a combination sustains from each buffer up to `reach` times that, within the range.

    Parameters
    ----------
    ceilings : as in `Candidates`, of this combination.

    Attributes
    ----------
    most : the largest throughput that is held from some buffer on, Mbit/s.
    """

    #: Points between two neighbours of the grid.
    _BETWEEN = 4

    def __init__(
        self, curve: Curve, buffers: BufferRange, ceilings: Mapping[float, float], reach: float
    ) -> None:
        self._curve, self._on_grid = curve, buffers.on_grid
        self._points = list(buffers.grid) if buffers.on_grid else self._spaced(buffers.grid)
        heights = [min(curve.predict(bs), ceilings.get(bs, math.inf)) for bs in self._points]
        self._held = held(self._points, heights, reach)
        self.most = max(self._held)

    def smallest(self, throughput: float) -> float | None:
        """Smallest buffer from which a throughput is held, MiB; None if there is none."""
        for index, held in enumerate(self._held):
            if held >= throughput:
                here, before = self._points[index], self._points[max(index - 1, 0)]
                if self._on_grid or self._curve.predict(before) >= throughput:
                    return here
                return self._curve.first_reach(before, here, throughput)
        return None

    def _spaced(self, grid: Sequence[float]) -> list[float]:
        steps = self._BETWEEN + 1
        inner = [a + i * (b - a) / steps for a, b in itertools.pairwise(grid) for i in range(steps)]
        return [*inner, grid[-1]]


def held(points: Sequence[float], heights: Sequence[float], reach: float) -> list[float]:
    """Least height within [point, reach * point] of every point; the last window ends with the points."""
    held = [0.0] * len(points)
    window: deque[int] = deque()  # indices by rising height, the least first
    for index in reversed(range(len(points))):
        while window and heights[window[-1]] >= heights[index]:
            window.pop()
        window.append(index)
        while points[window[0]] > reach * points[index]:
            window.popleft()
        held[index] = heights[window[0]]
    return held


def select(
    curves: Mapping[Combination, Curve],
    buffers: BufferRange,
    *,
    sacrifice: float = SACRIFICE,
    reading: str = "global",
    homogeneous: Collection[str] = (),
) -> Optimum:
    """Choose once among fitted curves; parameters as in `Candidates` and its `best`.

    Raises
    ------
    MptuneError : no curve predicts any throughput.
    """
    return Candidates(curves, buffers, homogeneous=homogeneous).best(sacrifice, reading)


def _is_fullmesh_again(
    combination: Combination, curves: Mapping[Combination, Curve], homogeneous: Collection[str]
) -> bool:
    """True if a combination is PCDC with every subflow, and FullMesh was measured too."""
    fullmesh = combination._replace(pm="fullmesh")
    plain = combination.pm == "pcdc" and not combination.subflows
    return plain and combination.cc in homogeneous and fullmesh in curves


def _smallest(optima: Sequence[Optimum]) -> Optimum:
    """Smallest buffer; among equal ones the fastest; among those the simplest path manager."""
    least = min(optimum.buffer_mib for optimum in optima)
    small = [optimum for optimum in optima if optimum.buffer_mib <= least + BUFFER_TIE_MIB]
    most = max(optimum.throughput_mbps for optimum in small)
    equal = [o for o in small if o.throughput_mbps >= most - THROUGHPUT_TIE * abs(most)]
    return min(equal, key=lambda o: (o.pm == LAST_CHOICE, -o.throughput_mbps))
