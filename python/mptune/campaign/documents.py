"""JSON documents of impact factors and optima, and the files of the run directory.

`--json` prints the same documents that are in the run directory; they are made here.
"""

import csv
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from mptune.campaign import wording
from mptune.campaign.learning import Reached
from mptune.campaign.optimise import Result
from mptune.campaign.rounds import Round
from mptune.decision import Decision
from mptune.decision.confirmation import AgainstTcp, Confirmation
from mptune.decision.model_error import OnKernel, gain
from mptune.decision.robustness import Finalist
from mptune.decision.uncertainty import Uncertainty
from mptune.files import writing_table
from mptune.impact import Impact
from mptune.response import BELIEF
from mptune.statistics import Summary
from mptune.store.directory import RESULT, write_config, write_json, write_observations
from mptune.trial import Combination
from mptune.units import MIB

#: Significant digits of a number in a document: enough for any use, and few enough that the last bits
#: of linear algebra, which differ between processors, never show.
_DIGITS = 9

#: Version of the shape of `result.json` (`mptune.report.schema`).
RESULT_VERSION = 1

#: Points of a fitted curve in a table.
_CURVE_POINTS = 120


def impact_document(impact: Impact) -> dict[str, Any]:
    """Impact factors and sets of one congestion control; RTTs in ms, `mean` null if every run failed.

    `low` and `high` of a decision are the interval that decided, null if there were too few runs for one.
    """
    return document(
        {
            "cc": impact.cc,
            "omega": {
                one.path: {**_omega(one.omega), "rtt_ms": one.rtt_ms, "runs": one.omega.n if one.omega else 0}
                for one in impact.paths
            },
            "optional": list(impact.sets.optional),
            "standby": list(impact.sets.standby),
            "fallback": impact.sets.fallback,
            "warnings": list(impact.warnings),
            "design": impact.design,
            "decisions": {
                one.path: {"decision": one.decision, "low": one.low, "high": one.high} for one in impact.paths
            },
            "plausible": impact.plausible,
            "doubts": list(impact.doubts),
            "homogeneous": impact.homogeneous,
            "trials": impact.trials,
            "measured_s": impact.measured_ns / 1e9,
            "error_rate": impact.error_rate,
        }
    )


def result_document(result: Result) -> dict[str, Any]:
    """The answer of `mptune optimise`: MiB, Mbit/s, intervals of 95 %.

    Where plain TCP is the answer, `protocol` is "tcp", and so is every path manager that stands for it; its
    path is the subflow.
    What is unknown for measurements made elsewhere is null or empty.
    """
    decision, optimum, confirmation = result.decision, result.optimum, result.confirmation
    low, high = result.predicted or (None, None)
    options = decision.options
    return document(
        {
            "version": RESULT_VERSION,
            "topology": None if result.topology is None else result.topology.name,
            "stack": result.stack or None,
            "buffer_mode": result.buffer_mode or None,
            "family": result.family or None,
            "protocol": "tcp" if optimum.combination.is_tcp else "mptcp",
            "opm": optimum.pm,
            "occ": optimum.cc,
            "initial_path": optimum.initial_path or None,
            "obs_mib": optimum.buffer_mib,
            "otp_mbps": optimum.throughput_mbps,
            "subflows": list(result.subflows),
            "standby": [] if confirmation is None else list(confirmation.recommended.standby_order),
            "obs_bytes": result.buffer_bytes,
            "predicted": {"mean": optimum.throughput_mbps, "low": low, "high": high},
            "confirmed": _interval(None if confirmation is None else confirmation.confirmed),
            "default": None if confirmation is None else _default(confirmation),
            "gain": None if confirmation is None else _gain(confirmation),
            "against_tcp": None if confirmation is None else _against_tcp(confirmation.against_tcp),
            "finalists": [_finalist(one) for one in result.finalists],
            "on_kernel": None if result.on_kernel is None else _on_kernel(result.on_kernel),
            "gain_on_kernel": _gain_on_kernel(result),
            "uncertainty": _uncertainty(decision.uncertainty),
            "reached": None if result.reached is None else _reached(result.reached),
            "models": _models(decision),
            "r_squared": decision.response.r_squared,
            "fits": [msgspec.to_builtins(one) for one in decision.response.qualities],
            "comparison": [msgspec.to_builtins(one) for one in decision.response.comparison],
            "pareto": pareto_rows(decision),
            **_traditional(result),
            "sacrifice": options.sacrifice,
            "selection": options.selection,
            "model": decision.response.model,
            "model_asked": options.model,
            "trials": {
                "run": len(result.records),
                "failed": sum(one.failed is not None for one in result.records),
            },
            "answer": wording.answer(result),
            "warnings": list(result.warnings),
            **({"sensitivity": msgspec.to_builtins(result.sensitivity)} if result.sensitivity else {}),
            **({"rounds": [_round(one) for one in result.rounds]} if result.rounds else {}),
        }
    )


def _reached(reached: Reached) -> dict[str, Any]:
    """How the decision was reached: seconds, bytes, Mbit/s; a candidate by its place in the list."""
    candidates = sorted({one for step in reached.steps for one in (*step.contenders, step.combination)})
    place = {one: index for index, one in enumerate(candidates)}
    return {
        "strategy": reached.strategy,
        "certainty_asked": reached.wanted,
        "budget_s": reached.budget_s,
        "spent_s": reached.spent_s,
        "ended": reached.ended,
        "candidates": [
            {
                "pm": one.pm,
                "cc": one.cc,
                "subflows": list(one.subflows),
                "initial_path": one.initial_path or None,
            }
            for one in candidates
        ],
        "steps": [
            {
                "trials": step.trials,
                "seconds": step.seconds,
                "candidate": place[step.combination],
                "buffer_bytes": step.buffer_bytes,
                "throughput_mbps": step.throughput_mbps,
                "certainty": step.certainty,
                "room": step.room,
                "among": step.among,
                "contenders": [place[one] for one in step.contenders],
                "buffers": list(step.buffers),
                "more_s": step.more_s,
                "prior": step.prior or None,
                "drift": step.drift,
            }
            for step in reached.steps
        ],
    }


def _round(one: Round) -> dict[str, Any]:
    """A round of a repeated campaign; null where its trials gave no answer."""
    found = one.answered
    head = {
        "round": one.number,
        "at_s": one.at_ns / 1e9,
        "failed": one.failed or None,
        "changes": list(one.changes),
    }
    if found is None:
        return {**head, "answer": None}
    answer = {
        "opm": found.optimum.pm,
        "occ": found.optimum.cc,
        "initial_path": found.optimum.initial_path or None,
        "subflows": list(found.subflows),
        "obs_bytes": found.buffer_bytes,
        "otp_mbps": found.optimum.throughput_mbps,
        "confirmed": _interval(found.confirmed),
        "gain": _interval(found.gain),
        "omega": {
            impact.cc: {path.path: path.omega.mean if path.omega else None for path in impact.paths}
            for impact in found.impacts
        },
        "optional": {impact.cc: list(impact.sets.optional) for impact in found.impacts},
    }
    return {**head, "answer": answer}


def pareto_rows(decision: Decision) -> list[dict[str, Any]]:
    """The front of throughput and buffer as rows: MiB, Mbit/s; intervals null without resampling."""
    rows = []
    for point in decision.front:
        buffer, throughput = point.buffer_interval, point.throughput_interval
        rows.append(
            {
                "sacrifice": point.sacrifice,
                "pm": point.optimum.pm,
                "cc": point.optimum.cc,
                "subflows": " ".join(point.optimum.subflows),
                "initial_path": point.optimum.initial_path or None,
                "buffer_mib": point.optimum.buffer_mib,
                "buffer_mib_low": None if buffer is None else buffer[0],
                "buffer_mib_high": None if buffer is None else buffer[1],
                "throughput_mbps": point.optimum.throughput_mbps,
                "throughput_mbps_low": None if throughput is None else throughput[0],
                "throughput_mbps_high": None if throughput is None else throughput[1],
            }
        )
    return rows


def write_result(directory: Path, result: Result, options: Mapping[str, Any], now: datetime) -> None:
    """Write config, observations, impact factors and result into a directory.

    Parameters
    ----------
    options : of the run, as the user would give them again.
    now : time of the run; only `config.json` contains it.
    """
    decision = result.decision
    write_config(directory, options, _topology(result), now)
    if result.records:
        write_observations(directory, result.records)
    write_impacts(directory, result.impacts)
    answer = result_document(result)
    write_json(directory / RESULT, answer)
    write_table(directory / "pareto.csv", answer["pareto"])
    write_table(directory / "curves.csv", curve_rows(decision))


def write_impacts(directory: Path, impacts: Sequence[Impact]) -> None:
    """Write impact factors and sets of every congestion control; nothing if none were measured."""
    if impacts:
        write_json(directory / "impact.json", {"impact": [impact_document(one) for one in impacts]})


def curve_rows(decision: Decision) -> list[dict[str, Any]]:
    """Every fitted curve over the measured buffers, MiB and Mbit/s; 95 % intervals if there are any.

    The points are evenly spaced; those of a belief by octaves, as its buffers are.
    """
    low, high = decision.buffers[0], decision.buffers[-1]
    buffers = [low + i * (high - low) / (_CURVE_POINTS - 1) for i in range(_CURVE_POINTS)]
    if decision.response.model == BELIEF:
        buffers = [low * (high / low) ** (i / (_CURVE_POINTS - 1)) for i in range(_CURVE_POINTS)]
    rows = []
    for combination, curve in decision.response.curves.items():
        for size in buffers:
            interval = curve.interval(size) or (None, None)
            rows.append(
                document(
                    {
                        "pm": combination.pm,
                        "cc": combination.cc,
                        "subflows": " ".join(combination.subflows),
                        "initial_path": combination.initial_path or None,
                        "buffer_mib": size,
                        "predicted_mbps": curve.predict(size),
                        "low_mbps": interval[0],
                        "high_mbps": interval[1],
                    }
                )
            )
    return rows


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV; an empty field means that there is no value."""
    with writing_table(path) as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _topology(result: Result) -> dict[str, Any]:
    """The topology as used: its network and the origin of each value; empty if there is none."""
    built: dict[str, Any] = {} if result.topology is None else msgspec.to_builtins(result.topology)
    return built


def _traditional(result: Result) -> dict[str, Any]:
    """Traditional buffers, and the recommended one as a share of each; null and empty without a topology."""
    sizes, obs = result.traditional, result.buffer_bytes
    eq3 = sizes.get("eq3")
    return {
        "traditional_mib": None if eq3 is None else eq3 / MIB,
        "share_of_traditional": None if eq3 is None else obs / eq3,
        "traditional": {name: {"mib": size / MIB, "share": obs / size} for name, size in sizes.items()},
    }


def _uncertainty(uncertainty: Uncertainty | None) -> dict[str, Any] | None:
    """Intervals of the optimum, and how often each combination wins."""
    if uncertainty is None:
        return None
    return {
        "resamples": uncertainty.resamples,
        "single_runs": uncertainty.single_runs,
        "obs_mib": dict(zip(("low", "high"), uncertainty.obs_mib, strict=True)),
        "otp_mbps": dict(zip(("low", "high"), uncertainty.otp_mbps, strict=True)),
        "wins": [{**_combination(one), "share": share} for one, share in uncertainty.wins.items()],
    }


def _finalist(one: Finalist) -> dict[str, Any]:
    """A configuration of the shortlist; `worst` is a share of the best finalist's throughput."""
    return {
        **_combination(one.combination),
        "buffer_mib": one.buffer_bytes / MIB,
        **_interval(one.throughput),
        "worst": one.worst,
        "average": one.average,
    }


def _models(decision: Decision) -> list[dict[str, Any]]:
    """Formula and maximum of every curve within the measured range (MPCOA Table 4)."""
    models = []
    for combination, curve in decision.response.curves.items():
        buffer, maximum = curve.maximum(decision.buffers[0], decision.buffers[-1])
        models.append(
            {
                **_combination(combination),
                "formula": curve.formula(),
                "max_mbps": maximum,
                "buffer_at_max_mib": buffer,
            }
        )
    return models


def _combination(one: Combination) -> dict[str, Any]:
    """What was chosen; empty or null where it was left to the path manager."""
    return {
        "pm": one.pm,
        "cc": one.cc,
        "subflows": list(one.subflows),
        "initial_path": one.initial_path or None,
    }


def _omega(summary: Summary | None) -> dict[str, float | None]:
    """Statistics of an impact factor, all null when there is none."""
    return {
        name: None if summary is None else getattr(summary, name)
        for name in ("mean", "median", "min", "max", "q10", "q90")
    }


def _interval(summary: Summary | None) -> dict[str, float | int | None]:
    """Mean, 95 % interval and number of runs."""
    if summary is None:
        return {"mean": None, "low": None, "high": None, "runs": 0}
    return {"mean": summary.mean, "low": summary.low, "high": summary.high, "runs": summary.n}


def _default(confirmation: Confirmation) -> dict[str, Any]:
    """The default configuration and its throughput."""
    default = confirmation.default
    return {
        "pm": default.pm,
        "cc": default.cc,
        "buffer_mib": default.buffer_bytes / MIB,
        **_interval(confirmation.baseline),
    }


def _gain(confirmation: Confirmation) -> dict[str, Any]:
    """Gain over the default in Mbit/s, and its mean as a share of the default's mean."""
    return _gain_over(confirmation.gain, confirmation.baseline)


def _gain_over(gain: Summary | None, baseline: Summary | None) -> dict[str, Any]:
    """A gain, and its mean as a share of what it is over."""
    share = gain.mean / baseline.mean if gain and baseline and baseline.mean else None
    return {**_interval(gain), "share": share}


def _on_kernel(expected: OnKernel) -> dict[str, Any]:
    """What a kernel is expected to give; null with the reason where that is not known."""
    return msgspec.structs.asdict(expected) | {"unknown": expected.unknown or None}


def _gain_on_kernel(result: Result) -> dict[str, Any] | None:
    """The gain over the default that is expected on a kernel; null where nothing was simulated."""
    if result.on_kernel is None or result.default_on_kernel is None:
        return None
    found = gain(result.on_kernel, result.default_on_kernel)
    return msgspec.structs.asdict(found) | {"unknown": found.unknown or None}


def _against_tcp(against: AgainstTcp | None) -> dict[str, Any] | None:
    """What MPTCP gains over the best plain TCP in Mbit/s, and its mean as a share of TCP's mean."""
    if against is None:
        return None
    return {
        "mptcp": {
            "pm": against.mptcp.pm,
            "cc": against.mptcp.cc,
            "subflows": list(against.mptcp.active or ()),
            "buffer_mib": against.mptcp.buffer_bytes / MIB,
            **_interval(against.with_mptcp),
        },
        "tcp": {
            "path": against.tcp.initial_path,
            "cc": against.tcp.cc,
            "buffer_mib": against.tcp.buffer_bytes / MIB,
            **_interval(against.with_tcp),
        },
        "gain": _gain_over(against.gain, against.with_tcp),
    }


def document(content: dict[str, Any]) -> dict[str, Any]:
    """Finish a document: round its numbers."""
    return {key: _rounded(value) for key, value in content.items()}


def _rounded(thing: Any) -> Any:
    """The same value with its floats rounded to `_DIGITS` significant digits."""
    if isinstance(thing, float):
        return float(f"{thing:.{_DIGITS}g}")
    if isinstance(thing, Mapping):
        return {key: _rounded(value) for key, value in thing.items()}
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return [_rounded(value) for value in thing]
    return thing
