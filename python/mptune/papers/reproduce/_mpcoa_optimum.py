"""MPCOA's decision: Table 5 by every reading of the algorithm, and the traditional buffers beside it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from mptune import theory
from mptune.decision.selection import BufferRange, Optimum, select
from mptune.impact import every_subflow_helps
from mptune.papers.reproduce._base import (
    Check,
    Printed,
    Recomputed,
    bound,
    known,
    names,
    number,
    reach,
    rounded,
)
from mptune.papers.reproduce._facts import Row, buffer_bytes, isps, one, table
from mptune.papers.reproduce._mpcoa_models import CCS, PMS, SCENARIOS, Models, swept
from mptune.response import Curve
from mptune.response.quadratic import Parabola
from mptune.theory import Subflow
from mptune.trial import Combination
from mptune.units import MIB

_SITES = "mpcoa_table1_sites"

Curves = dict[Combination, Curve]
Formula = Callable[[Sequence[Subflow]], int]


def checks() -> list[Check]:
    """Table 5, scenario by scenario."""
    result = []
    for name in SCENARIOS:
        scenario = _Scenario(name)
        for reading in _READINGS:
            result += _solution(scenario, reading)
        result += [*_on_grid(scenario), *_from_printed(scenario), *_traditional(scenario.row)]
    return result


class _Scenario:
    """The decision's inputs: Table 5's row, Table 4's models, the sweep, and where PCDC is FullMesh."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.row = one("mpcoa_table5_solutions", scenario=name)
        self.models = Models(name)
        self.grid = swept().grid
        self.as_printed = [coefficient.value for coefficient in self.models.coefficients]
        self._homogeneous = homogeneous(name)

    def solve(self, name: str, values: Sequence[float], on_grid: bool = False) -> Optimum:
        """Solution by one reading, from coefficients of Table 4 or nearby ones."""
        reading, buffers = _READINGS[name], BufferRange(grid=self.grid, on_grid=on_grid)
        return select(
            reading.keep(self.models.curves(values), buffers),
            buffers,
            sacrifice=float(self.row["delta"]),
            reading=reading.reading,
            homogeneous=self._homogeneous if reading.ties else (),
        )

    def nearby(self, reading: str) -> set[str]:
        """Combinations chosen when one coefficient moves to an end of its rounding interval."""
        buffers = set()
        for i, coefficient in enumerate(self.models.coefficients):
            for end in (coefficient.low, coefficient.high):
                values = [*self.as_printed[:i], end, *self.as_printed[i + 1 :]]
                buffers.add(_spelled(self.solve(reading, values)))
        return buffers


def impact_factors(scenario: str, cc: str) -> dict[str, float | None]:
    """One column of Table 2: subflow -> impact factor."""
    rows = table("mpcoa_table2_impact_factors", scenario=scenario)
    return {row["subflow"]: float(row[f"omega_{cc}"]) for row in rows}


def homogeneous(scenario: str) -> set[str]:
    """Congestion controls under which every subflow helps: there PCDC is FullMesh (section 5.3)."""
    return {cc.lower() for cc in CCS if every_subflow_helps(impact_factors(scenario, cc).values())}


def _all_of_them(curves: Curves, buffers: BufferRange) -> Curves:
    """Eq. 9-12: every combination."""
    return curves


def _best_pm_of_each_cc(curves: Curves, buffers: BufferRange) -> Curves:
    """Algorithm 1, lines 21-26: the better path manager of each congestion control."""
    best: dict[str, Combination] = {}
    for name in sorted(curves, key=lambda combination: -buffers.maximum(curves[combination])):
        best.setdefault(name.cc, name)
    return {name: curves[name] for name in best.values()}


def _fullmesh_only(curves: Curves, buffers: BufferRange) -> Curves:
    """Algorithm 1 as it is indented: only the last path manager of the loop is ever measured (E8)."""
    return {name: curve for name, curve in curves.items() if name.pm == PMS[0].lower()}


class _Reading(NamedTuple):
    """One way to read the algorithm.

    Attributes
    ----------
    reading : name in `mptune.decision.selection.READINGS`.
    keep : the combinations it considers.
    ties : it prefers FullMesh where PCDC uses every subflow (sections 5.3 and 5.4, not Algorithm 1).
    """

    what: str
    reading: str
    keep: Callable[[Curves, BufferRange], Curves]
    ties: bool


_READINGS = {
    "global": _Reading("against the best of all", "global", _all_of_them, True),
    "literal": _Reading("Eq. 11 read literally", "literal", _all_of_them, True),
    "best-pm": _Reading("Algorithm 1, best path manager", "literal", _best_pm_of_each_cc, False),
    "indented": _Reading("Algorithm 1 as indented", "literal", _fullmesh_only, False),
}


def _solution(scenario: _Scenario, reading: str) -> list[Check]:
    """Combination, OBS and OTP by one reading."""
    row, key = scenario.row, f"mpcoa/table5/{scenario.name}/{reading}"
    what = f"{scenario.name}, {_READINGS[reading].what}"

    def found(attribute: str, values: Sequence[float]) -> float:
        return float(getattr(scenario.solve(reading, values), attribute))

    return [
        names(
            f"{key}/combination",
            "Table 5",
            f"OPM/OCC {what}",
            f"{row['opm']}/{row['occ']}",
            _spelled(scenario.solve(reading, scenario.as_printed)),
            also=scenario.nearby(reading),
        ),
        *(
            number(
                f"{key}/{name.lower()}",
                "Table 5",
                f"{name} {what}",
                rounded(row[column]),
                reach(partial(found, attribute), scenario.models.coefficients),
                unit,
            )
            for name, column, attribute, unit in (
                ("OBS", "obs_MiB", "buffer_mib", "MiB"),
                ("OTP", "otp_Mbit_s", "throughput_mbps", "Mbit/s"),
            )
        ),
    ]


def _on_grid(scenario: _Scenario) -> list[Check]:
    """OBS restricted to the buffers of the sweep, as Eq. 10 has it.

    Rounding may move the answer by a whole step, never off the grid: there is no interval to compare.
    """
    optimum = scenario.solve("global", scenario.as_printed, on_grid=True)
    key, what = f"mpcoa/table5/{scenario.name}/on-grid", f"OBS {scenario.name}, on the grid (Eq. 10)"
    return [number(key, "Table 5", what, rounded(scenario.row["obs_MiB"]), known(optimum.buffer_mib), "MiB")]


def _from_printed(scenario: _Scenario) -> list[Check]:
    """OBS and OTP from the maximum as printed, and OTP from OBS as printed (Eq. 12)."""
    row, buffers, keep = scenario.row, BufferRange(grid=scenario.grid), 1 - float(scenario.row["delta"])
    maximum = rounded(one("mpcoa_table4_results", scenario=scenario.name)["tp_max_Mbit_s"])
    coefficients = scenario.models.of(row["opm"], row["occ"])
    key = f"mpcoa/table5/{scenario.name}"

    def smallest(values: Sequence[float]) -> float:
        # Out of reach for some of the numbers that round to the printed maximum: then the range's end.
        buffer = buffers.smallest(Parabola((values[1], values[2], values[3])), keep * values[0])
        return buffers.grid[-1] if buffer is None else buffer

    def at_obs(values: Sequence[float]) -> float:
        return Parabola((values[1], values[2], values[3])).predict(values[0])

    obs, otp = rounded(row["obs_MiB"]), rounded(row["otp_Mbit_s"])
    return [
        number(
            f"{key}/obs-from-printed-maximum",
            "Table 5",
            f"OBS {scenario.name}, from tp_max as printed",
            obs,
            reach(smallest, [maximum, *coefficients]),
            "MiB",
        ),
        number(
            f"{key}/otp-from-printed-maximum",
            "Table 5",
            f"OTP {scenario.name}, (1 - delta) tp_max as printed",
            otp,
            reach(lambda values: keep * values[0], [maximum]),
            "Mbit/s",
        ),
        number(
            f"{key}/otp-at-printed-obs",
            "Table 5",
            f"OTP {scenario.name}, f5(OBS) by Eq. 12",
            otp,
            reach(at_obs, [obs, *coefficients]),
            "Mbit/s",
        ),
    ]


def _traditional(row: Row) -> list[Check]:
    """Traditional buffers, the shares that follow, and what is saved (section 5.4)."""
    by_formula: dict[str, tuple[str, Formula, int]] = {
        "recovered": ("3 (RTTmax + RTOmax) sum BW", theory.table5, 1),
        "eq1": ("Eq. 1 as printed", theory.timer_retransmission, 1),
        "introduction": ("(RTTmax + RTOmax) sum BW, section 1", theory.table5, 3),
    }
    scenario, printed = row["scenario"], rounded(row["traditional_B_MiB"])
    checks = []
    for name, (what, formula, divisor) in by_formula.items():
        size = _traditional_mib(row, formula, divisor)
        key = f"mpcoa/traditional/{scenario}/{name}"
        checks.append(number(key, "Table 5", f"traditional B {scenario}, {what}", printed, size, "MiB"))
    return [
        *checks,
        *_shares(row, "printed", "B as printed", printed),
        *_shares(row, "eq1", "B by Eq. 1", _as_input(_traditional_mib(row, theory.timer_retransmission, 1))),
        *_rule_of_thumb(row, printed),
    ]


def _traditional_mib(row: Row, formula: Formula, divisor: int) -> Recomputed:
    """Traditional buffer, MiB, over each path's slower access rate; the formula's result over `divisor`."""
    sender, receiver = row["scenario"].split("-")
    rates = [
        min(float(local["up_kbit_s"]), float(remote["down_kbit_s"])) / 1000
        for local in isps(_SITES, sender)
        for remote in isps(_SITES, receiver)
    ]

    def compute(values: Sequence[float]) -> float:
        paths = [(rate, 1000 * values[0]) for rate in rates]
        return buffer_bytes(formula, paths, rto_s=values[1]) / divisor / MIB

    return reach(compute, [rounded(row["rtt_max_s"]), rounded(row["rto_max_s"])])


def _shares(row: Row, name: str, what: str, traditional: Printed) -> list[Check]:
    """OBS as a percentage of a traditional buffer, and whether the claimed saving is reached."""
    scenario, obs = row["scenario"], rounded(row["obs_MiB"])
    share = reach(lambda values: 100 * values[0] / values[1], [obs, traditional])
    saving = Recomputed(100 - share.value, 100 - share.high, 100 - share.low)
    claimed = one("mpcoa_prose_numbers", item="claimed minimum buffer saving")
    key = f"mpcoa/share/{scenario}/{name}"
    percent = rounded(row["obs_percent_of_traditional_prose"])
    return [
        number(key, "5.4", f"OBS of traditional {scenario}, {what}", percent, share, "percent"),
        number(
            f"{key}/saving",
            claimed["where"],
            f"saving {scenario}, {what}",
            bound(claimed["value"], "at least"),
            saving,
            "percent",
        ),
    ]


def _rule_of_thumb(row: Row, traditional: Printed) -> list[Check]:
    """Half the traditional buffer, recommended instead of measuring, against the largest one tested."""
    rule = one("mpcoa_prose_numbers", item="rule-of-thumb buffer as share of traditional")
    last = one("mpcoa_prose_numbers", item="buffer grid last")
    half = reach(lambda values: values[0] * float(rule["value"]) / 100, [traditional])
    scenario = row["scenario"]
    what = f"half of traditional B {scenario}, against the largest tested"
    limit = bound(last["value"], "at most")
    return [number(f"mpcoa/rule-of-thumb/{scenario}", rule["where"], what, limit, half, "MiB")]


def _spelled(optimum: Optimum) -> str:
    """Combination in the paper's spelling."""
    pm = next(pm for pm in PMS if pm.lower() == optimum.pm)
    return f"{pm}/{next(cc for cc in CCS if cc.lower() == optimum.cc)}"


def _as_input(recomputed: Recomputed) -> Printed:
    """Recomputed number as input of the next one, with its whole range."""
    return Printed("", *recomputed)
