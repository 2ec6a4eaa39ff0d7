"""Strategies by name: which trial to do next, and when to stop.

The interface is in `_base.py`, each strategy in its own file. None of them measures anything.
"""

from collections.abc import Callable

from mptune.response import Arm
from mptune.strategy._base import ROOM, Ask, Drift, Odds, Question, Strategy, Told, Verdict

__all__ = [
    "ROOM",
    "STRATEGIES",
    "Arm",
    "Ask",
    "Drift",
    "Odds",
    "Question",
    "Strategy",
    "Told",
    "Verdict",
    "create",
]


def _adaptive(question: Question) -> Strategy:
    # Imported here because numpy loads slowly, and every --help needs the names above.
    from mptune.strategy.adaptive import Adaptive

    return Adaptive(question)


def _grid(question: Question) -> Strategy:
    from mptune.strategy.grid import Grid

    return Grid(question)


#: Name -> strategy with nothing observed yet.
STRATEGIES: dict[str, Callable[[Question], Strategy]] = {"adaptive": _adaptive, "grid": _grid}


def create(name: str, question: Question) -> Strategy:
    """A strategy with nothing observed yet.

    Raises
    ------
    KeyError : no such strategy.
    """
    return STRATEGIES[name](question)
