"""Every combination with every buffer, as often as asked: the papers' strategy (MPCOA section 3)."""

import itertools
import math
from collections.abc import Iterator, Sequence

from mptune.strategy._base import Ask, Odds, Question, Told, Verdict


class Grid:
    """Goes through arms, then buffers, then runs, whatever the results."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._known: dict[Ask, float] = {}

    def ask(self) -> list[Ask]:
        """The next trials in order."""
        return list(itertools.islice(self._left(), self._question.left(math.fsum(self._known.values()))))

    def foreseen(self, asked: Sequence[Ask], most: int) -> list[Ask]:
        """The trials after these."""
        return list(itertools.islice((request for request in self._left() if request not in asked), most))

    def _left(self) -> Iterator[Ask]:
        """What is not done, in order."""
        question = self._question
        ranges = map(range, (len(question.arms), len(question.buffers), question.runs))
        every = itertools.starmap(Ask, itertools.product(*ranges))
        return (request for request in every if request not in self._known)

    def tell(self, observations: Sequence[Told]) -> None:
        """Notes what is done."""
        self._known |= {observation.ask: self._question.cost(observation) for observation in observations}

    def verdict(self) -> Verdict | None:
        """None: the response model decides, as in the papers."""
        return None

    def odds(self) -> Odds | None:
        """None, for the same reason."""
        return None
