"""JSON document and files of an answer by size (`mptune.campaign.by_size`).

Sizes in bytes, times in seconds, intervals of 95 %. `mptune.campaign.documents` has those of throughput.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from mptune.campaign import wording
from mptune.campaign.by_size import SizeAnswer, SizePoint, SizesResult, Times
from mptune.campaign.documents import RESULT_VERSION, document, write_impacts, write_table
from mptune.store.directory import RESULT, write_config, write_json, write_observations


def sizes_document(result: SizesResult) -> dict[str, Any]:
    """The answer of `mptune optimise --transfer`: one entry of "sizes" for each size of transfer."""
    return document(
        {
            "version": RESULT_VERSION,
            "topology": result.topology.name,
            "stack": result.stack,
            "buffer_mode": result.buffer_mode,
            "family": result.family,
            "sizes": [_size(one) for one in result.answers],
            "trials": {
                "run": len(result.records),
                "failed": sum(one.failed is not None for one in result.records),
            },
            "answer": wording.sizes_answer(result),
            "warnings": list(result.warnings),
        }
    )


def write_sizes(directory: Path, result: SizesResult, options: Mapping[str, Any], now: datetime) -> None:
    """Write config, observations, impact factors, the answer, and all that was compared (`sizes.csv`)."""
    write_config(directory, options, msgspec.to_builtins(result.topology), now)
    write_observations(directory, result.records)
    write_impacts(directory, result.impacts)
    write_json(directory / RESULT, sizes_document(result))
    write_table(directory / "sizes.csv", size_rows(result.answers))


def size_rows(answers: Sequence[SizeAnswer]) -> list[dict[str, Any]]:
    """Every configuration of the sweep with each size."""
    return [
        document({**_configuration(point), **_times(point.times), "chosen": point == one.chosen})
        for one in answers
        for point in one.points
    ]


def _size(one: SizeAnswer) -> dict[str, Any]:
    """The answer for one size; `gain` is the time saved, in seconds and as a share of the default's mean."""
    gain, baseline = one.gain, one.baseline.summary
    return {
        **_configuration(one.chosen),
        "subflows": list(one.subflows),
        "standby": list(one.recommended.standby_order),
        "confirmed": _times(one.confirmed),
        "default": {
            "pm": one.default.pm,
            "cc": one.default.cc,
            "buffer_bytes": one.default.buffer_bytes,
            **_times(one.baseline),
        },
        "gain": {
            **{
                f"{name}_s": None if gain is None else getattr(gain, name) for name in ("mean", "low", "high")
            },
            "runs": 0 if gain is None else gain.n,
            "share": gain.mean / baseline.mean if gain and baseline and baseline.mean else None,
        },
        "fastest": {**_configuration(one.fastest), **_times(one.fastest.times)},
        "compared": len(one.points),
        "alike": one.alike,
    }


def _configuration(point: SizePoint) -> dict[str, Any]:
    """What was set."""
    combination = point.combination
    return {
        "transfer_bytes": point.transfer_bytes,
        "pm": combination.pm,
        "cc": combination.cc,
        "active": " ".join(combination.subflows),
        "initial_path": combination.initial_path or None,
        "buffer_bytes": point.buffer_bytes,
    }


def _times(times: Times) -> dict[str, Any]:
    """Completion times, seconds; null where no run completed."""
    one = times.summary
    return {
        **{f"{name}_s": None if one is None else getattr(one, name) for name in ("mean", "low", "high")},
        "percentile_95_s": times.percentile,
        "runs": 0 if one is None else one.n,
        "failed": times.failed,
    }
