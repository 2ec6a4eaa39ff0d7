"""What was measured again as JSON, and the words that its tables and pages share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mptune.papers.measure.claim import Claim, Point
from mptune.papers.measure.results import gains, results
from mptune.papers.measure.rule import VERDICTS, Verdict
from mptune.papers.measure.running import Again, Number
from mptune.units import format_size


def counts(measured: Sequence[Again]) -> dict[Verdict, int]:
    """Number of claims with each verdict."""
    return tally(again.judgement.verdict for again in measured)


def tally(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """Number of each verdict."""
    found = list(verdicts)
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def figure_title(name: str) -> str:
    """Name of a figure or table for people: "Fig. 6" for "fig-6"."""
    kind, _, number = name.partition("-")
    return f"{'Fig.' if kind == 'fig' else kind.capitalize()} {number}"


def settings_of(point: Point) -> dict[str, str]:
    """Network and configuration of a point, for tables."""
    one = point.configuration
    return {
        "network": point.scenario,
        "configuration": f"{one.manager}, {one.cc}",
        "buffer": format_size(one.buffer_bytes, 3) + ("" if one.buffer_mode == "fixed" else " at most"),
    }


def listed(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """Claims without numbers."""
    return [_claim(claim) for claim in claims]


def document(measured: Sequence[Again], settings: Mapping[str, object]) -> dict[str, Any]:
    """Everything that was measured, as JSON.

    Parameters
    ----------
    settings : how it was measured.
    """
    papers = dict.fromkeys(again.claim.paper for again in measured)
    parts = {part: [again for again in measured if again.claim.part == part] for part in ("fit", "judge")}
    return {
        **settings,
        "counts": {
            **{paper: counts([one for one in measured if one.claim.paper == paper]) for paper in papers},
            **{part: counts(some) for part, some in parts.items()},
            "total": counts(measured),
            "results": tally(one.verdict for one in results(measured)),
        },
        "results": [
            {
                "paper": one.paper,
                "figure": one.figure,
                "scenario": one.scenario,
                "claims": one.claims,
                "verdict": one.verdict,
            }
            for one in results(measured)
        ],
        "gains": [{**msgspec.to_builtins(one), "has_sign": one.has_sign} for one in gains(measured)],
        "claims": [
            {
                **_claim(again.claim),
                "verdict": again.judgement.verdict,
                "statements": again.judgement.statements,
                "points": [_point(number) for number in again.numbers],
                "factors": [
                    {
                        "name": one.name,
                        "scenario": one.scenario,
                        "cc": one.cc,
                        "printed": one.printed,
                        "measured": again.factors[one.name],
                    }
                    for one in again.claim.factors
                ],
                "answers": [
                    {"name": name, **msgspec.to_builtins(one)} for name, one in again.answers.items()
                ],
            }
            for again in measured
        ],
    }


def _claim(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "paper": claim.paper,
        "figures": claim.figures,
        "section": claim.section,
        "words": claim.words,
        "part": claim.part,
        "scenarios": claim.scenarios,
    }


def _point(number: Number) -> dict[str, Any]:
    point, found = number.point, number.measured
    one = point.configuration
    return {
        "name": point.name,
        "scenario": point.scenario,
        "pm": one.pm,
        "cc": one.cc,
        "buffer_bytes": one.buffer_bytes,
        "buffer_mode": one.buffer_mode,
        "protocol": one.protocol,
        "initial_path": one.initial_path,
        "active": one.active,
        "unit": point.unit,
        "printed": point.printed,
        "mean": None if found is None else found.mean,
        "min": None if found is None else found.min,
        "max": None if found is None else found.max,
        "runs": 0 if found is None else found.n,
        "reason": number.reason,
    }
