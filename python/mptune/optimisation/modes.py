"""Whether an answer is for buffers that grow or for fixed ones: by trials, or by the simulator's prediction.

Of those that grow only the sender's is searched (`mptune.optimisation.options.SENDER`), and any host can have
the answer. Fixed ones have to be set by programs. They are worth it where long paths lose packets: a send
buffer that grows to twice the congestion window (`tcp_sndbuf_expand` in net/ipv4/tcp_input.c) holds an
aggressive control back. Nothing is searched here (see `mptune.optimisation.main_job`).
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from mptune._text import digits
from mptune.decision.selection import whole_buffer
from mptune.optimisation.job import Job
from mptune.optimisation.options import DEFAULT_CC, DEFAULT_PM, SENDER, OptimiseOptions
from mptune.runner.runner import TrialRunner
from mptune.runner.seeds import BASELINE
from mptune.statistics import Summary, summarise
from mptune.testbeds import create
from mptune.topology import Topology
from mptune.trial import FIXED, Bulk, Combination
from mptune.trial.metrics import THROUGHPUT
from mptune.units import MIB, format_size

if TYPE_CHECKING:
    from mptune.optimisation.main_job import Result

#: Sizes of a look, as shares of the largest of the search. Twice that is beyond it, where a search goes too.
_SIZES = (1 / 64, 1 / 16, 1 / 4, 1, 2)

#: The fastest combinations of a search that a look has.
_FASTEST = 4

#: Simulated trials of a prediction last this long, nanoseconds.
_BRIEF_NS = 10_000_000_000


def in_mode(options: OptimiseOptions, mode: str) -> OptimiseOptions:
    """The same question for buffers of one mode."""
    return msgspec.structs.replace(options, buffer_mode=mode).completed()


def of(result: "Result") -> str:
    """The mode that an answer is for."""
    return result.buffer_mode if result.receive_bytes is None else SENDER


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


def fixed_may_win(job: Job, grown: "Result") -> bool:
    """Whether a look at fixed buffers finds something faster than all that grow.

    Parameters
    ----------
    job : with fixed buffers.
    """
    tops: dict[Combination, float] = {}
    for point in grown.points:
        tops[point.combination] = max(point.throughput.mean, tops.get(point.combination, 0.0))
    fastest = sorted(tops, key=lambda one: (-tops[one], one))[:_FASTEST]
    tcp = [finalist.combination for finalist in grown.finalists if finalist.combination.is_tcp]
    sets = {impact.cc: impact.sets for impact in grown.impacts}
    return _most(replace(job, sets=sets), dict.fromkeys((*fastest, *tcp))) > max(tops.values())


def better(grown: "Result", fixed: "Result", sacrifice: float) -> "Result":
    """The answer with fixed buffers if it surely gives more than the sacrifice more, else the other."""
    assert grown.confirmation is not None and fixed.confirmation is not None  # measured here
    runs = min(grown.confirmation.runs, fixed.confirmation.runs)
    pair = fixed.confirmation.records[:runs], grown.confirmation.records[:runs]
    gains, confirmed = THROUGHPUT.gains(*pair), grown.confirmation.confirmed
    gain = summarise(gains) if gains else None
    if confirmed is None or (gain is not None and _is_more(gain, sacrifice * confirmed.mean)):
        note = "fixed ones have to be set by programs (mptune exec)"
        return _beside(fixed, grown, "Buffers that grow", note)
    return _beside(grown, fixed, "Fixed buffers", "which programs would have to set")


def _is_more(gain: Summary, least: float) -> bool:
    return gain.mean > least and (gain.low is None or gain.low > 0)


def _beside(chosen: "Result", other: "Result", which: str, note: str) -> "Result":
    """A result that names what the other mode gave."""
    assert other.confirmation is not None
    confirmed, optimum = other.confirmation.confirmed, other.optimum
    gave = "nothing" if confirmed is None else f"{digits(confirmed.mean)} Mbit/s"
    sentence = (
        f"{which} were searched too: {optimum.combination.manager} with {optimum.cc} and "
        f"{format_size(other.buffer_bytes, 3)} gave {gave}; {note}."
    )
    return msgspec.structs.replace(chosen, warnings=(*chosen.warnings, sentence))


def _most(job: Job, combinations: Iterable[Combination], *, brief: bool = False) -> float:
    """The largest throughput of single trials of combinations with some sizes, Mbit/s."""
    sizes = [whole_buffer(share * max(job.options.buffers) / MIB) for share in _SIZES]
    configurations = [job.configuration(one, size) for one in combinations for size in sizes]
    workload = Bulk(duration_ns=min(job.options.duration_ns, _BRIEF_NS)) if brief else None
    records = job.measure(configurations, BASELINE, 1, "a look at fixed buffers", workload=workload)
    return max(THROUGHPUT.values(records), default=0.0)
