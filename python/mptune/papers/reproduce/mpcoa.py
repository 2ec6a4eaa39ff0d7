"""MPCOA (Electronics 2021): Tables 2 to 5, Eq. 13-15, and claims of the figures and the prose.

The models and the optimum have their own files beside this one.
"""

from mptune.impact import partition
from mptune.papers.reproduce import _mpcoa_models, _mpcoa_optimum
from mptune.papers.reproduce._base import (
    Check,
    Printed,
    bound,
    exact,
    known,
    names,
    number,
    reach,
    rounded,
    taken,
)
from mptune.papers.reproduce._facts import (
    Row,
    claim,
    isps,
    nominal_limit_mbps,
    one,
    path_count,
    stated,
    table,
)
from mptune.papers.reproduce._mpcoa_models import CCS, SCENARIOS, Models, swept

_SITES = "mpcoa_table1_sites"
_MEASURED = "mpcoa_fig6_7_8_throughput"
_MEAN = "mean_throughput_Mbit_s"


def checks() -> list[Check]:
    """Every derived number of the paper."""
    return [
        *_counts(),
        *_table_3(),
        *_mpcoa_models.checks(),
        *_mpcoa_optimum.checks(),
        *_figure_6(),
        *_predictions(),
        *_nominal_rates(),
        *_homogeneity(),
    ]


def _counts() -> list[Check]:
    """Numbers of subflows and of buffer sizes, and the coefficient named as an example."""
    checks = []
    for scenario in SCENARIOS:
        row = one("mpcoa_prose_numbers", item=f"number of subflows {scenario}")
        count = known(path_count(_SITES, *scenario.split("-")))
        key = f"mpcoa/subflows/{scenario}"
        checks.append(number(key, row["where"], row["item"], exact(row["value"]), count, "subflows"))
    points = one("mpcoa_prose_numbers", item="buffer grid points")
    size = known(len(swept().grid))
    checks.append(
        number("mpcoa/grid", points["where"], points["item"], exact(points["value"]), size, "sizes")
    )
    example = one("mpcoa_prose_numbers", item="example p-value coefficient (SRL-HU FullMesh bs)")
    bs = one("mpcoa_eq13_15_coefficients", scenario="SRL-HU", pm="FullMesh", term="bs")
    coefficient = taken(bs["coefficient_tp_Mbit_s_bs_MiB"])
    what = "coefficient of bs, FullMesh SRL-HU, prose against Eq. 13"
    key = "mpcoa/example-coefficient"
    return [*checks, number(key, example["where"], what, rounded(example["value"]), coefficient, "")]


def _table_3() -> list[Check]:
    """Optional sets from the impact factors of Table 2."""
    checks = []
    for row in table("mpcoa_table3_optional_subflows"):
        sets = partition(_mpcoa_optimum.impact_factors(row["scenario"], row["cc"]))
        what = f"optional set {row['scenario']} {row['cc']}"
        published = " ".join(sorted(row["optional_subflows_space_separated"].split()))
        key = f"mpcoa/table3/{row['scenario']}/{row['cc']}"
        checks.append(names(key, "Table 3", what, published, " ".join(sorted(sets.optional))))
    return checks


def _figure_6() -> list[Check]:
    """Gains of PCDC over FullMesh at 30 MiB, the best combination, and an impossible baseline."""
    rows = table(_MEASURED, scenario="SRL-HU")
    mean = {(row["pm"], row["cc"]): row[_MEAN] for row in rows}
    improvement = one("mpcoa_prose_numbers", item="Hybla PCDC over FullMesh improvement, SRL-HU")
    always = claim("mpcoa", "gain of PCDC over FullMesh at 30 MiB SRL-HU")
    best = claim("mpcoa", "best measured combination SRL-HU")
    checks = []
    for cc in CCS:
        inputs = [rounded(mean["PCDC", cc]), rounded(mean["FullMesh", cc])]
        gain = reach(lambda values: 100 * (values[0] / values[1] - 1), inputs)
        what = f"gain of PCDC over FullMesh SRL-HU {cc}"
        checks.append(number(f"mpcoa/fig6/gain/{cc}", "Fig. 6", what, stated(always), gain, "percent"))
        if cc == "Hybla":
            published = rounded(improvement["value"])
            key = "mpcoa/fig6/improvement"
            checks.append(number(key, improvement["where"], improvement["item"], published, gain, "percent"))
    pm, cc = max(mean, key=lambda combination: float(mean[combination]))
    checks.append(names("mpcoa/fig6/best", best["where"], best["claim"], best["value"], f"{pm}/{cc}"))
    return [*checks, _baseline(rows)]


def _baseline(rows: list[Row]) -> Check:
    """Throughput with all subflows under Hybla: Fig. 6 against the lowest impact factor of Table 2.

    An impact factor of -40.7 means that the rest carried 41.7 times as much; the largest measurement in this
    scenario bounds what the rest can have carried.
    """
    lowest = min(float(row["omega_Hybla"]) for row in table("mpcoa_table2_impact_factors", scenario="SRL-HU"))
    most = max(float(row[_MEAN]) for row in rows)
    baseline = next(row[_MEAN] for row in rows if (row["pm"], row["cc"]) == ("FullMesh", "Hybla"))
    limit = f"{most / (1 - lowest):.2f}"
    what = "FullMesh/Hybla SRL-HU (Fig. 6), against what Table 2 leaves for it"
    return number("mpcoa/fig6/baseline", "Table 2", what, bound(limit, "at most"), taken(baseline), "Mbit/s")


def _predictions() -> list[Check]:
    """The models at 30 MiB against the measurements at 30 MiB."""
    checks = []
    for row in table(_MEASURED):
        models = Models(row["scenario"])
        at = [exact(row["buffer_MiB"]), *models.of(row["pm"], row["cc"])]
        value = reach(lambda values: values[1] + (values[2] + values[3] * values[0]) * values[0], at)
        checks.append(
            number(
                f"mpcoa/fig{row['figure']}/model/{row['pm']}/{row['cc']}",
                f"Fig. {row['figure']}",
                f"{row['pm']}/{row['cc']} {row['scenario']} at {row['buffer_MiB']} MiB, by Table 4",
                rounded(row[_MEAN]),
                value,
                "Mbit/s",
            )
        )
    return checks


def _nominal_rates() -> list[Check]:
    """Largest measured and predicted throughputs against the rates of Table 1."""
    checks = []
    for scenario in SCENARIOS:
        limit = nominal_limit_mbps(_SITES, *scenario.split("-"))
        measured = max((row[_MEAN] for row in table(_MEASURED, scenario=scenario)), key=float)
        predicted = one("mpcoa_table4_results", scenario=scenario)["tp_max_Mbit_s"]
        for name, text in (("measured", measured), ("predicted", predicted)):
            checks.append(
                number(
                    f"mpcoa/nominal/{scenario}/{name}",
                    "Table 1",
                    f"largest {name} throughput {scenario}, against the rates of Table 1",
                    bound(f"{limit:g}", "at most"),
                    taken(text),
                    "Mbit/s",
                )
            )
    return checks


def _homogeneity() -> list[Check]:
    """UiT-HAW is called homogeneous for its rates; and an ISP named in 5.2 that Table 1 does not have."""
    rates = claim("mpcoa", "bandwidth of PowerTech over that of Telenor at UiT")
    isp = claim("mpcoa", "ISP at UNIS or HiN")
    here = {row["isp"]: row for row in isps(_SITES, "UiT")}
    there = sorted({row["isp"] for site in ("UNIS", "HiN") for row in isps(_SITES, site)})
    ratios = {
        direction: int(here["PowerTech"][column]) / int(here["Telenor"][column])
        for direction, column in (("up", "up_kbit_s"), ("down", "down_kbit_s"))
    }
    one_to_one: Printed = stated(rates)
    return [
        *(
            number(
                f"mpcoa/homogeneous/{direction}",
                rates["where"],
                f"{rates['claim']}, {direction}link",
                one_to_one,
                known(ratio),
                rates["unit"],
            )
            for direction, ratio in ratios.items()
        ),
        names(
            "mpcoa/isp",
            isp["where"],
            isp["claim"],
            isp["value"],
            isp["value"] if isp["value"] in there else ", ".join(there),
        ),
    ]
