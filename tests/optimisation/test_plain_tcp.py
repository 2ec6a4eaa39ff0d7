"""Plain TCP as a rival of MPTCP and as the answer, and sets of subflows that are measured again."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.campaign.definition import Definition, from_settings
from mptune.decision.confirmation import AgainstTcp
from mptune.impact import ImpactOptions
from mptune.optimisation import plain_tcp
from mptune.optimisation.candidates import again
from mptune.optimisation.main_job import Result, optimise
from mptune.optimisation.options import OptimiseOptions
from mptune.options.stacks import StackOptions
from mptune.report.files import write_page
from mptune.result import wording
from mptune.result.making import result_document, write_result
from mptune.result.reading import read_run
from mptune.runner.runner import TrialRunner
from mptune.store import Campaign, create
from mptune.testbeds import names
from mptune.topology import Topology
from mptune.trial import PLAIN_TCP, Bulk, Combination, Record

SECOND = 1_000_000_000
MIB = 2**20
OPTIONS = OptimiseOptions(
    buffer_mode="fixed",
    pms=("fullmesh", "pcdc"),
    ccs=("cubic", "olia"),
    buffers=tuple(i * MIB for i in range(1, 9)),
    runs=3,
    duration_ns=SECOND,
    impact=ImpactOptions(design="eq5", runs=2, window_ns=SECOND, buffer_bytes=8 * MIB),
    confirm_runs=4,
    resamples=0,
    model="monotone",
    extend=False,
)


def run(network: Topology, testbed: Any, **changes: Any) -> Result:
    return optimise(network, TrialRunner(testbed, 1), msgspec.structs.replace(OPTIONS, **changes))


def against(result: Result) -> AgainstTcp:
    assert result.confirmation is not None and result.confirmation.against_tcp is not None
    return result.confirmation.against_tcp


def tcp_trials(testbed: Any, purpose: str, result: Result) -> list[Any]:
    """Trials of plain TCP with the seeds of a purpose."""
    seeds = {record.seed for record in result.records if record.purpose == purpose}
    return [trial for trial in testbed.trials if trial.protocol == "tcp" and trial.seed in seeds]


def test_by_the_papers_reading_plain_tcp_is_held_to_its_own_promise(
    network: Topology, fake_testbed: Any
) -> None:
    """It was not swept, so no sweep shows what its combination gives at best."""
    fake_testbed.gives, fake_testbed.tcp_gives = {"A-X": 40.0, "B-X": -1.0, "C-X": -10.0}, {"A-X": 80.0}
    result = run(network, fake_testbed, selection="literal", strategy="grid", tcp=True)
    assert result.optimum.pm == PLAIN_TCP


def test_no_path_manager_has_the_name_that_stands_for_plain_tcp() -> None:
    assert PLAIN_TCP not in names("path_managers")


@pytest.mark.parametrize("design", ["eq5", "paired"])
def test_the_family_is_that_of_every_trial_and_of_the_answer(
    network: Topology, fake_testbed: Any, design: str
) -> None:
    impact = msgspec.structs.replace(OPTIONS.impact, design=design)
    options = msgspec.structs.replace(OPTIONS, family="ipv6", impact=impact).completed()
    result = optimise(network, TrialRunner(fake_testbed, 1), options)
    assert {trial.family for trial in fake_testbed.trials} == {"ipv6"}
    assert {trial.protocol for trial in fake_testbed.trials} == {"mptcp", "tcp"}
    assert {record.purpose for record in result.records} == {
        *("impact", "screen", "search", "sweep", "shortlist", "confirm"),
    }
    document = result_document(result)
    assert document["family"] == "ipv6" and " over IPv6: " in document["answer"][0]


def test_plain_tcp_is_the_answer_where_it_is_clearly_faster(network: Topology, fake_testbed: Any) -> None:
    """All rates are the same: that B-X is the path for TCP is known from trials alone."""
    fake_testbed.tcp_gives = {"B-X": 120.0}
    result = run(network, fake_testbed)
    assert result.optimum.combination.is_tcp and result.subflows == ("B-X",)
    recommended = result.confirmation.recommended  # type: ignore[union-attr]
    assert (recommended.protocol, recommended.initial_path) == ("tcp", "B-X")
    confirming = tcp_trials(fake_testbed, "confirm", result)
    assert {(configuration.initial_path, configuration.buffer_bytes) for configuration in confirming} == {
        ("B-X", result.buffer_bytes)
    }
    gain = against(result).gain
    assert gain is not None and gain.high is not None and gain.high < 0
    assert against(result).mptcp.pm == "pcdc" and against(result).mptcp.buffer_bytes == result.buffer_bytes
    sentence, *more = wording.answer(result)
    assert "the shortlist gave" in more[0]
    assert f"use plain TCP on B-X with {result.optimum.cc}, no MPTCP" in sentence
    assert any("The best MPTCP (pcdc on A-X, B-X" in text and "loses: -" in text for text in more)
    assert any("No other path takes over" in text for text in result.warnings)


@pytest.mark.parametrize("strategy", ["grid", "adaptive"])
@pytest.mark.parametrize("lost", ["A-X", "B-X"])
def test_a_path_without_mptcp_is_left_to_plain_tcp(
    network: Topology, fake_testbed: Any, strategy: str, lost: str
) -> None:
    """Also where connections began on it; of what is left the answer is as good as ever."""
    stripped = without_mptcp(network, lost)
    result = run(stripped, fake_testbed, strategy=strategy, model=OptimiseOptions().model)
    mptcp = [trial for trial in fake_testbed.trials if trial.protocol == "mptcp"]
    assert mptcp and all(lost not in [path.label for path in trial.topology.paths] for trial in mptcp)
    assert all(lost not in trial.pm_options.get("active", ()) for trial in mptcp)
    assert all(lost not in trial.pm_options.get("standby_order", ()) for trial in mptcp)
    assert lost in {trial.initial_path for trial in fake_testbed.trials if trial.protocol == "tcp"}
    assert lost not in {path.path for impact in result.impacts for path in impact.paths}
    assert result.warnings[0].startswith(f"{lost} carries no MPTCP, and is left to plain TCP: ")


def test_plain_tcp_may_be_the_answer_on_a_path_without_mptcp(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.tcp_gives = {"B-X": 120.0}
    result = run(without_mptcp(network, "B-X"), fake_testbed)
    assert result.optimum.combination.is_tcp and result.subflows == ("B-X",)


def without_mptcp(network: Topology, label: str) -> Topology:
    """The network with a path of which it is known that MPTCP does not pass there."""
    paths = tuple(
        msgspec.structs.replace(path, core=msgspec.structs.replace(path.core, mptcp="none"))
        if path.label == label
        else path
        for path in network.paths
    )
    initial = next(path.label for path in paths if path.core.mptcp is None)
    return msgspec.structs.replace(network, paths=paths, initial_path=initial)


def test_mptcp_stays_where_tcp_is_not_clearly_faster(network: Topology, fake_testbed: Any) -> None:
    """Half a percent is no reason to lose the other paths."""
    fake_testbed.tcp_gives = {"A-X": 100.5}
    result = run(network, fake_testbed)
    assert not result.optimum.combination.is_tcp and result.subflows == ("A-X", "B-X")
    assert against(result).tcp.initial_path == "A-X"
    assert next(
        finalist.combination for finalist in result.finalists if finalist.combination.is_tcp
    ).subflows == ("A-X",)
    (sentence,) = [text for text in wording.answer(result) if "the best plain TCP" in text]
    assert sentence.startswith("MPTCP loses: -0.")


def test_what_mptcp_gains_is_paired_by_run(network: Topology, fake_testbed: Any) -> None:
    """100 of A-X and B-X beside 80 of A-X, at whatever buffer: a quarter more."""
    fake_testbed.noise = 0.05
    result = run(network, fake_testbed)
    gains = against(result)
    assert gains.gain is not None and gains.with_mptcp is not None and gains.with_tcp is not None
    assert gains.gain.mean == pytest.approx(0.25 * gains.with_tcp.mean, rel=0.01)
    widths = [
        (interval.high or 0) - (interval.low or 0)
        for interval in (gains.gain, gains.with_mptcp, gains.with_tcp)
    ]
    assert widths[0] < 0.5 * min(widths[1:])
    assert any("MPTCP gains +" in text and "A-X, " in text for text in wording.answer(result))
    document = result_document(result)
    assert document["protocol"] == "mptcp" and document["against_tcp"]["tcp"]["path"] == "A-X"
    assert document["against_tcp"]["gain"]["share"] == pytest.approx(0.25, rel=0.01)


def test_without_tcp_it_is_a_yardstick_only(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.tcp_gives = {"B-X": 120.0}
    result = run(network, fake_testbed, tcp=False)
    assert not result.optimum.combination.is_tcp and result.subflows == ("A-X", "B-X")
    assert not any(finalist.combination.is_tcp for finalist in result.finalists)
    assert not tcp_trials(fake_testbed, "shortlist", result)
    assert against(result).tcp.initial_path == "B-X"
    assert any(text.startswith("MPTCP loses: -") for text in wording.answer(result))


def test_every_path_is_screened_and_few_are_compared(network: Topology, fake_testbed: Any) -> None:
    result = run(network, fake_testbed, duration_ns=30 * SECOND)
    screened = tcp_trials(fake_testbed, "screen", result)
    assert {trial.initial_path for trial in screened} == {path.label for path in network.paths}
    assert {trial.workload for trial in screened} == {Bulk(duration_ns=10 * SECOND)}
    compared = {
        (tcp_trial.initial_path, tcp_trial.cc) for tcp_trial in tcp_trials(fake_testbed, "shortlist", result)
    }
    assert 1 <= len(compared) <= 2 and all(path == "A-X" for path, _ in compared)
    assert all(trial.topology is network for trial in screened)


def test_coupled_congestion_controls_are_what_they_are_for_one_flow(network: Topology) -> None:
    configurations = plain_tcp.everywhere(network, ("olia", "cubic"))
    assert {configuration.cc for configuration in configurations} == {"reno", "cubic"} and len(
        configurations
    ) == 2 * 3
    assert len(plain_tcp.everywhere(network, ("lia", "balia", "reno"))) == 3
    assert not plain_tcp.fastest({configuration: [0.0, 0.0] for configuration in configurations})


def test_where_no_tcp_arrives_there_is_no_yardstick(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.fails = lambda trial: "cut" if trial.protocol == "tcp" else None
    result = run(network, fake_testbed)
    assert result.confirmation is not None and result.confirmation.against_tcp is None
    assert result_document(result)["against_tcp"] is None
    (warning_text,) = (warning for warning in result.warnings if "plain TCP" in warning)
    assert warning_text.startswith("There is no comparison with plain TCP: all ") and warning_text.endswith(
        "cut)."
    )


def test_without_a_shortlist_there_is_no_plain_tcp(network: Topology, fake_testbed: Any) -> None:
    result = run(network, fake_testbed, off_by=0.0)
    assert all(trial.protocol == "mptcp" for trial in fake_testbed.trials)
    assert result.confirmation is not None and result.confirmation.against_tcp is None


def test_a_campaign_of_0_1_resumes_without_measuring_anything_again(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    """Its settings know no shortlist and no plain TCP; its trials keep their keys."""
    built = Definition(name="toy", topology=network, testbed="simulated", options=OPTIONS).settings()
    for name in ("sets", "off_by", "tcp", "extend", "stack"):
        del built["options"][name]
    options = from_settings(built).options
    assert isinstance(options, OptimiseOptions) and not options.tcp and not options.off_by
    with create(tmp_path / "store.sqlite", Campaign(name="toy", settings=built, environment={})) as store:
        first = optimise(network, TrialRunner(fake_testbed, 1, store), options)
        measured = len(fake_testbed.trials)
        again_ = optimise(network, TrialRunner(fake_testbed, 1, store), options)
    assert len(fake_testbed.trials) == measured
    assert all(trial.protocol == "mptcp" for trial in fake_testbed.trials)
    assert msgspec.json.encode(result_document(first)) == msgspec.json.encode(result_document(again_))


def test_an_answer_of_plain_tcp_resumes_from_its_store(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    fake_testbed.tcp_gives = {"B-X": 120.0}
    with create(tmp_path / "store.sqlite", Campaign(name="toy", settings={}, environment={})) as store:
        first = optimise(network, TrialRunner(fake_testbed, 1, store), OPTIONS)
        measured = len(fake_testbed.trials)
        second = optimise(network, TrialRunner(fake_testbed, 1, store), OPTIONS)
    assert len(fake_testbed.trials) == measured
    assert result_document(first) == result_document(second)
    assert result_document(first)["opm"] == "tcp"


def test_the_documents_and_the_report_of_plain_tcp(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    fake_testbed.tcp_gives = {"B-X": 120.0}
    write_result(tmp_path, run(network, fake_testbed), {}, datetime.now(UTC))
    read = read_run(tmp_path, "toy")
    assert read.answer is not None and read.answer.manager == "plain TCP on B-X"
    ones = {name: manager for name, manager, *_ in read.answer.confirmed_ones()}
    assert ones == {
        "recommended": "plain TCP on B-X",
        "default": "fullmesh",
        "best MPTCP": "pcdc on A-X, B-X",
    }
    write_page(read, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "no MPTCP" in page and "best MPTCP" in page
    assert ",tcp," in (tmp_path / "observations.csv").read_text()
    assert "tcp,cubic,B-X" in (tmp_path / "pareto.csv").read_text()


def test_plain_tcp_belongs_to_the_stack_that_was_asked_for(network: Topology, fake_testbed: Any) -> None:
    """Its packets have no DSS option, which makes it no other stack."""
    from mptune.trial.records import stack_of

    result = run(network, fake_testbed, stack=StackOptions(stack="v0.9x"))
    tcp = [record for record in result.records if record.settings.get("protocol") == "tcp"]
    assert tcp and {stack_of(record.settings) for record in result.records} == {"v0.9x"}
    assert {trial.mss for trial in fake_testbed.trials if trial.protocol == "tcp"} == {1448}
    assert {configuration.manager for configuration in tcp} == {
        f"plain TCP on {path.label}" for path in network.paths
    }


def trials(combination: Combination, rates: Sequence[float], buffers: Sequence[int]) -> list[Any]:
    """A screening with one run of a combination for each buffer."""
    return [
        (
            combination,
            Record(
                purpose="screen",
                pm=combination.pm,
                cc=combination.cc,
                buffer_bytes=size * MIB,
                run=0,
                seed=0,
                withdrawn=None,
                throughput_mbps=rate,
                failed=None,
                subflows=(),
            ),
        )
        for rate, size in zip(rates, buffers, strict=True)
    ]


def test_sets_that_came_near_are_measured_again(network: Topology) -> None:
    """At the screened buffer nearest to the favourite's, and with its congestion control."""
    own, mesh, a, b = (
        Combination("pcdc", "reno"),
        Combination("fullmesh", "reno"),
        Combination("pcdc", "reno", ("A-X",)),
        Combination("pcdc", "reno", ("B-X",)),
    )
    other = Combination("pcdc", "cubic", ("A-X",))
    rates = {own: (90.0, 10.0), mesh: (95.0, 10.0), a: (100.0, 10.0), b: (50.0, 200.0), other: (300.0, 300.0)}
    screening = [trial for each, values in rates.items() for trial in trials(each, values, (2, 8))]
    sets = {"reno": ("A-X", "B-X")}
    assert again(screening, [a], 3 * MIB, network, sets) == [mesh, own]
    assert again(screening, [a, mesh], 3 * MIB, network, sets) == [own]
    assert again(screening, [a], 7 * MIB, network, sets) == [b]
    whole = {"reno": tuple(path.label for path in network.paths)}
    assert again(screening, [a], 3 * MIB, network, whole) == [mesh]
    assert again(screening, [mesh], 3 * MIB, network, sets) == []
    assert again([], [a], 3 * MIB, network, sets) == []


def test_the_favourites_sets_are_compared_with_fresh_seeds(
    network: Topology, fake_testbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B and C hardly matter, so all sets with A are near, whatever the congestion control."""
    fake_testbed.gives = {"A-X": 100.0, "B-X": 3.0, "C-X": -1.0}
    ccs = ("olia", "reno", "vegas", "scalable")
    result = run(network, fake_testbed, ccs=ccs)
    monkeypatch.setattr("mptune.optimisation.shortlist.again", lambda *_: [])
    before = {finalist.combination for finalist in run(network, fake_testbed, ccs=ccs).finalists}
    added = {finalist.combination for finalist in result.finalists} - before
    assert added and {configuration.cc for configuration in added} == {result.finalists[0].combination.cc}
    assert all(
        configuration.pm == "fullmesh" or "A-X" in (configuration.subflows or ("A-X",))
        for configuration in added
    )
    seeds = {record.seed for record in result.records if record.purpose == "shortlist"}
    assert not seeds & {record.seed for record in result.records if record.purpose in ("screen", "sweep")}
