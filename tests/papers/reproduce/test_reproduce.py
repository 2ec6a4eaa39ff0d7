"""The whole reproduction: exactly what is documented, and nothing passes unnoticed."""

from collections import Counter
from collections.abc import Callable

import pytest

from mptune.papers import published
from mptune.papers.reproduce import DOCUMENTED, PAPERS, reproduce

Tamper = Callable[[str, str, str, str], None]


@pytest.fixture
def tamper(monkeypatch: pytest.MonkeyPatch) -> Tamper:
    """Change every field of a table's column that has some text."""
    original = published.rows

    def change(table: str, column: str, old: str, new: str) -> None:
        def rows(name: str) -> list[dict[str, str]]:
            value = original(name)
            if name == table:
                for row in value:
                    row[column] = new if row[column] == old else row[column]
            return value

        assert any(row[column] == old for row in original(table))
        monkeypatch.setattr(published, "rows", rows)

    return change


def test_exactly_the_documented_contradictions_occur() -> None:
    result = reproduce()
    assert result.undocumented == ()
    assert result.absent == ()
    assert result.as_documented


def test_keys_are_unique_and_begin_with_their_paper() -> None:
    for name, paper in PAPERS.items():
        keys = [check.key for check in paper.checks()]
        assert len(set(keys)) == len(keys)
        assert all(key.startswith(f"{name}/") for key in keys)


def test_a_place_has_one_erratum() -> None:
    places = Counter(key for documented in DOCUMENTED for key in documented.keys)
    assert set(places.values()) == {1}
    assert [documented.erratum for documented in DOCUMENTED] == sorted(
        {documented.erratum for documented in DOCUMENTED}, key=lambda erratum: int(erratum[1:])
    )


def test_every_published_table_of_results_is_used() -> None:
    """Each number of these tables has a check of its own: how many there are follows from the tables."""
    keys = [check.key for check in reproduce().checks]

    def count(prefix: str) -> int:
        return sum(key.startswith(prefix) for key in keys)

    assert count("buffersizes/table3/") == 3 * len(published.rows("buffersizes_table3_sizes"))
    assert count("mpcoa/table3/") == len(published.rows("mpcoa_table3_optional_subflows"))
    assert count("mpcoa/equation/") == len(published.rows("mpcoa_eq13_15_coefficients"))
    coefficients = [row[c] for row in published.rows("mpcoa_table4_models") for c in list(row)[3:]]
    assert count("mpcoa/table4/") == sum(text != "0" for text in coefficients)
    assert count("pcdc/subset/") == len(published.rows("pcdc_chosen_subsets"))
    assert count("glm/eq4/") + count("glm/eq5/") == len(published.rows("glm_eq4_eq5"))


def test_contradictions_carry_their_erratum_and_agreements_nothing() -> None:
    errata = {key: documented.erratum for documented in DOCUMENTED for key in documented.keys}
    for check in reproduce(["pathmgmt", "pcdc"]).checks:
        if check.verdict == "contradicts":
            assert check.explanation.startswith(f"{errata[check.key]}: ")
        else:
            assert bool(check.explanation) == (check.verdict == "within rounding")


def test_one_paper_is_judged_by_its_own_contradictions() -> None:
    result = reproduce(["glm"])
    assert {check.paper for check in result.checks} == {"glm"}
    assert result.as_documented
    assert result.counts() == result.counts("glm")
    assert sum(result.counts().values()) == len(result.checks)


@pytest.mark.parametrize(
    ("table", "column", "old", "new", "key"),
    [
        ("buffersizes_table3_sizes", "fast_rtx_eq2_KiB", "2628", "2682", "buffersizes/table3/KU-HiG/eq2"),
        ("mpcoa_table4_models", "c0_Mbit_s", "24.49", "24.59", "mpcoa/table4/SRL-HU/PCDC/Hybla/c0"),
        ("mpcoa_table2_impact_factors", "omega_Reno", "-0.027", "0.027", "mpcoa/table3/SRL-HU/Reno"),
        (
            "mpcoa_eq13_15_coefficients",
            "coefficient_tp_Mbit_s_bs_MiB",
            "9.8",
            "8.9",
            "mpcoa/equation/SRL-HU/PCDC/CC3",
        ),
        ("mpcoa_table5_solutions", "otp_Mbit_s", "266.66", "276.66", "mpcoa/table5/UNIS-HiN/global/otp"),
        (
            "pcdc_fig6_8_10_throughput",
            "published_improvement_percent_of_pcdc",
            "11.65",
            "12.65",
            "pcdc/gain/UiB-UNIS/Cubic/percent",
        ),
        ("pathmgmt_prose_throughput", "value", "8.8", "7.2", "pathmgmt/rule1/HU-KRU/Cubic/any"),
        ("glm_worked_examples", "value", "2702691", "2720691", "glm/example/inverse"),
        ("glm_table4_coefficients", "estimate_T_bit_s_B_byte", "0.659", "0.695", "glm/eq4/B*E1"),
    ],
)
def test_a_changed_fact_is_an_undocumented_contradiction(
    tamper: Tamper, table: str, column: str, old: str, new: str, key: str
) -> None:
    tamper(table, column, old, new)
    result = reproduce([key.partition("/")[0]])
    assert key in result.undocumented
    assert not result.as_documented
    (check,) = (check for check in result.checks if check.key == key)
    assert check.verdict == "contradicts"
    assert check.explanation == "not documented"


def test_a_corrected_paper_leaves_a_documented_contradiction_absent(tamper: Tamper) -> None:
    tamper("buffersizes_table3_sizes", "practical_KiB_prose", "2560", "2536")
    result = reproduce(["buffersizes"])
    assert result.absent == ("buffersizes/practical/KU-HiG",)
    assert result.undocumented == ()
    assert not result.as_documented
