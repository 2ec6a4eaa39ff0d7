"""The papers' derived numbers, recomputed with mptune's own functions.

One module per paper derives its numbers; `_base` decides when a number counts as reproduced. Known
contradictions are in `contradictions`; anything else that does not follow is a bug, in the facts
(`mptune.papers.published`) or in mptune. Nothing is measured here.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from mptune.papers.reproduce import buffersizes, glm, mpcoa, pathmgmt, pcdc
from mptune.papers.reproduce._base import VERDICTS, Check, Verdict
from mptune.papers.reproduce.contradictions import DOCUMENTED, Documented

__all__ = ["DOCUMENTED", "PAPERS", "VERDICTS", "Check", "Documented", "Reproduction", "Verdict", "reproduce"]


class Paper(NamedTuple):
    """A paper and the function that recomputes its numbers."""

    title: str
    checks: Callable[[], list[Check]]


#: Name -> paper, in the order of reports.
PAPERS: dict[str, Paper] = {
    "mpcoa": Paper("MPCOA (Electronics 2021)", mpcoa.checks),
    "buffersizes": Paper("Buffer sizes (AINA 2017)", buffersizes.checks),
    "pcdc": Paper("PCDC (LCN 2020)", pcdc.checks),
    "pathmgmt": Paper("Path management (AINA 2017)", pathmgmt.checks),
    "glm": Paper("Buffer formulas by GLM (IAEAC 2018)", glm.checks),
}


class Reproduction(msgspec.Struct, frozen=True, kw_only=True):
    """The result.

    Attributes
    ----------
    checks : every number, contradictions with their explanation.
    undocumented : keys of contradictions without an explanation.
    absent : keys of documented contradictions that did not occur.
    """

    checks: tuple[Check, ...]
    undocumented: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def as_documented(self) -> bool:
        """True if exactly the documented contradictions occur."""
        return not self.undocumented and not self.absent

    def counts(self, paper: str | None = None) -> dict[Verdict, int]:
        """Number of values with each verdict, in one paper or in all."""
        verdicts = [check.verdict for check in self.checks if paper in (None, check.paper)]
        return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def reproduce(papers: Sequence[str] = tuple(PAPERS)) -> Reproduction:
    """Recompute every derived number of the papers, by their names in `PAPERS`."""
    checks = [check for paper in papers for check in PAPERS[paper].checks()]
    contradicting = {check.key for check in checks if check.verdict == "contradicts"}
    known = {key: documented for documented in DOCUMENTED for key in documented.keys}
    expected = [key for key in known if key.partition("/")[0] in papers]
    return Reproduction(
        checks=tuple(_explained(check, known) for check in checks),
        undocumented=tuple(sorted(contradicting - known.keys())),
        absent=tuple(key for key in expected if key not in contradicting),
    )


def _explained(check: Check, known: dict[str, Documented]) -> Check:
    """Contradiction with its erratum."""
    if check.verdict != "contradicts":
        return check
    documented = known.get(check.key)
    text = f"{documented.erratum}: {documented.explanation}" if documented else "not documented"
    return msgspec.structs.replace(check, explanation=text)
