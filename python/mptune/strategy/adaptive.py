"""Measure what may still change the answer, and stop when nothing is likely to.

Every draw of the belief about the curves (`mptune.strategy._curves`) has a best answer, and the answer so
far a regret (`mptune.strategy._answers`). The next trial is the one most informative about the configurations
that are to blame for it. As in top-two Thompson sampling (Russo, Operations Research 68, 2020), these are
answers and challengers drawn from the belief. It ends when the answer holds with the certainty asked for and
a smaller buffer is not in sight.
"""

import copy
import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptune.response.noise import FIRST
from mptune.strategy._answers import Answers, answers
from mptune.strategy._base import ROOM, Ask, Odds, Question, Told, Verdict
from mptune.strategy._curves import Curves, Floats
from mptune.strategy._evidence import Evidence, Flags, gathered

#: Mean regret at which a smaller buffer is not in sight.
ENOUGH = 0.25

#: Ends of a 95 % interval.
_ENDS = 0.025, 0.975

#: Runs of the answer without which it is not certain: one lucky run is no certainty.
PROOF = 4

#: Buffers this many octaves apart are about the same, and large ones so many from the largest, at most.
NEAR, LARGE = 0.5, 1.0

#: A trial is not worth it below this share of the best one's information, had that runs left.
FUTILE = 0.1

#: Most causes, and the number of standard errors of a covariance that are chance.
BLAMED, CHANCE = 64, 2.0

#: A prior that is less credible than this is dropped.
CREDIBLE = 0.5

#: Nobody waits for more than so many times what was spent.
MOST_MORE = 20.0


class Adaptive:
    """Keeps the observations and the belief they lead to, and asks for the most useful trials.

    Arms are sorted internally, so their order in the question does not matter.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        names = [(*arm.combination, tuple(sorted(arm.active))) for arm in question.arms]
        order = sorted(range(len(names)), key=names.__getitem__)
        self._order = order
        self._place = {arm: place for place, arm in enumerate(order)}
        predicted = np.array([question.prior[arm] for arm in order]) if question.prior else None
        arms = [question.arms[arm] for arm in order]
        self._curves = Curves(arms, question.buffers, predicted, question.seed, question.prior_error)
        self._kinds = [
            {each_arm.active or each_arm.combination.manager, each_arm.combination.cc} for each_arm in arms
        ]
        self._octaves = np.log2(np.array(question.buffers, dtype=float))
        #: By what was asked for, with internal numbers of the arms.
        self._told: dict[Ask, Told] = {}
        #: Runs by arm and buffer, and those of them that gave a value: others are no evidence.
        self._runs = np.zeros(self._curves.shape, dtype=int)
        self._known = np.zeros(self._curves.shape, dtype=int)
        self._belief: _Belief | None = None

    def tell(self, observations: Sequence[Told]) -> None:
        """Notes what trials gave."""
        for observation in observations:
            ask = observation.ask._replace(arm=self._place[observation.ask.arm])
            before = self._told.get(ask)
            self._runs[ask.arm, ask.size] += before is None
            was_known = before is not None and before.value is not None
            self._known[ask.arm, ask.size] += int(observation.value is not None) - int(was_known)
            self._told[ask] = observation._replace(ask=ask)
        self._belief = None

    def ask(self) -> list[Ask]:
        """The trials most informative about the answer."""
        left = self._question.left(self._spent_s())
        if not left:
            return []
        belief = self._believe()
        if belief is None:
            return self._first(left)
        if self._is_certain(belief):
            return self._proof(belief.choice, left) or self._steadier(belief)
        return self._again(belief) or self._telling(belief, left)

    def foreseen(self, asked: Sequence[Ask], most: int) -> list[Ask]:
        """What it would ask for if the trials asked for told nothing new."""
        belief = self._believe()
        if belief is None:
            return []
        if not self._is_certain(belief):
            telling = self._telling(belief, len(asked) + most)
            return [ask for ask in telling if ask not in asked][:most]
        after = copy.copy(self)
        after._runs, after._known = self._runs.copy(), self._known.copy()
        asks: list[Ask] = []
        more: Sequence[Ask] = asked
        while more and len(asks) < most:
            after._assume(more)
            more = after._proof(belief.choice, most) or after._steadier(belief)
            asks += more
        return asks[:most]

    def verdict(self) -> Verdict | None:
        """The answer with the least expected regret."""
        belief = self._believe()
        if belief is None or belief.evidence is None:
            return None
        answers_, (arm, size) = belief.answers, belief.choice
        likely = np.bincount(answers_.arm, minlength=len(self._order))
        contenders = sorted(
            np.flatnonzero(likely > len(answers_.arm) / 100), key=lambda number: (-likely[number], number)
        )
        low, high = np.quantile(answers_.size, _ENDS, method="nearest")
        certainty, room = answers_.holds(arm, size, ROOM), ROOM
        supported = self._supported(belief)
        if certainty < self._question.certainty or supported > ROOM:
            certainty = self._question.certainty
            room = max(answers_.room(arm, size, certainty), supported)
        prior = ""
        if self._question.prior:
            prior = "followed" if belief.predicted >= CREDIBLE else "dropped"
        scale = belief.evidence.scale
        here = belief.draws[:, arm, size] * scale
        least, most = (round(float(end), 9) for end in np.quantile(here, _ENDS))
        return Verdict(
            arm=self._order[arm],
            size=size,
            value=round(float(here.mean()), 9),
            interval=(least, most),
            certainty=certainty,
            room=room,
            contenders=tuple(self._order[contender] for contender in contenders),
            shares=tuple(float(likely[contender]) / len(answers_.arm) for contender in contenders),
            sizes=(int(low), int(high)),
            scatter=round(math.sqrt(belief.noise[arm, size]) * scale, 9),
            more_s=self._more_s(belief, room),
            prior=prior,
            drift=belief.evidence.drift,
        )

    def odds(self) -> Odds | None:
        """Shares of the draws of the belief, and their means and quantiles."""
        belief = self._believe()
        if belief is None or belief.evidence is None:
            return None
        draws = belief.draws
        behind = 1 - draws / np.maximum(draws.max(axis=(1, 2)), 1e-9)[:, None, None]
        return Odds(
            suffices=self._rows((belief.answers.missing <= 0).mean(axis=0)),
            expected=self._rows(draws.mean(axis=0) * belief.evidence.scale),
            behind=self._rows(np.quantile(behind, self._question.certainty, axis=0, method="higher")),
        )

    def _rows(self, internal: Floats) -> tuple[tuple[float, ...], ...]:
        """A row per arm of the question."""
        rows = internal.round(9).tolist()
        return tuple(tuple(rows[self._place[arm]]) for arm in range(len(rows)))

    def _spent_s(self) -> float:
        return math.fsum(map(self._question.cost, self._told.values()))

    def _assume(self, asked: Sequence[Ask]) -> None:
        """Count trials as done, with a value."""
        for ask in asked:
            place = self._place[ask.arm], ask.size
            self._runs[place] += 1
            self._known[place] += 1

    def _believe(self) -> "_Belief | None":
        """The belief; None as long as there is nothing to base it on."""
        if self._belief is None:
            trials = [self._told[ask] for ask in sorted(self._told)]
            seen = any(trial.value is not None for trial in trials)
            if seen or self._question.prior:
                evidence = gathered(trials, self._curves.shape, self._octaves) if seen else None
                self._belief = _Belief.after(evidence, self._curves, self._octaves, self._question.sacrifice)
        return self._belief

    def _asked(self, arm: int, size: int, run: int) -> Ask:
        return Ask(self._order[arm], size, run)

    def _first(self, left: int) -> list[Ask]:
        """Before anything is known: every arm with the largest buffer, with a middling one, and so on."""
        sizes = len(self._question.buffers)
        spread = sorted(range(sizes), key=lambda size: (_rank(sizes - 1 - size, sizes), -size))
        every = (
            self._asked(arm, size, int(self._runs[arm, size]))
            for size in spread
            for arm in range(len(self._order))
            if self._runs[arm, size] < self._question.runs
        )
        return list(itertools.islice(every, left))

    def _is_certain(self, belief: "_Belief") -> bool:
        enough = belief.regret(belief.choice) <= ENOUGH
        return enough and belief.answers.holds(*belief.choice, ROOM) >= self._question.certainty

    def _supported(self, belief: "_Belief") -> float:
        """The share by which the answer misses at most, with the certainty asked for, by its own runs alone.

        The belief takes its knowledge from everywhere, and where runs scatter much and few were repeated it
        knows less than it seems. So no claim is narrower than what the runs of the answer, and those of the
        best throughput, which decides what is allowed, give by themselves.
        """
        levels = belief.draws.mean(axis=0).round(9)
        most = 1 - self._question.sacrifice
        errors = belief.noise[belief.choice] / self._around(belief.choice).sum()
        if (best := _place(levels)) != belief.choice:
            errors += most**2 * belief.noise[best] / self._around(best).sum()
        allowed = most * max(float(levels[best]), 1e-9)
        share = NormalDist().inv_cdf(self._question.certainty) * math.sqrt(errors) / allowed
        return round(min(float(share), 1.0), 9)

    def _around(self, place: tuple[int, int]) -> NDArray[np.int64]:
        """Known runs of this arm by buffer, of about this buffer; where it has none, as if it had one."""
        arm, size = place
        runs = np.where(np.abs(self._octaves - self._octaves[size]) <= NEAR, self._known[arm], 0)
        if not runs.any():
            runs[size] = 1
        return runs

    def _steadier(self, belief: "_Belief") -> list[Ask]:
        """One more run of what the claim rests on, if it rests on too few and there is one."""
        if self._supported(belief) <= ROOM:
            return []
        best = _place(belief.draws.mean(axis=0).round(9))
        places = sorted(
            dict.fromkeys([belief.choice, best]),
            key=lambda row: (-round(float(belief.noise[row]) / self._around(row).sum() ** 2, 12), row),
        )
        for arm, size in places:
            runs = self._runs[arm]
            near = np.flatnonzero(np.abs(self._octaves - self._octaves[size]) <= NEAR)
            for at in sorted(map(int, near), key=lambda number: (abs(number - size), runs[number], number)):
                if runs[at] < self._question.runs:
                    return [self._asked(arm, at, int(runs[at]))]
        return []

    def _proof(self, place: tuple[int, int], left: int) -> list[Ask]:
        """Trials without which no answer is certain, whatever is believed.

        More runs of it if it has too few, and its neighbours in the buffer if they have none: the belief
        takes curves for smoother than their corners are. And all subflows and congestion controls, with about
        its buffer and with a large one: the belief takes what was never seen for more like the rest than it
        may be.
        """
        arm, size = place
        sizes = len(self._octaves)
        done, runs = int(self._runs[place]), self._question.runs
        missing = min(PROOF, runs) - int(self._known[place])
        asked = [self._asked(arm, size, run) for run in range(done, min(done + missing, runs))]
        beside = [index for index in (size - 1, size + 1) if 0 <= index < sizes]
        asked += [self._asked(arm, number, 0) for number in beside if not self._runs[arm, number]]
        near = np.abs(self._octaves - self._octaves[size]) <= NEAR
        large = self._octaves >= self._octaves[-1] - LARGE
        for there, at in ((near, size), (large, sizes - 1)):
            asked += [self._asked(number, at, 0) for number in self._unseen(arm, there)]
        return list(dict.fromkeys(asked))[:left]

    def _unseen(self, arm: int, sizes: Flags) -> list[int]:
        """As few arms as have all subflows and congestion controls not measured there, the likest to this."""
        seen = [bool(runs[sizes].any()) for runs in self._runs]
        unseen = set[object]().union(*self._kinds)
        unseen -= set[object]().union(*(kinds for kinds, some in zip(self._kinds, seen, strict=True) if some))
        asks = []
        while unseen:
            own = self._kinds[arm]
            number = max(
                range(len(seen)), key=lambda i: (len(unseen & self._kinds[i]), len(own & self._kinds[i]), -i)
            )
            asks.append(number)
            unseen -= self._kinds[number]
        return asks

    def _again(self, belief: "_Belief") -> list[Ask]:
        """The best of what was measured only long ago, if it is overdue: the network may have changed."""
        if belief.evidence is None:
            return []
        overdue = belief.evidence.overdue & (self._runs < self._question.runs)
        expected = np.where(overdue, belief.answers.regret.mean(axis=0).round(9), np.inf)
        arm, size = map(int, np.unravel_index(int(np.argmin(expected)), expected.shape))
        return [self._asked(arm, size, int(self._runs[arm, size]))] if overdue.any() else []

    def _telling(self, belief: "_Belief", left: int) -> list[Ask]:
        """Trials informative about the causes of the answer's regret, each after the ones before.

        To blame is in every draw the better answer and what has the best throughput of all, and in all draws
        the answer itself.
        """
        question, sizes, place = self._question, len(self._octaves), belief.choice
        regret = belief.answers.regret[:, place[0], place[1]].copy()
        flat = belief.draws.reshape(len(regret), -1)
        better = belief.answers.arm * sizes + belief.answers.size
        to_blame = np.stack([better, flat.argmax(axis=1), np.full(len(regret), place[0] * sizes + place[1])])
        apart = flat - flat.mean(axis=0)
        blamed = np.unique(to_blame)
        if len(blamed) > BLAMED:
            total = np.bincount(to_blame.ravel(), np.tile(regret, 3), flat.shape[1]).round(9)
            blamed = np.sort(np.argsort(-total, kind="stable")[:BLAMED])
        variance, noise, runs = flat.var(axis=0), belief.noise.ravel(), self._runs.ravel().copy()
        common = apart.T @ apart[:, blamed] / len(regret)
        # A covariance of so few draws is uncertain by this much.
        chance = CHANCE * np.sqrt(variance[:, None] * variance[blamed] / len(regret))
        asks: list[Ask] = []
        for _ in range(left):
            blame = np.stack([np.bincount(ones, regret, flat.shape[1]) for ones in to_blame]).sum(axis=0)
            # By how much the trial is expected to move what is believed of it.
            moved = np.maximum(np.abs(common) - chance, 0.0) @ blame[blamed]
            worth = np.round(moved / np.sqrt(variance + noise), 9)
            most = worth.max()
            worth[runs >= question.runs] = -1.0
            chosen = int(np.argmax(worth))
            # Where what matters has all its runs, the others have hardly any information.
            if worth[chosen] < max(0.0, FUTILE * most):
                break
            asks.append(self._asked(chosen // sizes, chosen % sizes, int(runs[chosen])))
            runs[chosen] += 1
            learned = variance[chosen] / (variance[chosen] + noise[chosen])
            regret[(to_blame == chosen).any(axis=0)] *= 1 - learned
            with_it = apart.T @ apart[:, chosen] / len(regret)
            share = with_it / (variance[chosen] + noise[chosen])
            common -= np.outer(share, common[chosen])
            apart = apart - np.outer(apart[:, chosen], share)
            variance = np.maximum(variance - share * with_it, 0.0)
        return asks

    def _more_s(self, belief: "_Belief", room: float) -> float | None:
        """Errors fall with the root of the time, and the regret of larger buffers with the time."""
        spent_s = self._spent_s()
        share = max((room / ROOM) ** 2, belief.regret(belief.choice) / ENOUGH) - 1
        return None if share > MOST_MORE else round(spent_s * max(0.0, share), 3)


class _Belief(NamedTuple):
    """Belief after the observations; throughputs as shares of the largest observed.

    Attributes
    ----------
    evidence : None before the first observation.
    draws : throughputs, shape (draws, arms, buffers).
    predicted : as in `mptune.strategy._curves.Drawn`.
    noise : variance between runs, shape (arms, buffers).
    answers : of the draws.
    choice : arm and buffer of the answer.
    """

    evidence: Evidence | None
    draws: Floats
    predicted: float
    noise: Floats
    answers: Answers
    choice: tuple[int, int]

    @classmethod
    def after(cls, evidence: Evidence | None, curves: Curves, octaves: Floats, sacrifice: float) -> "_Belief":
        """The belief after some evidence."""
        draws, predicted = curves.draws(evidence.points if evidence else None)
        levels = draws.mean(axis=0)
        noise = evidence.noise(levels, octaves) if evidence else np.full_like(levels, FIRST**2)
        answers_ = answers(draws, octaves, sacrifice)
        return cls(evidence, draws, predicted, noise, answers_, answers_.choice(noise))

    def regret(self, place: tuple[int, int]) -> float:
        """Expected loss of this answer."""
        return round(float(self.answers.regret[:, place[0], place[1]].mean()), 9)


def _place(levels: Floats) -> tuple[int, int]:
    """Arm and buffer of the highest."""
    arm, size = np.unravel_index(int(np.argmax(levels)), levels.shape)
    return int(arm), int(size)


def _rank(index: int, count: int) -> int:
    """Number of times a range has to be halved until this index is at an end of a part."""
    step, rank = count - 1, 0
    while step > 0 and index % step:
        step, rank = step // 2, rank + 1
    return rank
