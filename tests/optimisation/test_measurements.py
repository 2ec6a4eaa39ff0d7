"""The decision on measurements made elsewhere: the same as on one's own, and honest about the rest."""

from pathlib import Path
from typing import Any

import pytest

from mptune import theory
from mptune.decision import DecisionOptions
from mptune.errors import InputError
from mptune.impact import ImpactOptions
from mptune.optimisation.main_job import optimise
from mptune.optimisation.measurements import optimise_from
from mptune.optimisation.options import OptimiseOptions
from mptune.result.making import result_document
from mptune.runner.runner import TrialRunner
from mptune.store.directory import write_observations
from mptune.table import read_measurements
from mptune.topology import Topology

SECOND, MIB = 1_000_000_000, 2**20


@pytest.fixture
def write(tmp_path: Path):
    """Write rows of throughput, buffer and more under a header, and read them."""

    def make(header: str, *rows: str) -> Any:
        path = tmp_path / "data.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        return read_measurements(str(path))

    return make


def rows(tail: str = "", ccs: tuple[str, ...] = ("cubic", "olia")) -> list[str]:
    """Throughput that rises to 8 MiB, twice; olia gets four fifths."""
    return [
        f"{(1.0 if cc == ccs[0] else 0.8) * 10 * min(b, 8) + wobble},{b},{cc}{tail}"
        for cc in ccs
        for b in range(1, 13)
        for wobble in (-0.1, 0.1)
    ]


def test_the_same_observations_give_the_same_decision(
    network: Topology, fake_testbed: Any, tmp_path: Path
) -> None:
    """One's own sweep, written down and read again."""
    own = optimise(
        network,
        TrialRunner(fake_testbed),
        OptimiseOptions(
            pms=("fullmesh",),
            ccs=("cubic", "reno"),
            buffers=tuple(i * MIB for i in range(1, 9)),
            runs=3,
            duration_ns=SECOND,
            impact=ImpactOptions(runs=2, window_ns=SECOND, buffer_bytes=8 * MIB),
            confirm_runs=2,
            strategy="grid",
        ),
    )
    write_observations(tmp_path, own.records)
    again = optimise_from(read_measurements(str(tmp_path / "observations.csv")), DecisionOptions())
    assert again.optimum == own.optimum
    ours, theirs = own.decision.uncertainty, again.decision.uncertainty
    assert ours is not None and theirs is not None
    assert (theirs.obs_mib, theirs.wins) == (ours.obs_mib, ours.wins)
    # Fresh trials, which are no observations of the sweep, widen it.
    assert ours.otp_mbps[0] <= theirs.otp_mbps[0] < theirs.otp_mbps[1] <= ours.otp_mbps[1]
    assert again.decision.front == own.decision.front
    assert again.points == own.points


def test_nothing_is_claimed_that_was_not_measured(write) -> None:
    result = optimise_from(write("throughput_mbps,buffer_mib,cc,pm", *rows(",pcdc")), DecisionOptions())
    assert (result.optimum.pm, result.optimum.cc) == ("pcdc", "cubic")
    assert result.optimum.buffer_mib == pytest.approx(0.93 * 8, rel=0.05)
    assert result.buffer_bytes % 1024 == 0
    assert (
        result.confirmation is None and not result.impacts and not result.subflows and not result.traditional
    )
    assert any("not confirmed by new trials" in text for text in result.warnings)
    document = result_document(result)
    assert document["confirmed"] == {"mean": None, "low": None, "high": None, "runs": 0}
    assert (
        document["topology"] is document["traditional_mib"] is document["gain"] is document["default"] is None
    )
    assert document["trials"] == {"run": 0, "failed": 0}


def test_what_varies_and_is_not_read_is_named(write) -> None:
    hours = [f"{row},{number % 3}" for number, row in enumerate(2 * rows())]
    result = optimise_from(write("throughput_mbps,buffer_mib,cc,hour", *hours), DecisionOptions(resamples=0))
    assert any(text.startswith("hour varies but is not modelled") for text in result.warnings)


def test_a_topology_adds_the_traditional_buffers(write, network: Topology) -> None:
    data = write("throughput_mbps,buffer_mib,cc,pm", *rows(",pcdc"))
    result = optimise_from(data, DecisionOptions(resamples=0), topology=network)
    assert result.traditional == theory.traditional(network)
    assert result_document(result)["share_of_traditional"] == pytest.approx(
        result.buffer_bytes / theory.traditional(network)["eq3"]
    )


def test_a_path_manager_that_is_not_in_the_file(write) -> None:
    data = write("throughput_mbps,buffer_mib,cc", *rows())
    assert optimise_from(data, DecisionOptions(resamples=0)).optimum.pm == "unstated"
    assert optimise_from(data, DecisionOptions(resamples=0), pm="fullmesh").optimum.pm == "fullmesh"


def test_other_factors_count_as_scatter_and_are_named(write) -> None:
    data = write(
        "throughput_mbps,buffer_mib,cc,initial_path",
        *(f"{row},{path}" for row, path in zip(rows(), ["U-U", "U-T"] * 24, strict=True)),
    )
    warnings = optimise_from(data, DecisionOptions(resamples=0)).warnings
    assert any("initial_path" in text and "scatter" in text for text in warnings)


def test_single_runs_are_reported(write) -> None:
    data = write("throughput_mbps,buffer_mib,cc", *rows()[::2])
    uncertainty = optimise_from(data, DecisionOptions()).decision.uncertainty
    assert uncertainty is not None and uncertainty.single_runs


def test_a_combination_with_too_few_buffers_is_refused_by_name(write) -> None:
    data = write("throughput_mbps,buffer_mib,cc,pm", *rows(",pcdc"), "5,1,vegas,pcdc", "6,2,vegas,pcdc")
    with pytest.raises(
        InputError, match=r"data\.csv: pcdc, vegas: expected at least 3 buffer sizes, found 2"
    ):
        optimise_from(data, DecisionOptions())


def test_too_few_buffers_at_all(write) -> None:
    data = write("throughput_mbps,buffer_mib,cc", "1,1,a", "2,2,a")
    with pytest.raises(InputError, match=r"data\.csv: buffer: expected 3 sizes at least"):
        optimise_from(data, DecisionOptions())
