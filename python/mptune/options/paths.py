"""What a path policy is told of paths, as options: `--order A-X,B-X`, `--weights A-X=3,B-X=1`.

A command or a campaign that has `PathOptions` as a field has them. What they mean is the policies' business
(`mptune.trial.path_parameters`).
"""

from collections.abc import Collection, Iterator
from typing import Annotated

import msgspec

from mptune.options._declared import Option, Options
from mptune.options._kinds import by_label, count, rate, texts
from mptune.trial.path_parameters import PathParameters

#: The largest weight: a share of a thousandth is none that could be kept.
_MOST = 1000

ORDER = texts("PATH,...", labels=True)
WEIGHTS = by_label(count(1, _MOST))
CAPS = by_label(rate())


class PathOptions(Options, frozen=True, kw_only=True):
    """Parameters of paths, each for the path policy that goes by it."""

    order: Annotated[
        tuple[str, ...] | None,
        Option(
            ORDER,
            "Paths in the order in which they take data, the others last (path policy prefer).",
            key="paths.order",
            rare=True,
        ),
    ] = None
    weights: Annotated[
        dict[str, int] | None,
        Option(
            WEIGHTS,
            "Shares of paths, 1 without one (path policy weight).",
            key="paths.weights",
            rare=True,
        ),
    ] = None
    caps: Annotated[
        dict[str, int] | None,
        Option(CAPS, "Largest rates of payload on paths (path policy cap).", key="paths.caps", rare=True),
    ] = None

    @property
    def chosen(self) -> PathParameters:
        """As a trial has them."""
        given = {name: value for name, value in msgspec.structs.asdict(self).items() if value}
        return PathParameters(**given)

    def misfits(self, ccs: Collection[str], protocol: str = "mptcp") -> Iterator[tuple[str, str]]:
        """Parameters that concern none of these congestion controls, for `conflicts` of the whole."""
        if protocol == "mptcp":
            yield from self.chosen.misfits(ccs)
            return
        for name in self.chosen.given:
            yield name, f"expected only with --protocol mptcp, found {protocol}"
