"""The path-management study (AINA 2017): comparisons in words, checked with the numbers beside them.

The paper has no tables of results; all its numbers are in the prose. If another of the five papers measured
the same thing, the two are compared too.
"""

from collections.abc import Sequence

from mptune.papers.reproduce._base import Check, Printed, Recomputed, bound, known, number, reach, rounded
from mptune.papers.reproduce._facts import Row, claim, one, path_count, stated, table

_SAID = "pathmgmt_prose_throughput"


def checks() -> list[Check]:
    """Every comparison of the paper, and of the paper with the others."""
    return [*_paths(), *_rule_1(), *_comparisons(), *_repeated(), *_cubic_or_olia()]


def _paths() -> list[Check]:
    """Numbers of paths, from the ISPs of Table I."""
    checks = []
    for row in table("claims", paper="pathmgmt", comparison="="):
        pair = row["claim"].split()[-1]
        count = known(path_count("pathmgmt_table1_sites", *pair.split("-")))
        key = f"pathmgmt/paths/{pair}"
        checks.append(number(key, row["where"], f"number of {row['claim']}", stated(row), count, row["unit"]))
    return checks


def _rule_1() -> list[Check]:
    """MPTCP at least as fast as the best single path (RFC 6356, goal 1)."""
    rule = claim("pathmgmt", "MPTCP over the best single path")
    best = {
        "HU-KRU": "best path",
        "KU-HiG": "best path (KanREN-Uninett)",
        "UiB-HKC": "Uninett-CERNET (best)",
        "NTNU-HiN": "Uninett-Uninett",
    }
    checks = []
    for scenario, path in best.items():
        single = _row(scenario, path=path)
        for row in table(_SAID, scenario=scenario, protocol="MPTCP"):
            what = f"{scenario} {row['cc']}, {row['path']}: {row['value']} over {single['value']} Mbit/s"
            key = f"pathmgmt/rule1/{scenario}/{row['cc']}/{_initial(row)}"
            ratio = _ratio(row, single)
            checks.append(number(key, row["where"], what, stated(rule), ratio, rule["unit"]))
    return checks


def _comparisons() -> list[Check]:
    """Comparisons in words."""
    fifth = claim("pathmgmt", "Cubic over OLIA UiB-HKC")
    orders = claim("pathmgmt", "MPTCP over the bad path KU-HiG")
    fullmesh = _row("KU-HiG", protocol="MPTCP")
    bad = _row("KU-HiG", path="bad path (KanREN-PowerTech)")
    least, most = (_row("NTNU-HiN", cc="OLIA", path=f"{end} initial path") for end in ("lowest", "highest"))
    most_cubic = _row("NTNU-HiN", cc="Cubic", path="highest initial path")
    single = _row("NTNU-HiN", path="Uninett-Uninett")
    cubic, olia = (_row("UDE-HU", protocol="TCP", cc=cc) for cc in ("Cubic", "OLIA"))
    comparisons = (
        (
            "one-fifth",
            fifth["claim"],
            stated(fifth),
            _row("UiB-HKC", cc="Cubic"),
            _row("UiB-HKC", cc="OLIA"),
        ),
        ("two-orders", orders["claim"], stated(orders), fullmesh, bad),
        ("olia-over-cubic", "least OLIA over most Cubic NTNU-HiN", bound("1", "above"), least, most_cubic),
        ("not-exceeded", "most OLIA over the best TCP NTNU-HiN", bound("1", "at most"), most, single),
        ("slightly-better", "Cubic over OLIA TCP DFN-CERNET", bound("1", "above"), cubic, olia),
    )
    return [
        number(f"pathmgmt/{key}", above["where"], what, published, _ratio(above, below), "times")
        for key, what, published, above, below in comparisons
    ]


def _repeated() -> list[Check]:
    """The same paths with the same software in the buffer-size study: a factor that rounds to one."""
    tcp = {
        "UDE-HU": ("DFN-CERNET", "DFN-CnUnicom"),
        "KU-HiG": ("best path (KanREN-Uninett)", "bad path (KanREN-PowerTech)"),
        "NTNU-HiN": ("Uninett-Uninett", "Uninett-Broadnet"),
    }
    checks = []
    for scenario, paths in tcp.items():
        for path in paths:
            row = next(row for row in table(_SAID, scenario=scenario, path=path) if row["cc"] != "OLIA")
            name = path.rpartition("(")[2].rstrip(")")
            ends = dict(zip(("from_isp", "to_isp"), name.split("-"), strict=True))
            other = one("buffersizes_table2_rtt_throughput", scenario=scenario, **ends)
            checks.append(_repetition(f"{scenario}/TCP/{name}", row, other["tcp_throughput_Mbit_s"]))
    for scenario in ("KU-HiG", "NTNU-HiN"):
        other = one(
            "buffersizes_prose_throughput", scenario=scenario, protocol="MPTCP", quantity="throughput"
        )
        for row in table(_SAID, scenario=scenario, protocol="MPTCP", cc="Cubic"):
            checks.append(_repetition(f"{scenario}/MPTCP/{_initial(row)}", row, other["value"]))
    return checks


def _repetition(name: str, row: Row, other: str) -> Check:
    """One measurement of both studies."""
    ratio = _quotient([rounded(row["value"]), rounded(other)])
    what = f"{name.replace('/', ' ')}: {row['value']} over {other} Mbit/s of the buffer-size study"
    return number(f"pathmgmt/repeated/{name}", row["where"], what, rounded("1"), ratio, "times")


def _initial(row: Row) -> str:
    """Initial path of a row, in one word."""
    return row["path"].removeprefix("e.g. ").partition(" ")[0]


def _cubic_or_olia() -> list[Check]:
    """The recommendation of Cubic for long paths, with the numbers of all papers that have both."""
    advice = claim("pathmgmt", "Cubic over OLIA inter-continental")
    pairs = {
        "pathmgmt/UiB-HKC": [rounded(_row("UiB-HKC", cc=cc)["value"]) for cc in ("Cubic", "OLIA")],
        "pcdc/UiB-HU": _fullmesh("pcdc_fig6_8_10_throughput", "UiB-HU"),
        "mpcoa/SRL-HU": _fullmesh("mpcoa_fig6_7_8_throughput", "SRL-HU"),
    }
    return [
        number(
            f"pathmgmt/cubic-better/{name}",
            advice["where"],
            f"Cubic over OLIA with FullMesh, {name.replace('/', ' ')}",
            stated(advice),
            _quotient(inputs),
            "times",
        )
        for name, inputs in pairs.items()
    ]


def _fullmesh(measured: str, scenario: str) -> list[Printed]:
    """Throughputs of Cubic and of OLIA with FullMesh in another paper."""
    rows = [one(measured, scenario=scenario, cc=cc, pm="FullMesh") for cc in ("Cubic", "OLIA")]
    return [rounded(row["mean_throughput_Mbit_s"]) for row in rows]


def _row(scenario: str, **wanted: str) -> Row:
    """One throughput of the prose."""
    return one(_SAID, scenario=scenario, **wanted)


def _ratio(above: Row, below: Row) -> Recomputed:
    """Quotient of two throughputs."""
    return _quotient([rounded(above["value"]), rounded(below["value"])])


def _quotient(inputs: Sequence[Printed]) -> Recomputed:
    """First over second."""
    return reach(lambda values: values[0] / values[1], inputs)
