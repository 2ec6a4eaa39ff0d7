"""Configurations beside an answer: their seeds, and that the search knows nothing of them."""

from typing import Any

import msgspec
import pytest

from mptune import topology
from mptune.optimisation.baselines import Baselines, Measured, by_endpoints, verdict
from mptune.optimisation.main_job import optimise
from mptune.optimisation.options import OptimiseOptions
from mptune.result.answer import Answer
from mptune.result.making import result_document
from mptune.runner.runner import TrialRunner
from mptune.statistics import summarise
from mptune.testbeds._today import of_release, read_from
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.trial import Bulk, Configuration, Trial

SECOND = 1_000_000_000
MIB = 2**20
HYBRID = "scenarios/CLOUD-HOME.hybrid.toml"
OPTIONS = OptimiseOptions(
    pms=("fullmesh",),
    ccs=("cubic",),
    buffers=(MIB, 2 * MIB, 4 * MIB),
    buffer_mode="fixed",
    runs=2,
    duration_ns=2 * SECOND,
    confirm_runs=3,
    strategy="grid",
    off_by=0.0,
    extend=False,
    confirm_on="none",
)


class Noting(SimulatedTestbed):
    """The simulator, which notes its trials."""

    def __init__(self) -> None:
        super().__init__()
        self.trials: list[Trial] = []

    def run(self, trial: Trial) -> Any:
        self.trials.append(trial)
        return super().run(trial)


def test_now_is_one_subflow_and_by_hand_one_for_each_address() -> None:
    home, testbed = topology.load(HYBRID), Noting()
    result = optimise(home, TrialRunner(testbed), OPTIONS)
    assert result.baselines is not None
    now, by_hand = result.baselines.now, result.baselines.by_hand
    assert now is not None and by_hand is not None
    assert (now.configuration.pm, now.subflows) == ("default", (home.initial_path,))
    assert (by_hand.configuration.pm, by_hand.subflows) == ("fullmesh", ("T-D", "T-M"))
    for one in (now.configuration, by_hand.configuration):
        assert (one.buffer_mode, one.cc, one.buffer_bytes, one.receive_buffer_bytes) == (
            "auto",
            "cubic",
            4 * MIB,
            32 * MIB,
        )
    assert now.value is not None and by_hand.value is not None and now.gain is not None
    assert now.value.mean < by_hand.value.mean and now.value.n == OPTIONS.fresh_runs
    assert now.queueing is not None and by_hand.queueing is not None
    beside = [trial.seed for trial in testbed.trials if trial.buffer_mode == "auto"]
    ours = [record.seed for record in result.records if record.purpose == "confirm"]
    assert set(beside) == set(ours) and len(beside) == 2 * OPTIONS.fresh_runs
    assert not any(record.settings.get("buffer_mode") == "auto" for record in result.records)


@pytest.mark.parametrize(
    ("gains", "says"),
    [
        ([-4.1, -3.9, -4.0], "give 13.66 Mbit/s: take those"),
        ([-4.0], "gave 13.66 Mbit/s: one run is too few to judge, ask again"),
        ([-0.1], ""),
        ([-5.0, 3.0, -4.0], ""),
    ],
)
def test_endpoints_that_gave_more_are_named_after_a_single_run_too(gains, says) -> None:
    by_hand = Measured(
        configuration=Configuration(
            pm="fullmesh", cc="bbr", buffer_bytes=4 * MIB, workload=Bulk(duration_ns=SECOND)
        ),
        subflows=("T-D", "T-M"),
        value=summarise([13.66] * len(gains)),
        queueing=None,
        gain=summarise(gains),
    )
    sentences = verdict(Baselines(by_hand=by_hand), None, 0.07)
    assert says in "".join(sentences) and len(sentences) == bool(says)


def test_endpoints_of_the_side_with_more_addresses_reach_one_address_of_the_other() -> None:
    """Three of the six pairs of addresses: those of the site with three, each to where connections begin."""
    assert by_endpoints(topology.load("scenarios/UNIS-HiN.toml")) == ("U-U", "U-P", "U-B")


def test_a_document_without_baselines_is_read() -> None:
    result = optimise(topology.load(HYBRID), TrialRunner(SimulatedTestbed()), OPTIONS)
    document = result_document(result)
    new = msgspec.convert(document, Answer)
    assert [name for name, _, _ in new.shown()] == [
        "now",
        "by hand",
        "papers' default",
        "recommended",
    ]
    del document["baselines"]
    old = msgspec.convert(document, Answer)
    assert [name for name, _, _ in old.shown()] == ["papers' default", "recommended"]


def test_defaults_follow_the_release() -> None:
    """Kernels receive up to 32 MiB since Linux 6.16, before it was 6 MiB (net/ipv4/tcp.c)."""
    assert of_release("7.3").receive_bytes == of_release("6.16.1-1-amd64").receive_bytes == 32 * MIB
    assert of_release("6.12").receive_bytes == of_release("").receive_bytes == 6 * MIB
    assert {of_release(name).send_bytes for name in ("5.19", "6.12", "7.3")} == {4 * MIB}


def test_a_machine_is_read_as_it_is() -> None:
    sender = {"net.ipv4.tcp_wmem": "4096 16384 8388608", "net.ipv4.tcp_congestion_control": "bbr"}
    found = read_from(sender, {"net.ipv4.tcp_rmem": "4096\t131072\t16777216"}, "these")
    assert (found.cc, found.send_bytes, found.receive_bytes) == ("bbr", 8 * MIB, 16 * MIB)
    assert read_from({}, {}, "these").cc == "cubic"
    # The host with less memory for TCP decides, a quarter of whose second value a fixed buffer may have.
    sender, receiver = ({"net.ipv4.tcp_mem": f"1 {pages} 3"} for pages in (65536, 32768))
    assert read_from(sender, receiver, "these").fixed_bytes == 32 * MIB
    assert read_from({}, {}, "these").fixed_bytes == of_release("7.3").fixed_bytes == 128 * MIB
