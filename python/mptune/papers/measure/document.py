"""Measured claims as JSON, and the words that their tables and pages share."""

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
    configuration = point.configuration
    return {
        "network": point.scenario,
        "configuration": f"{configuration.manager}, {configuration.cc}",
        "buffer": format_size(configuration.buffer_bytes, 3)
        + ("" if configuration.buffer_mode == "fixed" else " at most"),
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
            **{
                paper: counts([claim for claim in measured if claim.claim.paper == paper]) for paper in papers
            },
            **{part: counts(some) for part, some in parts.items()},
            "total": counts(measured),
            "results": tally(result.verdict for result in results(measured)),
        },
        "results": [
            {
                "paper": result.paper,
                "figure": result.figure,
                "scenario": result.scenario,
                "claims": result.claims,
                "verdict": result.verdict,
            }
            for result in results(measured)
        ],
        "gains": [{**msgspec.to_builtins(gain), "has_sign": gain.has_sign} for gain in gains(measured)],
        "claims": [
            {
                **_claim(again.claim),
                "verdict": again.judgement.verdict,
                "statements": again.judgement.statements,
                "points": [_point(number) for number in again.numbers],
                "factors": [
                    {
                        "name": factor.name,
                        "scenario": factor.scenario,
                        "cc": factor.cc,
                        "printed": factor.printed,
                        "measured": again.factors[factor.name],
                    }
                    for factor in again.claim.factors
                ],
                "answers": [
                    {"name": name, **msgspec.to_builtins(answer)} for name, answer in again.answers.items()
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
    configuration = point.configuration
    return {
        "name": point.name,
        "scenario": point.scenario,
        "pm": configuration.pm,
        "cc": configuration.cc,
        "buffer_bytes": configuration.buffer_bytes,
        "buffer_mode": configuration.buffer_mode,
        "protocol": configuration.protocol,
        "initial_path": configuration.initial_path,
        "active": configuration.active,
        "unit": point.unit,
        "printed": point.printed,
        "mean": None if found is None else found.mean,
        "min": None if found is None else found.min,
        "max": None if found is None else found.max,
        "runs": 0 if found is None else found.n,
        "reason": number.reason,
    }
