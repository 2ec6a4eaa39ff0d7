"""The buffer-size study (AINA 2017): Table III from Table II, the worked example, prose against tables.

Throughputs and RTTs of Table II are measurements and are taken as they are.
"""

from collections.abc import Callable, Sequence

from mptune import theory
from mptune.papers.reproduce._base import (
    Check,
    Recomputed,
    exact,
    known,
    names,
    number,
    reach,
    rounded,
    taken,
)
from mptune.papers.reproduce._facts import Formula, Row, buffer_bytes, claim, one, path_count, stated, table

_KIB = 1024

#: Name of an equation -> column of Table III and of the example, formula.
_EQUATIONS: dict[str, tuple[str, str, Formula]] = {
    "eq1": ("initial_only_eq1_KiB", "eq1_KiB", theory.initial_transmission),
    "eq2": ("fast_rtx_eq2_KiB", "eq2_KiB", theory.fast_retransmission),
    "eq3": ("timer_rtx_eq3_KiB", "eq3_KiB", theory.timer_retransmission),
}

_BETWEEN_UDE_AND_HU = ("UDE-HU", "HU-UDE")


def checks() -> list[Check]:
    """Every derived number of the paper."""
    return [*_table_3(), *_example(), *_paths(), *_practical_sizes(), *_rtts(), *_throughputs(), *_mptcp()]


def _table_3() -> list[Check]:
    """Theoretical sizes from the median RTTs and TCP throughputs of Table II, RTO 1 s (section V-C)."""
    return [
        number(
            f"buffersizes/table3/{row['scenario']}/{name}",
            "Table III",
            f"buffer {row['scenario']}, Eq. {name[-1]}",
            rounded(row[column]),
            _size(row["scenario"], formula),
            "KiB",
        )
        for row in table("buffersizes_table3_sizes")
        for name, (column, _, formula) in _EQUATIONS.items()
    ]


def _size(scenario: str, formula: Formula) -> Recomputed:
    """Buffer of a scenario, KiB."""
    rows = table("buffersizes_table2_rtt_throughput", scenario=scenario)
    inputs = [rounded(row["tcp_throughput_Mbit_s"]) for row in rows]
    inputs += [rounded(row["rtt_median_ms"]) for row in rows]

    def compute(values: Sequence[float]) -> float:
        return buffer_bytes(formula, list(zip(values[: len(rows)], values[len(rows) :], strict=True))) / _KIB

    return reach(compute, inputs)


def _example() -> list[Check]:
    """Fibre and ADSL (section III); the rates and RTTs are given, not measured."""
    rows = table("buffersizes_example_fiber_adsl")
    answer, paths = rows[-1], [(float(r["bandwidth_Mbit_s"]), float(r["rtt_ms"])) for r in rows[:-1]]
    sizes = {name: buffer_bytes(formula, paths) for name, (_, _, formula) in _EQUATIONS.items()}
    checks = [
        number(
            f"buffersizes/example/{name}",
            "III",
            f"buffer fibre + ADSL, Eq. {name[-1]}",
            rounded(answer[column]),
            known(sizes[name] / _KIB),
            "KiB",
        )
        for name, (_, column, _) in _EQUATIONS.items()
    ]
    prose = claim("buffersizes", "buffer per connection in the example")
    total = known(sizes["eq3"] / _KIB**2)
    checks.append(
        number("buffersizes/example/total", prose["where"], prose["claim"], stated(prose), total, "MiB")
    )
    return checks


def _paths() -> list[Check]:
    """Numbers of paths, from the ISPs of Table I."""
    checks = []
    for row in table("claims", paper="buffersizes", unit="paths"):
        pair = row["claim"].removeprefix("paths ")
        count = known(path_count("buffersizes_table1_sites", *pair.split("-")))
        key = f"buffersizes/paths/{pair}"
        checks.append(number(key, row["where"], f"number of paths {pair}", stated(row), count, "paths"))
    return checks


def _practical_sizes() -> list[Check]:
    """Practical sizes: prose against Table III, and the rules drawn from them."""
    rows = table("buffersizes_table3_sizes")
    checks = [
        number(
            f"buffersizes/practical/{row['scenario']}",
            row["practical_prose_where"].partition(":")[0],
            f"practical size {row['scenario']}, prose against Table III",
            rounded(row["practical_KiB_prose"]),
            taken(row["practical_KiB_table3"]),
            "KiB",
        )
        for row in rows
    ]
    enough = sum(float(row["fast_rtx_eq2_KiB"]) >= float(row["practical_KiB_table3"]) for row in rows)
    practical = [float(row["practical_KiB_table3"]) for row in rows]
    timer = one("buffersizes_table3_sizes", scenario="UiB-UiS")["timer_rtx_eq3_KiB"]
    recomputed = {
        "eq2-suffices": ("scenarios for which Eq. 2 suffices", known(enough)),
        "lowest": ("practical sizes lowest", known(min(practical))),
        "highest": ("practical sizes highest", known(max(practical))),
        "timer": (
            "timer-based size UiB-UiS",
            reach(lambda values: values[0] / _KIB, [rounded(timer)]),
        ),
    }
    for key, (name, value) in recomputed.items():
        row = claim("buffersizes", name)
        checks.append(number(f"buffersizes/sizes/{key}", row["where"], name, stated(row), value, row["unit"]))
    return checks


def _rtts() -> list[Check]:
    """RTTs between UDE and HU named in section V-C, from Table II."""
    rows = [row for pair in _BETWEEN_UDE_AND_HU for row in _measured(pair)]
    pick: dict[str, tuple[Callable[[list[float]], float], str]] = {
        "minimum RTT": (min, "rtt_min_ms"),
        "mean RTT low": (min, "rtt_avg_ms"),
        "mean RTT high": (max, "rtt_avg_ms"),
    }
    checks = []
    for quantity, (extreme, column) in pick.items():
        row = one("buffersizes_prose_throughput", scenario="UDE and HU", quantity=quantity)
        value = known(extreme([float(measured[column]) for measured in rows]))
        key = f"buffersizes/rtt/{quantity.replace(' ', '-')}"
        checks.append(number(key, row["where"], f"{quantity} UDE and HU", rounded(row["value"]), value, "ms"))
    row = one("buffersizes_prose_throughput", quantity="maximum RTT")
    value = taken(_path(row["scenario"], row["path"])["rtt_max_ms"])
    quantity = f"maximum RTT {row['path']}"
    return [
        *checks,
        number("buffersizes/rtt/maximum", row["where"], quantity, rounded(row["value"]), value, "ms"),
    ]


def _throughputs() -> list[Check]:
    """TCP throughputs named in the prose, from Table II."""
    checks = []
    for row in table("buffersizes_prose_throughput", protocol="TCP", quantity="throughput"):
        if row["comparison"] == "upper bound":
            continue
        path = f"{row['scenario']} {row['path']}"
        checks.append(
            number(
                f"buffersizes/tcp/{row['scenario']}/{row['path']}",
                row["where"].partition(";")[0],
                f"TCP {path}, prose against Table II",
                rounded(row["value"]),
                taken(_path(row["scenario"], row["path"])["tcp_throughput_Mbit_s"]),
                "Mbit/s",
            )
        )
    return [*checks, *_ude_to_hu()]


def _ude_to_hu() -> list[Check]:
    """The best path between UDE and HU, all others, and the slowest."""
    rows = {f"{r['from_isp']}-{r['to_isp']}": float(r["tcp_throughput_Mbit_s"]) for r in _measured("UDE-HU")}
    best = claim("buffersizes", "best TCP path UDE-HU")
    slowest = claim("buffersizes", "TCP Versatel-CnUnicom")
    others = one("buffersizes_prose_throughput", path="every other path")
    rest = max(mbps for path, mbps in rows.items() if path != best["value"])
    slow = known(1000 * rows["Versatel-CnUnicom"])
    return [
        names(
            "buffersizes/tcp/UDE-HU/best",
            best["where"],
            "best TCP path UDE-HU",
            best["value"],
            max(rows, key=lambda path: rows[path]),
        ),
        number(
            "buffersizes/tcp/UDE-HU/others",
            "V-A Fig. 5(a)",
            f"TCP UDE-HU, every path but {best['value']}",
            stated({"value": others["value"], "comparison": "below"}),
            known(rest),
            "Mbit/s",
        ),
        number(
            "buffersizes/tcp/UDE-HU/slowest",
            slowest["where"],
            slowest["claim"],
            stated(slowest),
            slow,
            "kbit/s",
        ),
    ]


def _mptcp() -> list[Check]:
    """MPTCP against the single paths: below the best one, above all others (section V-B)."""
    checks = []
    for row in table("buffersizes_prose_throughput", protocol="MPTCP", quantity="throughput"):
        scenario, mptcp = row["scenario"], exact(row["value"])
        *others, best = sorted(float(path["tcp_throughput_Mbit_s"]) for path in _measured(scenario))
        for name, reference, comparison in (("best", best, "below"), ("others", others[-1], "above")):
            checks.append(
                number(
                    f"buffersizes/mptcp/{scenario}/{name}",
                    row["where"].partition(" ")[0],
                    f"MPTCP {scenario} ({mptcp.text} Mbit/s) against the {name} TCP",
                    stated({"value": str(reference), "comparison": comparison}),
                    known(mptcp.value),
                    "Mbit/s",
                )
            )
    return checks


def _measured(scenario: str) -> list[Row]:
    """Rows of Table II."""
    return table("buffersizes_table2_rtt_throughput", scenario=scenario)


def _path(scenario: str, path: str) -> Row:
    """Row of Table II of one path."""
    sender, receiver = path.split("-")
    return one("buffersizes_table2_rtt_throughput", scenario=scenario, from_isp=sender, to_isp=receiver)
