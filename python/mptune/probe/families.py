"""A probe of both address families: where the second one differs from the first.

A topology file has one value for a pair of interfaces, whatever the family: the first path's, over IPv4 if
that lets anything through. The differences that matter are sentences for the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mptune import units
from mptune.probe.estimates import Estimate
from mptune.probe.result import PathFound, by_pair
from mptune.topology import FAMILIES, Family

#: Differences that are worth a sentence: as a share, of round trips also in ns.
_SHARE, _LEAST_NS = 0.1, 1_000_000
_WORDS: dict[Family, str] = {"ipv4": "IPv4", "ipv6": "IPv6"}


def differences(paths: Sequence[PathFound]) -> Iterator[str]:
    """Families in which nothing gets through, and pairs of interfaces that differ: one sentence each."""
    for family in FAMILIES:
        members = [path for path in paths if path.family == family]
        if members and all(path.rtt is None for path in members):
            yield f"nothing gets through over {_WORDS[family]}: trials with --family both do without it"
    for pair in by_pair(paths):
        measured = [path for path in pair if path.rtt is not None]
        if len(measured) > 1 and (found := list(_found(*measured[:2]))):
            yield f"{measured[1].label}: {', '.join(found)}; the file has what was measured over IPv4"


def _found(first: PathFound, second: PathFound) -> Iterator[str]:
    """Differences between two families."""
    four, six = first.base_rtt_ns, second.base_rtt_ns
    if four is not None and six is not None and abs(six - four) > max(_LEAST_NS, _SHARE * four):
        yield f"RTT {units.format_time(six, 3)} instead of {units.format_time(four, 3)}"
    for way, there, instead in (
        ("to the receiver", second.up.rate, first.up.rate),
        ("to the sender", second.down.rate, first.down.rate),
    ):
        if there is not None and instead is not None and _differ(there, instead):
            yield f"{_rate(there)} instead of {_rate(instead)} {way}"


def _differ(one: Estimate, other: Estimate) -> bool:
    """Two rates are not the same; of a lower bound that is known only if it is the higher."""
    low, high = sorted((one, other), key=lambda rate: rate.value)
    return high.value > (1 + _SHARE) * low.value and not low.at_least


def _rate(rate: Estimate) -> str:
    return units.format_rate(round(rate.value), 3)
