"""Results of many connections on a kernel, joined as in the simulator."""

import msgspec
import pytest

from mptune.linux.addresses import interfaces
from mptune.linux.kernel_trial import Outcome
from mptune.testbeds import _kernel_plan
from mptune.testbeds._many import added, background_of, judged_result, parts_of
from mptune.topology import TcpBackground
from mptune.trial import Bulk, Messages, Mix, Part, Trial

MS, SECOND = 10**6, 10**9
CALLS = Messages(bytes=200, interval_ns=100 * MS, duration_ns=SECOND)
BULK = Bulk(duration_ns=2 * SECOND)


@pytest.fixture
def trial(network):
    def make(*parts, background=()):
        workload = Mix(parts=tuple(Part(workload=one, connections=count) for count, one in parts))
        shared = msgspec.structs.replace(network, background=background)
        return Trial(
            topology=shared, pm="fullmesh", cc="cubic", buffer_bytes=2**20, seed=3, workload=workload
        )

    return make


def subflow(local, size, **changes):
    counters = dict.fromkeys(("probes", "busy_ns", "rwnd_limited_ns", "sndbuf_limited_ns", "timeouts"), 0)
    known = {"srtt_ns": 20 * MS, "min_rtt_ns": 10 * MS, "rto_ns": 200 * MS, "retransmitted": 1}
    ends = {"local": local, "remote": "10.65.0.1"}
    return {**ends, "bytes": size, "bins": [size], **counters, **known, **changes}


def result(size=1000, **changes):
    found = {
        "duration_ns": SECOND,
        "in_order_bytes": size,
        "bins": [size],
        "completion_ns": None,
        "delays_ns": [],
        "late_ns": None,
        "reinjected_bytes": 0,
        "subflows": [subflow("10.64.0.1", size)],
        "cpu_ns": 10,
        "failed": None,
        "failed_kind": None,
    }
    return {**found, **changes}


def plan(asked, **ccs):
    return _kernel_plan.plan(asked, "cubic", interfaces(asked.topology), ccs)


def test_each_connection_has_its_instructions_and_a_saturated_sender_what_is_left_of_its_time(trial):
    asked = trial((2, BULK), (1, CALLS))
    made = plan(asked)
    starts = [start for of_part in asked.workload.starts_ns(3) for start in of_part]
    assert [one.start_s for one in made.beside] == [start / 1e9 for start in starts[1:]]
    kinds = [made.meter["workload"]["kind"], *(one.meter["workload"]["kind"] for one in made.beside)]
    assert kinds == ["bulk", "bulk", "messages"]
    assert made.beside[0].meter["workload"]["duration_ns"] == BULK.duration_ns - starts[1]
    assert all(one.is_measured and one.initial == made.initial for one in made.beside)
    assert len({one.meter["token"] for one in (made, *made.beside)}) == 3


def test_a_connection_of_others_is_plain_tcp_on_its_path_and_nobody_waits_for_it(trial):
    other = TcpBackground(path="C-X", cc="reno", start_ns=SECOND, stop_ns=3 * SECOND)
    (made,) = plan(trial((1, BULK), background=(other,)), reno="bpf_reno").beside
    assert (made.initial[0], made.start_s, made.is_measured) == ("10.64.2.1", 1.0, False)
    assert (made.meter["mptcp"], made.meter["cc"]) == (False, "bpf_reno")
    assert made.meter["workload"] == {"kind": "bulk", "duration_ns": 2 * SECOND, "ends_early": False}


def test_the_first_workload_is_summed_and_every_connection_kept(trial):
    asked = trial((2, BULK), (1, CALLS))
    second = result(3000, subflows=[subflow("10.64.0.1", 2000, srtt_ns=40 * MS), subflow("10.64.1.1", 1000)])
    calls = result(500, delays_ns=[5 * MS], duration_ns=2 * SECOND)
    outcome = Outcome(result=result(1000), beside=[second, calls])
    joined = judged_result(asked, outcome, 100 * MS)
    assert (joined["in_order_bytes"], joined["cpu_ns"], joined["failed"]) == (4000, 30, None)
    starts = asked.workload.starts_ns(3)[0]
    assert joined["duration_ns"] == SECOND + max(starts)
    first, other = joined["subflows"]
    assert (first["bytes"], first["srtt_ns"], first["retransmitted"]) == (3000, 30 * MS, 2)
    assert other["bytes"] == 1000
    assert [[one.bytes for one in part.connections] for part in parts_of(asked, outcome)] == [
        [1000, 3000],
        [500],
    ]


def test_a_few_of_a_crowd_may_starve_and_others_may_not(trial):
    starved = result(0, failed="no byte arrived", failed_kind="unreachable")
    crowd = Outcome(result=result(), beside=[starved])
    assert judged_result(trial((2, BULK)), crowd, 100 * MS)["failed"] is None
    of_calls = judged_result(trial((1, BULK), (1, CALLS)), crowd, 100 * MS)
    assert of_calls["failed_kind"] == "unreachable"
    assert of_calls["failed"] == "workload 2, connection 1 of 1: no byte arrived"
    alone = judged_result(trial((2, BULK)), Outcome(result=starved, beside=[starved]), 100 * MS)
    assert alone["failed"].startswith("workload 1, connection 1 of 2")
    ended = judged_result(trial((2, BULK)), Outcome(result=result(), beside=[]), 100 * MS)
    assert ended["failed"] == "workload 1, connection 2 of 2: no result"


def test_connections_of_others_are_the_last_and_one_that_never_began_has_nothing(trial):
    flows = tuple(TcpBackground(path=path, cc="reno") for path in ("A-X", "B-X"))
    asked = trial((2, BULK), background=flows)
    outcome = Outcome(result=result(), beside=[result(), result(700), None])
    assert [one.bytes for one in background_of(asked, Outcome())] == [0] * len(flows)  # it never began
    found = background_of(asked, outcome)
    assert [(one.path, one.bytes, one.retransmitted) for one in found] == [("A-X", 700, 1), ("B-X", 0, 0)]


def test_bins_of_a_later_connection_count_from_its_own():
    assert added([(0, [1, 2, 3]), (250, [10, 20]), (100, [])], 100) == [1, 2, 13, 20]
    assert added([], 100) == []
