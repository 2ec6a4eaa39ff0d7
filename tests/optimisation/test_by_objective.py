"""The main job for messages: what is chosen, what is measured beside it, and which candidates compete."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mptune.errors import Failure, MptuneError
from mptune.optimisation.by_objective import (
    optimise_by_objective,
)
from mptune.optimisation.objective_candidates import subsets, worth_measuring
from mptune.optimisation.points import Choice, Point
from mptune.result import screen
from mptune.result.documents import converted
from mptune.result.making_by_objective import objective_document
from mptune.runner.runner import TrialRunner
from mptune.topology import CoreSegment, Topology
from mptune.trial import (
    Combination,
    Messages,
    Observation,
    Trial,
)
from mptune.trial.objectives import metric_named
from tests.optimisation.formulas import KIB, MIB, MS, SECOND, Calls, changed, run, testbed

__all__ = ["testbed"]


# ---- what is chosen -------------------------------------------------------------------------------


def test_the_quick_path_alone_wins_where_the_slowest_messages_count(
    network: Topology, testbed: Calls
) -> None:
    """Over it alone 99 of 100 arrive within 20 ms; over all paths a tenth takes 90 ms."""
    result = run(network, testbed)
    one = result.recommended
    assert (one.protocol, one.pm, one.cc, one.active) == ("mptcp", "pcdc", "cubic", ("A-X",))
    assert result.subflows == ("A-X",) and set(one.standby_order) == {"B-X", "C-X"}
    first = result.figures[0]
    assert first.name == "delay p99" and first.ours is not None and first.ours.mean == pytest.approx(20)
    assert first.default is not None and first.default.mean == pytest.approx(90)
    assert first.gain is not None and first.gain.mean == pytest.approx(70) and first.gain.n == 6
    assert result.warnings == ()


def test_of_equal_ones_it_takes_mptcp_and_the_smaller_buffer(network: Topology, testbed: Calls) -> None:
    """Plain TCP on the quick path and every buffer are the same here."""
    result = run(network, testbed)
    tied = [point for point in result.points if point.by_run and point.mean == result.best.mean]
    assert {point.combination.is_tcp for point in tied} == {True, False}
    assert len({point.buffer_bytes for point in tied}) > 1
    assert not result.chosen.combination.is_tcp
    assert result.chosen.buffer_bytes == min(point.buffer_bytes for point in tied)
    assert result.alike >= len(tied)


def test_a_smaller_buffer_is_taken_only_while_the_objective_stays(network: Topology, testbed: Calls) -> None:
    result = run(network, testbed, pms=("fullmesh",), tcp=False)
    assert (result.chosen.combination.pm, result.chosen.buffer_bytes) == ("fullmesh", 256 * KIB)
    # B carried nothing, and would as soon as the others could not.
    assert result.subflows == ("A-X", "B-X", "C-X")


def test_plain_tcp_is_the_answer_where_mptcp_has_no_set_as_good(network: Topology, testbed: Calls) -> None:
    result = run(network, testbed, pms=("fullmesh",))
    assert result.recommended.protocol == "tcp" and result.recommended.initial_path == "A-X"
    assert result.outage is None and result.subflows == ("A-X",)
    assert "use plain TCP on A-X with cubic, no MPTCP" in objective_document(result)["answer"][0]


@pytest.mark.parametrize(("less", "protocol"), [(0.985, "mptcp"), (0.9, "tcp")])
def test_what_surviving_a_failure_is_worth_is_no_reason_for_plain_tcp(
    network: Topology, testbed: Calls, less: float, protocol: str
) -> None:
    """1.5 % of 100 ms is more than anybody notices, and less than an outage costs."""
    testbed.slow_ms = {path: 5 * ms for path, ms in testbed.slow_ms.items()}
    testbed.scatter = lambda trial: less if trial.protocol == "tcp" else 1.0
    assert run(network, testbed).recommended.protocol == protocol


def test_a_difference_that_nobody_notices_is_no_reason_for_a_larger_buffer(
    network: Topology, testbed: Calls
) -> None:
    """0.4 ms of 20 are more than the share of the others, and less than half a millisecond."""
    testbed.scatter = lambda trial: 0.98 if trial.buffer_bytes >= 256 * KIB else 1.0
    assert run(network, testbed).chosen.buffer_bytes == 64 * KIB
    testbed.scatter = lambda trial: 0.9 if trial.buffer_bytes >= 256 * KIB else 1.0
    assert run(network, testbed).chosen.buffer_bytes == 256 * KIB


def test_it_states_by_how_much_another_may_be_better(network: Topology, testbed: Calls) -> None:
    """Without scatter by what nobody notices, with luck of their own by more; single runs have no luck."""
    assert run(network, testbed, strategy="grid").room == pytest.approx(0.5)
    assert 0.5 <= (run(network, testbed).room or 0.0) < 1
    assert run(network, testbed, runs=1).room is None
    testbed.scatter = lambda trial: 1 + random.Random(f"{trial.seed}{trial.cc}{trial.initial_path}").random()
    few, many = (run(network, testbed, runs=runs, strategy="grid") for runs in (3, 30))
    assert few.room is not None and many.room is not None and few.room > many.room > 0.5
    document = objective_document(few)
    assert document["room"] == pytest.approx(few.room)
    shown = " ".join(screen.lines(converted(document, "result.json"), "out", "page"))
    assert "Certainty: with 95 % none of those compared is better by more than " in shown
    learnt = objective_document(run(network, testbed))
    shown = " ".join(screen.lines(converted(learnt, "result.json"), "out", "page"))
    assert re.search(r"with 95 % none of 2\d candidates \(\d+ trials, .*\) is better by more than ", shown)


@pytest.mark.parametrize("truly", [0.0, 3.0, 8.0])
def test_what_others_are_better_by_at_most_is_wrong_in_a_twentieth_of_the_cases(truly: float) -> None:
    """The smallest buffer is taken as long as it is not worse for sure; eleven others are better by this."""
    choice, draw, wrong = Choice(metric_named("delay:p99")), random.Random(1), 0
    for _ in range(400):
        points = [
            Point(
                combination=Combination("fullmesh", "cubic"),
                buffer_bytes=size * KIB,
                by_run={number: draw.gauss(100 + truly * (size == 1), 5) for number in range(10)},
                kept=True,
                excess=0,
                failed=0,
            )
            for size in range(1, 13)
        ]
        _, chosen, _ = choice.choose(points)
        room = choice.room(points, chosen)
        assert room is not None and room < truly + 12
        wrong += room < truly * (chosen == points[0])
    assert wrong <= 0.05 * 400


def test_another_objective_is_another_answer(network: Topology, testbed: Calls) -> None:
    """All paths give the median of the quickest; of messages later than 40 ms they have a tenth."""
    middle = run(network, testbed, objective="delay:p50")
    assert middle.objective == "delay p50" and [figure.name for figure in middle.figures] == [
        *("delay p50", "delay p99", "delay p99.9", "longest gap")
    ]
    late = run(network, testbed, objective="late:40ms")
    assert (late.objective, late.unit) == ("later than 40 ms", "%")
    first = late.figures[0]
    assert first.ours is not None and first.default is not None
    assert (first.ours.mean, first.default.mean) == (0.0, pytest.approx(10.0))
    gap = run(network, testbed, objective="gap").figures[0]
    # From a message that is not delayed to one that is: the interval, and the difference of the paths.
    assert gap.default is not None and gap.default.mean == pytest.approx(100 + 90 - 20)


def test_limits_decide_before_the_objective(network: Topology, testbed: Calls) -> None:
    """The quick path has the best delay, and a gap of 300 ms now and then that another one has not."""
    run_plain = testbed.run

    def pausing(trial: Trial) -> Observation:
        seen = run_plain(trial)
        if isinstance(trial.workload, Messages) and testbed._carrying(trial) == ["A-X"]:
            delays = list(seen.delays_ns)
            delays[77] += 300 * MS
            return msgspec.structs.replace(seen, delays_ns=delays)
        return seen

    testbed.run = pausing  # type: ignore[method-assign]
    free = run(network, testbed)
    assert free.recommended.active == ("A-X",) and free.chosen.kept
    bound = run(network, testbed, at_most_gap_ns=250 * MS)
    assert bound.recommended.active == ("C-X",) and bound.chosen.kept and bound.warnings == ()
    assert bound.limits == ("longest gap of at most 250 ms",)
    assert all(point.excess > 0 for point in bound.points if point.combination.subflows == ("A-X",))


def test_a_least_throughput_is_a_limit_of_a_saturated_sender(network: Topology, testbed: Calls) -> None:
    """With 1 MiB, an eighth of what fills the pipe, the sets have an eighth of 8, 28 and 68 Mbit/s."""
    bound = run(network, testbed, at_least_bps=2_000_000)
    assert bound.limits == ("throughput of at least 2 Mbit/s",) and bound.warnings == ()
    assert bound.recommended.active == ("A-X", "C-X") and bound.chosen.buffer_bytes == MIB
    assert bound.throughput.ours is not None and bound.throughput.ours.mean == pytest.approx(3.5, rel=0.01)
    # What is shown beside the answer has seeds of its own.
    alone = [one for one in bound.records if not one.delays_ms]
    seeds = [{one.seed for one in alone if (one.purpose == "screen") == first} for first in (True, False)]
    assert all(seeds) and not seeds[0] & seeds[1]


def test_a_least_throughput_that_nothing_reaches_gives_the_nearest(network: Topology, testbed: Calls) -> None:
    result = run(network, testbed, at_least_bps=20_000_000)
    assert not result.chosen.kept and result.recommended.pm == "fullmesh"
    assert result.warnings == (
        "No configuration keeps throughput of at least 20 Mbit/s: the nearest is recommended (8.5 Mbit/s).",
    )


def test_two_objectives_have_a_front_whatever_their_order(network: Topology, testbed: Calls) -> None:
    """The workload's own decides; each further path adds throughput, and its own delay."""
    result = run(network, testbed, objective="throughput,delay:p99")
    assert (result.objective, result.second, result.second_unit) == ("delay p99", "throughput", "Mbit/s")
    ends = [(round(one.mean), round(sum(one.second.values()) / len(one.second), 1)) for one in result.front]
    assert ends == [(20, 1.0), (50, 3.5), (90, 8.5)]
    assert result.chosen in result.front and result.chosen.buffer_bytes == MIB
    assert result.recommended.active == ("A-X",)
    other = run(network, testbed, objective="delay:p99,throughput")
    assert other.front == result.front
    document = objective_document(result)["front"]
    assert [one["recommended"] for one in document["points"]] == [True, False, False]
    assert document["points"][0]["second"]["runs"] == 4


def test_two_objectives_of_the_workload_need_no_saturated_sender(network: Topology, testbed: Calls) -> None:
    result = run(network, testbed, objective="delay:p50,late:40ms")
    assert (result.objective, result.second) == ("delay p50", "later than 40 ms")
    assert "later than 40 ms" in [figure.name for figure in result.figures]
    assert all(one.delays_ms for one in result.records if one.purpose in ("screen", "sweep"))
    assert objective_document(run(network, testbed))["front"] is None


def test_where_no_configuration_keeps_a_limit_the_nearest_is_recommended(
    network: Topology, testbed: Calls
) -> None:
    result = run(network, testbed, objective="gap", at_most_delay_ns=10 * MS)
    assert not result.chosen.kept and result.recommended.active == ("A-X",)
    assert result.warnings == (
        "No configuration keeps delay p99 of at most 10 ms: the nearest is recommended (20 ms).",
    )


def test_a_limit_that_fresh_runs_miss_is_called_out(network: Topology, testbed: Calls) -> None:
    swept = {trial.seed for trial in _trials(network, testbed)}
    testbed.scatter = lambda trial: 1.0 if trial.seed in swept else 1.5
    (warning,) = run(network, testbed, at_most_delay_ns=25 * MS).warnings
    assert warning == "The answer misses delay p99 of at most 25 ms in fresh runs: 30 ms."


def _trials(network: Topology, testbed: Calls) -> list[Trial]:
    """Trials before the confirmation."""
    result = run(network, testbed)
    seeds = {record.seed for record in result.records if record.purpose in ("screen", "sweep")}
    return [trial for trial in testbed.trials if trial.seed in seeds]


def test_an_answer_that_is_worse_in_fresh_runs_is_called_out(network: Topology, testbed: Calls) -> None:
    swept = {trial.seed for trial in _trials(network, testbed)}
    slow = {"pcdc": 6.0, "fullmesh": 1.0, "default": 1.0}
    testbed.scatter = lambda trial: 1.0 if trial.seed in swept else slow[trial.pm]
    warnings = run(network, testbed).warnings
    assert warnings == ("The answer is worse than the default in fresh runs; use the default.",)


def test_a_default_that_breaks_a_limit_is_not_advised(network: Topology, testbed: Calls) -> None:
    """All paths have the better median, and a tenth that takes too long."""
    testbed.slow_ms = {"A-X": 20.0, "B-X": 90.0, "C-X": 50.0}
    testbed.scatter = lambda trial: 1.0 if trial.pm == "fullmesh" else 2.0
    free = run(network, testbed, objective="delay:p50", tcp=False)
    assert free.recommended.pm == "fullmesh"
    bound = run(network, testbed, objective="delay:p50", tcp=False, at_most_delay_ns=80 * MS)
    assert bound.recommended.active == ("A-X",) and bound.warnings == ()
    assert bound.figures[0].gain is not None and bound.figures[0].gain.mean == pytest.approx(-20)


# ---- what is measured beside it -------------------------------------------------------------------


def test_it_is_measured_again_with_new_seeds_beside_the_default(network: Topology, testbed: Calls) -> None:
    result = run(network, testbed)
    assert (result.default.pm, result.default.cc, result.default.buffer_bytes) == ("fullmesh", "cubic", MIB)
    seeds = {
        purpose: {record.seed for record in result.records if record.purpose == purpose}
        for purpose in ("screen", "sweep", "confirm")
    }
    assert len(seeds["confirm"]) == 6 and not seeds["confirm"] & (seeds["sweep"] | seeds["screen"])
    # All but what the hosts do today, which is no candidate.
    beside = [trial for trial in testbed.trials if trial.buffer_bytes == 4 * MIB]
    assert len(beside) == 12 and len(result.records) == len(testbed.trials) - len(beside)


def test_the_throughput_of_both_is_that_of_a_saturated_sender(network: Topology, testbed: Calls) -> None:
    """8 Mbit/s on one path, 68 on all; a level of 1/128 and 1/8 of the knee at 8 MiB."""
    result = run(network, testbed)
    ours, theirs = result.throughput.ours, result.throughput.default
    assert ours is not None and theirs is not None and ours.n == theirs.n == 5
    assert ours.mean == pytest.approx(8 / 128, rel=0.01) and theirs.mean == pytest.approx(68 / 8, rel=0.01)


def test_an_outage_cuts_the_path_that_carries_most(network: Topology, testbed: Calls) -> None:
    """The gap: the interval and the delay of the first message after the cut."""
    result = run(network, testbed)
    assert result.outage is not None
    path, gap = result.outage
    assert path == "A-X" and gap.ours is not None and gap.default is not None
    assert gap.ours.mean == pytest.approx(100 + 700) and gap.default.mean == pytest.approx(100 + 200)
    (cut,) = {trial.script for trial in testbed.trials if trial.script}
    assert [(one.at_ns, one.path, one.action) for one in cut] == [(10 * SECOND, "A-X", "down")]


def test_a_connection_that_does_not_survive_the_outage_is_called_out(
    network: Topology, testbed: Calls
) -> None:
    lost = Failure("incomplete", "nobody took over")
    testbed.fails = lambda trial: lost if trial.script and trial.pm == "pcdc" else None
    result = run(network, testbed)
    assert result.outage is not None and result.outage[1].ours is None
    (warning,) = result.warnings
    assert warning.startswith("5 of 10 outage (A-X is cut) trials failed and are left out (first: pcdc/cubic")
    assert objective_document(result)["answer"][-1].startswith(
        "If A-X fails for good, the longest gap is none;"
    )


# ---- failures -------------------------------------------------------------------------------------


def test_a_configuration_that_fails_once_is_no_answer(network: Topology, testbed: Calls) -> None:
    stalled = Failure("stalled", "nothing arrived")
    first = min(record.seed for record in run(network, testbed).records if record.purpose == "sweep")

    def failing(reason: Failure) -> Callable[[Trial], Failure | None]:
        return lambda trial: reason if (trial.buffer_bytes, trial.seed) == (64 * KIB, first) else None

    testbed.fails = failing(stalled)
    result = run(network, testbed)
    assert result.recommended.buffer_bytes == 256 * KIB
    assert any("screening and sweep trials failed" in text for text in result.warnings)
    testbed.fails = failing(Failure("overloaded", "the machine was busy"))
    assert run(network, testbed).recommended.buffer_bytes == 64 * KIB


def test_nothing_that_completes_is_an_error(network: Topology, testbed: Calls) -> None:
    testbed.fails = lambda trial: Failure("incomplete", "the limit came first")
    with pytest.raises(MptuneError, match="no configuration completed a trial"):
        run(network, testbed)


def test_an_answer_whose_fresh_runs_all_fail_has_no_figures(network: Topology, testbed: Calls) -> None:
    swept = {trial.seed for trial in _trials(network, testbed)}
    testbed.fails = lambda trial: None if trial.seed in swept else Failure("stalled", "nothing arrived")
    result = run(network, testbed)
    assert result.figures[0].ours is None and result.figures[0].gain is None
    document = objective_document(result)
    assert document["figures"][0]["recommended"] == {"mean": None, "low": None, "high": None, "runs": 0}
    assert document["answer"][1].startswith("Delay p99: none; ")
    assert any("12 of 12 confirmation trials failed" in text for text in result.warnings)


# ---- the document ---------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_document(network: Topology, fake_testbed: Any) -> None:
    def document(workers: int, **changes: Any) -> str:
        testbed = Calls(fake_testbed)
        testbed.parallel = None
        testbed.scatter = lambda trial: 1 + (trial.seed % 1000) / 5000
        runner = TrialRunner(testbed, workers)
        return json.dumps(objective_document(optimise_by_objective(network, runner, changed(**changes))))

    assert document(1) == document(2) != document(1, seed=2)


def test_the_document_has_settings_and_figures_of_both(network: Topology, testbed: Calls) -> None:
    document = objective_document(run(network, testbed, at_most_gap_ns=SECOND))
    assert document["recommended"] == {
        "protocol": "mptcp",
        "pm": "pcdc",
        "cc": "cubic",
        "buffer_bytes": 64 * KIB,
        "initial_path": None,
        "subflows": ["A-X"],
        "standby": ["B-X", "C-X"],
        "sysctls": {},
    }
    assert document["default"]["pm"] == "fullmesh" and document["limits"] == [
        "longest gap of at most 1000 ms"
    ]
    assert document["workload"]["kind"] == "messages" and document["workload"]["interval_ns"] == 100 * MS
    assert [figure["name"] for figure in document["figures"]] == [
        *("delay p99", "delay p50", "delay p99.9", "longest gap")
    ]
    answer = document["answer"]
    assert answer[0].startswith("toy, messages of 2 kB every 100 ms, for ")
    assert answer[1] == (
        "Delay p99: 20.00 ms (19.50 to 20.50); fullmesh, cubic and 1 MiB: 90.00 ms (89.50 to 90.50). "
        "Better by 70.0 ms (69.5 to 70.5), +77.8 %, 6 new runs."
    )
    assert answer[-1] == (
        "If A-X fails for good, the longest gap is 800.0 ms (799.0 to 801.0); "
        "the default: 300.0 ms (299.0 to 301.0)."
    )


# ---- candidates -----------------------------------------------------------------------------------


def of_paths(network: Topology, *core_ms: int) -> Topology:
    """The network with as many paths, and with these delays between the sites."""
    like, paths, senders = network.paths[0], [], []
    for index, ms in enumerate(core_ms):
        abbr = "ABCDEF"[index]
        local = msgspec.structs.replace(like.local, isp=abbr, abbr=abbr)
        core = CoreSegment(forward_ns=ms * MS, reverse_ns=ms * MS, jitter_ns=0, loss_ppb=0)
        senders.append(local)
        paths.append(
            msgspec.structs.replace(like, label=f"{abbr}-X", local_index=index, local=local, core=core)
        )
    sender = msgspec.structs.replace(network.sender, interfaces=tuple(senders))
    return msgspec.structs.replace(network, sender=sender, paths=tuple(paths), initial_path="A-X")


def test_of_few_paths_every_set_but_all_of_them_competes(network: Topology) -> None:
    assert subsets(of_paths(network, 1, 2)) == [("A-X",), ("B-X",)]
    four = subsets(of_paths(network, 1, 2, 3, 4))
    assert len(four) == len(set(four)) == 2**4 - 2
    assert all(list(one) == sorted(one) for one in four)
    assert subsets(of_paths(network, 1)) == []


def test_of_many_paths_each_alone_and_the_quickest_together(network: Topology) -> None:
    six = subsets(of_paths(network, 6, 1, 5, 2, 4, 3))
    alone = [(f"{abbr}-X",) for abbr in "ABCDEF"]
    assert six[:6] == alone
    assert six[6:] == [
        ("B-X", "D-X"),
        ("B-X", "D-X", "F-X"),
        ("B-X", "D-X", "E-X", "F-X"),
        ("B-X", "C-X", "D-X", "E-X", "F-X"),
    ]


def test_of_buffers_that_hold_all_of_a_standstill_the_smallest_is_measured() -> None:
    """Four times what is sent in 2 s: of 200 B ten times a second 16 KB, and a message."""
    buffers = (8 * KIB, 16 * KIB, 32 * KIB, MIB)
    calls = Messages(bytes=200, interval_ns=100 * MS, duration_ns=SECOND)
    assert worth_measuring(buffers, calls) == [8 * KIB, 16 * KIB, 32 * KIB]
    assert worth_measuring((16 * KIB, 8 * KIB), calls) == [8 * KIB, 16 * KIB]
    assert worth_measuring((MIB, 64 * KIB), calls) == [64 * KIB]
    pictures = Messages(bytes=100 * KIB, interval_ns=100 * MS, duration_ns=SECOND)
    assert worth_measuring(buffers, pictures) == list(buffers)


def test_a_set_without_the_usual_initial_path_begins_on_its_own(network: Topology, testbed: Calls) -> None:
    testbed.slow_ms = {"A-X": 90.0, "B-X": 50.0, "C-X": 20.0}
    result = run(network, testbed)
    assert result.recommended.active == ("C-X",) and result.recommended.initial_path == "C-X"
    begins = {
        trial.pm_options["active"]: trial.initial_path for trial in testbed.trials if trial.pm == "pcdc"
    }
    assert begins[("A-X", "B-X")] is None and begins[("B-X", "C-X")] == "B-X"


def test_an_initial_path_that_was_asked_for_is_the_beginning_of_every_candidate(
    network: Topology, testbed: Calls
) -> None:
    result = run(network, testbed, pms=("fullmesh", "pcdc"), initial_paths=("B-X",), tcp=False)
    assert {point.combination.initial_path for point in result.points} == {"B-X"}
    assert (result.recommended.initial_path, result.default.initial_path) == ("B-X", None)
    every = {"initial_paths": ("C-X", "A-X"), "tcp": False, "ccs": ("cubic",), "strategy": "grid"}
    several = run(network, testbed, **every).points
    begins = {(one.combination.subflows, one.combination.initial_path) for one in several}
    assert {((), "A-X"), ((), "C-X"), (("A-X", "C-X"), "A-X"), (("A-X", "C-X"), "C-X")} <= begins
    assert (("B-X", "C-X"), "C-X") in begins and (("B-X", "C-X"), "A-X") not in begins
    assert (("B-X",), "C-X") in begins


def test_where_no_path_can_be_cut_there_is_no_outage(network: Topology, testbed: Calls) -> None:
    testbed.cuts = False
    result = run(network, testbed)
    assert result.outage is None and not any(trial.script for trial in testbed.trials)
