"""JSON document and files of an answer by size (`mptune.optimisation.by_size`).

Sizes in bytes, times in seconds, intervals of 95 %. `mptune.result.making` has those of throughput.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from mptune.optimisation import by_size
from mptune.optimisation.by_size import SizeAnswer, SizePoint, SizesResult
from mptune.result import wording
from mptune.result.answer import (
    RESULT_VERSION,
    FastestTimes,
    Saved,
    SizeChoice,
    SizesAnswer,
    SizeTimes,
    Times,
)
from mptune.result.making import besides, counts, document, write_impacts, write_table
from mptune.statistics import Summary
from mptune.store.directory import RESULT, write_config, write_json, write_observations


def sizes_document(result: SizesResult) -> dict[str, Any]:
    """The answer of `mptune optimise --transfer`: one entry of "sizes" for each size of transfer."""
    return document(
        SizesAnswer(
            version=RESULT_VERSION,
            topology=result.topology.name,
            stack=result.stack,
            buffer_mode=result.buffer_mode,
            receive_bytes=result.receive_bytes,
            family=result.family,
            trials=counts(result.records),
            sizes=tuple(map(_size, result.answers)),
            answer=tuple(wording.sizes_answer(result)),
            warnings=result.warnings,
        )
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
        document({**_configuration(point), **_times(point.times), "chosen": point == answer.chosen})
        for answer in answers
        for point in answer.points
    ]


def _size(answer: SizeAnswer) -> SizeChoice:
    """The answer for one size."""
    gain, baseline = answer.gain, answer.baseline.summary
    return SizeChoice(
        **_configuration(answer.chosen),
        subflows=answer.subflows,
        standby=answer.recommended.standby_order,
        confirmed=Times(**_times(answer.confirmed)),
        default=SizeTimes(
            pm=answer.default.pm,
            cc=answer.default.cc,
            buffer_bytes=answer.default.buffer_bytes,
            **_times(answer.baseline),
        ),
        gain=Saved(
            **_seconds(gain),
            runs=0 if gain is None else gain.n,
            share=gain.mean / baseline.mean if gain and baseline and baseline.mean else None,
        ),
        fastest=FastestTimes(**_configuration(answer.fastest), **_times(answer.fastest.times)),
        baselines=besides(answer.baselines),
        compared=len(answer.points),
        alike=answer.alike,
    )


def _configuration(point: SizePoint) -> dict[str, Any]:
    """The configuration that was set."""
    combination = point.combination
    return {
        "transfer_bytes": point.transfer_bytes,
        "pm": combination.pm,
        "cc": combination.cc,
        "active": " ".join(combination.subflows),
        "initial_path": combination.initial_path or None,
        "buffer_bytes": point.buffer_bytes,
    }


def _times(times: by_size.Times) -> dict[str, Any]:
    """Fields of `Times`."""
    summary = times.summary
    return {
        **_seconds(summary),
        "percentile_95_s": times.percentile,
        "runs": 0 if summary is None else summary.n,
        "failed": times.failed,
    }


def _seconds(summary: Summary | None) -> dict[str, float | None]:
    """Mean and 95 % interval, seconds."""
    ends = (None, None, None) if summary is None else (summary.mean, summary.low, summary.high)
    return dict(zip(("mean_s", "low_s", "high_s"), ends, strict=True))
