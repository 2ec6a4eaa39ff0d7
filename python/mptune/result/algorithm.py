"""MPCOA's Algorithm 1 step by step, with the numbers of its equations: what a run with --as-papers shows.

It words a `Result` and computes nothing.
"""

from collections.abc import Iterator

from mptune._text import digits
from mptune.optimisation.main_job import Result
from mptune.optimisation.mpcoa import Fit, Mpcoa, StepSix
from mptune.response import MAX_P, MIN_R_SQUARED
from mptune.result.answer import AlgorithmStep
from mptune.topology import Topology
from mptune.units import MIB, format_rate, format_time

#: A smaller p is not written out; MPCOA Table 4 does the same.
_SMALLEST_P = 1e-5

#: Endings of step 6, in words.
_ENDED = {
    "accepted": f"R-square >= {MIN_R_SQUARED:.2f} and p <= {MAX_P:g} reached",
    "bound": "not reached within the limit of {most} runs; the model is used anyway",
    "out of reach": "out of reach even with more runs: the model does not fit the means; it is used anyway",
}


def steps(result: Result) -> tuple[AlgorithmStep, ...]:
    """The steps; none of a run that was not one of Algorithm 1."""
    if result.mpcoa is None or result.topology is None:
        return ()
    return tuple(_steps(result, result.mpcoa, result.topology))


def warnings(result: Result) -> list[str]:
    """That step 6 did not reach what it demands, as a sentence."""
    if result.mpcoa is None or result.mpcoa.step_six.ended == "accepted":
        return []
    return [f"MPCOA's step 6: {_ending(result.mpcoa.step_six)} ({_qualities(result.mpcoa.step_six)})."]


def _steps(result: Result, mpcoa: Mpcoa, topology: Topology) -> Iterator[AlgorithmStep]:
    local, remote, optimum = (
        len(topology.sender.interfaces),
        len(topology.receiver.interfaces),
        result.optimum,
    )
    options = result.decision.options
    yield AlgorithmStep(1, "3", f"SP has {len(topology.paths)} subflows, of {local} x {remote} interfaces")
    if result.impacts:
        trials = sum(impact.trials for impact in result.impacts)
        ccs = len(result.impacts)
        yield AlgorithmStep(2, "4", f"throughput with and without each subflow, {ccs} CCs: {trials} trials")
        omegas = [path.omega.mean for impact in result.impacts for path in impact.paths if path.omega]
        low, high = (digits(end, 3) for end in (min(omegas), max(omegas))) if omegas else ("-", "-")
        yield AlgorithmStep(3, "5", f"impact factors from {low} to {high}")
        sets = "; ".join(f"{impact.cc} {', '.join(impact.sets.optional)}" for impact in result.impacts)
        yield AlgorithmStep(4, "6", f"SP*: {sets}")
    sweep = sum(record.purpose == "sweep" for record in result.records)
    buffers = result.decision.buffers
    grid = f"{len(buffers)} buffers from {buffers[0]:g} to {buffers[-1]:g} MiB"
    yield AlgorithmStep(
        5, "7", f"throughput again, with SP* under PCDC and SP under FullMesh, {grid}: {sweep} trials"
    )
    six = mpcoa.step_six
    yield AlgorithmStep(6, "8", f"{_qualities(six)}: {_ending(six)}")
    maxima = [
        (curve.maximum(buffers[0], buffers[-1])[::-1], combination)
        for combination, curve in result.response.curves.items()
    ]
    (most, at), best = max(maxima)
    largest = f"largest throughput {digits(most)} Mbit/s with {at:.2f} MiB, {best.manager} and {best.cc}"
    yield AlgorithmStep(7, "9", largest)
    target = digits((1 - options.sacrifice) * most)
    yield AlgorithmStep(
        7, "10", f"smallest buffer for {target} Mbit/s, a sacrifice of {100 * options.sacrifice:g} %"
    )
    yield AlgorithmStep(
        7,
        "11, 12",
        f"OBS {optimum.buffer_mib:.2f} MiB, OTP {digits(optimum.throughput_mbps)} Mbit/s, "
        f"OPM {optimum.combination.manager}, OCC {optimum.cc} (reading of Eq. 11: {options.selection})",
    )
    if (buffer := mpcoa.traditional) is not None:
        yield AlgorithmStep(
            8,
            "Table 5",
            f"traditional buffer {digits(buffer.size_bytes / MIB, 4)} MiB: 3 (RTTmax "
            f"{format_time(buffer.rtt_ns, 4)} of {buffer.rtt_path} + RTOmax "
            f"{format_time(buffer.rto_ns, 4)} of {buffer.rto_path}) * {format_rate(buffer.rate_bps, 4)}; "
            f"OBS is {digits(100 * result.buffer_bytes / buffer.size_bytes, 3)} % of it",
        )


def _ending(six: StepSix) -> str:
    return _ENDED[six.ended].format(most=six.most_runs)


def _qualities(six: StepSix) -> str:
    """The fits that are used, after how many runs."""
    fits = "; ".join(f"{fit.pm} {_quality(fit)}" for fit in six.last)
    return f"quadratic model of the means of {six.last[0].runs} runs, {fits}"


def _quality(fit: Fit) -> str:
    if fit.r_squared is None:
        return "R-square undefined, as nothing varies"
    p = "no p" if fit.p_value is None else f"p = {fit.p_value:.2g}"
    if fit.p_value is not None and fit.p_value < _SMALLEST_P:
        p = f"p < {_SMALLEST_P:.5f}"
    ceiling = "" if fit.ceiling is None or fit.accepted else f" ({fit.ceiling:.2f} with endless runs)"
    return f"R-square {fit.r_squared:.3f}{ceiling}, {p}"
