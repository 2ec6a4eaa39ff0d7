"""Every combination with every buffer, as often as asked: the papers' strategy (MPCOA section 3)."""

import itertools
import math
from collections.abc import Sequence

from mptune.strategy._base import Ask, Odds, Question, Told, Verdict


class Grid:
    """Goes through arms, then buffers, then runs, whatever the results."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._known: dict[Ask, float] = {}

    def ask(self) -> list[Ask]:
        """The next trials in order."""
        question = self._question
        ranges = map(range, (len(question.arms), len(question.buffers), question.runs))
        new = (
            request
            for request in itertools.starmap(Ask, itertools.product(*ranges))
            if request not in self._known
        )
        return list(itertools.islice(new, question.left(math.fsum(self._known.values()))))

    def tell(self, observations: Sequence[Told]) -> None:
        """Notes what is done."""
        self._known |= {observation.ask: self._question.cost(observation) for observation in observations}

    def verdict(self) -> Verdict | None:
        """None: the response model decides, as in the papers."""
        return None

    def odds(self) -> Odds | None:
        """None, for the same reason."""
        return None
