"""The three rules on a testbed of formulas, and in the simulator where theory has the answer."""

from typing import Any

import msgspec
import pytest

from mptune.errors import MptuneError
from mptune.optimisation.rules import Finding, RulesOptions, measure_rules, shared, verdict
from mptune.options.stacks import StackOptions
from mptune.statistics import Summary, summarise
from mptune.testbeds import create
from mptune.topology import Topology, load
from mptune.trial import BackgroundObservation, Observation, Trial

SECOND = 10**9
OPTIONS = RulesOptions(ccs=("cubic",), runs=2, duration_ns=SECOND)


def with_competitor(testbed: Any, beside_multi: int, beside_single: int) -> None:
    """The testbed lets a competitor deliver so many bytes."""
    plain = testbed.run

    def run(trial: Trial) -> Observation:
        observation: Observation = plain(trial)
        size = beside_single if trial.protocol == "tcp" else beside_multi
        rivals = [
            BackgroundObservation(path=flow.path, duration_ns=SECOND, bytes=size, retransmitted=0)
            for flow in trial.topology.background
            if hasattr(flow, "path")
        ]
        flows = [
            msgspec.structs.replace(flow, bytes=500 if trial.protocol == "mptcp" else 1000)
            for flow in observation.subflows
        ]
        return msgspec.structs.replace(observation, background=rivals, subflows=flows)

    testbed.run = run


def of_rule(findings: tuple[Finding, ...], rule: int) -> list[Finding]:
    return [finding for finding in findings if finding.rule == rule]


def test_each_rule_has_its_ratio(network: Topology, fake_testbed: Any) -> None:
    """MPTCP has 90 of A's 80 Mbit/s, leaves the competitor 600 of 800 bytes, and half the bytes on a path."""
    with_competitor(fake_testbed, 600, 800)
    measured = measure_rules(network, fake_testbed, OPTIONS)
    (first,), (second,), (third,) = (of_rule(measured.findings, rule) for rule in (1, 2, 3))
    assert (first.where, first.verdict) == ("A-X", "kept")
    assert first.ratio.mean == pytest.approx(90 / 80, rel=0.01)
    assert (second.where, second.verdict) == ("R.X", "broken") and second.ratio.mean == pytest.approx(0.75)
    assert (third.where, third.verdict) == ("A-X", "kept") and third.ratio.mean == pytest.approx(0.5)
    assert measured.failed == 0


def test_only_links_of_several_paths_are_shared(network: Topology) -> None:
    assert shared(network) == {"R.X": "A-X"}
    assert set(shared(load("UNIS-HiN"))) == {"UNIS.U", "UNIS.T", "HiN.U", "HiN.P", "HiN.B"}


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        (1, [1.0, 1.02, 0.99], "kept"),
        (1, [0.5, 0.52, 0.49], "broken"),
        (2, [0.5, 1.5, 1.0], "undecided"),
        (3, [0.5, 0.52, 0.49], "kept"),
        (3, [1.0, 1.01, 0.99], "broken"),
        (3, [0.5, 1.5, 1.0], "undecided"),
        (1, [0.96], "kept"),
    ],
)
def test_the_interval_decides(rule: int, values: list[float], expected: str) -> None:
    ratio: Summary = summarise(values)
    assert verdict(rule, ratio) == expected


def test_trials_that_fail_are_counted_and_left_out(network: Topology, fake_testbed: Any) -> None:
    with_competitor(fake_testbed, 600, 800)
    failing = iter([True, *[False] * 100])
    fake_testbed.fails = lambda trial: "silence" if trial.protocol == "mptcp" and next(failing) else None
    measured = measure_rules(network, fake_testbed, OPTIONS)
    assert measured.failed == 1 and of_rule(measured.findings, 1)[0].ratio.n == 1
    fake_testbed.fails = lambda trial: "silence"
    with pytest.raises(MptuneError, match="rule 1, cubic, A-X: no run delivered anything to compare"):
        measure_rules(network, fake_testbed, OPTIONS)


def test_coupling_moves_traffic_off_the_congested_path() -> None:
    """OLIA sends less than Cubic, each in units of its plain TCP, where a competitor congests the path."""
    options = RulesOptions(runs=2, duration_ns=20 * SECOND, stack=StackOptions(stack="v0.9x"))
    measured = measure_rules(load("HOME-CLOUD.droptail"), create("simulated"), options)
    cubic, olia = (finding.ratio.mean for finding in of_rule(measured.findings, 3))
    assert olia < cubic
