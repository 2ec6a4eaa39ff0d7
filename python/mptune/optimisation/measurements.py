"""The decision of the main job on measurements made elsewhere: no testbed, no confirmation.

Impact factors and subflow sets are unknown too: PCDC's measurements are used as they are.
"""

from collections.abc import Sequence
from pathlib import Path

from mptune.decision import DecisionOptions, decide, too_few_sizes
from mptune.decision.confirmation import verdict
from mptune.decision.selection import whole_buffer
from mptune.decision.sweep import sweep_points
from mptune.errors import InputError
from mptune.optimisation.main_job import Result, left_out, traditional
from mptune.response import MODELS, Sample
from mptune.runner.progress import Reporter
from mptune.table import Measurements, pooled
from mptune.topology import Topology
from mptune.trial import Combination

#: Path manager of measurements that do not name one.
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
    InputError : an invalid option, or too few buffer sizes in the file.
    MptuneError : the measurements do not determine the model.
    """
    samples = _samples(measurements, pm)
    options.check()
    if expected := too_few_sizes(options.model, len({sample.buffer_mib for sample in samples})):
        raise InputError(measurements.path, "buffer", expected)
    _check_combinations(samples, measurements.path, MODELS[options.model].min_buffers)
    points = sweep_points(samples)
    decision = decide(samples, options, reporter=reporter)
    return Result(
        name=Path(measurements.path).stem,
        decision=decision,
        buffer_bytes=whole_buffer(decision.optimum.buffer_mib),
        points=points,
        topology=topology,
        traditional={} if topology is None else traditional(topology),
        warnings=(
            "The measurements were made elsewhere, so the answer is not confirmed by new trials.",
            *([] if topology is None else left_out(topology)),
            *_not_decided(measurements),
            *decision.response.warnings,
            *verdict(decision, points, None),
        ),
    )


def _samples(measurements: Measurements, pm: str) -> list[Sample]:
    """Measurements as observations; without a run column, runs are numbered in order."""
    named = {run: number for number, run in enumerate(sorted({row.run or "" for row in measurements.rows}))}
    seen: dict[tuple[Combination, float], int] = {}
    samples = []
    for row in measurements.rows:
        combination = Combination(row.levels.get("pm", pm), row.levels["cc"])
        number = seen.get((combination, row.buffer_mib), 0)
        seen[combination, row.buffer_mib] = number + 1
        run = number if row.run is None else named[row.run]
        samples.append(Sample(combination, row.buffer_mib, row.throughput_mbps, run))
    return samples


def _check_combinations(samples: Sequence[Sample], path: str, needed: int) -> None:
    """Every combination needs enough buffer sizes for its curve."""
    sizes: dict[Combination, set[float]] = {}
    for sample in samples:
        sizes.setdefault(sample.combination, set()).add(sample.buffer_mib)
    for (pm, cc, *_), found in sizes.items():
        if len(found) < needed:
            raise InputError(
                path, f"{pm}, {cc}", f"expected at least {needed} buffer sizes, found {len(found)}"
            )


def _not_decided(measurements: Measurements) -> list[str]:
    """Sentences about content of the file that the decision ignores."""
    sentences = []
    others = [f for f in measurements.factors if f not in ("pm", "cc") and len(measurements.levels(f)) > 1]
    if others:
        sentences.append(
            f"The effect of {', '.join(others)} counts as scatter between runs (mptune fit tests whether it "
            "matters)."
        )
    sentences += pooled(measurements)
    if measurements.failed:
        sentences.append(f"{measurements.failed} failed observations are left out.")
    return sentences
