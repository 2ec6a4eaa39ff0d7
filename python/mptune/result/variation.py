"""Lower bound of an answer in a network that varies: a mean hides the bad minutes.

Each fresh run has a seed of its own, and with it another course of links that are drawn, or another moment of
recordings. What is the same in every run is no variation; a campaign over the hours repeats its rounds.
"""

from collections.abc import Iterator

from mptune.optimisation.main_job import Result
from mptune.result.values import NearlyAlways
from mptune.statistics import quantile
from mptune.trial.records import setting

#: Fewest fresh runs for which "in 95 % of the runs" is reported: one of twenty may give less.
LEAST_RUNS = 20


def nearly_always(result: Result) -> Iterator[NearlyAlways]:
    """Throughput that 95 % of the fresh runs reached, if the network varies and there are enough of them."""
    confirmation, topology = result.confirmation, result.topology
    if confirmation is None or topology is None or not topology.varies or confirmation.runs < LEAST_RUNS:
        return
    runs, records = confirmation.runs, confirmation.records
    ours, default = (
        quantile(sorted(record.throughput_mbps or 0.0 for record in each), 0.05)
        for each in (records[:runs], records[runs : 2 * runs])
    )
    lasting_s = int(str(setting(records[0], "duration_ns"))) / 1e9
    yield NearlyAlways(runs=runs, each_s=lasting_s, recommended=ours, default=default)
