"""The claims of PCDC, section VI: impact factors, gains of large streams, completion times of small ones."""

import math
import statistics
from collections.abc import Iterator

from mptune.papers.measure._declare import (
    LIMIT,
    PMS,
    factors_of,
    labels,
    levels,
    mptcp,
    names,
    transfer,
)
from mptune.papers.measure.claim import Claim, Point, Statement
from mptune.papers.published import rows as published

#: Seconds of a trial, and of T: "120 s", with and without a subflow together or each.
_SECONDS, _WINDOW = 120, 60

#: Pairs in the order of the section: their table, its numbers, the figures of large and small streams.
_PAIRS = {
    "UiB-UNIS": ("VI-A", "table-2", "pcdc_table2_if_uib_unis", "fig-6", "fig-7"),
    "UiB-HiN": ("VI-B", "table-3", "pcdc_table3_if_uib_hin", "fig-8", "fig-9"),
    "UiB-HU": ("VI-C", "table-4", "pcdc_table4_if_uib_hu", "fig-10", "fig-11"),
}
_CCS = ("cubic", "olia")

#: Payloads of the small streams (Fig. 7), KiB.
_SIZES = (128, 256, 384, 512, 640, 768, 896, 1024)


def claims() -> tuple[Claim, ...]:
    """Every claim of the paper."""
    return tuple(claim for pair in _PAIRS for claim in (_impacts(pair), *_large(pair), _small(pair)))


def _impacts(pair: str) -> Claim:
    section, table, numbers, _, _ = _PAIRS[pair]
    factors = factors_of(numbers, pair, _WINDOW)
    return Claim(
        id=f"pcdc-{table}-{pair.lower()}",
        paper="pcdc",
        figures=(table,),
        section=section,
        words="The subflow between the research networks helps, the others hardly do, or hurt",
        part="fit",
        factors=factors,
        statements=(
            *(
                Statement(words=f"{factor.cc}: who helps and who hurts", rule="factors", of=(factor.name,))
                for factor in factors
            ),
            *(Statement(words=f"{factor.cc}: the sets", rule="set", of=(factor.name,)) for factor in factors),
        ),
    )


def _sets(pair: str) -> dict[str, tuple[str, ...]]:
    """Labels of the optional set by congestion control."""
    return {
        row["cc"].lower(): tuple(
            labels(pair)[name] for name in row["subset_per_prose_space_separated"].split()
        )
        for row in published("pcdc_chosen_subsets")
        if row["scenario"] == pair
    }


def _large(pair: str) -> Iterator[Claim]:
    """Fig. 6, 8 and 10: a saturated sender."""
    section, _, _, figure, _ = _PAIRS[pair]
    points = {}
    for row in published("pcdc_fig6_8_10_throughput"):
        if row["scenario"] == pair:
            cc, pm = row["cc"].lower(), row["pm"]
            points[pm, cc] = mptcp(
                f"{pm}/{cc}",
                pair,
                cc,
                LIMIT,
                _SECONDS,
                pm=PMS[pm],
                active=_sets(pair)[cc] if pm == "PCDC" else (),
                printed=float(row["mean_throughput_Mbit_s"]),
            )
    full = [points["FullMesh", cc] for cc in _CCS]
    yield Claim(
        id=f"pcdc-{figure}-{pair.lower()}-fullmesh",
        paper="pcdc",
        figures=(figure,),
        section=section,
        words="FullMesh is slower with OLIA than with Cubic",
        part="fit",
        points=tuple(full),
        statements=(
            *levels(full),
            Statement(
                words="FullMesh with OLIA against Cubic",
                rule="ratio",
                of=(full[1].name,),
                against=(full[0].name,),
            ),
        ),
    )
    yield Claim(
        id=f"pcdc-{figure}-{pair.lower()}",
        paper="pcdc",
        figures=(figure,),
        section=section,
        words="PCDC halves Cubic's throughput, and gains with OLIA"
        if pair == "UiB-HU"
        else "PCDC is faster than FullMesh, with OLIA much faster",
        part="judge",
        points=tuple(points.values()),
        statements=(
            *(
                Statement(
                    words=f"PCDC against FullMesh with {cc}",
                    rule="ratio",
                    of=(points["PCDC", cc].name,),
                    against=(points["FullMesh", cc].name,),
                )
                for cc in _CCS
            ),
            *levels(points["PCDC", cc] for cc in _CCS),
        ),
    )


def _small(pair: str) -> Claim:
    """Fig. 7, 9 and 11: transfers of up to 1 MiB."""
    section, _, numbers, _, figure = _PAIRS[pair]
    rtts: dict[str, dict[str, float]] = {cc: {} for cc in _CCS}
    for row in published(numbers):
        label = labels(pair)[f"{row['from_isp']}-{row['to_isp']}"]
        rtts[row["cc"].lower()][label] = float(row["rtt_mean_ms"])
    prose = {
        (row["cc"].lower(), row["pm"], int(row["payload_KiB"])): float(row["value"]) / 1000
        for row in published("pcdc_completion_time_prose")
        if row["scenario"] == pair and row["quantity"].startswith(("completion", "spread centre"))
    }
    points: dict[tuple[str, str], list[Point]] = {}
    for cc in _CCS:
        for pm, name in PMS.items():
            points[pm, cc] = [
                transfer(
                    f"{pm}/{cc}, {size} KiB",
                    pair,
                    cc,
                    size * 1024,
                    pm=name,
                    active=_sets(pair)[cc] if pm == "PCDC" else (),
                    rtts_ms=rtts[cc],
                    printed=prose.get((cc, pm, size), prose.get((cc, "both", size))),
                )
                for size in _SIZES
            ]
    every = tuple(point for some in points.values() for point in some)
    of = {key: names(some) for key, some in points.items()}
    cubic = of["FullMesh", "cubic"] + of["PCDC", "cubic"]
    olia = of["FullMesh", "olia"] + of["PCDC", "olia"]
    printed = [
        float(row["label_ms"]) / 1000
        for row in published("pcdc_fig7_9_completion_labels_unassigned")
        if row["scenario"] == pair
    ]
    statements = [
        Statement(
            words="With Cubic PCDC takes "
            + ("slightly longer than FullMesh" if pair == "UiB-HU" else "less time than FullMesh"),
            rule="ratio",
            of=of["PCDC", "cubic"],
            against=of["FullMesh", "cubic"],
            printed="more" if pair == "UiB-HU" else "less",
        ),
        Statement(
            words="With OLIA both take about the same time",
            rule="ratio",
            of=of["PCDC", "olia"],
            against=of["FullMesh", "olia"],
            printed=1.0,
        ),
        Statement(
            words="OLIA takes less time than Cubic", rule="ratio", of=olia, against=cubic, printed="less"
        ),
        *levels(every),
    ]
    if len(printed) == len(every):  # otherwise some are lost, and which is not known
        statements.append(
            Statement(
                words="Completion times of all bars together",
                rule="level",
                of=names(every),
                printed=math.exp(statistics.fmean(map(math.log, printed))),
            )
        )
    return Claim(
        id=f"pcdc-{figure}-{pair.lower()}",
        paper="pcdc",
        figures=(figure,),
        section=section,
        words="Small streams: OLIA is faster than Cubic; PCDC "
        + ("changes little" if pair == "UiB-HU" else "shortens Cubic's, and changes little with OLIA"),
        part="judge",
        points=every,
        statements=tuple(statements),
    )
