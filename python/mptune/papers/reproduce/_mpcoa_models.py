"""MPCOA's models: Eq. 13-15 and Table 4 from each other, and the maxima of Table 4.

Eq. 13-15 are the minimum-norm solution of a design with more columns than rank: a constant, the buffer,
one dummy per congestion control, and all products of two of these. Each congestion control appears in it as
itself and as its square, so half of its intercept ends up in each. The closed form of that solution is here;
the fit that yields the curves is mptune's own.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from mptune.decision.selection import BufferRange
from mptune.options.buffers import parse_buffers
from mptune.papers.reproduce._base import (
    Check,
    Printed,
    bound,
    decimals_of,
    exact,
    known,
    names,
    number,
    reach,
    rounded,
    taken,
)
from mptune.papers.reproduce._facts import one, table
from mptune.response import MODELS, Curve, Sample
from mptune.response.quadratic import Parabola
from mptune.trial import Combination
from mptune.units import MIB

#: Scenario -> number of its equation.
SCENARIOS = {"SRL-HU": 13, "UNIS-HiN": 14, "UiT-HAW": 15}

PMS = ("FullMesh", "PCDC")

#: In the papers' order: CC1..CC6 of Eq. 13-15.
CCS = ("Cubic", "OLIA", "Hybla", "Reno", "Scalable", "Vegas")

_COLUMNS = ("c0_Mbit_s", "c1_Mbit_s_per_MiB", "c2_Mbit_s_per_MiB2")

_UNITS = {"c0": "Mbit/s", "c1": "Mbit/s/MiB", "c2": "Mbit/s/MiB^2"}


def swept() -> BufferRange:
    """Buffers of the sweep: 0.5 to 30 MiB (section 4)."""
    low, step, high = (
        one("mpcoa_prose_numbers", item=f"buffer grid {name}")["value"] for name in ("first", "step", "last")
    )
    return BufferRange(grid=tuple(size / MIB for size in parse_buffers(f"{low}:{high}:{step}")))


class Models:
    """Table 4 of one scenario: printed coefficients, and the curves they or nearby numbers give.

    Attributes
    ----------
    coefficients : c0, c1, c2 of every combination, one after the other.
    """

    def __init__(self, scenario: str) -> None:
        rows = table("mpcoa_table4_models", scenario=scenario)
        self.combinations = [Combination(row["pm"].lower(), row["cc"].lower()) for row in rows]
        decimals = [decimals_of([row[column] for row in rows]) for column in _COLUMNS]
        self.coefficients = [
            # UiT-HAW has no quadratic term: nothing was rounded.
            exact("0") if row[column] == "0" else rounded(row[column], decimals=places)
            for row in rows
            for column, places in zip(_COLUMNS, decimals, strict=True)
        ]

    def curves(self, values: Sequence[float] | None = None) -> dict[Combination, Curve]:
        """Curve of every combination, from the printed coefficients unless others are given."""
        flat = [coefficient.value for coefficient in self.coefficients] if values is None else values
        return {
            combination: Parabola((flat[3 * i], flat[3 * i + 1], flat[3 * i + 2]))
            for i, combination in enumerate(self.combinations)
        }

    def of(self, pm: str, cc: str) -> list[Printed]:
        """c0, c1, c2 of one combination."""
        at = 3 * self.combinations.index(Combination(pm.lower(), cc.lower()))
        return self.coefficients[at : at + 3]


def checks() -> list[Check]:
    """Equations, Table 4, its maxima, and the acceptance of the fits."""
    result = []
    for scenario in SCENARIOS:
        models = Models(scenario)
        result += [*_table_4(scenario, models), *_equation(scenario, models)]
        result += [*_maximum(scenario, models), *_acceptance(scenario)]
    return result


def minimum_norm(c0: Sequence[float], c1: Sequence[float], c2: float) -> dict[str, float]:
    """Minimum-norm coefficients by term, from intercepts and slopes of K congestion controls and c2.

    Minimises the sum of squares under `intercept + CC_k + CC_k^2 = c0_k` and `bs + bs*CC_k = c1_k`.
    """
    intercept, slope = sum(c0) / (len(c0) + 2), sum(c1) / (len(c1) + 1)
    terms = {"intercept": intercept, "bs": slope, "bs^2": c2}
    for k, (constant, rise) in enumerate(zip(c0, c1, strict=True), start=1):
        terms[f"CC{k}"] = terms[f"CC{k}^2"] = (constant - intercept) / 2
        terms[f"bs*CC{k}"] = rise - slope
    return terms


def _printed_equation(scenario: str, pm: str) -> dict[str, Printed]:
    """Coefficients of Eq. 13-15 by term."""
    rows = table("mpcoa_eq13_15_coefficients", scenario=scenario, pm=pm)
    column = "coefficient_tp_Mbit_s_bs_MiB"
    decimals = decimals_of([row[column] for row in rows])
    return {row["term"]: rounded(row[column], decimals=decimals) for row in rows}


def _table_4(scenario: str, models: Models) -> list[Check]:
    """Table 4 from Eq. 13-15: the equation at every buffer of the sweep, fitted with mptune's model."""
    equations = {pm: _printed_equation(scenario, pm) for pm in PMS}
    samples = [
        Sample(Combination(pm.lower(), cc.lower()), bs, _evaluate(equations[pm], k, bs))
        for pm in PMS
        for k, cc in enumerate(CCS, start=1)
        for bs in swept().grid
    ]
    fitted = MODELS["quadratic"].fit(samples).curves
    checks = []
    for pm in PMS:
        for k, cc in enumerate(CCS, start=1):
            curve = cast("Parabola", fitted[Combination(pm.lower(), cc.lower())])
            for name, printed, value in zip(_UNITS, models.of(pm, cc), curve.coefficients, strict=True):
                if printed.text == "0":
                    continue
                inputs = [equations[pm][t] for t in _terms_of(name, k) if t in equations[pm]]
                room = sum(each_input.high - each_input.value for each_input in inputs)
                checks.append(
                    number(
                        f"mpcoa/table4/{scenario}/{pm}/{cc}/{name}",
                        "Table 4",
                        f"{name} of {pm}/{cc} {scenario}, from Eq. {SCENARIOS[scenario]}",
                        printed,
                        known(round(value, 9))._replace(low=value - room, high=value + room),
                        _UNITS[name],
                    )
                )
    return checks


def _evaluate(equation: Mapping[str, Printed], k: int, bs: float) -> float:
    """Eq. 13-15 for the k-th congestion control."""
    powers = {"c0": 1.0, "c1": bs, "c2": bs * bs}
    return sum(
        equation[term].value * power
        for name, power in powers.items()
        for term in _terms_of(name, k)
        if term in equation
    )


def _terms_of(name: str, k: int) -> tuple[str, ...]:
    """Terms of Eq. 13-15 that make up a coefficient of Table 4."""
    return {"c0": ("intercept", f"CC{k}", f"CC{k}^2"), "c1": ("bs", f"bs*CC{k}"), "c2": ("bs^2",)}[name]


def _equation(scenario: str, models: Models) -> list[Check]:
    """Eq. 13-15 from Table 4, by minimum norm."""
    checks = []
    for pm in PMS:
        coefficients = [each_printed for cc in CCS for each_printed in models.of(pm, cc)]
        for term, printed in _printed_equation(scenario, pm).items():
            checks.append(
                number(
                    f"mpcoa/equation/{scenario}/{pm}/{term}",
                    f"Eq. {SCENARIOS[scenario]}",
                    f"{term} of {pm} {scenario}, from Table 4",
                    printed,
                    reach(partial(_term, term), coefficients),
                    "",
                )
            )
    return checks


def _term(term: str, values: Sequence[float]) -> float:
    """One coefficient of the minimum-norm equation; `values` are c0, c1, c2 of all congestion controls."""
    return minimum_norm(values[0::3], values[1::3], values[2])[term]


def _maximum(scenario: str, models: Models) -> list[Check]:
    """Largest throughput of a scenario, its buffer, and its combination (Table 4, last column)."""
    row, buffers = one("mpcoa_table4_results", scenario=scenario), swept()
    printed = {"tp": rounded(row["tp_max_Mbit_s"]), "bs": rounded(row["bs_at_tp_max_MiB"])}

    def best(position: int, values: Sequence[float]) -> float:
        curves = models.curves(values).values()
        maxima = [curve.maximum(buffers.grid[0], buffers.grid[-1]) for curve in curves]
        return max(maxima, key=lambda maximum: maximum[1])[position]

    checks = [
        number(
            f"mpcoa/maximum/{scenario}/{name}",
            "Table 4",
            f"{quantity} {scenario}",
            printed[name],
            reach(partial(best, position), models.coefficients),
            unit,
        )
        for position, name, quantity, unit in (
            (1, "tp", "tp_max", "Mbit/s"),
            (0, "bs", "bs at tp_max", "MiB"),
        )
    ]
    pms = row["pm_at_max_per_prose"].partition(" (")[0]
    return [
        *checks,
        names(
            f"mpcoa/maximum/{scenario}/combination",
            f"5.{SCENARIOS[scenario] - 12}",
            f"combination at tp_max {scenario}",
            f"{pms}/{row['cc_at_max_per_prose']}",
            _leaders(models, buffers, printed["tp"]),
        ),
    ]


def _leaders(models: Models, buffers: BufferRange, printed: Printed) -> str:
    """Combinations whose maximum is printed like the largest one: the paper calls them equal (E4)."""
    maxima = {name: buffers.maximum(curve) for name, curve in models.curves().items()}
    largest = round(max(maxima.values()), printed.decimals)
    leaders = [name for name, maximum in maxima.items() if round(maximum, printed.decimals) == largest]
    pms = [pm for pm in PMS if any(leader.pm == pm.lower() for leader in leaders)]
    ccs = [cc for cc in CCS if any(leader.cc == cc.lower() for leader in leaders)]
    return f"{' or '.join(pms)}/{' or '.join(ccs)}"


def _acceptance(scenario: str) -> list[Check]:
    """Acceptance tests of a fit (section 3, step 6), and the number of terms the design can separate."""
    row = one("mpcoa_table4_results", scenario=scenario)
    r_square, p = (
        one("mpcoa_prose_numbers", item=f"{item} acceptance threshold")["value"]
        for item in ("R-Square", "p-value")
    )
    terms = _printed_equation(scenario, PMS[0])
    return [
        number(
            f"mpcoa/acceptance/{scenario}/r-square",
            "3 step 6",
            f"R-square {scenario}",
            bound(r_square, "at least"),
            taken(row["r_square"]),
            "",
        ),
        number(
            f"mpcoa/acceptance/{scenario}/p",
            "3 step 6",
            f"p-value {scenario}",
            bound(p, "at most"),
            known(float(row["p_value_upper_bound"])),
            "",
        ),
        number(
            f"mpcoa/acceptance/{scenario}/terms",
            f"5.{SCENARIOS[scenario] - 12}",
            f"terms of Eq. {SCENARIOS[scenario]} with a p-value, against the rank of its design",
            exact(str(len(terms))),
            known(_rank(tuple(terms))),
            "terms",
        ),
    ]


def _rank(terms: Sequence[str]) -> int:
    """Rank of the design of Eq. 13-15 over the sweep, restricted to the printed terms."""
    import numpy as np

    one_each = {term: rounded("1") for term in terms}
    rows = [
        [_evaluate({term: one_each[term]}, k, bs) for term in terms]
        for k in range(1, len(CCS) + 1)
        for bs in swept().grid
    ]
    return int(np.linalg.matrix_rank(np.array(rows)))
