"""Round trips and retransmissions over time of what was confirmed, from one simulated trial of each.

The trial is the first one of the confirmation, repeated with its seed and recorded, so it is the same trial.
"""

from collections.abc import Iterator
from typing import Any

from mptune.capture.steps import steps
from mptune.optimisation.main_job import Result
from mptune.optimisation.options import OptimiseOptions
from mptune.runner.planning import plan_run
from mptune.testbeds import Testbed
from mptune.topology import Topology
from mptune.trial import BIN_NS, Bulk, Configuration

#: The table in the run directory.
TABLE = "round_trips.csv"

#: At most this much of a trial is recorded, nanoseconds: each second of eight subflows takes 1600 samples.
_LONGEST_NS = 60_000_000_000

#: Most steps of a series.
_STEPS = 100


def rows_over_time(
    topology: Topology, testbed: Testbed, result: Result, options: OptimiseOptions
) -> Iterator[dict[str, Any]]:
    """Rows of the table: role, subflow, start (s), smoothed RTT (ms: mean and ends), retransmitted segments.

    None of a testbed where the same trial does not give the same observation, and none where further trials
    would cost real time beyond a budget.

    Parameters
    ----------
    topology : before the first round, if there are several.
    """
    if not (testbed.records and testbed.anywhere):
        return
    if testbed.pace is not None and options.budget_ns is not None:
        return
    answered = [round_ for round_ in result.rounds if round_.answered is not None]
    number, at_ns = (answered[-1].number, answered[-1].at_ns) if answered else (0, 0)
    there, labels = topology.later(at_ns), tuple(path.label for path in topology.paths)
    duration_ns = min(options.duration_ns, _LONGEST_NS)
    width_ns = BIN_NS * max(1, -(-duration_ns // (_STEPS * BIN_NS)))
    for role, configuration in _confirmed(result).items():
        planned = plan_run(
            there,
            configuration.under(Bulk(duration_ns=duration_ns)),
            purpose="confirm",
            run=0,
            base_seed=options.seed,
            round_=number,
        )
        observation, run = testbed.record(planned.trial)
        if observation.failed is not None:
            continue
        for step in steps(run, labels, width_ns):
            yield {
                "role": role,
                "subflow": step.subflow,
                "t_s": step.t_s,
                "step_s": width_ns / 1e9,
                "rtt_ms": round(step.rtt_ms, 3),
                "min_rtt_ms": round(step.min_rtt_ms, 3),
                "max_rtt_ms": round(step.max_rtt_ms, 3),
                "retransmitted": step.retransmitted,
            }


def _confirmed(result: Result) -> dict[str, Configuration]:
    """Confirmed configurations by their names in the report."""
    confirmation = result.confirmation
    if confirmation is None:
        return {}
    found = {"recommended": confirmation.recommended, "default": confirmation.default}
    against = confirmation.against_tcp
    if against is not None:
        mptcp_won = against.mptcp == confirmation.recommended
        found["best TCP" if mptcp_won else "best MPTCP"] = against.tcp if mptcp_won else against.mptcp
    return found
