"""Published numbers for calibration: those that may be fitted, and none that judge."""

import pytest

from mptune.papers.measure import claims
from mptune.papers.measure.fitting import LEAST_OMEGA, rows

SCENARIOS = sorted({scenario for claim in claims() for scenario in claim.scenarios})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_row_is_of_a_number_that_judges(scenario: str) -> None:
    judging = {
        (point.configuration.pm, point.configuration.active, point.configuration.cc, point.printed)
        for claim in claims()
        if claim.part == "judge"
        for point in claim.points
        if point.scenario == scenario and point.printed is not None and point.configuration.pm == "pcdc"
    }
    for row in rows(scenario):
        configuration = row.configuration
        key = (configuration.pm, configuration.active, configuration.cc, row.value)
        assert key not in judging


def test_each_configuration_is_there_once() -> None:
    for scenario in SCENARIOS:
        configurations = [row.configuration for row in rows(scenario)]
        assert all(
            configuration not in configurations[:number]
            for number, configuration in enumerate(configurations)
        )


def test_an_impact_factor_is_a_throughput_without_the_subflow() -> None:
    fitted = rows("UiB-UNIS")
    cubic = [row for row in fitted if row.configuration.cc == "cubic"]
    whole = next(row for row in cubic if row.configuration.pm == "fullmesh")
    without = next(
        row
        for row in fitted
        if row.configuration.cc == "cubic" and row.configuration.active == ("B-T", "B-U", "U-T")
    )
    assert whole.value == pytest.approx(217.1)
    assert without.value == pytest.approx(217.1 * (1 - 0.68))  # PCDC, Table II
    assert without.spread == pytest.approx(0.1 / 0.32)


def test_a_collapsed_baseline_is_left_out() -> None:
    hybla = [
        row for row in rows("SRL-HU") if row.configuration.cc == "hybla" and row.configuration.pm == "pcdc"
    ]
    whole = 41.7  # Mbit/s, MPCOA, Fig. 6
    assert hybla and all(row.value <= whole * (1 - LEAST_OMEGA) for row in hybla)
