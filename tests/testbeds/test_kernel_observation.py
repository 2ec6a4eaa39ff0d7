"""Observations from processes' reports: labels, bins, take-over times, and trials not believed."""

import msgspec
import pytest

from mptune.errors import Failure
from mptune.linux.addresses import interfaces
from mptune.linux.kernel_trial import Outcome
from mptune.testbeds import _kernel_plan
from mptune.testbeds._kernel_observation import observe, processor_shares
from mptune.trial import BIN_NS, Bulk, ScriptedAction, Trial

MS = 1_000_000
SECOND = 1_000_000_000


def plan(trial, kernel_cc):
    return _kernel_plan.plan(trial, kernel_cc, interfaces(trial.topology))


@pytest.fixture
def trial(network):
    return Trial(
        topology=network,
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=2**20,
        workload=Bulk(duration_ns=SECOND),
        seed=1,
    )


def subflow(path, size=1000):
    return {
        "local": f"10.64.{path}.1",
        "remote": "10.65.0.1",
        "bytes": size,
        "bins": [size],
        "srtt_ns": 20 * MS,
        "min_rtt_ns": 10 * MS,
        "retransmitted": 1,
        "timeouts": None,
    }


def outcome(**changes):
    result = {
        "duration_ns": SECOND,
        "in_order_bytes": 3000,
        "bins": [1000, 2000],
        "completion_ns": None,
        "delays_ns": [],
        "late_ns": None,
        "failed": None,
        "failed_kind": None,
        "fallback": False,
        "requested": {"sndbuf": 1, "rcvbuf": 1},
        "effective": {"sender_sndbuf": 2},
        "cc_effective": "cubic",
        "subflows": [subflow(0), subflow(2, 0)],
        "cpu_ns": 50 * MS,
        "strangers": 0,
    }
    report = {
        "elapsed_ns": 2 * SECOND,
        "cpu_ns": 500 * MS,
        "packets": 100,
        "bytes": 150_000,
        "late_p50_ns": 1000,
        "late_p99_ns": 20_000,
        "late_max_ns": 5 * MS,
        "unroutable": 0,
        "overflow": 0,
    }
    measured = Outcome(result=result, report=report)
    for key, value in changes.items():
        for target in (result, report):
            if key in target:
                target[key] = value
        if key in Outcome.__struct_fields__:
            setattr(measured, key, value)
    return measured


def test_strangers_are_noted_where_there_were_any(trial):
    noted = [observe(trial, plan(trial, "cubic"), outcome(strangers=n), 0.5).metadata for n in (0, 3)]
    assert "strangers" not in noted[0] and noted[1]["strangers"] == 3


def test_addresses_become_labels(trial):
    observation = observe(trial, plan(trial, "cubic"), outcome(), 0.5)
    assert [(subflow.path, subflow.active) for subflow in observation.subflows] == [
        ("A-X", True),
        ("C-X", False),
    ]
    assert observation.failed is None and observation.subflows[0].timeouts == 0
    assert observation.metadata["addresses C-X"] == "10.64.2.1 to 10.65.0.1"


def test_processors_are_reported_by_process(trial):
    assert processor_shares(outcome()) == {"emulator": 0.25, "meter": pytest.approx(0.05)}
    metadata = observe(trial, plan(trial, "cubic"), outcome(), 0.512).metadata
    assert metadata["machine_busy_share"] == 0.512 and metadata["emulator_processors"] == 0.25


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"late_p99_ns": 1_000_001}, "1 % of the packets were at least 1.0 ms late"),
        ({"overflow": 3}, "3 packets were lost outside the network model"),
        ({"meter_waited_ns": 60 * MS}, "the meter waited for a processor for 6.0% of the time"),
        ({"late_ns": 2_000_001}, "a message was written 2.0 ms late"),
    ],
)
def test_an_overloaded_trial_is_not_believed(trial, changes, reason):
    observation = observe(trial, plan(trial, "cubic"), outcome(**changes), 0.5)
    assert observation.failed == Failure("overloaded", f"overloaded: {reason}")
    assert observation.metadata["overloaded"] == reason


@pytest.mark.parametrize(
    "changes", [{"late_p99_ns": 1_000_000}, {"meter_waited_ns": 50 * MS}, {"late_ns": 2 * MS}, {}]
)
def test_at_the_line_it_still_is(trial, changes):
    """A machine that is busy otherwise is no reason."""
    observation = observe(trial, plan(trial, "cubic"), outcome(**changes), 1.0)
    assert observation.failed is None and "overloaded" not in observation.metadata


def test_delays_of_messages_are_kept_also_of_a_trial_that_failed(trial):
    some = outcome(delays_ns=[20 * MS, 21 * MS], late_ns=MS // 2, failed=Failure("incomplete", "late"))
    observation = observe(trial, plan(trial, "cubic"), some, 0.5)
    assert observation.failed is not None and observation.delays_ns == [20 * MS, 21 * MS]
    assert observation.metadata["message_late_max_ms"] == 0.5
    others = observe(trial, plan(trial, "cubic"), outcome(), 0.5)
    assert others.delays_ns == [] and "message_late_max_ms" not in others.metadata


def test_other_reasons_come_first(trial):
    overflowed = outcome(overflow=1)
    overflowed.result |= {"failed": "stalled at 0.5 s", "failed_kind": "stalled"}
    observation = observe(trial, plan(trial, "cubic"), overflowed, 0.5)
    assert observation.failed == Failure("stalled", "stalled at 0.5 s")
    assert "overloaded" in observation.metadata


def test_a_trial_without_any_report_is_failed_and_empty(trial):
    killed = Outcome(failed=Failure("died", "meter was killed by signal 9"))
    observation = observe(trial, plan(trial, "cubic"), killed, 0.5)
    assert observation.failed == Failure("died", "meter was killed by signal 9")
    assert (observation.duration_ns, observation.bins, observation.subflows) == (0, [], [])


def test_fine_bins_become_coarse_ones_and_the_take_over_time(trial):
    """Cut at 0.205 s; data until 0.25 s, silence until 0.4 s."""
    bins = [10] * 25 + [0] * 15 + [10] * 5
    cut = msgspec.structs.replace(trial, script=(ScriptedAction(at_ns=205 * MS, path="A-X", action="down"),))
    observation = observe(cut, plan(cut, "cubic"), outcome(bins=bins), 0.5)
    assert BIN_NS == 100 * MS and observation.bins == [100, 100, 50, 0, 50]
    assert observation.metadata["takeover_ms"] == pytest.approx(195)


def test_the_path_managers_changes_are_in_the_trials_time(trial):
    managed = [
        {
            "changes": [{"at_ns": 5 * SECOND + 250 * MS, "path": "B-X", "backup": False}],
            "problems": ["C-X: no listener"],
            "outages": [
                {
                    "path": "A-X",
                    "last_heard_ns": 5 * SECOND,
                    "detected_ns": 5 * SECOND + 200 * MS,
                    "successors": ["B-X"],
                    "carrying_ns": 5 * SECOND + 300 * MS,
                    "restored_ns": None,
                }
            ],
            "sampled": {"looks": 9, "span_ns": 9 * SECOND, "receive_limited_ns": 7, "send_limited_ns": 2},
        }
    ]
    observation = observe(trial, plan(trial, "cubic"), outcome(managed=managed, started_ns=5 * SECOND), 0.5)
    assert observation.metadata["path_manager_changes"] == "250 ms: B-X active"
    assert observation.metadata["path_manager_problems"] == "C-X: no listener"
    assert observation.metadata["outage A-X"] == "lost at 200 ms, B-X after 300 ms"
    assert observation.metadata["window_limited_ns"] == 9 and observation.metadata["sampled_ns"] == 9 * SECOND
