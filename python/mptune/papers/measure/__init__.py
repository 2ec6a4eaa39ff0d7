"""The papers' published measurements, measured again and judged: claims as data, the rule, and the trials.

`claims` has every claim, `rule` the one rule by which they are judged, `running` measures. What follows from
printed numbers without measuring is `mptune.papers.reproduce`.
"""

from mptune.papers.measure._declare import STACK
from mptune.papers.measure.claim import Answer, Claim, Factors, Part, Point, Statement
from mptune.papers.measure.claims import ALL, claims, figures, select
from mptune.papers.measure.rule import VERDICTS, Answered, Judged, Judgement, Values, Verdict, judge

__all__ = [
    "ALL",
    "STACK",
    "VERDICTS",
    "Answer",
    "Answered",
    "Claim",
    "Factors",
    "Judged",
    "Judgement",
    "Part",
    "Point",
    "Statement",
    "Values",
    "Verdict",
    "claims",
    "figures",
    "judge",
    "select",
]
