"""Options of predictions that guide a search: the simulator's, and what was learnt from it."""

from typing import Annotated

from mptune.options._declared import Option
from mptune.options._kinds import TOGGLE

Simulated = Annotated[
    bool,
    Option(
        TOGGLE,
        "On a real testbed, look first where the simulator of the same topology finds the answer; if "
        "measurements contradict it, it is dropped.",
        key="trials.prior",
        rare=True,
    ),
]
Learnt = Annotated[
    bool,
    Option(
        TOGGLE,
        "In the simulator, look first where what was learnt from trials of random networks expects the "
        "answer; if trials contradict it, it is dropped.",
        key="trials.learnt_prior",
        rare=True,
    ),
]
