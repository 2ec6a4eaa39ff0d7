"""The decision of the main job on measurements made elsewhere: no testbed, no confirmation.

Impact factors and subflow sets are unknown too: what PCDC did in the measurements is taken as it is.
"""

from collections.abc import Sequence
from pathlib import Path

from mptune import theory
from mptune.campaign.progress import Reporter
from mptune.decision import DecisionOptions, check_decision, decide
from mptune.errors import InputError
from mptune.measurements import Measurements
from mptune.optimise import Result, judge, whole_buffer
from mptune.response import MODELS, Combination, Sample
from mptune.sweep import sweep_points
from mptune.topology import Topology

#: Path manager of measurements that do not say.
UNSTATED_PM = "unstated"


def optimise_from(
    measurements: Measurements,
    options: DecisionOptions,
    *,
    topology: Topology | None = None,
    pm: str = UNSTATED_PM,
    reporter: Reporter | None = None,
) -> Result:
    """Decide from measurements made elsewhere: nothing is measured, and nothing can be confirmed.

    Parameters
    ----------
    topology : the network they are of, for the traditional buffers.
    pm : path manager of measurements that have no such column.

    Raises
    ------
    InputError : an option that cannot be, or too few buffer sizes in the file.
    MptuneError : the measurements do not determine the model.
    """
    samples = _samples(measurements, pm)
    check_decision(options, len({sample.buffer_mib for sample in samples}), f"{measurements.path}: buffer")
    _check_combinations(samples, measurements.path, MODELS[options.model].min_buffers)
    decision = decide(samples, options, reporter=reporter)
    return Result(
        name=Path(measurements.path).stem,
        decision=decision,
        buffer_bytes=whole_buffer(decision.optimum.buffer_mib),
        points=sweep_points(samples),
        topology=topology,
        traditional={} if topology is None else theory.traditional(topology),
        warnings=(
            "The measurements were made elsewhere: nothing was measured afresh to confirm the answer.",
            *_not_decided(measurements),
            *decision.response.warnings,
            *judge(samples, decision, None),
        ),
    )


def _samples(measurements: Measurements, pm: str) -> list[Sample]:
    """Measurements as observations; runs are numbered as they occur where no column does."""
    named = {run: number for number, run in enumerate(sorted({one.run or "" for one in measurements.rows}))}
    seen: dict[tuple[Combination, float], int] = {}
    samples = []
    for one in measurements.rows:
        combination = Combination(one.levels.get("pm", pm), one.levels["cc"])
        number = seen.get((combination, one.buffer_mib), 0)
        seen[combination, one.buffer_mib] = number + 1
        run = number if one.run is None else named[one.run]
        samples.append(Sample(combination, one.buffer_mib, one.throughput_mbps, run))
    return samples


def _check_combinations(samples: Sequence[Sample], path: str, needed: int) -> None:
    """Every combination needs buffer sizes enough for its curve."""
    sizes: dict[Combination, set[float]] = {}
    for sample in samples:
        sizes.setdefault(sample.combination, set()).add(sample.buffer_mib)
    for (pm, cc), found in sizes.items():
        if len(found) < needed:
            raise InputError(
                path, f"{pm}, {cc}", f"expected {needed} buffer sizes at least, found {len(found)}"
            )


def _not_decided(measurements: Measurements) -> list[str]:
    """Sentences about what the file has and the decision leaves aside."""
    sentences = []
    others = [f for f in measurements.factors if f not in ("pm", "cc") and len(measurements.levels(f)) > 1]
    if others:
        sentences.append(
            f"What {', '.join(others)} contributes counts as scatter between runs (mptune fit tells whether "
            "it matters)."
        )
    if measurements.failed:
        sentences.append(f"{measurements.failed} failed observations are left out.")
    return sentences
