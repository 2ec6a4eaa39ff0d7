"""The GLM study (IAEAC 2018): Eq. 4 from Table IV, Eq. 5, its inverse and vertex, the worked examples.

The equation is mptune's own (`mptune.response.equation.Equation`); units are bit/s and byte as in the paper.
"""

from collections.abc import Sequence
from functools import partial

from mptune import theory
from mptune.papers.reproduce._base import (
    Check,
    Printed,
    Recomputed,
    bound,
    exact,
    known,
    names,
    number,
    reach,
    rounded,
    taken,
)
from mptune.papers.reproduce._facts import Row, buffer_bytes, claim, one, stated, table
from mptune.response.equation import Equation

_ESTIMATE = "estimate_T_bit_s_B_byte"

#: The congestion control of all worked examples.
_SCALABLE = "Scalable"

_MIB = 1024 * 1024


def checks() -> list[Check]:
    """Every derived number of the paper."""
    return [
        *_equation_4(),
        *_equation_5(),
        *_fit(),
        *_worked_examples(),
        *_vertex(),
        *_domain(),
        *_traditional(),
        *_design(),
    ]


def _equation_4() -> list[Check]:
    """Eq. 4 from the estimates of Table IV; Vegas is the reference level and has no term."""
    checks = []
    for row in table("glm_eq4_eq5", equation="4"):
        parameter = {"intercept": "Intercept"}.get(row["term"], row["term"])
        estimate = one("glm_table4_coefficients", parameter=parameter)[_ESTIMATE]
        what = f"Eq. 4, {row['term']}{' ' + row['cc'] if row['cc'] else ''}, from Table IV"
        key = f"glm/eq4/{row['term']}"
        checks.append(number(key, "Eq. 4", what, rounded(row["coefficient"]), taken(estimate), ""))
    best = claim("glm", "best congestion control")
    slopes = {row["cc"]: float(row[_ESTIMATE]) for row in table("glm_table4_coefficients") if row["cc"]}
    steepest = max(slopes, key=lambda cc: slopes[cc])
    what = f"{best['claim']}: the steepest slope of Table IV"
    return [*checks, names("glm/best-cc", best["where"], what, best["value"], steepest)]


def _equation_5() -> list[Check]:
    """Eq. 5: Eq. 4 with Scalable's slope added."""
    terms = {row["term"]: rounded(row["coefficient"]) for row in table("glm_eq4_eq5", equation="4")}
    extra = one("glm_eq4_eq5", equation="4", cc=_SCALABLE)["term"]
    parts = {
        "intercept": [terms["intercept"]],
        "B": [terms["B"], terms[extra]],
        "B^2": [terms["B^2"]],
    }
    return [
        number(
            f"glm/eq5/{row['term']}",
            "Eq. 5",
            f"Eq. 5, {row['term']}, from Eq. 4",
            rounded(row["coefficient"]),
            reach(sum, parts[row["term"]]),
            "",
        )
        for row in table("glm_eq4_eq5", equation="5")
    ]


def _coefficients() -> list[Printed]:
    """Intercept, slope and curvature of Eq. 5."""
    return [rounded(row["coefficient"]) for row in table("glm_eq4_eq5", equation="5")]


def _equation(values: Sequence[float]) -> Equation:
    """Eq. 5 with its domain, from coefficients as printed or near them."""
    intercept, linear, quadratic = values[:3]
    return Equation(intercept=intercept, linear=linear, quadratic=quadratic, domain=_ends())


def _fit() -> list[Check]:
    """Table III: the coefficient of variation is root MSE over mean."""
    row = one("glm_table3_fit")
    inputs = [rounded(row["root_mse_bit_s"]), rounded(row["mean_throughput_bit_s"])]
    cv = reach(lambda values: 100 * values[0] / values[1], inputs)
    what = "coefficient of variation, root MSE over mean"
    return [number("glm/cv", "Table III", what, rounded(row["coeff_var_percent"]), cv, "percent")]


def _worked_examples() -> list[Check]:
    """T for a buffer and B for a throughput, Scalable (section VI), and the same in bytes."""
    forward, inverse = _example("T(B=20,000,000), Scalable"), _example("B for T=20,000,000 bit/s, Scalable")
    buffer, target = (float(row["inputs"].partition("=")[2].split()[0]) for row in (forward, inverse))
    throughput = reach(lambda values: _equation(values).predict(buffer), _coefficients())
    size = reach(lambda values: _equation(values).inverse(target), _coefficients())
    checks = [
        _worked("forward", forward, throughput),
        _worked("inverse", inverse, size),
        _worked("forward-bytes", _example("T(B=20,000,000), Scalable, in bytes"), _per_byte(throughput)),
        _worked("inverse-bytes", _example("T=20,000,000 bit/s in bytes"), known(target / 8)),
    ]
    for key, row, inside in (("forward", forward, known(buffer)), ("inverse", inverse, size)):
        what = f"B of {row['item']}, against the domain of Eq. 4"
        checks.append(number(f"glm/example/{key}-domain", "VI", what, _interval(*_ends()), inside, "byte"))
    return checks


def _vertex() -> list[Check]:
    """Position and height of Eq. 5's peak."""

    def vertex(part: int, values: Sequence[float]) -> float:
        peak = _equation(values).vertex()
        assert peak is not None, "Eq. 5 is concave"
        return peak[part]

    buffer, throughput = (reach(partial(vertex, part), _coefficients()) for part in (0, 1))
    cut = f"the decimals are cut off, not rounded: {buffer.value:.2f}"
    return [
        _worked("vertex-buffer", _example("B at maximum, Scalable"), buffer, cut),
        _worked("vertex-throughput", _example("T at maximum, Scalable"), throughput),
        _worked("vertex-bytes", _example("T at maximum, Scalable, in bytes"), _per_byte(throughput)),
    ]


def _domain() -> list[Check]:
    """The domain of Eq. 4 against the kernel's limit, Table II's buffers and the validation's."""
    low, high = _ends()
    limit = one("all_measurement_settings", paper="004", setting="buffer limit")
    checks = [
        number(
            "glm/domain/limit",
            "VI",
            f"upper end of the domain, against the buffer limit ({limit['where']})",
            bound(str(int(limit["value"]) * _MIB), "at most"),
            known(high),
            "byte",
        ),
        *_table_2(),
    ]
    for end in ("low", "high"):
        row = _example(f"validation buffer interval {end}")
        key, what = f"glm/domain/validation-{end}", f"{row['item']}, against the domain of Eq. 4"
        value = known(float(row["value"]))
        checks.append(number(key, row["where"], what, _interval(low, high), value, "byte"))
    return checks


def _table_2() -> list[Check]:
    """Table II: its buffer against the domain, its throughputs against the error claimed for Eq. 4."""
    rows = table("glm_table2_initial_path")
    smallest = min(float(row["buffer_B_byte"]) for row in rows)
    measured = sum(float(row["throughput_bit_s"]) for row in rows) / len(rows)
    claimed = _example("validation mean relative error below")
    error = reach(lambda values: abs(_equation(values).predict(smallest) / measured - 1), _coefficients())
    what = "relative error of Eq. 5 for the mean of Table II"
    lowest = bound(f"{_ends()[0]:.0f}", "at least")
    return [
        number(
            "glm/domain/table2",
            "Table II",
            "buffer of Table II, against the domain of Eq. 4",
            lowest,
            known(smallest),
            "byte",
        ),
        number("glm/domain/table2-throughput", "Table II", what, bound(claimed["value"], "below"), error, ""),
    ]


def _ends() -> tuple[float, float]:
    """Domain of Eq. 4, byte."""
    low, high = (float(_example(f"Eq. 4 domain {end} bound")["value"]) for end in ("lower", "upper"))
    return low, high


def _interval(low: float, high: float) -> Printed:
    """Anything between two printed ends."""
    return Printed(f"{low:.0f} to {high:.0f}", low, low, high)


def _traditional() -> list[Check]:
    """Eq. 2 for UiO-UiT and for the example of II-C, and the conclusions from it."""
    row, example = _example("Eq. 2 buffer, UiO-UiT"), _example("Eq. 2 buffer, fiber + ADSL example")
    rtts = [rounded(entry["rtt_ms"]) for entry in table("glm_table5_rtt")]
    rates = _bandwidths(row)
    seconds = reach(lambda values: max(values) / 1000, rtts)
    rtt_max = rounded(row["inputs"].partition("RTTmax=")[2].split()[0])

    def size(values: Sequence[float]) -> float:
        return buffer_bytes(theory.timer_retransmission, list(zip(rates, values, strict=True)))

    # "100 Mbit/s 10 ms; 1 Mbit/s 200 ms; RTO 1 s"
    paths = [part.split() for part in example["inputs"].split(";")[:-1]]
    two = [(float(path[0]), float(path[2])) for path in paths]
    mbit = known(8e-6 * buffer_bytes(theory.timer_retransmission, two))
    return [
        _worked("eq2", row, reach(size, rtts)),
        _worked("eq2-fibre-adsl", example, mbit),
        number("glm/eq2/rtt-max", "VI", "RTTmax, from Table V", rtt_max, seconds, "s"),
        *_against_traditional(row, rates, size([rtt.value for rtt in rtts])),
    ]


def _bandwidths(row: Row) -> list[float]:
    """Bandwidths used in Eq. 2, Mbit/s: "...bit/s: 100000000 + 200000 + 512000*3"."""
    rates = []
    for part in row["inputs"].partition("bit/s: ")[2].split(" + "):
        bps, _, times = part.partition("*")
        rates += [float(bps) / 1e6] * int(times or 1)
    return rates


def _against_traditional(row: Row, rates: Sequence[float], traditional: float) -> list[Check]:
    """Buffers by Eq. 5 over the one by Eq. 2: for 20 Mbit/s, and for the throughput Eq. 2 was given."""
    smaller, full = claim("glm", "buffer over Eq. 2"), sum(rates)

    def share(throughput: float, values: Sequence[float]) -> float:
        return _equation(values).inverse(throughput) / traditional

    checks = []
    for key, mbps in (("20-mbps", 20.0), ("same-throughput", full)):
        what = f"B by Eq. 5 for {mbps:g} Mbit/s over B by Eq. 2 (for {full:g} Mbit/s)"
        value = reach(partial(share, 1e6 * mbps), _coefficients())
        checks.append(number(f"glm/eq2/{key}", smaller["where"], what, stated(smaller), value, "times"))
    most = reach(lambda values: values[0] / 1e6, [rounded(_example("T at maximum, Scalable")["value"])])
    what = "largest predicted throughput, against the bandwidths of Eq. 2"
    limit = bound(f"{full:g}", "at most")
    return [*checks, number("glm/eq2/bandwidths", row["where"], what, limit, most, "Mbit/s")]


def _design() -> list[Check]:
    """Numbers of paths and of validation points."""
    sites = table("glm_table1_sites")
    count = sum(row["abbr"] == "UiO" for row in sites) * sum(row["abbr"] == "UiT" for row in sites)
    sizes, ccs = (float(_example(item)["value"]) for item in ("validation buffer sizes", "CC algorithms"))
    points = _example("validation points (B,Ek)")
    checks = [_worked("paths", _example("paths n*m"), known(count))]
    what = "validation points: sizes times congestion controls"
    published = exact(points["value"])
    return [
        *checks,
        number("glm/validation-points", points["where"], what, published, known(sizes * ccs), "points"),
    ]


def _example(item: str) -> Row:
    """Row of the worked examples."""
    return one("glm_worked_examples", item=item)


def _worked(key: str, row: Row, recomputed: Recomputed, note: str = "") -> Check:
    """Compare a worked example; its result was rounded."""
    published = rounded(row["value"])
    return number(f"glm/example/{key}", row["where"], row["item"], published, recomputed, row["unit"], note)


def _per_byte(bits: Recomputed) -> Recomputed:
    """Bits as bytes."""
    return Recomputed(*(value / 8 for value in bits))
