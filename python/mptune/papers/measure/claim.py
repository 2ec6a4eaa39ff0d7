"""Published claims as rows of data: what is claimed, which trials measure it again, what is printed.

A claim is the result of one figure or table for one pair of sites. Its *statements* are what is compared; its
*points*, *factors* and *answers* are what is measured for them. Nothing here measures
(`mptune.papers.measure.running`) or judges (`mptune.papers.measure.rule`).
"""

from functools import cache
from typing import Literal

import msgspec

from mptune.topology import Topology, load
from mptune.trial import Configuration
from mptune.trial.metrics import Metric
from mptune.trial.objectives import metric_of

#: Use of a claim when scenarios are calibrated: to fit what was not published, or to judge the result.
Part = Literal["fit", "judge"]

#: Rule that judges a statement: a key of `mptune.papers.measure.rule.RULES`, which describes each.
Rule = Literal[
    "level",
    "ratio",
    "best",
    "even",
    "size",
    "factors",
    "set",
    "explained",
    "chosen",
    "chosen size",
    "chosen throughput",
]

#: Value that is read from the runs of a point: their mean, or the distance of the largest from the smallest.
Take = Literal["mean", "spread"]


@cache
def network(scenario: str) -> Topology:
    """The topology of a scenario: the same object for all points."""
    return load(scenario)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration whose trials give one number.

    Attributes
    ----------
    name : unique within the claim.
    scenario : name of a shipped topology.
    configuration : with the paper's duration.
    printed : the paper's number in `unit`; None where it prints none.
    """

    name: str
    scenario: str
    configuration: Configuration
    printed: float | None = None

    @property
    def metric(self) -> Metric:
        """Throughput, or the completion time of a transfer."""
        return metric_of(self.configuration.workload)

    @property
    def unit(self) -> str:
        """Mbit/s; s for a transfer."""
        return self.metric.unit

    @property
    def topology(self) -> Topology:
        """The network it is measured on."""
        return network(self.scenario)


class Factors(msgspec.Struct, frozen=True, kw_only=True):
    """The impact factors of all subflows under one congestion control (MPCOA Eq. 5, PCDC Eq. 1).

    Attributes
    ----------
    name : unique within the claim.
    scenario : name of a shipped topology.
    window_ns : T, nanoseconds.
    buffer_bytes : of the connection.
    printed : mean impact factor by label of the path.
    """

    name: str
    scenario: str
    cc: str
    window_ns: int
    buffer_bytes: int
    printed: dict[str, float]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of MPCOA's Algorithm 1 to a pair of sites, with impact factors and sets of its own.

    Attributes
    ----------
    name : unique within the claim.
    scenario : name of a shipped topology.
    buffers : bytes, ascending; fewer than the paper's 60.
    duration_ns : of a trial, nanoseconds.
    """

    name: str
    scenario: str
    buffers: tuple[int, ...]
    duration_ns: int


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison of a claim.

    Attributes
    ----------
    words : the statement as the paper makes it, in our words.
    of : names of points, factors or answers.
    against : names of the points that `of` is compared with, for the rules that compare two groups.
    printed : what is printed, where it does not follow from the points' own numbers.
    """

    words: str
    rule: Rule
    of: tuple[str, ...]
    against: tuple[str, ...] = ()
    printed: float | str | None = None
    take: Take = "mean"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim: the result of a figure or table of one paper for one pair of sites.

    Attributes
    ----------
    id : "PAPER-FIGURE-PAIR", unique; stable.
    paper : as in `mptune.papers.reproduce.PAPERS`.
    figures : names by which it is asked for, such as "fig-6" and "table-3".
    section : of the paper.
    words : the claim in our words.
    part : its use when scenarios are calibrated.
    """

    id: str
    paper: str
    figures: tuple[str, ...]
    section: str
    words: str
    part: Part
    statements: tuple[Statement, ...]
    points: tuple[Point, ...] = ()
    factors: tuple[Factors, ...] = ()
    answers: tuple[Answer, ...] = ()

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Names of the networks it is measured on."""
        return tuple(
            dict.fromkeys(
                [point.scenario for point in self.points]
                + [factors.scenario for factors in self.factors]
                + [answer.scenario for answer in self.answers]
            )
        )

    def point(self, name: str) -> Point:
        """The point of that name.

        Raises
        ------
        KeyError : there is none.
        """
        return {point.name: point for point in self.points}[name]
