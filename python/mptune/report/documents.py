"""JSON documents of impact factors and optima, and the run directory they are written into.

The documents are what `--json` prints and what lies in the run directory: one shape, made here.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from mptune.campaign.directory import run_directory, write_config, write_json, write_observations
from mptune.campaign.grid import MIB
from mptune.confirm import Confirmation
from mptune.impact import Impact
from mptune.optimise import Result
from mptune.report import figures
from mptune.statistics import Summary

#: Significant digits of a number in a document: enough for any use, and few enough that the last bits
#: of linear algebra, which differ between processors, never show.
_DIGITS = 9


def impact_document(impact: Impact) -> dict[str, Any]:
    """Impact factors and sets of one congestion control; RTTs in ms, `mean` null if every run failed."""
    return _document(
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
        }
    )


def result_document(result: Result) -> dict[str, Any]:
    """The answer of `mptune optimise`: MiB, Mbit/s, intervals of 95 %."""
    optimum, confirmation = result.optimum, result.confirmation
    low, high = result.predicted or (None, None)
    obs = confirmation.recommended.buffer_bytes
    return _document(
        {
            "topology": result.topology.name,
            "opm": optimum.pm,
            "occ": optimum.cc,
            "obs_mib": optimum.buffer_mib,
            "otp_mbps": optimum.throughput_mbps,
            "subflows": list(result.subflows),
            "standby": list(confirmation.recommended.standby_order),
            "obs_bytes": obs,
            "predicted": {"mean": optimum.throughput_mbps, "low": low, "high": high},
            "confirmed": _interval(confirmation.confirmed),
            "default": _default(confirmation),
            "gain": _gain(confirmation),
            "models": _models(result),
            "r_squared": result.response.r_squared,
            "fits": [
                {"pm": one.pm, "r_squared": one.r_squared, "n": one.n, "p_values": one.p_values}
                for one in result.response.qualities
            ],
            "traditional_mib": result.traditional["eq3"] / MIB,
            "share_of_traditional": obs / result.traditional["eq3"],
            "traditional": {
                name: {"mib": size / MIB, "share": obs / size} for name, size in result.traditional.items()
            },
            "sacrifice": result.options.sacrifice,
            "selection": result.options.selection,
            "model": result.options.model,
            "trials": {
                "run": len(result.records),
                "failed": sum(one.failed is not None for one in result.records),
            },
            "warnings": list(result.warnings),
        }
    )


def write_run(
    path: Path, result: Result, options: Mapping[str, Any], now: datetime, *, force: bool = False
) -> None:
    """Write a run directory: config, observations, impact factors, result and figures, or nothing.

    Parameters
    ----------
    options : what the run was asked for, as the user would repeat it.
    now : time of the run; it stands in `config.json` alone.

    Raises
    ------
    InputError : the directory cannot be written (`mptune.campaign.directory`).
    """
    with run_directory(path, force=force) as directory:
        write_config(directory, options, _topology(result), now)
        write_observations(directory, result.records)
        if result.impacts:
            write_json(
                directory / "impact.json", {"impact": [impact_document(one) for one in result.impacts]}
            )
        write_json(directory / "result.json", result_document(result))
        response = figures.response_figure(result.points, result.response.curves, result.optimum)
        figures.save(response, directory / "throughput_over_buffer")
        figures.save(figures.bars_figure(result.points), directory / "throughput_bars")


def _topology(result: Result) -> dict[str, Any]:
    """The topology as it was used: its network and where each value comes from."""
    built: dict[str, Any] = msgspec.to_builtins(result.topology)
    return built


def _models(result: Result) -> list[dict[str, Any]]:
    """Formula and maximum of every curve within the swept range (MPCOA Table 4)."""
    low, high = result.options.buffers[0] / MIB, result.options.buffers[-1] / MIB
    models = []
    for combination, curve in result.response.curves.items():
        buffer, maximum = curve.maximum(low, high)
        models.append(
            {
                "pm": combination.pm,
                "cc": combination.cc,
                "formula": curve.formula(),
                "max_mbps": maximum,
                "buffer_at_max_mib": buffer,
            }
        )
    return models


def _omega(summary: Summary | None) -> dict[str, float | None]:
    """Statistics of an impact factor, all null when there is none."""
    return {
        name: None if summary is None else getattr(summary, name)
        for name in ("mean", "median", "min", "max", "q10", "q90")
    }


def _interval(summary: Summary | None) -> dict[str, float | int | None]:
    """Mean and 95 % interval, and of how many runs."""
    if summary is None:
        return {"mean": None, "low": None, "high": None, "runs": 0}
    return {"mean": summary.mean, "low": summary.low, "high": summary.high, "runs": summary.n}


def _default(confirmation: Confirmation) -> dict[str, Any]:
    """The configuration compared with, and what it gave."""
    default = confirmation.default
    return {
        "pm": default.pm,
        "cc": default.cc,
        "buffer_mib": default.buffer_bytes / MIB,
        **_interval(confirmation.baseline),
    }


def _gain(confirmation: Confirmation) -> dict[str, Any]:
    """Gain over the default in Mbit/s, and its mean as a share of the default's mean."""
    gain, baseline = confirmation.gain, confirmation.baseline
    share = gain.mean / baseline.mean if gain and baseline and baseline.mean else None
    return {**_interval(gain), "share": share}


def _document(content: dict[str, Any]) -> dict[str, Any]:
    """Finish a document: no number has more digits than it should."""
    return {key: _rounded(value) for key, value in content.items()}


def _rounded(thing: Any) -> Any:
    """The same thing with its floats at `_DIGITS` significant digits."""
    if isinstance(thing, float):
        return float(f"{thing:.{_DIGITS}g}")
    if isinstance(thing, Mapping):
        return {key: _rounded(value) for key, value in thing.items()}
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return [_rounded(value) for value in thing]
    return thing
