"""Measure what may still change the answer, and stop when nothing is likely to.

Every draw of the belief about the curves (`mptune.strategy._curves`) has a best answer, and the answer so
far a regret (`mptune.strategy._answers`). The next trial is of the configuration that is to blame for most of
it, as in top-two Thompson sampling (Russo, Operations Research 68, 2020), which also draws an answer and a
challenger from the belief. It ends when the answer holds with the certainty asked for and a smaller buffer
is not in sight.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mptune.response import Arm, Points
from mptune.response.noise import Noise
from mptune.strategy._answers import ROOM, Answers, answers
from mptune.strategy._base import Ask, Question, Told, Verdict
from mptune.strategy._curves import DRAWS, Curves, Floats

#: Mean regret at which a smaller buffer is not in sight.
ENOUGH = 0.25

#: Ends of a 95 % interval.
_ENDS = 0.025, 0.975

#: Runs of the answer without which it is not certain: one lucky run is no certainty.
PROOF = 4


class Adaptive:
    """Keeps the observations and the belief they lead to, and asks for the most useful trials.

    Arms are sorted internally, so their order in the question does not matter.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        order = sorted(range(len(question.arms)), key=lambda arm: _sort_key(question.arms[arm]))
        self._order = order
        self._place = {arm: place for place, arm in enumerate(order)}
        self._curves = Curves([question.arms[arm] for arm in order], question.buffers, None, question.seed)
        self._octaves = np.log2(np.array(question.buffers, dtype=float))
        self._values: dict[tuple[int, int], dict[int, float | None]] = {}
        self._costs: dict[Ask, float] = {}
        self._belief: _Belief | None = None

    def tell(self, observations: Sequence[Told]) -> None:
        """Notes what trials gave."""
        for one in observations:
            place = self._place[one.ask.arm], one.ask.size
            self._values.setdefault(place, {})[one.ask.run] = one.throughput_mbps
            self._costs[one.ask] = self._question.cost(one)
        self._belief = None

    def ask(self) -> list[Ask]:
        """The trials that tell most about the answer."""
        left = self._question.left(math.fsum(self._costs.values()))
        if not left:
            return []
        belief = self._believe()
        if belief is None:
            return self._first(left)
        place = belief.answers.choice
        if self._is_certain(belief.answers, place):
            return self._proof(place, left)
        return self._telling(belief, place, left)

    def verdict(self) -> Verdict | None:
        """The answer with the least expected regret."""
        belief = self._believe()
        if belief is None:
            return None
        found = belief.answers
        arm, size = found.choice
        likely = np.bincount(found.arm, minlength=len(self._order))
        contenders = sorted(np.flatnonzero(likely > DRAWS / 100), key=lambda one: (-likely[one], one))
        low, high = np.quantile(found.size, _ENDS, method="nearest")
        here = belief.draws[:, arm, size] * belief.scale
        least, most = (round(float(end), 9) for end in np.quantile(here, _ENDS))
        return Verdict(
            arm=self._order[arm],
            size=size,
            throughput_mbps=round(float(here.mean()), 9),
            interval_mbps=(least, most),
            certainty=found.holds(arm, size),
            room=ROOM,
            contenders=tuple(self._order[one] for one in contenders),
            shares=tuple(float(likely[one]) / DRAWS for one in contenders),
            sizes=(int(low), int(high)),
        )

    def _believe(self) -> "_Belief | None":
        """The belief; None before there is any observation."""
        if self._belief is None:
            seen = {place: values for place in sorted(self._values) if (values := self._usable(place))}
            if seen:
                self._belief = _Belief.after(seen, self._curves, self._octaves, self._question.sacrifice)
        return self._belief

    def _usable(self, place: tuple[int, int]) -> list[float]:
        """Throughputs of a configuration in the order of the runs, without those that failed."""
        runs = self._values[place]
        return [value for run in sorted(runs) if (value := runs[run]) is not None]

    def _runs(self, arm: int, size: int) -> int:
        return len(self._values.get((arm, size), ()))

    def _asked(self, arm: int, size: int, run: int) -> Ask:
        return Ask(self._order[arm], size, run)

    def _first(self, left: int) -> list[Ask]:
        """Before anything is known: every arm with the largest buffer, with a middling one, and so on."""
        sizes = len(self._question.buffers)
        spread = sorted(range(sizes), key=lambda size: (_rank(sizes - 1 - size, sizes), -size))
        every = (
            self._asked(arm, size, runs)
            for size in spread
            for arm in range(len(self._order))
            if (runs := self._runs(arm, size)) < self._question.runs
        )
        return list(itertools.islice(every, left))

    def _is_certain(self, found: Answers, place: tuple[int, int]) -> bool:
        arm, size = place
        enough = float(found.regret[:, arm, size].mean()) <= ENOUGH
        return enough and found.holds(arm, size) >= self._question.certainty

    def _proof(self, place: tuple[int, int], left: int) -> list[Ask]:
        """More runs of the answer if it has too few, and its neighbours in the buffer if they have none.

        The belief takes curves for smoother than their corners are.
        """
        arm, size = place
        wanted = min(PROOF, self._question.runs)
        asked = [self._asked(arm, size, run) for run in range(self._runs(arm, size), wanted)]
        beside = [one for one in (size - 1, size + 1) if 0 <= one < len(self._octaves)]
        asked += [self._asked(arm, one, 0) for one in beside if not self._runs(arm, one)]
        return asked[:left]

    def _telling(self, belief: "_Belief", place: tuple[int, int], left: int) -> list[Ask]:
        """Trials of what is to blame for the regret of the answer, each after the ones before it.

        In every draw that is the better answer, and what has the best throughput of all; and in all draws the
        answer itself.
        """
        sizes = len(self._octaves)
        regret = belief.answers.regret[:, place[0], place[1]].copy()
        flat = belief.draws.reshape(DRAWS, -1)
        better = belief.answers.arm * sizes + belief.answers.size
        to_blame = np.stack([better, flat.argmax(axis=1), np.full(DRAWS, place[0] * sizes + place[1])])
        variance, noise = flat.var(axis=0), belief.noise.ravel()
        runs = np.array([self._runs(arm, size) for arm in range(len(self._order)) for size in range(sizes)])
        found: list[Ask] = []
        for _ in range(left):
            blame = sum(np.bincount(ones, weights=regret, minlength=flat.shape[1]) for ones in to_blame)
            learned = variance / (variance + noise)
            # By how much the trial is expected to move what is believed.
            worth = np.round(blame * np.sqrt(variance * learned), 9)
            worth[runs >= self._question.runs] = -1.0
            chosen = int(np.argmax(worth))
            if worth[chosen] < 0:
                break
            found.append(self._asked(chosen // sizes, chosen % sizes, int(runs[chosen])))
            runs[chosen] += 1
            regret[(to_blame == chosen).any(axis=0)] *= 1 - learned[chosen]
            variance[chosen] *= 1 - learned[chosen]
        return found


class _Belief(NamedTuple):
    """What follows from the observations; throughputs as shares of the largest observed.

    Attributes
    ----------
    scale : the largest observed mean, Mbit/s.
    draws : throughputs, shape (draws, arms, buffers).
    noise : variance between runs, shape (arms, buffers).
    answers : of the draws.
    """

    scale: float
    draws: Floats
    noise: Floats
    answers: Answers

    @classmethod
    def after(
        cls,
        seen: Mapping[tuple[int, int], Sequence[float]],
        curves: Curves,
        octaves: Floats,
        sacrifice: float,
    ) -> "_Belief":
        """The belief after some throughputs, Mbit/s, by (arm, buffer) index."""
        scale = max(*(sum(values) / len(values) for values in seen.values()), 1e-9)
        arm, size = np.array(list(seen)).T
        shares = [np.array(values) / scale for values in seen.values()]
        runs = np.array([len(values) for values in shares])
        means = np.array([values.mean() for values in shares])
        levels, squares, freedom = (np.zeros(curves.shape) for _ in range(3))
        squares[arm, size] = [
            ((values - mean) ** 2).sum() for values, mean in zip(shares, means, strict=True)
        ]
        freedom[arm, size] = runs - 1
        levels[arm, size] = means
        between = Noise(squares, freedom, levels, octaves).between
        draws = curves.draws(Points(arm, size, means, between[arm, size] / runs)).draws
        # Now there is a level for what was not observed, too.
        levels = draws.mean(axis=0)
        levels[arm, size] = means
        noise = Noise(squares, freedom, levels, octaves).between
        return cls(scale, draws, noise, answers(draws, octaves, sacrifice))


def _sort_key(arm: Arm) -> tuple[object, ...]:
    return (*arm.combination, tuple(sorted(arm.active)))


def _rank(index: int, count: int) -> int:
    """How often a range has to be halved until this index is at an end of a part."""
    step, rank = count - 1, 0
    while step > 0 and index % step:
        step, rank = step // 2, rank + 1
    return rank
