"""PCDC (LCN 2020): optional sets from impact factors, improvements, and claims of the prose.

Completion times are measurements; only statements about them can be checked, and only where their values are
printed.
"""

from mptune.impact import partition
from mptune.papers.reproduce._base import Check, bound, exact, known, names, number, reach, rounded, taken
from mptune.papers.reproduce._facts import claim, nominal_limit_mbps, one, path_count, stated, table

_SITES = "pcdc_table1_sites"
_MEASURED = "pcdc_fig6_8_10_throughput"
_MEAN = "mean_throughput_Mbit_s"

#: Scenario -> table of its impact factors, number of that table.
_IMPACT = {
    "UiB-UNIS": ("pcdc_table2_if_uib_unis", "Table II"),
    "UiB-HiN": ("pcdc_table3_if_uib_hin", "Table III"),
    "UiB-HU": ("pcdc_table4_if_uib_hu", "Table IV"),
}

#: Bounds of a mean printed as zero: its sign is all that remains of the dropped digits.
_LEFT_OF_ZERO = {"0.00": 0.0025, "-0.00": -0.0025}


def checks() -> list[Check]:
    """Every derived number of the paper."""
    return [
        *_paths(),
        *_subsets(),
        *_lowest_rtt(),
        *_gains(),
        *_nominal_rates(),
        *_rates_of_sites(),
        *_completion_times(),
    ]


def _paths() -> list[Check]:
    """Numbers of subflows, from the ISPs of Table I."""
    checks = []
    for row in table("claims", paper="pcdc", unit="paths"):
        pair = row["claim"].removeprefix("paths ")
        count = known(path_count(_SITES, *pair.split("-")))
        key = f"pcdc/paths/{pair}"
        checks.append(number(key, row["where"], f"number of subflows {pair}", stated(row), count, "paths"))
    return checks


def _subsets() -> list[Check]:
    """Optional sets from the printed means, and from what a mean printed as zero may have been."""
    checks = []
    for row in table("pcdc_chosen_subsets"):
        name, where = _IMPACT[row["scenario"]]
        means = {f"{r['from_isp']}-{r['to_isp']}": r["omega_mean"] for r in table(name, cc=row["cc"])}
        printed = partition({path: float(text) for path, text in means.items()})
        unrounded = partition({path: _LEFT_OF_ZERO.get(text, float(text)) for path, text in means.items()})
        checks.append(
            names(
                f"pcdc/subset/{row['scenario']}/{row['cc']}",
                row["where"],
                f"optional set {row['scenario']} {row['cc']}, from {where}",
                _listed(row["subset_per_prose_space_separated"].split()),
                _listed(printed.optional),
                also={_listed(unrounded.optional)},
                note="a mean printed as 0.00 is above zero, one printed as -0.00 below (E26)",
            )
        )
    return checks


def _listed(paths: list[str] | tuple[str, ...]) -> str:
    """Set of subflows as text, independent of the printed order."""
    return " ".join(sorted(paths))


def _lowest_rtt() -> list[Check]:
    """The subflow that L1 streams take between UiB and UNIS: the one with the lowest mean RTT."""
    stated_path = claim("pcdc", "path with the lowest RTT UiB-UNIS")
    checks = []
    for cc in ("Cubic", "OLIA"):
        rows = table(_IMPACT["UiB-UNIS"][0], cc=cc)
        best = min(rows, key=lambda row: float(row["rtt_mean_ms"]))
        checks.append(
            names(
                f"pcdc/lowest-rtt/UiB-UNIS/{cc}",
                stated_path["where"],
                f"{stated_path['claim']} {cc}",
                stated_path["value"],
                f"{best['from_isp']}-{best['to_isp']}",
            )
        )
    return checks


def _gains() -> list[Check]:
    """Improvement of PCDC over FullMesh: where a percentage is printed, and as claimed in general."""
    general = claim("pcdc", "gain of PCDC over FullMesh")
    checks = []
    for row in table(_MEASURED, pm="PCDC"):
        scenario, cc, where = row["scenario"], row["cc"], f"Fig. {row['figure']}"
        fullmesh = one(_MEASURED, scenario=scenario, cc=cc, pm="FullMesh")
        inputs = [rounded(row[_MEAN]), rounded(fullmesh[_MEAN])]
        gain = reach(lambda values: 100 * (values[0] / values[1] - 1), inputs)
        what = f"gain of PCDC over FullMesh {scenario} {cc}"
        key = f"pcdc/gain/{scenario}/{cc}"
        checks.append(number(key, where, what, stated(general), gain, "percent"))
        if text := row["published_improvement_percent_of_pcdc"]:
            checks.append(number(f"{key}/percent", where, what, rounded(text), gain, "percent"))
    return checks


def _nominal_rates() -> list[Check]:
    """Largest throughput of each scenario against the rates of Table I."""
    checks = []
    for scenario in _IMPACT:
        limit = nominal_limit_mbps(_SITES, *scenario.split("-"))
        most = max((row[_MEAN] for row in table(_MEASURED, scenario=scenario)), key=float)
        what = f"largest throughput {scenario}, against the rates of Table I"
        limited = bound(f"{limit:g}", "at most")
        checks.append(number(f"pcdc/nominal/{scenario}", "Table I", what, limited, taken(most), "Mbit/s"))
    return checks


def _rates_of_sites() -> list[Check]:
    """Access rates that PCDC and MPCOA both print, a year apart."""
    checks = []
    for site in ("HU", "HiN", "UNIS"):
        for row in table("pcdc_table1_sites", abbr=site):
            isp = "CnUnicom" if row["isp"] == "China Unicom" else row["isp"]
            later = one("mpcoa_table1_sites", site_abbr=site, isp=isp)
            checks.append(
                names(
                    f"pcdc/rates/{site}/{isp}",
                    "Table I",
                    f"rates of {site} {isp} (down/up, kbit/s), PCDC against MPCOA Table 1",
                    f"{row['down_kbit_s']}/{row['up_kbit_s']}",
                    f"{later['down_kbit_s']}/{later['up_kbit_s']}",
                )
            )
    return checks


def _completion_times() -> list[Check]:
    """Completion times named in VI-A against the labels of Fig. 7, all of which are known (unassigned)."""
    labels = [float(row["label_ms"]) for row in table("pcdc_fig7_9_completion_labels_unassigned", figure="7")]
    centre = one("pcdc_completion_time_prose", quantity="spread centre (slightly around)")
    nearest = min(labels, key=lambda label: abs(label - float(centre["value"])))
    what = f"{centre['cc']}/{centre['pm']} {centre['payload_KiB']} KiB, nearest label of Fig. 7"
    checks = [number("pcdc/fig7/centre", centre["where"], what, exact(centre["value"]), known(nearest), "ms")]
    for end, value in (("low", min(labels)), ("high", max(labels))):
        row = one("pcdc_completion_time_prose", quantity=f"very short-lived flows {end} (around)")
        what = f"completion time {end}, labels of Fig. 7"
        published = rounded(row["value"], "around")
        checks.append(number(f"pcdc/fig7/{end}", row["where"], what, published, known(value), "ms"))
    return checks
