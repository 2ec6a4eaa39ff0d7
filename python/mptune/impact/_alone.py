"""Impact factors under one congestion control, outside a campaign: nothing is kept of the trials."""

import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from mptune import testbeds
from mptune._text import digits
from mptune.errors import MptuneError
from mptune.impact._options import ImpactOptions
from mptune.impact._result import Impact
from mptune.options.stacks import StackOptions
from mptune.options.trials import MeasuringOptions
from mptune.runner.executors import Executor
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.runner.running import Advance
from mptune.topology import Topology
from mptune.trial import Bulk, Record
from mptune.units import format_size, format_time

#: Measures with a runner and shows the progress.
Measure = Callable[[TrialRunner, Advance | None], tuple[Impact, list[Record]]]


def alone(
    topology: Topology,
    cc: str,
    options: ImpactOptions,
    measuring: MeasuringOptions,
    stack: StackOptions,
    *,
    run_ns: int,
    measure: Measure,
    executor: Executor | None,
    reporter: Reporter,
) -> Impact:
    """Implement `mptune.impact.measure_alone`, given the design's measurement and the length of its runs."""
    stack.check_on(measuring.testbed)
    runner = TrialRunner(testbeds.create(measuring.testbed), measuring.jobs, executor=executor)
    for sentence in topology.ruled_out:
        reporter.notice(sentence)
    reporter.notice(
        testbeds.notice(
            measuring.testbed,
            topology,
            buffer_modes=(options.buffer_mode,),
            sending=Bulk(duration_ns=options.most_runs * run_ns),
        )
    )
    if testbeds.only_stack(measuring.testbed) is not None:
        reporter.notice(_patience(options, run_ns))
    with reporter.phase("impact factors") as progress:
        measured, records = measure(runner, progress)
    if all(path.omega is None for path in measured.paths):
        raise MptuneError(f"no impact factors: {' '.join(measured.warnings)}")
    if stack.chosen().accounting == "linux" and options.design == "paired":
        throughputs = [record.throughput_mbps for record in records if record.throughput_mbps is not None]
        measured = msgspec.structs.replace(
            measured, warnings=(*measured.warnings, *_too_much_buffer(cc, options, throughputs))
        )
    return measured


def _patience(options: ImpactOptions, one_ns: int) -> str:
    """Duration in real time, before the first trial has ended."""
    runs = f"{options.most_runs} run" + "s" * (options.most_runs != 1)
    lasting = f"{runs} of {format_time(one_ns)}"
    if options.design == "paired":
        lasting = f"At most {lasting}, fewer if all is decided sooner"
    return f"{lasting}; --runs and --duration make it shorter."


def _too_much_buffer(cc: str, options: ImpactOptions, mbps: Sequence[float]) -> Iterator[str]:
    """Linux queues up to a whole buffer on subflows, where it waits when they are withdrawn.

    Between two machines with 20 and 10 Mbit/s, 16 MiB and windows of 10 s gave factors of 0.05 and 0.35; the
    rates suggest 0.67 and 0.33.
    """
    if not any(mbps):
        return
    bytes_s = math.fsum(mbps) / len(mbps) * 1e6 / 8
    lasts_s, window_s = options.buffer_bytes / bytes_s, options.length_ns / 1e9
    if lasts_s > window_s / 2:
        size = format_size(options.buffer_bytes, 3)
        yield (
            f"{cc}: a buffer of {size} lasts for {digits(lasts_s)} s at this throughput, more than half of "
            "T: what is queued before a subflow is withdrawn, or comes back, blurs the next window; a "
            "smaller --buffer or a longer --duration helps."
        )
