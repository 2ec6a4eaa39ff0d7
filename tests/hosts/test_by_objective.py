"""Answers for messages, requests and a mix between two machines: the main job to its end, without outages."""

import pytest

from mptune.errors import MptuneError
from mptune.optimisation.by_objective import optimise_by_objective
from mptune.optimisation.options import OptimiseOptions
from mptune.runner.runner import TrialRunner
from mptune.testbeds.hosts import HostsTestbed
from mptune.trial import Asking, Pattern, Several
from tests.hosts.world import World
from tests.plugins.reruns import spoiled

MS, SECOND = 10**6, 10**9
KIB = 2**10


@pytest.mark.measures("delays of messages")
@pytest.mark.parametrize(
    ("workload", "objective"),
    [
        (Pattern(bytes=200, interval_ns=50 * MS), "delay p99"),
        (Asking(request_bytes=400, response_bytes=16 * KIB), "response mean"),
        (Several.read("mix:", "2*requests:400B/16KiB+transfer:100KiB"), "response mean"),
    ],
)
def test_an_answer_by_an_objective(world: World, topology, workload, objective):
    options = OptimiseOptions(
        pms=("fullmesh",),
        ccs=("cubic",),
        buffers=(256 * KIB,),
        workload=workload,
        tcp=False,
        duration_ns=SECOND,
        runs=2,
        confirm_runs=2,
    ).completed()
    with world.unchanged():
        testbed = HostsTestbed()
        try:
            result = optimise_by_objective(topology, TrialRunner(testbed, 1), options)
        except MptuneError as error:
            if "no configuration completed" not in str(error):
                raise
            spoiled(str(error))
        finally:
            testbed.close()
    first = result.figures[0]
    assert (first.name, first.unit, result.outage) == (objective, "ms", None)
    assert first.ours is not None and first.ours.mean > 5  # half an RTT of the quicker path, at least
    assert result.throughput.ours is not None and result.throughput.ours.mean > 1
