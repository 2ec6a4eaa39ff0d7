"""Experiments become trials, within the budget; built causes are named in the simulator."""

import pytest

from benchmarks.decision._built_causes import cases
from mptune.diagnosis.evidence import figures_of
from mptune.diagnosis.measuring import Own, ask, facts_of, subset
from mptune.diagnosis.options import WhyOptions
from mptune.errors import Failure, InputError
from mptune.testbeds import create
from mptune.topology import load
from mptune.trial import Observation

CASES = {case.name: case for case in cases(1)}
SEVERAL = (
    *("00 buffer", "04 receive window", "07 head-of-line", "12 shared bottleneck", "16 loss", "20 policing"),
    *("23 subflows", "27 stripped", "44 loss and policing", "50 sound"),
)


@pytest.mark.parametrize("name", SEVERAL)
def test_what_is_built_is_named(name: str) -> None:
    case = CASES[name]
    (direction,) = ask(case.topology, create("simulated"), case.options, directions=1).directions
    found = direction.diagnosis
    assert {finding.kind for finding in found.findings} == case.truth
    assert found.is_healthy == (not case.truth)


def test_a_connection_that_stalls_is_a_result() -> None:
    (case,) = (case for case in cases(5) if case.name == "30 buffer and loss")
    (direction,) = ask(case.topology, create("simulated"), case.options, directions=1).directions
    together = direction.diagnosis.together
    assert together.stalled.startswith("stalled") and not together.failed
    (buffer,) = (one for one in direction.diagnosis.findings if one.kind == "buffer")
    assert "stalls" in buffer.because


@pytest.mark.parametrize(("testbed", "is_result"), [("hosts", True), ("namespaces", False)])
def test_busy_processors_are_a_result_between_hosts_alone(testbed: str, is_result: bool) -> None:
    observation = Observation(
        testbed=testbed,
        duration_ns=10**9,
        in_order_bytes=10**6,
        bins=[10**5] * 10,
        subflows=[],
        failed=Failure("overloaded", "the processors of A were busy for 99% of the time"),
        metadata={"sender_busy_share": 0.99},
    )
    figures = figures_of(observation, 1448)
    assert (figures.failed == "") == is_result and bool(figures.busy) == is_result
    assert figures.mbps == pytest.approx(8)


def test_both_directions_stay_within_the_budget() -> None:
    topology = load("UNIS-HiN")
    found = ask(topology, create("simulated"), WhyOptions(budget_ns=60_000_000_000))
    assert [(one.sender, one.receiver) for one in found.directions] == [("UNIS", "HiN"), ("HiN", "UNIS")]
    assert found.seconds <= 62 and found.directions[1].left_out


def test_subflows_that_hosts_do_not_open_are_missed_with_the_lines_that_open_them() -> None:
    case = CASES["51 sound"]
    labels = [path.label for path in case.topology.paths]

    def missed(*own: str) -> list[tuple[str, ...]]:
        found = ask(case.topology, create("simulated"), case.options, own=Own(subflows=own, lines="ip mptcp"))
        for direction in found.directions:
            for cause in direction.diagnosis.findings:
                assert cause.kind == "subflows" and cause.remedy == "ip mptcp"
                assert "under the hosts' own path managers" in cause.because
        return [
            tuple(sorted(label for cause in direction.diagnosis.findings for label in cause.paths))
            for direction in found.directions
        ]

    there, back = missed(labels[0])
    assert there == tuple(labels[1:])
    assert back == tuple("-".join(reversed(label.split("-"))) for label in labels[1:])
    assert missed(*labels) == [(), ()]


def test_the_data_stay_within_what_is_allowed() -> None:
    case = CASES["00 buffer"]
    free = ask(case.topology, create("simulated"), case.options, directions=1)
    limit = free.bytes // 2
    options = WhyOptions(max_data=limit, buffer_bytes=case.options.buffer_bytes)
    bound = ask(case.topology, create("simulated"), options, directions=1)
    assert bound.bytes <= 1.1 * limit and bound.directions[0].left_out


def test_the_same_seed_gives_the_same_answer() -> None:
    case = CASES["16 loss"]
    assert ask(case.topology, create("simulated"), case.options) == ask(
        case.topology, create("simulated"), case.options
    )


def test_a_subset_has_its_own_initial_path_and_no_traffic_of_other_paths() -> None:
    topology = load("CLOUD-HOME.hybrid")
    left = subset(topology, (topology.paths[1].label,))
    assert [path.label for path in left.paths] == [left.initial_path] == [topology.paths[1].label]
    assert subset(topology, tuple(path.label for path in topology.paths)) is topology


def test_a_token_bucket_is_not_the_rate_of_the_line() -> None:
    case = CASES["20 policing"]
    (facts, _) = facts_of(case.topology)
    assert facts.rate_mbps is not None and case.topology.paths[0].rate_bps < 0.6e6 * facts.rate_mbps


def test_a_link_is_wide_where_it_passes_the_sum_of_its_paths() -> None:
    (first, second) = facts_of(load("CLOUD-HOME.hybrid"))
    assert first.over == second.over == first.wide == second.wide != ()
    narrow = next(case for name, case in CASES.items() if "shared bottleneck" in name)
    assert all(set(path.over) - set(path.wide) for path in facts_of(narrow.topology))


def test_an_option_of_another_path_manager_is_refused() -> None:
    given = next(case.options for case in CASES.values() if case.options.pm == "pcdc")
    options = WhyOptions(pm="fullmesh", pm_options=given.pm_options)
    with pytest.raises(InputError, match="--active"):
        ask(load("UiT-HAW"), create("simulated"), options)
