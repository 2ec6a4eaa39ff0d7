"""Losses of another connection, from formulas: of which paths, against what, and when they are harm."""

from dataclasses import replace

import pytest

from mptune.optimisation.harm import Losses, beside, measure, rivals
from mptune.optimisation.job import Job
from mptune.optimisation.options import OptimiseOptions
from mptune.options.workloads import WORKLOAD
from mptune.runner.runner import TrialRunner
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.topology import TcpBackground, load
from mptune.trial import Combination


def test_rivals_are_on_the_fastest_path_over_a_shared_link():
    """T is the only interface of the cloud: both paths share it, and D is the faster one."""
    assert rivals(load("CLOUD-HOME.hybrid")) == ("T-D",)


def test_the_rival_is_the_last_of_the_others_and_never_stops():
    network = load("CLOUD-HOME.hybrid")
    *before, rival = beside(network, "T-M").background
    assert tuple(before) == network.background
    assert rival == TcpBackground(path="T-M", cc="cubic")


@pytest.mark.parametrize(
    ("losses", "harm"),
    [
        ([20.0, 22.0, 18.0, 20.0], 20.0),
        ([20.0, -20.0, 60.0, -10.0], 0.0),
        ([4.0, 4.1, 3.9, 4.0], 0.0),
        ([-30.0, -31.0], 0.0),
        ([50.0], 50.0),
        ([], 0.0),
    ],
)
def test_harm_is_a_loss_above_five_percent_for_sure(losses, harm):
    assert Losses(path="A-X", by_configuration=(dict(enumerate(losses)),)).harms(0) == pytest.approx(harm)


@pytest.mark.parametrize("word", ["bulk", "mix:bulk"])
def test_what_others_lose_beside_a_saturated_sender_is_known(word):
    options = OptimiseOptions(
        workload=WORKLOAD.parse(word),
        objective="throughput",
        buffers=(2**20,),
        duration_ns=3 * 10**9,
        do_no_harm=True,
    ).completed()
    job = Job.on(load("CLOUD-HOME.hybrid"), TrialRunner(SimulatedTestbed(), 1), options)
    job = replace(job, sent=options.sent)
    ours = job.configuration(Combination("fullmesh", "cubic"), 2**20)
    (losses,), _ = measure(job, [ours], 2, "harm")
    assert losses.summary(0) is not None
