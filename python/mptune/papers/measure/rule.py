"""The rule by which a published claim agrees with what is measured: one table, written before any outcome.

Every statement is judged by the rule it names (`_RULES`), on means over the runs:

level      measured against printed. Agrees within a factor of 1.25, half within 2. Of several points it is
           their typical factor, the geometric mean of how far each is off, whichever way.
ratio      the change from `against` to `of`. Its direction is none within 5 %. Agrees if the direction is the
           printed one and the change, as a logarithm, is between half and twice the printed one. Half if the
           direction is right but not the size, or if one of the two has none and the other is less than 25 %.
           A printed "more" or "less" has a direction only; then a measured change without one is half.
best       the first of `of` is the best of all of them, and of `against`. Agrees within 5 % of the best, half
           within 20 %.
even       all of `of` are about the same. Agrees if the largest is within a factor of 1.25 of the smallest,
           half within 2.
size       the practical size (`mptune.optimisation.practical.enough`), the smallest buffer from which no
           larger one has less than 95 % of the largest mean, against the printed one. Agrees within a factor
           of 2, half within 4.
factors    share of the subflows of the printed class: helps (0.05 and more), hurts (-0.05 and less), neither.
           Agrees from three quarters, half from one half.
set        share of the subflows that are in the printed set (optional or standby). As "factors".
explained  R-square of MPCOA's model over the points. Agrees if it is on the printed side of 0.90, half within
           0.10 of that border.
chosen     the answer of Algorithm 1 (`mptune.optimisation.mpcoa`): the maximum of the printed combination's
           model is judged as "best", the size as "size", the throughput as "level".

Of a claim's statements one that agrees counts 1, one that half agrees 1/2. The claim agrees if the mean is at
least 3/4, and agrees half if it is at least 1/2. A statement whose trials all failed disagrees.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

import msgspec

from mptune._text import digits
from mptune.errors import MptuneError
from mptune.optimisation.practical import enough
from mptune.papers.measure.claim import Claim, Rule, Statement
from mptune.response import MIN_R_SQUARED, MODELS, Response, Sample
from mptune.trial import Combination
from mptune.units import MIB, format_size

Verdict = Literal["agrees", "half", "disagrees"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: Score of a statement by its verdict.
SCORES: dict[Verdict, float] = {"agrees": 1.0, "half": 0.5, "disagrees": 0.0}

#: Factors and shares of the rules: for "agrees", and for "half".
LEVEL = (1.25, 2.0)
BEST = (1.05, 1.25)
SIZE = (2.0, 4.0)
SHARE = (0.75, 0.5)
CLAIM = (0.75, 0.5)

#: Changes below the first factor have no direction, those below the second are small; and how far apart the
#: logarithms of two changes of one size may be, as a factor.
UNCHANGED, SMALL, ONE_SIZE = 1.05, 1.25, 2.0

#: Least impact factor of a subflow that helps; of one that hurts it is the negative.
HELPS = 0.05

#: Largest distance from the border of a good fit for a fit on the other side.
NEAR_R_SQUARED = 0.10

#: Rounding of a logarithm: what is at a border is within it; and what stands for a throughput of zero.
_ROUNDING = _LEAST = 1e-9


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of Algorithm 1.

    Attributes
    ----------
    maxima_mbps : maximum of the model of every combination within the swept buffers, by "PCDC/cubic".
    chosen : OPM and OCC, in the same way.
    buffer_bytes, throughput_mbps : OBS and OTP.
    """

    maxima_mbps: dict[str, float]
    chosen: str
    buffer_bytes: int
    throughput_mbps: float


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements for a claim.

    Attributes
    ----------
    runs : by name of a point, one number per run that did not fail, in the point's unit.
    factors : by name of the factors, mean impact factor by label of the path.
    answers : by name of the answer; those without one are missing.
    """

    runs: Mapping[str, Sequence[float]]
    factors: Mapping[str, Mapping[str, float]] = {}
    answers: Mapping[str, Answered] = {}


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A statement beside what was measured; `printed` and `measured` are texts for people."""

    words: str
    rule: Rule
    printed: str
    measured: str
    verdict: Verdict


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A claim with the verdict on each statement and on all of them."""

    claim: Claim
    statements: tuple[Judged, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict by the mean of the statements' scores."""
        return overall(self.statements)


def overall(statements: Sequence[Judged]) -> Verdict:
    """The verdict on several statements, by the mean of their scores."""
    return _by_share(statistics.fmean(SCORES[statement.verdict] for statement in statements), CLAIM)


def judge(claim: Claim, values: Values) -> Judgement:
    """Judge every statement of a claim by its rule."""
    return Judgement(
        claim=claim, statements=tuple(_judged(claim, statement, values) for statement in claim.statements)
    )


class _NotMeasured(Exception):
    """Every trial of something that a statement needs failed."""


def _judged(claim: Claim, statement: Statement, values: Values) -> Judged:
    look = _Look(claim, statement, values)
    try:
        printed, measured, verdict = _RULES[statement.rule](look)
    except _NotMeasured as error:
        printed, measured, verdict = look.printed_text, f"nothing: {error}", "disagrees"
    return Judged(
        words=statement.words, rule=statement.rule, printed=printed, measured=measured, verdict=verdict
    )


class _Look(msgspec.Struct, frozen=True):
    """A statement with the numbers that it is about."""

    claim: Claim
    statement: Statement
    values: Values

    @property
    def printed_text(self) -> str:
        """The printed value, where nothing was measured."""
        printed = self.statement.printed
        return "-" if printed is None else printed if isinstance(printed, str) else short(printed)

    @property
    def number(self) -> float:
        """The printed number of a statement that must have one."""
        assert isinstance(self.statement.printed, float | int), self.statement
        return float(self.statement.printed)

    def measured(self, name: str) -> float:
        """Mean of a point over its runs, or their spread."""
        runs = self.values.runs.get(name, ())
        if not runs:
            raise _NotMeasured(f"every trial of {name} failed")
        return max(runs) - min(runs) if self.statement.take == "spread" else statistics.fmean(runs)

    def printed(self, name: str) -> float:
        """The printed number of a point that must have one."""
        printed = self.claim.point(name).printed
        assert printed is not None, (self.claim.id, name)
        return printed

    def typical(self, names: Sequence[str]) -> float:
        """Geometric mean of points."""
        return math.exp(statistics.fmean(math.log(max(self.measured(name), _LEAST)) for name in names))

    def typical_printed(self, names: Sequence[str]) -> float:
        """Geometric mean of the printed numbers of points."""
        return math.exp(statistics.fmean(math.log(self.printed(name)) for name in names))

    @property
    def answered(self) -> Answered:
        """The statement's answer."""
        (name,) = self.statement.of
        if name not in self.values.answers:
            raise _NotMeasured("there is no answer")
        return self.values.answers[name]

    @property
    def unit(self) -> str:
        """Unit of the statement's points."""
        return self.claim.point(self.statement.of[0]).unit


Outcome = tuple[str, str, Verdict]


def _level(look: _Look) -> Outcome:
    """Printed and measured levels."""
    names, unit = look.statement.of, look.unit
    if look.statement.printed is not None:
        printed, measured = look.number, look.typical(names)
        return _with_unit(printed, unit), _with_unit(measured, unit), _by_factor(measured, printed, LEVEL)
    pairs = [(look.measured(name), look.printed(name)) for name in names]
    off = math.exp(statistics.fmean(abs(math.log(max(pair[0], _LEAST) / pair[1])) for pair in pairs))
    verdict = _by_factor(off, 1.0, LEVEL)
    if len(pairs) == 1:
        return _with_unit(pairs[0][1], unit), _with_unit(pairs[0][0], unit), verdict
    texts = (", ".join(short(pair[side]) for pair in pairs) for side in (1, 0))
    theirs, ours = (f"{text} {unit}" for text in texts)
    return theirs, ours, verdict


def _ratio(look: _Look) -> Outcome:
    """Printed and measured change from `against` to `of`."""
    of, against = look.statement.of, look.statement.against
    measured = look.typical(of) / look.typical(against)
    printed = look.statement.printed
    if isinstance(printed, str):
        wanted = {"more": 1, "less": -1}[printed]
        found = direction(measured)
        verdict: Verdict = "agrees" if found == wanted else "half" if found == 0 else "disagrees"
        return printed, change(measured), verdict
    if printed is None:
        logs = (
            [math.log(look.printed(name)) for name in of],
            [math.log(look.printed(name)) for name in against],
        )
        printed = math.exp(statistics.fmean(logs[0]) - statistics.fmean(logs[1]))
    return change(printed), change(measured), by_change(measured, printed)


def by_change(measured: float, printed: float) -> Verdict:
    """The verdict on a change, both as the ratio of after to before."""
    ours, theirs = direction(measured), direction(printed)
    if ours == theirs == 0:
        return "agrees"
    if ours == theirs:
        apart = math.log(measured) / math.log(printed)
        return "agrees" if 1 / ONE_SIZE - _ROUNDING <= apart <= ONE_SIZE + _ROUNDING else "half"
    if ours and theirs:
        return "disagrees"
    return "half" if abs(math.log(measured if ours else printed)) < math.log(SMALL) else "disagrees"


def direction(ratio: float) -> int:
    """1 for more, -1 for less, 0 for a change that is none."""
    log = math.log(ratio)
    return 0 if abs(log) < math.log(UNCHANGED) else 1 if log > 0 else -1


def _best(look: _Look) -> Outcome:
    """Test that the first point is the best."""
    first, *others = look.statement.of
    metric = look.claim.point(first).metric
    names = [*look.statement.against, *others, first]
    best = max(names, key=lambda name: metric.worth(look.measured(name)))
    behind = metric.worth(look.measured(best)) / metric.worth(look.measured(first))
    measured = "the best" if best == first else f"{change(1 / behind)} against {best}"
    return f"{first} is best", measured, _by_factor(behind, 1.0, BEST)


def _even(look: _Look) -> Outcome:
    """Test that points are alike, by their largest ratio."""
    values = [look.measured(name) for name in look.statement.of]
    apart = max(values) / max(min(values), _LEAST)
    measured = f"{short(min(values))} to {short(max(values))} {look.unit}"
    return "about the same", measured, _by_factor(apart, 1.0, LEVEL)


def _size(look: _Look) -> Outcome:
    """The practical size against the printed one (bytes)."""
    sizes = [look.claim.point(name).configuration.buffer_bytes for name in look.statement.of]
    means = {size: look.measured(name) for size, name in zip(sizes, look.statement.of, strict=True)}
    return _sizes(look.number, enough(means))


def _sizes(printed: float, measured: float) -> Outcome:
    return (
        format_size(round(printed), 3),
        format_size(round(measured), 3),
        _by_factor(measured, printed, SIZE),
    )


def _factors(look: _Look) -> Outcome:
    """Subflows of the printed class."""

    def kind(omega: float) -> int:
        return 0 if abs(omega) < HELPS else 1 if omega > 0 else -1

    return _shared(look, kind)


def _set(look: _Look) -> Outcome:
    """Subflows that are in the printed set; a printed 0 is negative zero or not, as its mean was."""
    return _shared(look, lambda omega: 1 if math.copysign(1, omega) > 0 else -1)


def _shared(look: _Look, kind: Callable[[float], int]) -> Outcome:
    (name,) = look.statement.of
    (factors,) = (factor for factor in look.claim.factors if factor.name == name)
    measured = look.values.factors.get(name, {})
    if not measured:
        raise _NotMeasured("no impact factor")
    same = sum(kind(measured.get(path, 0.0)) == kind(omega) for path, omega in factors.printed.items())
    texts = (
        " ".join(f"{path} {numbers.get(path, math.nan):+.2f}" for path in factors.printed)
        for numbers in (factors.printed, measured)
    )
    return (*texts, _by_share(same / len(factors.printed), SHARE))  # type: ignore[return-value] # two texts


def _explained(look: _Look) -> Outcome:
    """R-square of the model."""
    measured, printed = _response(look).r_squared or 0.0, look.number
    verdict: Verdict = "disagrees"
    if (measured >= MIN_R_SQUARED) == (printed >= MIN_R_SQUARED):
        verdict = "agrees"
    elif abs(measured - MIN_R_SQUARED) <= NEAR_R_SQUARED:
        verdict = "half"
    return f"{printed:.2f}", f"{measured:.2f}", verdict


def _chosen(look: _Look) -> Outcome:
    """The model's maximum of the printed combination against the best of all."""
    maxima = look.answered.maxima_mbps
    printed = str(look.statement.printed)
    best = max(maxima, key=lambda name: maxima[name])
    ours = maxima.get(printed, 0.0)
    measured = f"{best} ({short(maxima[best])}, {printed} {short(ours)} Mbit/s)"
    verdict = _by_factor(maxima[best] / max(ours, _LEAST), 1.0, BEST)
    return printed, printed if best == printed else measured, verdict


def _chosen_size(look: _Look) -> Outcome:
    """OBS."""
    return _sizes(look.number, look.answered.buffer_bytes)


def _chosen_throughput(look: _Look) -> Outcome:
    """OTP."""
    measured, printed = look.answered.throughput_mbps, look.number
    verdict = _by_factor(measured, printed, LEVEL)
    return _with_unit(printed, "Mbit/s"), _with_unit(measured, "Mbit/s"), verdict


def _response(look: _Look) -> Response:
    """MPCOA's model (Eq. 8) over the statement's points."""
    samples = []
    for name in look.statement.of:
        configuration = look.claim.point(name).configuration
        combination = Combination(configuration.pm, configuration.cc)
        size = configuration.buffer_bytes / MIB
        samples += [Sample(combination, size, run) for run in look.values.runs.get(name, ())]
    try:
        return MODELS["quadratic"].fit(samples)
    except MptuneError as error:
        raise _NotMeasured(str(error)) from None


_RULES: dict[Rule, Callable[[_Look], Outcome]] = {
    "level": _level,
    "ratio": _ratio,
    "best": _best,
    "even": _even,
    "size": _size,
    "factors": _factors,
    "set": _set,
    "explained": _explained,
    "chosen": _chosen,
    "chosen size": _chosen_size,
    "chosen throughput": _chosen_throughput,
}


def _by_factor(measured: float, printed: float, limits: tuple[float, float]) -> Verdict:
    """The verdict on how far a number is from the printed one, whichever way."""
    apart = abs(math.log(max(measured, _LEAST) / printed))
    agrees, half = (math.log(limit) + _ROUNDING for limit in limits)
    return "agrees" if apart <= agrees else "half" if apart <= half else "disagrees"


def _by_share(share: float, limits: tuple[float, float]) -> Verdict:
    """The verdict on a share, of which more is better."""
    agrees, half = limits
    return "agrees" if share >= agrees else "half" if share >= half else "disagrees"


def short(value: float) -> str:
    """Three digits."""
    return digits(value, 3)


def change(ratio: float) -> str:
    """A ratio as a change in percent, or as a factor where it is large."""
    return f"x {short(ratio)}" if ratio >= _AS_FACTOR else f"{100 * (ratio - 1):+z.0f} %"


#: From this ratio on a change is shown as a factor.
_AS_FACTOR = 3.0


def _with_unit(value: float, unit: str) -> str:
    return f"{short(value)} {unit}"
