"""Every claim of the five papers, in the order of their figures and tables, and how they are asked for.

What is not a claim: numbers that follow from other printed ones (`mptune.papers.reproduce`), ping times, of
which the scenarios are made, and single examples over time (PCDC, Fig. 5), which the means after them cover.
"""

import difflib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

import msgspec

from mptune._text import quoted
from mptune.errors import InputError
from mptune.papers.measure import _buffersizes, _glm, _mpcoa, _pathmgmt, _pcdc
from mptune.papers.measure.claim import Answer, Claim, Factors, Point
from mptune.topology import shipped

#: Number of names that an error suggests.
_NEAR = 3

#: Name of all figures and tables.
ALL = "all"

#: End of the names of calibrated scenarios.
CALIBRATED = ".calibrated"


Measured = TypeVar("Measured", Point, Factors, Answer)


@cache
def claims() -> tuple[Claim, ...]:
    """Every claim; ids are unique."""
    return tuple(
        claim for paper in (_mpcoa, _buffersizes, _pcdc, _pathmgmt, _glm) for claim in paper.claims()
    )


def figures(papers: Sequence[str]) -> tuple[str, ...]:
    """Names of the figures and tables of papers, without repetition."""
    return tuple(dict.fromkeys(name for claim in claims() if claim.paper in papers for name in claim.figures))


def select(papers: Sequence[str], asked: str) -> tuple[Claim, ...]:
    """The claims of papers that a figure, a table or `ALL` means.

    Raises
    ------
    InputError : none of the papers has a figure or table of that name.
    """
    mine = tuple(claim for claim in claims() if claim.paper in papers)
    if asked == ALL:
        return mine
    chosen = tuple(claim for claim in mine if asked in (*claim.figures, claim.id))
    if not chosen:
        names = [ALL, "list", *figures(papers), *(claim.id for claim in mine)]
        near = difflib.get_close_matches(asked, names, _NEAR, 0.0)
        expected = f"expected all, list, or a figure or table of {', '.join(papers)}"
        raise InputError("--measure", "", f"{expected}, such as {', '.join(near)}; found {quoted(asked)}")
    return chosen


def on_calibrated(chosen: Sequence[Claim]) -> tuple[Claim, ...]:
    """The claims on calibrated scenarios, where these are shipped: NAME.calibrated beside NAME."""
    there = set(shipped())

    def named(scenario: str) -> str:
        calibrated = f"{scenario}{CALIBRATED}"
        return calibrated if calibrated in there else scenario

    return tuple(_moved(claim, named) for claim in chosen)


def on_network(claim: Claim, network: str) -> Claim:
    """A claim on another network: a shipped topology or a file, which has the same paths."""
    return _moved(claim, lambda _: network)


def _moved(claim: Claim, named: Callable[[str], str]) -> Claim:
    def of(parts: tuple[Measured, ...]) -> tuple[Measured, ...]:
        return tuple(msgspec.structs.replace(claim, scenario=named(claim.scenario)) for claim in parts)

    return msgspec.structs.replace(
        claim, points=of(claim.points), factors=of(claim.factors), answers=of(claim.answers)
    )
