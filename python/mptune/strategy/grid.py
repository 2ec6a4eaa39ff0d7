"""Every combination with every buffer, as often as asked: the papers' strategy (MPCOA section 3)."""

from collections.abc import Sequence

from mptune.strategy._base import Ask, Question, Told, Verdict


class Grid:
    """Arm by arm, buffer by buffer, run by run; it does not look at what it is told."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._known: set[Ask] = set()

    def ask(self) -> list[Ask]:
        """The next trials in order."""
        question = self._question
        left = question.batch
        if question.budget is not None:
            left = min(left, question.budget - len(self._known))
        found: list[Ask] = []
        for arm in range(len(question.arms)):
            for size in range(len(question.buffers)):
                for run in range(question.runs):
                    if len(found) >= left:
                        return found
                    if (ask := Ask(arm, size, run)) not in self._known:
                        found.append(ask)
        return found

    def tell(self, observations: Sequence[Told]) -> None:
        """Notes what is done."""
        self._known.update(one.ask for one in observations)

    def verdict(self) -> Verdict | None:
        """None: the response model decides, as in the papers."""
        return None
