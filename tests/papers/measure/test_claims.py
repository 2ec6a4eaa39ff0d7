"""The claims as data: unique, complete, on networks that exist, and asked for by their figures."""

import pytest

from mptune.errors import InputError
from mptune.papers.measure import ALL, claims, figures, select
from mptune.papers.published import rows
from mptune.papers.reproduce import PAPERS
from mptune.trial import Bulk

CLAIMS = claims()


def test_ids_are_unique_and_begin_with_the_paper() -> None:
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    assert {claim.paper for claim in CLAIMS} == set(PAPERS)
    assert all(claim.id.startswith(f"{claim.paper}-") for claim in CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_statements_name_what_is_measured(claim) -> None:
    known = {point.name for point in (*claim.points, *claim.factors, *claim.answers)}
    assert len(known) == len(claim.points) + len(claim.factors) + len(claim.answers)
    assert claim.statements
    for statement in claim.statements:
        assert statement.of
        assert {*statement.of, *statement.against} <= known


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_networks_have_the_paths_that_are_named(claim) -> None:
    for point in claim.points:
        labels = {path.label for path in point.topology.paths}
        configuration = point.configuration
        assert {*(configuration.active or ()), *filter(None, [configuration.initial_path])} <= labels
        assert point.unit == ("Mbit/s" if isinstance(configuration.workload, Bulk) else "s")


def test_every_printed_throughput_of_fullmesh_and_pcdc_has_its_point() -> None:
    def printed(table: str, column: str) -> list[float]:
        return sorted(float(row[column]) for row in rows(table))

    def claimed(paper: str, names: list[str]) -> list[float]:
        every = {
            (point.scenario, point.name): point.printed
            for name in names
            for claim in select([paper], name)
            for point in claim.points
            if not claim.id.startswith("mpcoa-table")
        }
        return sorted(value for value in every.values() if value is not None)

    throughput = "mean_throughput_Mbit_s"
    assert claimed("mpcoa", ["fig-6", "fig-7", "fig-8"]) == printed("mpcoa_fig6_7_8_throughput", throughput)
    assert claimed("pcdc", ["fig-6", "fig-8", "fig-10"]) == printed("pcdc_fig6_8_10_throughput", throughput)
    alone = printed("buffersizes_table2_rtt_throughput", "tcp_throughput_Mbit_s")
    assert claimed("buffersizes", ["table-2"]) == alone


def test_impact_tables_and_plain_tcp_are_fitted_and_pcdcs_gains_are_predicted() -> None:
    part = {claim.id: claim.part for claim in CLAIMS}
    assert part["pcdc-table-2-uib-unis"] == part["buffersizes-table-2-ku-hig"] == "fit"
    assert part["pcdc-fig-6-uib-unis-fullmesh"] == "fit"
    assert (
        part["pcdc-fig-6-uib-unis"] == part["mpcoa-table-5-srl-hu"] == part["pcdc-fig-7-uib-unis"] == "judge"
    )
    assert part["buffersizes-table-3-uib-uis"] == part["glm-table-4-uio-uit"] == "judge"
    fitted = [claim for claim in CLAIMS if claim.part == "fit"]
    assert not [claim.id for claim in fitted if any(p.configuration.pm == "pcdc" for p in claim.points)]


def test_a_figure_is_asked_for_by_its_name() -> None:
    assert {claim.id for claim in select(["pcdc"], "fig-6")} == {
        "pcdc-fig-6-uib-unis",
        "pcdc-fig-6-uib-unis-fullmesh",
    }
    assert [claim.id for claim in select(list(PAPERS), "glm-fig-3-uio-uit")] == ["glm-fig-3-uio-uit"]
    assert select(list(PAPERS), ALL) == CLAIMS
    assert "table-5" in figures(["mpcoa"])
    with pytest.raises(
        InputError, match=r"^--measure: expected all, list, .* such as fig-3, .*; found 'fig-99'$"
    ):
        select(["glm"], "fig-99")
