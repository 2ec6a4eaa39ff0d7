"""Strategies by name: which trial to do next, and when to stop.

The interface is in `_base.py`, each strategy in its own file. None of them measures anything.
"""

from mptune.strategy._base import Arm, Ask, Question, Strategy, Told, Verdict
from mptune.strategy.adaptive import Adaptive
from mptune.strategy.grid import Grid

__all__ = ["STRATEGIES", "Arm", "Ask", "Question", "Strategy", "Told", "Verdict", "create"]

#: Name -> strategy.
STRATEGIES: dict[str, type[Adaptive] | type[Grid]] = {"adaptive": Adaptive, "grid": Grid}


def create(name: str, question: Question) -> Strategy:
    """A strategy with nothing observed yet.

    Raises
    ------
    KeyError : no such strategy.
    """
    return STRATEGIES[name](question)
