"""Buffer mode of an answer, growing or fixed: by trials, or by the simulator's prediction.

Of those that grow only the sender's is searched (`mptune.trial.SENDER`), and any host can have
the answer. Fixed ones have to be set by programs. They are worth it where long paths lose packets: a send
buffer that grows to twice the congestion window (`tcp_sndbuf_expand` in net/ipv4/tcp_input.c) holds an
aggressive control back. Nothing is searched here (see `mptune.optimisation.main_job`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from mptune._text import digits
from mptune.decision.confirmation import Confirmation
from mptune.decision.robustness import Finalist
from mptune.decision.selection import Optimum, whole_buffer
from mptune.decision.sweep import SweepPoint
from mptune.impact import Impact
from mptune.optimisation.job import Job
from mptune.optimisation.options import DEFAULT_CC, DEFAULT_PM, OptimiseOptions
from mptune.runner.runner import TrialRunner
from mptune.runner.seeds import BASELINE
from mptune.statistics import Summary, summarise
from mptune.testbeds import create
from mptune.topology import Topology
from mptune.trial import FIXED, SENDER, Bulk, Combination
from mptune.trial.metrics import THROUGHPUT
from mptune.units import MIB, format_size

#: Sizes of a look, as shares of the largest of the search.
_SIZES = (1 / 64, 1 / 16, 1 / 4, 1)

#: The fastest combinations of a search that a look has.
_FASTEST = 4

#: Simulated trials of a prediction last this long, nanoseconds.
_BRIEF_NS = 10_000_000_000


def in_mode(options: OptimiseOptions, mode: str) -> OptimiseOptions:
    """The same question for buffers of one mode."""
    return msgspec.structs.replace(options, buffer_mode=mode).completed()


def predicted(topology: Topology, options: OptimiseOptions) -> str:
    """The mode to search where time is real or limited: the simulator's, where it knows the network."""
    if topology.missing or not options.prior:
        return SENDER
    runner = TrialRunner(create("simulated"))
    combinations = [Combination(DEFAULT_PM, cc) for cc in options.ccs]
    combinations += [Combination.plain_tcp(path.label, DEFAULT_CC) for path in topology.paths]
    grown, fixed = (
        _most(Job.on(topology, runner, in_mode(options, mode)), combinations, brief=True)
        for mode in (SENDER, FIXED)
    )
    return FIXED if (1 - options.sacrifice) * fixed > grown else SENDER


def fixed_may_win(
    job: Job, points: Sequence[SweepPoint], finalists: Sequence[Finalist], impacts: Sequence[Impact]
) -> bool:
    """True if a search with fixed buffers may find something faster than all that grow.

    Parameters
    ----------
    job : with fixed buffers.
    points, finalists, impacts : of the search with buffers that grow.
    """
    tops: dict[Combination, float] = {}
    for point in points:
        tops[point.combination] = max(point.throughput.mean, tops.get(point.combination, 0.0))
    fastest = sorted(tops, key=lambda combination: (-tops[combination], combination))[:_FASTEST]
    tcp = [finalist.combination for finalist in finalists if finalist.combination.is_tcp]
    sets = {impact.cc: impact.sets for impact in impacts}
    return _most(replace(job, sets=sets), dict.fromkeys((*fastest, *tcp))) > max(tops.values())


def fixed_wins(grown: Confirmation, fixed: Confirmation, sacrifice: float) -> bool:
    """True if fixed buffers surely give more than the sacrifice more, which is worth setting them."""
    runs = min(grown.runs, fixed.runs)
    gains, confirmed = THROUGHPUT.gains(fixed.records[:runs], grown.records[:runs]), grown.confirmed
    if confirmed is None or not gains:
        return confirmed is None
    gain = summarise(gains)
    return gain.mean > sacrifice * confirmed.mean and (gain.low is None or gain.low > 0)


def sentence(mode: str, optimum: Optimum, buffer_bytes: int, confirmed: Summary | None) -> str:
    """Result of the mode that the answer does not use; its answer is that optimum."""
    gave = "nothing" if confirmed is None else f"{digits(confirmed.mean)} Mbit/s"
    size = format_size(buffer_bytes, 3)
    found = f"were searched too: {optimum.combination.manager} with {optimum.cc} and {size} gave {gave}"
    if mode == FIXED:
        return f"Fixed buffers {found}; programs would have to set them."
    return f"Buffers that grow {found}; fixed ones have to be set by programs (mptune exec)."


def _most(job: Job, combinations: Iterable[Combination], *, brief: bool = False) -> float:
    """The largest throughput of single trials of combinations with some sizes, Mbit/s."""
    sizes = [whole_buffer(share * max(job.options.buffers) / MIB) for share in _SIZES]
    configurations = [job.configuration(combination, size) for combination in combinations for size in sizes]
    workload = Bulk(duration_ns=min(job.options.duration_ns, _BRIEF_NS)) if brief else None
    records = job.measure(configurations, BASELINE, 1, "a look at fixed buffers", workload=workload)
    return max(THROUGHPUT.values(records), default=0.0)
