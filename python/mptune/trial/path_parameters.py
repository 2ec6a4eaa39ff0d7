"""Path parameters of a path policy: order of the paths, their shares, the largest rates on them.

Which policy goes by which of them is in `mptune.trial.congestion`; what it makes of them is the policy's.
"""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from mptune.trial.congestion import PATH_POLICIES, PLUS, path_policy


class PathParameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Parameters of paths, by their labels; a path that is not named has the policy's default.

    Attributes
    ----------
    order : which take data first, of the policy `prefer`; a path that is not named comes last.
    weights : shares beside each other, of the policy `weight`; 1 for a path that is not named.
    caps : largest rates of payload, bit/s, of the policy `cap`.
    """

    order: tuple[str, ...] = ()
    weights: dict[str, int] = {}
    caps: dict[str, int] = {}

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the parameters that there are."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name))

    def of(self, cc: str) -> "PathParameters":
        """Those by which the path policy of a congestion control goes."""
        own = PATH_POLICIES.get(path_policy(cc) or "")
        return PathParameters(**{own: getattr(self, own)}) if own else PathParameters()

    def by_path(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each path that is named, and what is told of it, as the core and the agent read it."""
        for label in dict.fromkeys((*self.order, *self.weights, *self.caps)):
            told = {
                "rank": self.order.index(label) if label in self.order else None,
                "weight": self.weights.get(label),
                "cap_bps": self.caps.get(label),
            }
            yield label, {name: value for name, value in told.items() if value is not None}

    def misfits(self, ccs: Collection[str]) -> Iterator[tuple[str, str]]:
        """Parameters by which none of these congestion controls goes: the name, and what was expected."""
        for name in self.given:
            if all(name not in self.of(cc).given for cc in ccs):
                policy = next(policy for policy, own in PATH_POLICIES.items() if own == name)
                expected = f"expected a congestion control with the path policy {policy}"
                yield name, f"{expected}, such as cubic{PLUS}{policy}, found {', '.join(ccs)}"
