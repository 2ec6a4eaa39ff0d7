"""Metrics: values of records, their worth, and gains run by run."""

import pytest

from mptune.errors import Failure
from mptune.trial import Bulk, Record, Transfer
from mptune.trial.metrics import COMPLETION, THROUGHPUT, metric_of


def record(throughput_mbps=None, completion_s=None, failed=None):
    return Record(
        purpose="sweep",
        pm="fullmesh",
        cc="reno",
        buffer_bytes=1,
        run=0,
        seed=1,
        withdrawn=None,
        throughput_mbps=throughput_mbps,
        completion_s=completion_s,
        failed=failed,
        subflows=(),
    )


def test_a_workload_is_judged_by_its_own_metric():
    assert metric_of(Bulk(duration_ns=1)) is THROUGHPUT
    assert metric_of(Transfer(bytes=1)) is COMPLETION


def test_a_failed_trial_has_no_value():
    stalled = record(5.0, 2.0, Failure("stalled", "no byte in order"))
    assert THROUGHPUT.of(stalled) is None and COMPLETION.of(stalled) is None
    assert THROUGHPUT.values([record(5.0), stalled, record(7.0)]) == [5.0, 7.0]


@pytest.mark.parametrize(("metric", "better", "worse"), [(THROUGHPUT, 8.0, 2.0), (COMPLETION, 2.0, 8.0)])
def test_more_worth_is_better_and_shares_of_it_are_shares_of_the_value(metric, better, worse):
    assert metric.worth(better) == 4 * metric.worth(worse)


def test_gains_are_positive_where_it_is_better_and_leave_out_runs_without_a_pair():
    faster = [record(9.0, 1.0), record(9.0, 1.5), record(None, None, Failure("died", "killed"))]
    slower = [record(4.0, 3.0), record(None, None, Failure("died", "killed")), record(4.0, 3.0)]
    assert THROUGHPUT.gains(faster, slower) == [5.0]
    assert COMPLETION.gains(faster, slower) == [2.0]
