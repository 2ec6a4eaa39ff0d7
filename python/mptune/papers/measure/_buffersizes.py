"""The claims of the buffer-size study, section V: plain TCP, FullMesh over the buffer, practical sizes."""

from collections.abc import Iterator

from mptune.papers.measure._declare import LIMIT, labels, levels, mptcp, names, tcp
from mptune.papers.measure.claim import Claim, Point, Statement, network
from mptune.papers.published import rows as published

#: Seconds of a trial.
_SECONDS = 60

#: Scenario, figure and section of each pair.
_PAIRS = {
    "UDE-HU": ("UDE-HU.buffersizes", "fig-5", "V-A"),
    "HU-UDE": ("HU-UDE", "fig-6", "V-A"),
    "KU-HiG": ("KU-HiG.buffersizes", "fig-7", "V-B"),
    "NTNU-HiN": ("NTNU-HiN.buffersizes", "fig-8", "V-B"),
    "UiB-UiS": ("UiB-UiS", "fig-9", "V-B"),
}

#: Buffers of the curves, KiB: octaves up to the limit. The grid of the study is not printed.
_SIZES = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)


def claims() -> tuple[Claim, ...]:
    """Every claim of the paper."""
    return tuple(claim for pair in _PAIRS for claim in (_alone(pair), _together(pair), _practical(pair)))


def _tcp(pair: str) -> dict[str, Point]:
    """Plain TCP on every path with a buffer that grows, by label (Table II)."""
    scenario, _, _ = _PAIRS[pair]
    return {
        label: tcp(f"TCP {label}", scenario, label, _SECONDS, printed=float(row["tcp_throughput_Mbit_s"]))
        for row in published("buffersizes_table2_rtt_throughput")
        if row["scenario"] == pair
        for label in [labels(scenario)[f"{row['from_isp']}-{row['to_isp']}"]]
    }


def _alone(pair: str) -> Claim:
    points = tuple(_tcp(pair).values())
    return Claim(
        id=f"buffersizes-table-2-{pair.lower()}",
        paper="buffersizes",
        figures=("table-2",),
        section="V-C",
        words="Throughput of plain TCP on each path, with a buffer that the kernel adapts",
        part="fit",
        points=points,
        statements=levels(points),
    )


def _curve(pair: str) -> tuple[Point, ...]:
    scenario, _, _ = _PAIRS[pair]
    return tuple(
        mptcp(f"FullMesh with {size} KiB", scenario, "cubic", size * 1024, _SECONDS) for size in _SIZES
    )


def _together(pair: str) -> Claim:
    """Fig. 5 to 9 (b) beside (a): FullMesh against the best path, from every initial path."""
    scenario, figure, section = _PAIRS[pair]
    alone = _tcp(pair)
    best = max(alone.values(), key=lambda point: point.printed or 0.0)
    printed = {
        row["scenario"]: float(row["value"])
        for row in published("buffersizes_prose_throughput")
        if (row["protocol"], row["quantity"]) == ("MPTCP", "throughput")
    }.get(pair)
    first, *_ = network(scenario).paths
    largest = {
        path.label: mptcp(
            f"FullMesh from {path.label}",
            scenario,
            "cubic",
            LIMIT,
            _SECONDS,
            initial=path.label,
            printed=printed if path is first else None,
        )
        for path in network(scenario).paths
    }
    every = names(largest.values())
    return Claim(
        id=f"buffersizes-{figure}-{pair.lower()}",
        paper="buffersizes",
        figures=(figure,),
        section=section,
        words="FullMesh exceeds the best path"
        if printed is None
        else f"FullMesh gets {printed:g} Mbit/s, less than the best path alone",
        part="fit",
        points=(best, *largest.values()),
        statements=(
            Statement(
                words="FullMesh against TCP on the best path",
                rule="ratio",
                of=every,
                against=(best.name,),
                printed="more" if printed is None else printed / (best.printed or 1.0),
            ),
            Statement(words="The initial path does not matter", rule="even", of=every),
            *levels(largest.values()),
        ),
    )


def _practical(pair: str) -> Claim:
    """Table III, with what the prose prints of plain TCP."""
    scenario, _, section = _PAIRS[pair]
    points = list(_curve(pair))
    row = next(one for one in published("buffersizes_table3_sizes") if one["scenario"] == pair)
    statements = [
        Statement(
            words="The buffer with which FullMesh has its full throughput",
            rule="size",
            of=names(points),
            printed=float(row["practical_KiB_table3"]) * 1024,
        )
    ]
    for path, printed in _sufficient(pair):
        label = labels(scenario)[path]
        curve = [
            tcp(
                f"TCP {label} with {size} KiB",
                scenario,
                label,
                _SECONDS,
                buffer=size * 1024,
                mode="fixed",
            )
            for size in _SIZES
        ]
        points += curve
        statements.append(
            Statement(
                words=f"The buffer with which TCP on {label} has its full throughput",
                rule="size",
                of=names(curve),
                printed=printed * 1024,
            )
        )
    return Claim(
        id=f"buffersizes-table-3-{pair.lower()}",
        paper="buffersizes",
        figures=("table-3", _PAIRS[pair][1]),
        section=section,
        words=f"{row['practical_KiB_table3']} KiB are enough for FullMesh",
        part="judge",
        points=tuple(points),
        statements=tuple(statements),
    )


def _sufficient(pair: str) -> Iterator[tuple[str, float]]:
    """Paths with a printed sufficient buffer of plain TCP, KiB; "all" is the fastest one."""
    for row in published("buffersizes_prose_throughput"):
        if (row["scenario"], row["protocol"], row["quantity"]) == (pair, "TCP", "sufficient buffer"):
            path = "DFN-CnUnicom" if row["path"] == "all" else row["path"]
            yield path, float(row["value"])
