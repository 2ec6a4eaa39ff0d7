"""The whole job on a testbed of formulas, where the right answer is known."""

import math
from typing import Any

import msgspec
import pytest

from mptune import theory
from mptune.decision.confirmation import Confirmation
from mptune.decision.model_error import ModelError
from mptune.decision.uncertainty import gap
from mptune.errors import InputError, MptuneError
from mptune.impact import ImpactOptions
from mptune.optimisation.main_job import Result, optimise
from mptune.optimisation.options import OptimiseOptions
from mptune.options.path_managers import PathManagerOptions
from mptune.result import wording
from mptune.result.making import result_document
from mptune.runner.runner import TrialRunner
from mptune.topology import Topology
from mptune.trial import Trial

SECOND = 1_000_000_000
MIB = 2**20
OPTIONS = OptimiseOptions(
    buffer_mode="fixed",
    pms=("fullmesh", "pcdc"),
    ccs=("cubic", "reno"),
    buffers=tuple(i * MIB for i in range(1, 9)),
    runs=3,
    duration_ns=SECOND,
    impact=ImpactOptions(design="eq5", runs=2, window_ns=SECOND, buffer_bytes=8 * MIB),
    confirm_runs=4,
    # As in the papers; the tests of what goes beyond them set it.
    strategy="grid",
    selection="global",
    sets="signs",
    off_by=0.0,
    extend=False,
)


def confirmed_of(result: Result) -> Confirmation:
    """The confirmation, which is there whenever something was measured."""
    assert result.confirmation is not None
    return result.confirmation


def pm_options(**options: Any) -> Any:
    return msgspec.convert(options, PathManagerOptions)


def changed(**changes: Any) -> OptimiseOptions:
    return msgspec.structs.replace(OPTIONS, **changes)


def test_the_answer_of_a_network_with_a_harmful_subflow(network: Topology, fake_testbed: Any) -> None:
    """C drags 10 of 100 Mbit/s down, so PCDC leaves it out; up to 8 MiB the throughput rises linearly.

    So 93 % of the maximum needs 93 % of 8 MiB.
    """
    result = optimise(network, TrialRunner(fake_testbed), OPTIONS)
    assert result.optimum.pm == "pcdc"
    assert result.subflows == ("A-X", "B-X")
    assert confirmed_of(result).recommended.standby_order == ("C-X",)
    assert result.optimum.buffer_mib == pytest.approx(0.93 * 8, rel=0.02)
    assert result.optimum.throughput_mbps == pytest.approx(93, rel=0.03)
    confirmed, baseline, gain = (getattr(result.confirmation, n) for n in ("confirmed", "baseline", "gain"))
    assert confirmed.mean == pytest.approx(93, rel=0.03) and baseline.mean == pytest.approx(90, rel=0.03)
    assert gain.mean == pytest.approx(confirmed.mean - baseline.mean)


def test_the_paired_design_leads_to_the_same_answer(network: Topology, fake_testbed: Any) -> None:
    impact = ImpactOptions(runs=8, window_ns=SECOND)
    result = optimise(network, TrialRunner(fake_testbed), changed(impact=impact))
    assert result.optimum.pm == "pcdc" and result.subflows == ("A-X", "B-X")
    assert [impact.plausible for impact in result.impacts] == [True, True]
    assert len([record for record in result.records if record.purpose == "impact"]) < 2 * 3 * 8


def test_pairing_by_seed_makes_the_gain_sharper_than_its_parts(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.noise = 0.05
    confirmation = optimise(network, TrialRunner(fake_testbed), OPTIONS).confirmation
    widths = {
        name: getattr(confirmation, name).high - getattr(confirmation, name).low
        for name in ("confirmed", "baseline", "gain")
    }
    assert widths["gain"] < 0.2 * min(widths["confirmed"], widths["baseline"])


def test_what_is_measured_in_which_step(network: Topology, fake_testbed: Any) -> None:
    result = optimise(network, TrialRunner(fake_testbed, 1), OPTIONS)
    purposes = [record.purpose for record in result.records]
    counts = {"impact": 2 * 3 * 2, "sweep": 2 * 2 * 8 * 3, "confirm": 2 * 4}
    assert {purpose: purposes.count(purpose) for purpose in counts} == counts
    # Today's settings and endpoints by hand are measured, and are no observations of the search.
    of_search = [trial for trial in fake_testbed.trials if trial.buffer_mode == "fixed"]
    assert len(of_search) == len(result.records) == len(fake_testbed.trials) - 2 * 4
    default = of_search[-1]
    assert (default.pm, default.cc, default.buffer_bytes, default.pm_options) == (
        "fullmesh",
        "cubic",
        8 * MIB,
        {},
    )
    seeds = {
        purpose: {record.seed for record in result.records if record.purpose == purpose} for purpose in counts
    }
    assert not (seeds["sweep"] & seeds["confirm"] or seeds["sweep"] & seeds["impact"])


def test_pcdc_trials_carry_the_sets_of_their_congestion_control(network: Topology, fake_testbed: Any) -> None:
    optimise(network, TrialRunner(fake_testbed), OPTIONS)
    pcdc = [trial for trial in fake_testbed.trials if trial.pm == "pcdc"]
    assert pcdc and all(trial.pm_options["active"] == ("A-X", "B-X") for trial in pcdc)
    assert all(trial.pm_options["standby_order"] == ("C-X",) for trial in pcdc)


def test_the_confirmed_buffer_is_whole_kib_and_no_smaller_than_obs(
    network: Topology, fake_testbed: Any
) -> None:
    result = optimise(network, TrialRunner(fake_testbed), OPTIONS)
    assert result.buffer_bytes == confirmed_of(result).recommended.buffer_bytes
    size, obs = result.buffer_bytes, result.optimum.buffer_mib * MIB
    assert size % 1024 == 0 and obs <= size + 0.01 and size < obs + 1024


def test_same_seed_same_result_and_another_seed_another(network: Topology, fake_testbed: Any) -> None:
    def run(seed: int) -> tuple[bytes, Any]:
        result = optimise(network, TrialRunner(fake_testbed, 3), changed(seed=seed))
        return msgspec.json.encode(result_document(result)), result.records

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_options_of_path_managers_reach_the_trials_of_theirs(network: Topology, fake_testbed: Any) -> None:
    options = pm_options(ndiffports={"ndiffports": 3})
    optimise(network, TrialRunner(fake_testbed), changed(pms=("fullmesh", "ndiffports"), pm_options=options))
    managers = {(trial.pm, msgspec.json.encode(trial.pm_options)) for trial in fake_testbed.trials}
    assert managers - {("default", b"{}")} == {("fullmesh", b"{}"), ("ndiffports", b'{"ndiffports":3}')}


def test_a_homogeneous_network_gets_fullmesh(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.gives = {"A-X": 40.0, "B-X": 30.0, "C-X": 30.0}
    result = optimise(network, TrialRunner(fake_testbed), OPTIONS)
    assert result.optimum.pm == "fullmesh"
    assert result.subflows == ("A-X", "B-X", "C-X")


def test_without_pcdc_no_impact_factor_is_measured(network: Topology, fake_testbed: Any) -> None:
    result = optimise(network, TrialRunner(fake_testbed), changed(pms=("fullmesh",)))
    assert not result.impacts
    assert not any(trial.script for trial in fake_testbed.trials)


def test_throughput_that_levels_off_is_called_out(network: Topology, fake_testbed: Any) -> None:
    """Level from 2 MiB on: the parabola wants more than the 2 MiB at which the sweep is there already."""
    fake_testbed.knee_mib = {"cubic": 2.0, "reno": 2.0}
    result = optimise(network, TrialRunner(fake_testbed), changed(model="quadratic"))
    assert result.optimum.buffer_mib > 2
    (warning,) = [text for text in result.warnings if "In the sweep" in text]
    assert "with 2 MiB already" in warning


def test_a_prediction_that_fresh_trials_contradict_is_called_out(
    network: Topology, fake_testbed: Any
) -> None:
    """The network gets slower by half before the confirmation begins."""
    before = 2 * 2 * 8 * 3 + 2 * 3 * 2

    def slower(trial: Trial) -> None:
        if len(fake_testbed.trials) >= before:
            fake_testbed.gives = {"A-X": 40.0, "B-X": 10.0, "C-X": -5.0}

    fake_testbed.fails = slower
    result = optimise(network, TrialRunner(fake_testbed, 1), OPTIONS)
    assert any("trust the trials" in text for text in result.warnings)
    assert any("misses its target" in text for text in result.warnings)


def test_throughput_that_falls_again_behind_the_optimum_is_called_out(
    network: Topology, fake_testbed: Any
) -> None:
    """From 5 MiB on a subflow drags the others down: the answer is before the cliff, with that reason."""
    run = fake_testbed.run

    def falling(trial: Trial) -> Any:
        fake_testbed.gives = {
            "A-X": 80.0,
            "B-X": 20.0,
            "C-X": -10.0 if trial.buffer_bytes < 5 * MIB else -80.0,
        }
        return run(trial)

    fake_testbed.run = falling
    fake_testbed.knee_mib = {"cubic": 3.0, "reno": 3.0}
    result = optimise(network, TrialRunner(fake_testbed, 1), changed(pms=("fullmesh",)))
    assert result.optimum.buffer_mib < 5
    (warning,) = [text for text in result.warnings if "More buffer may make" in text]
    assert "between 5 and 8 MiB" in warning


def test_the_model_of_the_paper_is_there_by_name(network: Topology, fake_testbed: Any) -> None:
    result = optimise(network, TrialRunner(fake_testbed), changed(model="quadratic"))
    assert result.response.model == "quadratic" and not result.response.comparison
    document = result_document(result)
    assert document["model"] == "quadratic" and "bs^2" in document["models"][0]["formula"]


def test_a_good_prediction_is_left_alone(network: Topology, fake_testbed: Any) -> None:
    warnings = " ".join(optimise(network, TrialRunner(fake_testbed), OPTIONS).warnings)
    assert "believe" not in warnings and "misses" not in warnings and "In the sweep" not in warnings


def test_failed_trials_are_left_out_and_reported(network: Topology, fake_testbed: Any) -> None:
    """Every trial of reno with 1 MiB stalls; a number made of them would pull the fit down."""
    whole = optimise(network, TrialRunner(fake_testbed), OPTIONS)
    fake_testbed.fails = lambda t: "stalled" if (t.cc, t.buffer_bytes) == ("reno", MIB) else None
    result = optimise(network, TrialRunner(fake_testbed), OPTIONS)
    assert any("6 of 96 sweep trials failed" in text and "stalled" in text for text in result.warnings)
    assert len(result.points) == len(whole.points) - 2
    assert result.optimum.buffer_mib == pytest.approx(whole.optimum.buffer_mib, rel=0.02)


def test_a_confirmation_that_fails_is_no_number(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.fails = lambda t: "cut" if len(fake_testbed.trials) > 2 * 2 * 8 * 3 + 2 * 3 * 2 else None
    result = optimise(network, TrialRunner(fake_testbed, 1), OPTIONS)
    assert confirmed_of(result).confirmed is None and confirmed_of(result).gain is None
    assert any("No trial of the recommended configuration succeeded" in text for text in result.warnings)
    assert result_document(result)["confirmed"]["mean"] is None


def test_nothing_to_fit_is_an_error_with_its_reason(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.fails = lambda trial: "no route"
    with pytest.raises(MptuneError, match="no route"):
        optimise(network, TrialRunner(fake_testbed), OPTIONS)


def test_the_document_has_the_promised_shape(network: Topology, fake_testbed: Any) -> None:
    result = optimise(network, TrialRunner(fake_testbed), OPTIONS)
    document = result_document(result)
    for key in ("opm", "occ", "obs_mib", "otp_mbps", "subflows", "r_squared", "traditional_mib"):
        assert document[key] is not None
    for key in ("predicted", "confirmed"):
        assert document[key]["low"] <= document[key]["mean"] <= document[key]["high"]
    assert {"pm", "cc", "formula", "max_mbps", "buffer_at_max_mib"} <= set(document["models"][0])
    assert len(document["models"]) == 4
    traditional = theory.traditional(network)["eq3"]
    assert document["share_of_traditional"] == pytest.approx(document["obs_bytes"] / traditional)
    assert document["traditional_mib"] == pytest.approx(traditional / MIB)


def test_a_simulated_answer_states_what_to_expect_on_a_kernel(
    network: Topology, fake_testbed: Any, made_up_error: ModelError, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = msgspec.structs.replace(
        made_up_error.compared,
        congestion_controls=("cubic", "reno"),
        products=(0.0, 1e3),
        total_bps=(1e6, 1e9),
        duration_ns=SECOND,
    )
    learnt = msgspec.structs.replace(made_up_error, compared=compared)
    monkeypatch.setattr("mptune.optimisation.main_job.shipped", lambda: learnt)
    result = optimise(network, TrialRunner(fake_testbed), OPTIONS)
    document = result_document(result)
    expected, gained, mean = (document[key] for key in ("on_kernel", "gain_on_kernel", "confirmed"))
    assert expected["unknown"] is None and expected["kernel"] == "Linux 9.9" and expected["runs"] == 5
    # A spread of a tenth, and 95 % within two of them, on more than two paths.
    assert expected["high_mbps"] / expected["low_mbps"] >= math.exp(0.4) * 0.999
    assert expected["low_mbps"] < mean["mean"] < expected["high_mbps"]
    assert gained["low_mbps"] < document["gain"]["mean"] < gained["high_mbps"]
    sentences = document["answer"]
    assert any(
        "On a Linux kernel expect" in sentence and "200 configurations" in sentence for sentence in sentences
    )
    assert any("cannot tell its sign" in sentence for sentence in sentences), (
        "the gain of 3 % is far less than the error"
    )


def test_a_simulated_answer_of_another_kind_states_that_its_error_is_not_known(
    network: Topology, fake_testbed: Any, made_up_error: ModelError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mptune.optimisation.main_job.shipped", lambda: made_up_error)
    stack = msgspec.structs.replace(OPTIONS.stack, stack="v0.9x")
    document = result_document(optimise(network, TrialRunner(fake_testbed), changed(stack=stack)))
    assert "v0.9x" in document["on_kernel"]["unknown"] and document["on_kernel"]["low_mbps"] is None
    assert document["gain_on_kernel"]["low_mbps"] is None
    assert (
        sum("No kernel error estimate" in sentence and "v0.9x" in sentence for sentence in document["answer"])
        == 1
    )


def test_what_was_measured_on_a_kernel_needs_no_such_interval(network: Topology, fake_testbed: Any) -> None:
    fake_testbed.name = "namespaces"
    document = result_document(optimise(network, TrialRunner(fake_testbed), OPTIONS))
    assert document["on_kernel"] is None and document["gain_on_kernel"] is None
    assert not any(
        "kernel expect" in sentence or "No kernel error" in sentence for sentence in document["answer"]
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ccs": ("cubic", "turbo")}, "--cc: expected one of .*cubic.* found 'turbo'"),
        ({"pms": ()}, "--pm: expected one of"),
        ({"pms": ("mesh",)}, "--pm: .*'mesh'"),
        ({"selection": "best"}, "--selection: .*global, literal.*'best'"),
        ({"model": "cubic"}, "--model: .*quadratic.*'cubic'"),
        ({"buffers": (MIB, 2 * MIB)}, "--buffers: expected 3 sizes"),
        ({"sacrifice": 1.0}, "--sacrifice"),
        ({"sacrifice": -0.1}, "--sacrifice"),
        ({"runs": 0}, "--runs"),
        ({"duration_ns": 0}, "--duration"),
        ({"confirm_runs": 0}, "--confirm-runs"),
        ({"impact": ImpactOptions(runs=0)}, "--impact-runs"),
        (
            {"pm_options": pm_options(ndiffports={"ndiffports": 3})},
            "--ndiffports: expected only with the path manager",
        ),
        ({"pm_options": pm_options(pcdc={"active": ["A-X"]})}, "--active: expected only in a sweep"),
    ],
)
def test_impossible_options_are_refused_before_anything_runs(
    changes: dict[str, Any], message: str, network: Topology, fake_testbed: Any
) -> None:
    with pytest.raises(InputError, match=message):
        optimise(network, TrialRunner(fake_testbed), changed(**changes))
    assert not fake_testbed.trials


def test_sets_beside_that_of_the_signs_compete(network: Topology, fake_testbed: Any) -> None:
    """B helps while it is withdrawn halfway, and hurts from the start: only the sweep can know."""
    run = fake_testbed.run

    def misleading(trial: Trial) -> Any:
        fake_testbed.gives = {"A-X": 80.0, "B-X": 20.0 if trial.script else -30.0, "C-X": -10.0}
        return run(trial)

    fake_testbed.run = misleading
    signs = optimise(network, TrialRunner(fake_testbed, 1), OPTIONS)
    assert signs.subflows == ("A-X", "B-X") and signs.optimum.throughput_mbps < 60
    result = optimise(network, TrialRunner(fake_testbed, 1), changed(sets="compete"))
    assert result.optimum.subflows == result.subflows == ("A-X",)
    assert result.optimum.throughput_mbps == pytest.approx(0.93 * 80, rel=0.03)
    assert {record.purpose for record in result.records} == {"impact", "screen", "search", "sweep", "confirm"}
    document = result_document(result)
    assert any(model["subflows"] == ["A-X"] for model in document["models"])


def test_the_job_finds_a_set_that_no_impact_factor_proposes(network: Topology, fake_testbed: Any) -> None:
    """Of two equal subflows one is enough, and each is worth nothing beside the other."""
    run = fake_testbed.run

    def crowded(trial: Any) -> Any:
        active = set(trial.pm_options.get("active", ("A-X", "B-X", "C-X")))
        harm = -40.0 if {"A-X", "B-X"} <= active else 0.0
        fake_testbed.gives = {"A-X": 50.0 + harm, "B-X": 50.0 + harm, "C-X": 40.0}
        return run(trial)

    fake_testbed.run = crowded
    options = changed(sets="compete", selection="robust")
    result = optimise(network, TrialRunner(fake_testbed, 1), options)
    assert len(result.subflows) == 2 and "C-X" in result.subflows
    alone = optimise(network, TrialRunner(fake_testbed, 1), msgspec.structs.replace(options, sets="signs"))
    assert alone.optimum.throughput_mbps < result.optimum.throughput_mbps


def test_the_favourite_gives_way_to_what_holds_in_other_networks(
    network: Topology, fake_testbed: Any
) -> None:
    """Reno needs less buffer in the network as stated, and collapses in any other."""
    fake_testbed.knee_mib = {"reno": 3.0, "cubic": 4.0}
    run = fake_testbed.run

    def fragile(trial: Trial) -> Any:
        lost = trial.cc == "reno" and trial.topology != network
        fake_testbed.gives = {"A-X": 8.0 if lost else 80.0, "B-X": 20.0, "C-X": 0.0}
        return run(trial)

    fake_testbed.run = fragile
    options = changed(pms=("fullmesh",), off_by=0.2)
    assert optimise(network, TrialRunner(fake_testbed, 1), changed(pms=("fullmesh",))).optimum.cc == "reno"
    result = optimise(network, TrialRunner(fake_testbed, 1), options)
    assert result.optimum.cc == "cubic"
    worst = {finalist.combination.cc: finalist.worst or 0.0 for finalist in result.finalists}
    assert worst["reno"] < 0.5 < worst["cubic"]
    (sentence,) = [text for text in result.warnings if "The model chose" in text]
    assert "fullmesh with reno" in sentence and "fullmesh with cubic" in sentence
    assert result.subflows == ("A-X", "B-X", "C-X")


@pytest.mark.parametrize(("knee_mib", "expected"), [(0.5, 0.93 * 0.5), (20.0, 0.93 * 20)])
def test_an_optimum_at_an_end_is_looked_for_beyond_it(
    knee_mib: float, expected: float, network: Topology, fake_testbed: Any
) -> None:
    fake_testbed.knee_mib = {"cubic": knee_mib, "reno": knee_mib}
    inside = optimise(network, TrialRunner(fake_testbed), changed(pms=("fullmesh",)))
    assert 1.0 <= inside.optimum.buffer_mib <= 8.0
    result = optimise(network, TrialRunner(fake_testbed), changed(pms=("fullmesh",), extend=True))
    assert result.optimum.buffer_mib == pytest.approx(expected, rel=0.3)
    sizes = {record.buffer_bytes for record in result.records if record.purpose == "sweep"}
    assert min(sizes) < MIB or max(sizes) > 8 * MIB


def test_the_favourite_does_not_give_way_to_what_collapses_with_larger_buffers(
    network: Topology, fake_testbed: Any
) -> None:
    """Cubic would hold in other networks, but with 6 MiB and more it gives a fifth."""
    fake_testbed.knee_mib = {"reno": 3.0, "cubic": 3.0}
    run = fake_testbed.run

    def fragile(trial: Trial) -> Any:
        lost = trial.cc == "reno" and trial.topology != network
        swollen = trial.cc == "cubic" and trial.buffer_bytes >= 6 * MIB
        fake_testbed.gives = {"A-X": 0.0 if swollen else 60.0 if lost else 80.0, "B-X": 20.0, "C-X": 0.0}
        return run(trial)

    fake_testbed.run = fragile
    options = changed(pms=("fullmesh",), off_by=0.2, selection="robust")
    result = optimise(network, TrialRunner(fake_testbed, 1), options)
    assert result.optimum.cc == "reno"
    worst = {finalist.combination.cc: finalist.worst or 0.0 for finalist in result.finalists}
    assert worst["cubic"] > worst["reno"]


def test_beyond_the_smallest_buffer_of_its_own_the_favourite_is_measured_too(
    network: Topology, fake_testbed: Any
) -> None:
    """Cubic is fastest with 1 MiB and with no other size, so it is not what smaller buffers are for."""
    fake_testbed.knee_mib = {"reno": 0.3, "cubic": 0.3}
    run = fake_testbed.run

    def peaked(trial: Trial) -> Any:
        best = MIB <= trial.buffer_bytes < 1.9 * MIB
        cubic = 110.0 if best else 20.0
        fake_testbed.gives = {"A-X": cubic if trial.cc == "cubic" else 80.0, "B-X": 0.0, "C-X": 0.0}
        return run(trial)

    fake_testbed.run = peaked
    options = changed(pms=("fullmesh",), extend=True, selection="robust")
    result = optimise(network, TrialRunner(fake_testbed, 1), options)
    assert result.optimum.cc == "reno"
    assert result.optimum.buffer_mib == pytest.approx(0.93 * 0.3, rel=0.3)


def test_a_buffer_that_misses_the_target_in_fresh_trials_is_enlarged(
    network: Topology, fake_testbed: Any
) -> None:
    """A step between two measured sizes: every model that rises before it is wrong there."""
    run = fake_testbed.run

    def stepped(trial: Trial) -> Any:
        full = trial.buffer_bytes >= 5 * MIB
        fake_testbed.gives = {"A-X": 80.0 if full else 30.0, "B-X": 20.0, "C-X": 0.0}
        return run(trial)

    fake_testbed.run = stepped
    fake_testbed.knee_mib = {"cubic": 0.5, "reno": 0.5}
    options = changed(pms=("fullmesh",), model="smooth", off_by=0.2)
    missed = optimise(network, TrialRunner(fake_testbed, 1), msgspec.structs.replace(options, off_by=0.0))
    assert missed.optimum.buffer_mib < 5.0
    result = optimise(network, TrialRunner(fake_testbed, 1), options)
    assert "the sweep gave" in wording.answer(result)[1]
    assert result.optimum.buffer_mib == 5.0 and confirmed_of(result).confirmed.mean > 90  # type: ignore[union-attr]
    assert result.decision.uncertainty.obs_mib[1] >= 5.0  # type: ignore[union-attr]


def test_buffers_are_added_until_those_beside_the_optimum_are_close(
    network: Topology, fake_testbed: Any
) -> None:
    fake_testbed.knee_mib = {"cubic": 4.0, "reno": 4.0}
    sizes = tuple(size * MIB for size in (1, 8, 64))
    result = optimise(
        network, TrialRunner(fake_testbed), changed(pms=("fullmesh",), buffers=sizes, extend=True)
    )
    measured = sorted({record.buffer_bytes / MIB for record in result.records if record.purpose == "sweep"})
    low, high = gap(measured, result.optimum.buffer_mib)
    assert low < result.optimum.buffer_mib <= high < 1.2 * low


def test_the_interval_of_the_throughput_holds_that_of_fresh_trials(
    network: Topology, fake_testbed: Any
) -> None:
    """The curve bends between two sizes: the model that joins them is surely wrong, without any noise."""
    run = fake_testbed.run

    def bent(trial: Trial) -> Any:
        fake_testbed.gives = {
            "A-X": min(90.0, 30 * (trial.buffer_bytes / MIB - 1) ** 0.5),
            "B-X": 0.0,
            "C-X": 0.0,
        }
        return run(trial)

    fake_testbed.run = bent
    fake_testbed.noise = 0.0
    fake_testbed.knee_mib = {"cubic": 0.5, "reno": 0.5}
    options = changed(pms=("fullmesh",), buffers=tuple(i * MIB for i in (2, 5, 8, 11, 14)), model="monotone")
    blind = optimise(network, TrialRunner(fake_testbed), options)
    result = optimise(network, TrialRunner(fake_testbed), msgspec.structs.replace(options, off_by=0.2))
    for job, holds in ((blind, False), (result, True)):
        low, high = job.decision.uncertainty.otp_mbps  # type: ignore[union-attr]
        assert (low <= confirmed_of(job).confirmed.mean <= high) is holds  # type: ignore[union-attr]


def test_no_trial_is_repeated_for_a_buffer_that_is_the_same_in_whole_kibibytes(
    network: Topology, fake_testbed: Any
) -> None:
    """The optimum is a little below the smallest buffer, which fresh trials do not reach either."""
    run = fake_testbed.run

    def worse_when_fresh(trial: Trial) -> Any:
        fake_testbed.gives = {"A-X": 80.0, "B-X": 20.0, "C-X": -10.0}
        if len(seen) > 96 and trial.script == ():
            fake_testbed.gives["A-X"] = 70.0
        seen.append(trial)
        return run(trial)

    seen: list[Trial] = []
    fake_testbed.run = worse_when_fresh
    fake_testbed.knee_mib = {"cubic": 0.5, "reno": 0.5}
    options = changed(pms=("fullmesh",), off_by=0.2, extend=True)
    optimise(network, TrialRunner(fake_testbed, 1), options)
    settings = [msgspec.to_builtins(setting, builtin_types=(bytes,)) for setting in seen]
    assert len(settings) == len({repr(setting) for setting in settings})
