"""Sections: a run shows what it has, and the numbers shown are those that were measured."""

import csv
import math
import statistics
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from altair.vegalite.v6.schema.core import TopLevelLayerSpec
from jsonschema import ValidationError

from mptune.report.choices import choices
from mptune.report.measured import in_short, warnings
from mptune.report.page import page
from mptune.report.sections import Section
from mptune.report.sections import sweep as sweep_section
from mptune.report.sections.series import by_configuration, over_time
from mptune.response import FitQuality
from mptune.result.run_data import RunData, TrialRow
from mptune.trial import SubflowObservation
from tests.report.making import sections


def section(run: RunData, name: str, *others: RunData) -> Section:
    return next(section for section in sections(run, others) if section.name == name)


def rows(run: RunData, name: str, table: str, *others: RunData) -> list[dict[str, Any]]:
    chosen = section(run, name, *others)
    return next(each.rows for each in (*chosen.open, *chosen.tables) if each.title == table)


def test_a_run_shows_what_it_has(optimised: RunData, transfers: RunData, paths: RunData) -> None:
    names = {run.label: [section.name for section in sections(run)] for run in (optimised, transfers, paths)}
    over_time = ["over-time", "over-time-subflows", "round-trips", "over-time-congestion-controls"]
    assert [name for name in names["optimised"] if not name.endswith("s-over-time")] == [
        *("trade-off", "topology", "response", "bars", "differing", "single-runs", "impact-factors"),
        *over_time,
        "network-over-time",
    ]
    assert "round-trips-over-time" in names["optimised"]
    assert names["transfers"] == ["impact-factors", "completion", "topology"]  # pcdc measures its sets first
    assert names["paths"] == [
        *("bars", "differing", "single-runs"),
        *over_time,
        *("initial-paths", "time-of-day", "topology", "network-over-time", "network-over-rounds"),
    ]


def test_a_peak_that_would_flatten_a_figure_is_cut_and_told(optimised: RunData) -> None:
    """What had waited for a missing segment counts when that arrives: in one step, all of it."""
    even = {
        key: msgspec.structs.replace(seen, bins=[25_000] * 100)
        for key, seen in optimised.observations.items()
    }
    key = optimised.shown[0].key
    peak = msgspec.structs.replace(even[key], bins=[*[25_000] * 98, 2_500_000, 2_500_000])
    before, after = (
        next(over_time(run, choices(run)))
        for seen in (even, {**even, key: peak})
        for run in [msgspec.structs.replace(optimised, observations=seen)]
    )

    def top(shown: Section) -> float:
        layer = shown.panels[0].chart["layer"][0]
        return float(layer["encoding"]["y"]["scale"]["domain"][1])

    assert top(after) == 2 * top(before)
    assert "are cut" not in before.lead and after.lead.endswith(" Peaks of up to 200 Mbit/s are cut.")


def test_every_figure_has_its_numbers_and_every_section_its_explanation(
    optimised: RunData, transfers: RunData, paths: RunData, messages: RunData, calls: RunData
) -> None:
    pairs = (optimised, paths), (transfers, optimised), (paths, optimised), (messages, paths), (calls, paths)
    for run, other in pairs:
        for section in sections(run, [other]):
            assert section.panels or section.drawing
            assert all(table.rows for table in (*section.tables, *section.open)), section.name
            assert section.tables and section.lead.endswith((".", "quantile."))


def test_every_chart_is_one_of_vega_lite(
    optimised: RunData, learned: RunData, transfers: RunData, paths: RunData, messages: RunData
) -> None:
    """Sections are drawn without that check, and some parts are added to what Altair has made."""
    named = {
        f"{section.name} {number}": panel.chart
        for run, others in (
            (optimised, [paths]),
            (learned, []),
            (transfers, [optimised]),
            (paths, []),
            (messages, []),
        )
        for section in sections(run, others)
        for number, panel in enumerate(section.panels)
    }
    assert len(named) > 15
    for spec in named.values():
        TopLevelLayerSpec.validate({**spec, "datasets": {}})
    with pytest.raises(ValidationError):
        TopLevelLayerSpec.validate({**spec, "datasets": {}, "width": "wide"})


def test_means_over_the_buffer_are_those_of_the_observations(optimised: RunData, runs: Path) -> None:
    with (runs / "optimised" / "observations.csv").open(newline="") as file:
        seen: dict[tuple[str, str, float], list[float]] = defaultdict(list)
        for row in csv.DictReader(file):
            if row["purpose"] == "sweep":
                key = row["pm"], row["cc"], int(row["buffer_bytes"]) / 2**20
                seen[key].append(float(row["throughput_mbps"]))
    table = rows(optimised, "response", "Means of the runs")
    assert len(table) == len(seen) >= 2 * 2 * 5
    for row in table:
        values = seen[row["manager"], row["cc"], row["buffer_mib"]]
        assert row["mean_mbps"] == pytest.approx(statistics.fmean(values))
        assert (row["min_mbps"], row["max_mbps"], row["runs"]) == (min(values), max(values), 3)


def test_every_run_is_shown_with_the_quartiles_of_its_configuration(optimised: RunData) -> None:
    runs = rows(optimised, "single-runs", "Every run")
    sizes = {row["buffer_mib"] for row in runs}
    expected = [trial.throughput_mbps for trial in optimised.swept if trial.buffer_mib in sizes]
    assert sorted(row["throughput_mbps"] for row in runs) == sorted(mbps or 0.0 for mbps in expected)
    for box in rows(optimised, "single-runs", "Quartiles"):
        names = "manager", "cc", "buffer_mib"
        low, middle, high = sorted(
            row["throughput_mbps"] for row in runs if all(row[name] == box[name] for name in names)
        )
        assert box["median_mbps"] == middle
        assert box["q25_mbps"] == pytest.approx((low + middle) / 2)
        assert box["q75_mbps"] == pytest.approx((middle + high) / 2)


def test_two_runs_are_no_distribution(optimised: RunData) -> None:
    few = tuple(trial for trial in optimised.trials if trial.run < 2)
    names = [section.name for section in sections(msgspec.structs.replace(optimised, trials=few))]
    assert "bars" in names and "single-runs" not in names


def test_a_front_of_one_point_has_nothing_to_trade(optimised: RunData) -> None:
    assert optimised.answer is not None
    answer = msgspec.structs.replace(optimised.answer, pareto=optimised.answer.pareto[:1])
    trade_off = section(msgspec.structs.replace(optimised, answer=answer), "trade-off")
    assert not trade_off.panels and trade_off.lead.endswith("nothing to trade.") and trade_off.tables


def test_a_panel_per_path_manager_and_the_ring_in_its_own(optimised: RunData) -> None:
    assert optimised.answer is not None
    for panel in section(optimised, "response").panels:
        named = {param["name"] for param in panel.chart["params"]}
        chosen = {optimised.answer.opm, *(row.pm for row in optimised.answer.pareto)}
        assert ("choice" in named) == (panel.title in chosen)


def test_the_sets_are_those_of_the_decision(optimised: RunData) -> None:
    assert optimised.answer is not None
    for point, row in zip(
        optimised.impact, rows(optimised, "impact-factors", "The resulting sets"), strict=True
    ):
        assert row["cc"] == point.cc and row["carry data"] == ", ".join(point.optional)
    factors = rows(optimised, "impact-factors", "Impact factors")
    carrying = {row["path"] for row in factors if row["cc"] == "cubic" and row["carries_data"]}
    assert carrying == set(optimised.impact[0].optional)


def test_small_impact_factors_beside_a_large_one_get_a_panel_of_their_own(optimised: RunData) -> None:
    def drawn(small: float) -> int:
        omega = {
            path: {
                "mean": mean,
                "min": mean - 0.01,
                "max": mean + 0.01,
                "q10": mean,
                "q90": mean,
                "runs": 3.0,
            }
            for path, mean in (("P-D", 0.9), ("T-D", small))
        }
        impact = msgspec.structs.replace(optimised.impact[0], omega=omega)
        return len(section(msgspec.structs.replace(optimised, impact=(impact,)), "impact-factors").panels)

    assert drawn(0.02) == 2
    assert drawn(0.6) == 1


def test_what_subflows_went_through_is_the_mean_of_the_runs(optimised: RunData) -> None:
    table = rows(optimised, "round-trips", "Subflow by subflow, means of the runs")
    assert len({row["name"] for row in table}) == 3
    for row in table:
        trials = [
            trial
            for trial in optimised.shown
            if row["name"].endswith(f": {trial.manager}, {trial.cc}, {trial.buffer_mib:.4g} MiB")
        ]
        ones = [
            flow
            for trial in trials
            for flow in optimised.observations[trial.key].subflows
            if flow.path == row["subflow"]
        ]
        assert row["runs"] == len(ones) == 3
        assert row["retransmitted"] == pytest.approx(statistics.fmean(flow.retransmitted for flow in ones))
        if row["rtt_ms"] is not None:
            assert row["rtt_ms"] == pytest.approx(statistics.fmean(flow.srtt_ns / 1e6 for flow in ones))
            assert row["smallest_rtt_ms"] <= row["min_rtt_ms"] <= row["rtt_ms"] <= row["max_rtt_ms"]
        if row["again_per_mb"] is not None:
            again = [flow.retransmitted / (flow.bytes / 1e6) for flow in ones]
            assert row["again_per_mb"] == pytest.approx(statistics.fmean(again))
    measured = {row["subflow"] for row in table if row["rtt_ms"] is not None}
    assert measured and any(row["again_per_mb"] for row in table)


def test_a_subflow_that_delivered_nothing_has_no_retransmissions_per_mb(optimised: RunData) -> None:
    several = tuple(trial for trial in optimised.shown if trial.pm != "tcp")
    optimised = msgspec.structs.replace(optimised, shown=several)
    silent = {
        key: msgspec.structs.replace(
            observation,
            subflows=[msgspec.structs.replace(flow, bytes=0, srtt_ns=0) for flow in observation.subflows[1:]],
        )
        for key, observation in optimised.observations.items()
    }
    names = [section.name for section in sections(msgspec.structs.replace(optimised, observations=silent))]
    assert "round-trips" not in names
    half = {
        key: msgspec.structs.replace(observation, subflows=[*observation.subflows[:1], *silent[key].subflows])
        for key, observation in optimised.observations.items()
    }
    run = msgspec.structs.replace(optimised, observations=half)
    idle = [subflow.path for subflow in next(iter(silent.values())).subflows]
    for row in rows(run, "round-trips", "Subflow by subflow, means of the runs"):
        assert (row["again_per_mb"] is None) == (row["rtt_ms"] is None) == (row["subflow"] in idle)


def test_nothing_is_lost_over_time(optimised: RunData) -> None:
    """The drawn means are those of whole trials, whatever the width of a step."""
    confirmed = optimised.answer and optimised.answer.confirmed
    assert confirmed and confirmed.mean is not None
    table = rows(optimised, "over-time", "Mean, minimum and maximum")
    recommended = [row for row in table if row["name"].startswith("recommended: ")]
    assert statistics.fmean(row["mean_mbps"] for row in recommended) == pytest.approx(
        confirmed.mean, rel=0.02
    )
    assert len(recommended) <= 80
    assert all(row["min_mbps"] <= row["mean_mbps"] <= row["max_mbps"] for row in table)


def _name_of(trial: TrialRow, run: RunData) -> str:
    """The name under which a trial is drawn over time."""
    return next(name for name, trials in by_configuration(run, run.shown).items() if trial in trials)


def test_subflows_add_up_to_what_they_delivered(optimised: RunData) -> None:
    first = optimised.shown[0]
    seen = optimised.observations[first.key]
    table = rows(optimised, "over-time-subflows", "Subflow by subflow")
    mine = [row for row in table if row["name"] == _name_of(first, optimised)]
    step = sorted({row["t_s"] for row in mine})[1]
    for subflow in seen.subflows:
        drawn = [row["throughput_mbps"] for row in mine if row["subflow"] == subflow.path]
        assert math.fsum(drawn) * step == pytest.approx(sum(subflow.bins) * 8e-6), subflow.path


def test_two_subflows_on_one_path_are_distinguished(optimised: RunData) -> None:
    """As ndiffports makes them."""
    key = optimised.shown[0].key
    seen = optimised.observations[key]
    twice: list[SubflowObservation] = [seen.subflows[0], seen.subflows[0]]
    doubled = msgspec.structs.replace(seen, subflows=twice)
    run = msgspec.structs.replace(optimised, observations={**optimised.observations, key: doubled})
    table = rows(run, "over-time-subflows", "Subflow by subflow")
    path = seen.subflows[0].path
    name = _name_of(run.shown[0], run)
    assert {row["subflow"] for row in table if row["name"] == name} == {path, f"{path} (2)"}


def test_transfers_are_in_the_order_of_their_sizes(transfers: RunData) -> None:
    table = rows(transfers, "completion", "Completion times")
    assert [row["transfer_bytes"] for row in table] == [16384] * 4 + [65536] * 4
    assert {row["buffer_mib"] for row in table} == {0.5}
    times = {
        trial.completion_s
        for trial in transfers.trials
        if (trial.pm, trial.cc, trial.buffer_mib, trial.transfer_bytes) == ("pcdc", "reno", 0.5, 65536)
    }
    (row,) = [
        row for row in table if (row["manager"], row["cc"], row["transfer_bytes"]) == ("pcdc", "reno", 65536)
    ]
    assert (row["min_s"], row["max_s"], row["runs"]) == (min(times), max(times), 3)  # type: ignore[type-var]


def test_initial_paths_have_lines_over_buffers_and_intervals_with_one(paths: RunData) -> None:
    over = section(paths, "initial-paths")
    assert [panel.title for panel in over.panels] == ["fullmesh, cubic", "fullmesh, reno"]
    one_size = tuple(trial for trial in paths.trials if trial.buffer_mib == 0.5)
    beside = section(msgspec.structs.replace(paths, trials=one_size), "initial-paths")
    assert [panel.title for panel in beside.panels] == ["cubic", "reno"]
    for row in rows(paths, "initial-paths", "Means and intervals"):
        assert row["low_mbps"] <= row["mean_mbps"] <= row["high_mbps"]


def test_the_time_of_day_is_that_of_the_campaign(paths: RunData) -> None:
    """Not of the machine that makes the report."""
    begun = datetime(2024, 5, 17, 22, 40, tzinfo=UTC).timestamp()
    trials = tuple(msgspec.structs.replace(trial, started=begun) for trial in paths.trials)
    config = msgspec.structs.replace(paths.config, time="2024-05-17T22:00:00+03:00")
    run = msgspec.structs.replace(paths, trials=trials, config=config)
    assert {row["time_of_day_h"] for row in rows(run, "time-of-day", "By quarters of an hour")} == {1.5}


def test_schedulers_are_not_mixed(transfers: RunData) -> None:
    """Distinguished by run, since trials stand in the order they ended in."""
    trials = tuple(
        msgspec.structs.replace(trial, manager=f"{trial.pm}, blest") if trial.run == 0 else trial
        for trial in transfers.trials
    )
    table = rows(msgspec.structs.replace(transfers, trials=trials), "completion", "Completion times")
    assert {row["manager"] for row in table} == {"fullmesh", "fullmesh, blest", "pcdc", "pcdc, blest"}


def test_transfers_on_several_initial_paths_are_not_mixed(transfers: RunData) -> None:
    trials = tuple(
        msgspec.structs.replace(trial, initial_path=path, completion_s=seconds)
        for trial in transfers.trials
        for path, seconds in (("P-D", 1.0), ("T-D", 3.0))
    )
    run = msgspec.structs.replace(transfers, trials=trials)
    for row in rows(run, "completion", "Completion times"):
        assert row["min_s"] == row["max_s"] == (1.0 if row["manager"].endswith(", from P-D") else 3.0)
    assert "and initial path P-D." in page(run, [], sections(run))


def test_runs_are_compared(optimised: RunData, paths: RunData) -> None:
    assert optimised.answer is not None
    other = msgspec.structs.replace(
        optimised, label="other", answer=msgspec.structs.replace(optimised.answer, opm="fullmesh", occ="reno")
    )
    table = rows(optimised, "compared", "Means and intervals", other, paths)
    assert [(row["run"], row["configuration"]) for row in table] == [
        ("optimised", "recommended"),
        ("optimised", "default"),
        ("optimised", "best TCP"),
        ("other", "recommended"),
        ("other", "default"),
        ("other", "best TCP"),
        ("paths", "best of the sweep"),
    ]
    curves = section(optimised, "compared-response", other)
    assert "other: fullmesh with reno" in curves.lead
    assert len({row["run"] for row in rows(optimised, "compared-response", "Means of the runs", other)}) == 2
    fronts = rows(optimised, "compared-trade-off", "The smallest buffer for every sacrifice", other)
    assert len(fronts) == 2 * len(optimised.answer.pareto)


def test_transfers_are_compared(transfers: RunData) -> None:
    other = msgspec.structs.replace(transfers, label="other")
    table = rows(transfers, "compared-completion", "Completion times", other)
    assert [(row["run"], row["transfer_bytes"]) for row in table] == [
        ("transfers", 16384),
        ("other", 16384),
        ("transfers", 65536),
        ("other", 65536),
    ]
    assert section(transfers, "compared", other).panels == []


def test_what_differs_between_runs_is_listed(optimised: RunData, paths: RunData) -> None:
    settings = {row["setting"]: row for row in rows(optimised, "compared", "What differs", paths)}
    assert settings["duration"] == {"setting": "duration", "run 0": "10 s", "run 1": "2 s"}
    assert "testbed" not in settings and "seed" not in settings
    assert section(optimised, "compared", paths).open[0].headings == {"run 0": "optimised", "run 1": "paths"}


def test_a_fit_without_variance_has_no_r_square(optimised: RunData) -> None:
    assert optimised.answer is not None
    fits = (FitQuality(pm="fullmesh", r_squared=None, p_values={}, n=6),)
    run = msgspec.structs.replace(optimised, answer=msgspec.structs.replace(optimised.answer, fits=fits))
    assert in_short(run)["R-square, fullmesh"] == "none"


def test_assumed_values_are_listed_with_their_reasons(optimised: RunData) -> None:
    assumed = rows(optimised, "topology", "Assumptions and their reasons")
    assert optimised.topology is not None
    reasons = [value.assumed for value in optimised.topology.provenance.values() if value.assumed is not None]
    assert [row["assumed because"] for row in assumed] == reasons
    assert [warning for warning in warnings(optimised) if warning.startswith(f"{len(reasons)} of the ")]


def test_the_recommended_configuration_comes_first(optimised: RunData) -> None:
    for name in ("over-time", "round-trips"):
        colours = section(optimised, name).key
        assert colours is not None
        assert [name.partition(":")[0] for name in colours.names] == [
            "recommended",
            "default",
            "best TCP",
        ]


def test_a_front_of_one_buffer_has_a_place_for_its_labels(optimised: RunData) -> None:
    """As where the answer was moved to another combination with the buffer of a point of the front."""
    answer = optimised.answer
    assert answer is not None
    point = answer.pareto[0]
    other = msgspec.structs.replace(point, sacrifice=point.sacrifice + 0.07, throughput_mbps=1.0)
    run = msgspec.structs.replace(optimised, answer=msgspec.structs.replace(answer, pareto=(point, other)))
    assert [panel.chart for panel in section(run, "trade-off").panels]


def test_round_trips_over_time_are_those_of_the_confirmed_trials(optimised: RunData) -> None:
    """The repeated trial ends with the RTTs that the confirmation's first run has in the store.

    An acknowledgement after the last sample moves a smoothed RTT by an eighth of the difference (RFC 6298).
    """
    table = rows(optimised, "round-trips-over-time", "By subflow (step by step: round_trips.csv)")
    first = {
        name: optimised.observations[trials[0].key]
        for name, trials in by_configuration(optimised, optimised.shown).items()
    }
    assert {row["name"] for row in table} == set(first)
    for name, seen in first.items():
        for subflow in seen.subflows:
            last = [
                step
                for step in optimised.steps
                if name.startswith(f"{step.role}:") and step.subflow == subflow.path
            ][-1]
            assert 7 / 8 * last.min_rtt_ms <= subflow.srtt_ns / 1e6 <= 9 / 8 * last.max_rtt_ms


def test_what_sent_nothing_again_has_no_panel_but_is_named(optimised: RunData) -> None:
    lossy = [
        msgspec.structs.replace(step, retransmitted=3 if step.role == "default" and step.t_s > 1 else 0)
        for step in optimised.steps
    ]
    run = msgspec.structs.replace(optimised, steps=tuple(lossy))
    retransmissions = section(run, "retransmissions-over-time")
    assert [panel.title.partition(":")[0] for panel in retransmissions.panels] == ["default"]
    assert "No retransmissions: recommended (" in retransmissions.lead
    (table,) = retransmissions.tables
    assert sum(row["retransmitted"] for row in table.rows) == sum(step.retransmitted for step in lossy)
    silent = [msgspec.structs.replace(step, retransmitted=0) for step in lossy]
    quiet = msgspec.structs.replace(optimised, steps=tuple(silent))
    assert "retransmissions-over-time" not in [each.name for each in sections(quiet)]


def test_of_many_runs_some_are_drawn_and_the_extremes_are_among_them(optimised: RunData) -> None:
    swept = optimised.swept
    times = 60
    many = [
        msgspec.structs.replace(
            trial, run=copy, throughput_mbps=(trial.throughput_mbps or 0.0) * (1 + copy / times)
        )
        for copy in range(times)
        for trial in swept
    ]
    others = [trial for trial in optimised.trials if trial.purpose != "sweep"]
    run = msgspec.structs.replace(optimised, trials=(*others, *many))
    single = next(sweep_section.single_runs(run, choices(run)))
    panel = single.panels[0].chart["datasets"]
    for box in panel["boxes"]:
        name = box["manager"], box["cc"]
        drawn = [row["throughput_mbps"] for row in panel["runs"] if (row["manager"], row["cc"]) == name]
        given = [
            each.throughput_mbps or 0.0
            for each in many
            if (each.manager, each.cc, each.buffer_mib) == (*name, box["buffer_mib"])
        ]
        assert set(drawn) <= set(given) and (min(drawn), max(drawn)) == (min(given), max(given))
    assert "of up to" in single.lead
