"""The papers' results: figures and tables of their sections of results, apart from what is fitted.

A result is one figure or table for one pair of sites, so it has the statements of every claim that judges
there. Beside them is the gain of PCDC over FullMesh, wherever both are printed.
"""

from collections.abc import Iterator, Sequence

import msgspec

from mptune.papers.measure.claim import Claim
from mptune.papers.measure.claims import CALIBRATED
from mptune.papers.measure.rule import UNCHANGED, Judged, Verdict, overall
from mptune.papers.measure.running import Again

#: Beginning of the numbers of a paper's section of results ("Result Analysis" in all).
SECTIONS = {"mpcoa": "5", "buffersizes": "V", "pcdc": "VI", "pathmgmt": "V", "glm": "VI"}

#: Figures that draw a table's formula, without data of their own (GLM study: Eq. 5 is Eq. 4 for Scalable).
_DRAWN = {("glm", "fig-3"): "table-4"}

#: Least printed gain of PCDC whose sign counts: a change of less has no direction in the rule either.
GAIN = UNCHANGED


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A result, measured again.

    Attributes
    ----------
    figure : name of the figure or table, "fig-6".
    scenario : of the pair, the stated one where it was measured on a calibrated network.
    statements : of every claim that judges there.
    """

    paper: str
    figure: str
    scenario: str
    claims: tuple[str, ...]
    words: tuple[str, ...]
    statements: tuple[Judged, ...]
    verdict: Verdict


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of PCDC over that of FullMesh.

    Attributes
    ----------
    printed, measured : ratios; measured is None if every trial of one of them failed.
    """

    paper: str
    figure: str
    scenario: str
    cc: str
    printed: float
    measured: float | None

    @property
    def counts(self) -> bool:
        """True if PCDC gains more than 5 % in print."""
        return self.printed > GAIN

    @property
    def has_sign(self) -> bool:
        """True if the measured change, in whole percent, has the printed sign."""
        return self.measured is not None and _sign(self.measured) == _sign(self.printed)


def is_result(claim: Claim) -> bool:
    """True if a claim judges, and belongs to its paper's section of results."""
    whole = claim.section.replace("-", ".").split(".")[0]
    return claim.part == "judge" and whole == SECTIONS[claim.paper]


def results(measured: Sequence[Again]) -> tuple[Result, ...]:
    """The results among claims that were measured again, in the papers' order."""
    groups: dict[tuple[str, str, str], list[Again]] = {}
    for again in measured:
        claim = again.claim
        if is_result(claim):
            figure = _DRAWN.get((claim.paper, claim.figures[0]), claim.figures[0])
            groups.setdefault((claim.paper, figure, _pair(claim)), []).append(again)
    judged = []
    for (paper, figure, scenario), some in groups.items():
        statements = tuple(statement for again in some for statement in again.judgement.statements)
        judged.append(
            Result(
                paper=paper,
                figure=figure,
                scenario=scenario,
                claims=tuple(again.claim.id for again in some),
                words=tuple(again.claim.words for again in some),
                statements=statements,
                verdict=overall(statements),
            )
        )
    return tuple(judged)


def gains(measured: Sequence[Again]) -> tuple[Gain, ...]:
    """Every printed gain of PCDC over FullMesh with the same congestion control."""
    return tuple(gain for again in measured if is_result(again.claim) for gain in _gains(again))


def _gains(again: Again) -> Iterator[Gain]:
    claim = again.claim
    means = {
        number.point.name: None if number.measured is None else number.measured.mean
        for number in again.numbers
    }
    for statement in claim.statements:
        if statement.rule != "ratio" or len(statement.of) != 1 or len(statement.against) != 1:
            continue
        ours, theirs = claim.point(statement.of[0]), claim.point(statement.against[0])
        pms = ours.configuration.pm, theirs.configuration.pm
        if pms != ("pcdc", "fullmesh") or ours.printed is None or theirs.printed is None:
            continue
        before, after = means[theirs.name], means[ours.name]
        yield Gain(
            paper=claim.paper,
            figure=claim.figures[0],
            scenario=_pair(claim),
            cc=ours.configuration.cc,
            printed=ours.printed / theirs.printed,
            measured=None if not before or after is None else after / before,
        )


def _sign(ratio: float) -> int:
    percent = round(100 * (ratio - 1))
    return (percent > 0) - (percent < 0)


def _pair(claim: Claim) -> str:
    return claim.scenarios[0].removesuffix(CALIBRATED)
