"""Path parameters of a path policy, as options: `--order A-X,B-X`, `--weights A-X=3,B-X=1`.

A command or a campaign that has `PathOptions` as a field has them. Where there is no topology, and so no
labels (`mptune cc load`), `AddressOptions` name paths by addresses. What they mean is the policies' business
(`mptune.trial.path_parameters`).
"""

import ipaddress
from collections.abc import Collection, Iterator
from typing import Annotated, Any

import msgspec

from mptune._text import quoted
from mptune.options._declared import Option, Options
from mptune.options._kinds import Kind, by_label, count, rate, several, texts
from mptune.trial.congestion import PATH_POLICIES, path_policy
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


def _check_place(place: str) -> None:
    """Refuse what is neither an address of this machine nor one with a destination.

    Raises
    ------
    ValueError : the form that was expected.
    """
    local, dash, remote = place.partition("-")
    try:
        own = ipaddress.ip_address(local)
    except ValueError:
        expected = "an address of this machine such as 10.0.1.2, or 10.0.1.2-10.9.0.0/16 to some destinations"
        raise ValueError(f"expected {expected}, found {quoted(place)}") from None
    if not dash:
        return
    try:
        to = ipaddress.ip_network(remote)
    except ValueError:
        raise ValueError(f"expected a prefix such as 10.9.0.0/16 after -, found {quoted(remote)}") from None
    if to.version != own.version:
        raise ValueError(f"expected IPv{own.version} at both ends, found {quoted(place)}")


#: Paths by an address of this machine, for every destination or, after "-", for a prefix of them.
_PLACE = Kind("ADDRESS[-PREFIX]", str.strip, str, _check_place)


class AddressOptions(Options, frozen=True, kw_only=True):
    """The same by addresses of this machine; of several prefixes of destinations the longest counts."""

    order: Annotated[
        tuple[str, ...] | None,
        Option(
            several(_PLACE),
            "Addresses in the order in which their paths take data, the others last (path policy prefer).",
            flag="--order",
            unset="as before",
        ),
    ] = None
    weights: Annotated[
        dict[str, int] | None,
        Option(
            by_label(count(1, _MOST), _PLACE),
            "Shares of the paths of addresses, 1 without one (path policy weight).",
            flag="--weights",
            unset="as before",
        ),
    ] = None
    caps: Annotated[
        dict[str, int] | None,
        Option(
            by_label(rate(), _PLACE),
            "Largest rates of payload on the paths of addresses (path policy cap).",
            flag="--caps",
            unset="as before",
        ),
    ] = None

    def misfits(self, ccs: Collection[str]) -> Iterator[tuple[str, str]]:
        """Those by which none of these congestion controls goes: the name, and what was expected."""
        yield from self._parameters().misfits(ccs)

    def told(self, cc: str) -> list[dict[str, Any]] | None:
        """Parameters for the program of a congestion control from now on; None to leave those it has."""
        own = PATH_POLICIES.get(path_policy(cc) or "")
        if not own or getattr(self, own) is None:
            return None
        told = []
        for place, values in self._parameters().of(cc).by_path():
            local, _, remote = place.partition("-")
            told.append({"local": local, **({"remote": remote} if remote else {}), **values})
        return told

    def _parameters(self) -> PathParameters:
        given = {name: value for name, value in msgspec.structs.asdict(self).items() if value}
        return PathParameters(**given)
