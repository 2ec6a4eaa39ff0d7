"""Names of congestion controls: a window algorithm, alone or with a path policy: "cubic", "cubic+hold".

A path policy decides which paths take new data on a kernel whose scheduler is fixed. Not the algorithms (the
core's and those of `bpf/congestion`), nor the policies (`bpf/scheduling`).
"""

from collections.abc import Mapping
from typing import Final

#: Between a window algorithm and its path policy.
PLUS: Final = "+"
#: Path policies, each a file of `bpf/scheduling`, and the field of `PathParameters` that it goes by, if any.
PATH_POLICIES: Final[Mapping[str, str]] = {
    "hold": "",
    "quick": "",
    "prefer": "order",
    "cap": "caps",
    "weight": "weights",
}
#: Window algorithms that a path policy can go with, each a file of `bpf/congestion`.
_WINDOWS: Final = ("reno", "cubic", "hybla", "scalable", "vegas", "olia", "lia", "balia", "wvegas")
#: Every pair of both.
PAIRS: Final = tuple(f"{window}{PLUS}{policy}" for policy in PATH_POLICIES for window in _WINDOWS)


def path_policy(cc: str) -> str | None:
    """The path policy of a congestion control; None for a window algorithm alone."""
    return cc.partition(PLUS)[2] or None
