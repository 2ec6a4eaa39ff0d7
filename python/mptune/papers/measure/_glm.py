"""The claims of the GLM study, section VI: one formula for throughput over buffer and congestion control.

Its B is the sum over the nine paths of the buffer that was set (the domain of Eq. 4 and Table II fit only
so): a point with the buffer b stands for B = 9 b.
"""

from mptune.papers.measure._declare import labels, mptcp, names
from mptune.papers.measure.claim import Claim, Point, Statement
from mptune.papers.published import rows as published

_PAIR = "UiO-UiT"

#: Seconds of a trial.
_SECONDS = 60

#: Buffers that are set, kB: from the lower to the upper end of Eq. 4's domain, with Fig. 3's maximum.
_SIZES = (204.8, 500, 1000, 2000, 3500, 5000, 6500, 8463.765, 10240)
_PATHS = 9

_CCS = ("cubic", "hybla", "olia", "reno", "scalable", "vegas")


def claims() -> tuple[Claim, ...]:
    """Every claim of the paper."""
    curves = _curves()
    every = tuple(point for curve in curves.values() for point in curve)
    return (_initial(), *_formula(curves, every))


def _curves() -> dict[str, tuple[Point, ...]]:
    """Points of Eq. 4 by congestion control."""
    known = {
        (row["term"], row["cc"].lower()): float(row["coefficient"])
        for row in published("glm_eq4_eq5")
        if row["equation"] == "4"
    }
    slopes = {cc: slope for (term, cc), slope in known.items() if cc}
    curves = {}
    for cc in _CCS:
        points = []
        for size in _SIZES:
            total = _PATHS * size * 1000
            bps = (
                known["intercept", ""]
                + (known["B", ""] + slopes.get(cc, 0.0)) * total
                + known["B^2", ""] * total * total
            )
            points.append(
                mptcp(f"{cc} with {size:g} kB", _PAIR, cc, round(size * 1000), _SECONDS, printed=bps / 1e6)
            )
        curves[cc] = tuple(points)
    return curves


def _initial() -> Claim:
    """Table II: the initial path."""
    points = tuple(
        mptcp(
            f"from {label}",
            _PAIR,
            "scalable",
            int(row["buffer_B_byte"]),
            _SECONDS,
            initial=label,
            printed=float(row["throughput_bit_s"]) / 1e6,
        )
        for row in published("glm_table2_initial_path")
        for label in [labels(_PAIR)[f"{row['from_provider']}-{row['to_provider']}"]]
    )
    return Claim(
        id="glm-table-2-uio-uit",
        paper="glm",
        figures=("table-2",),
        section="IV",
        words="With 256 kB the initial path does not matter: 14.6 to 17.3 Mbit/s",
        part="fit",
        points=points,
        statements=(
            Statement(words="The initial path does not matter", rule="even", of=names(points)),
            Statement(words="Throughput from each initial path", rule="level", of=names(points)),
        ),
    )


def _formula(curves: dict[str, tuple[Point, ...]], every: tuple[Point, ...]) -> tuple[Claim, ...]:
    """Tables III and IV, and Fig. 3."""
    scalable = curves["scalable"]
    peak = scalable[_SIZES.index(8463.765)]
    order = tuple(
        Statement(
            words=f"{cc} against Vegas over all buffers",
            rule="ratio",
            of=names(curves[cc]),
            against=names(curves["vegas"]),
        )
        for cc in _CCS
        if cc != "vegas"
    )
    return (
        Claim(
            id="glm-table-3-uio-uit",
            paper="glm",
            figures=("table-3",),
            section="VI",
            words="A quadratic formula explains 0.914 of the variance",
            part="judge",
            points=every,
            statements=(Statement(words="R-square", rule="explained", of=names(every), printed=0.914228),),
        ),
        Claim(
            id="glm-table-4-uio-uit",
            paper="glm",
            figures=("table-4",),
            section="VI",
            words="Throughput follows Eq. 4 from 0.2 to 10.2 MB",
            part="judge",
            points=every,
            statements=tuple(
                Statement(words=f"{cc} over all buffers", rule="level", of=names(points))
                for cc, points in curves.items()
            ),
        ),
        Claim(
            id="glm-table-4-uio-uit-cc",
            paper="glm",
            figures=("table-4",),
            section="VI",
            words="Scalable is the best of the six, Vegas the slowest",
            part="judge",
            points=every,
            statements=order,
        ),
        Claim(
            id="glm-fig-3-uio-uit",
            paper="glm",
            figures=("fig-3",),
            section="VI",
            words="With Scalable throughput rises to 198 Mbit/s at 76 MB, ever more slowly",
            part="judge",
            points=scalable,
            statements=(
                Statement(words="Throughput at the maximum", rule="level", of=(peak.name,)),
                Statement(
                    words="The last half of the buffers still adds",
                    rule="ratio",
                    of=(peak.name,),
                    against=(scalable[_SIZES.index(3500)].name,),
                ),
                Statement(words="The whole curve", rule="level", of=names(scalable)),
            ),
        ),
    )
