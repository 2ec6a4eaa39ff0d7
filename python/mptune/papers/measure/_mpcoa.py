"""The claims of MPCOA, section 5: impact factors, models over the buffer, gains of PCDC, and the answers."""

from collections.abc import Iterator

from mptune.papers.measure._declare import PMS, SECOND, levels, mptcp, names
from mptune.papers.measure.claim import Answer, Claim, Factors, Point, Statement
from mptune.papers.published import rows as published
from mptune.units import MIB

#: Seconds of a trial, and T of the impact factors, which is not printed.
_SECONDS = 30

_SECTIONS = {"SRL-HU": "5.1", "UNIS-HiN": "5.2", "UiT-HAW": "5.3"}

#: Buffers at which the models are compared: some of the paper's 60, with both ends, MiB.
_BUFFERS = (0.5, 2.0, 5.0, 9.0, 13.0, 18.0, 24.0, 30.0)

#: Figure, pair, and the best combination of it.
_BEST = (("fig-7", "UNIS-HiN", "PCDC", "cubic"), ("fig-8", "UiT-HAW", "FullMesh", "scalable"))

_WHOLE = 30 * MIB
_CCS = ("cubic", "olia", "hybla", "reno", "scalable", "vegas")


def claims() -> tuple[Claim, ...]:
    """Every claim of the paper."""
    return (*_impacts(), *_gains(), *_models(), *_answers())


def _factors(pair: str) -> tuple[Factors, ...]:
    rows = [row for row in published("mpcoa_table2_impact_factors") if row["scenario"] == pair]
    named = {row.removeprefix("omega_").lower(): row for row in rows[0] if row.startswith("omega_")}
    return tuple(
        Factors(
            name=f"{cc} impact factors",
            scenario=pair,
            cc=cc,
            window_ns=_SECONDS * SECOND,
            buffer_bytes=_WHOLE,
            printed={row["subflow"]: float(row[named[cc]]) for row in rows},
        )
        for cc in _CCS
    )


def _impacts() -> Iterator[Claim]:
    """Tables 2 and 3."""
    words = {
        "SRL-HU": "The fibres carry the connection; ADSL subflows help little, and with Hybla do much harm",
        "UNIS-HiN": "Uninett-Uninett carries nearly everything, and the others add nothing",
        "UiT-HAW": "Both subflows help, PowerTech's a little more",
    }
    for pair, text in words.items():
        factors = _factors(pair)
        for table, rule, title in (
            ("table-2", "factors", text),
            ("table-3", "set", "The optional set of every congestion control is the printed one"),
        ):
            yield Claim(
                id=f"mpcoa-{table}-{pair.lower()}",
                paper="mpcoa",
                figures=(table,),
                section=_SECTIONS[pair],
                words=title,
                part="fit",
                factors=factors,
                statements=tuple(
                    Statement(
                        words=f"{factor.cc}: {'the sets' if rule == 'set' else 'who helps and who hurts'}",
                        rule="set" if rule == "set" else "factors",
                        of=(factor.name,),
                    )
                    for factor in factors
                ),
            )


def _sets(pair: str) -> dict[str, tuple[str, ...]]:
    """Optional set by congestion control (Table 3)."""
    return {
        row["cc"].lower(): tuple(row["optional_subflows_space_separated"].split())
        for row in published("mpcoa_table3_optional_subflows")
        if row["scenario"] == pair
    }


def _point(pair: str, pm: str, cc: str, mib: float, printed: float | None = None) -> Point:
    return mptcp(
        f"{pm}/{cc} with {mib:g} MiB",
        pair,
        cc,
        round(mib * MIB),
        _SECONDS,
        pm=PMS[pm],
        active=_sets(pair)[cc] if pm == "PCDC" else (),
        printed=printed,
    )


def _largest(pair: str) -> dict[tuple[str, str], Point]:
    """Every combination with 30 MiB, with what Fig. 6 to 8 print of it."""
    printed = {
        (row["pm"], row["cc"].lower()): float(row["mean_throughput_Mbit_s"])
        for row in published("mpcoa_fig6_7_8_throughput")
        if row["scenario"] == pair
    }
    return {(pm, cc): _point(pair, pm, cc, 30, printed.get((pm, cc))) for pm in PMS for cc in _CCS}


def _gains() -> Iterator[Claim]:
    """Fig. 6 to 8: the largest buffer."""
    points = _largest("SRL-HU")
    full = tuple(points["FullMesh", cc] for cc in _CCS)
    every = tuple(points.values())
    yield Claim(
        id="mpcoa-fig-6-srl-hu-fullmesh",
        paper="mpcoa",
        figures=("fig-6",),
        section="5.1",
        words="FullMesh gets 27 to 43 Mbit/s, most with OLIA and Hybla",
        part="fit",
        points=full,
        statements=levels(full),
    )
    gains = tuple(
        Statement(
            words=f"PCDC is faster than FullMesh with {cc}",
            rule="ratio",
            of=(points["PCDC", cc].name,),
            against=(points["FullMesh", cc].name,),
        )
        for cc in _CCS
    )
    best = points["PCDC", "hybla"].name
    yield Claim(
        id="mpcoa-fig-6-srl-hu",
        paper="mpcoa",
        figures=("fig-6",),
        section="5.1",
        words="PCDC is faster than FullMesh with every congestion control, with Hybla by 72 %",
        part="judge",
        points=every,
        statements=(
            *gains,
            Statement(
                words="PCDC with Hybla is the fastest of all twelve",
                rule="best",
                of=(best, *(name for name in names(every) if name != best)),
            ),
            *levels([points["PCDC", "hybla"]]),
        ),
    )
    for figure, pair, pm, cc in (
        ("fig-7", "UNIS-HiN", "PCDC", "cubic"),
        ("fig-8", "UiT-HAW", "FullMesh", "scalable"),
    ):
        points = _largest(pair)
        every, best = tuple(points.values()), points[pm, cc].name
        more: tuple[Statement, ...] = ()
        if pair == "UiT-HAW":
            more = (
                Statement(
                    words="PCDC is as fast as FullMesh, because every subflow helps",
                    rule="ratio",
                    of=tuple(points["PCDC", name].name for name in _CCS),
                    against=tuple(points["FullMesh", name].name for name in _CCS),
                    printed=1.0,
                ),
            )
        yield Claim(
            id=f"mpcoa-{figure}-{pair.lower()}",
            paper="mpcoa",
            figures=(figure,),
            section=_SECTIONS[pair],
            words=f"{pm} with {cc} is the best of all twelve with 30 MiB",
            part="judge",
            points=every,
            statements=(
                Statement(
                    words=f"{pm} with {cc} is the fastest of all twelve",
                    rule="best",
                    of=(best, *(name for name in names(every) if name != best)),
                ),
                *levels([points[pm, cc]]),
                *more,
            ),
        )


def _curves(pair: str) -> dict[tuple[str, str], tuple[Point, ...]]:
    """The points of every combination, with what the models of Table 4 give there."""
    curves = {}
    for row in published("mpcoa_table4_models"):
        if row["scenario"] != pair:
            continue
        c0, c1, c2 = (float(row[name]) for name in ("c0_Mbit_s", "c1_Mbit_s_per_MiB", "c2_Mbit_s_per_MiB2"))
        pm, cc = row["pm"], row["cc"].lower()
        curves[pm, cc] = tuple(_point(pair, pm, cc, mib, c0 + c1 * mib + c2 * mib * mib) for mib in _BUFFERS)
    return curves


def _models() -> Iterator[Claim]:
    """Fig. 5 and Table 4: throughput over the buffer."""
    for pair in _SECTIONS:
        curves = _curves(pair)
        for pm, part in (("FullMesh", "fit"), ("PCDC", "judge")):
            mine = {cc: curves[pm, cc] for cc in _CCS}
            yield Claim(
                id=f"mpcoa-table-4-{pair.lower()}-{pm.lower()}",
                paper="mpcoa",
                figures=("table-4", *(("fig-5",) if pair == "SRL-HU" else ())),
                section=_SECTIONS[pair],
                words=f"With {pm} throughput follows the printed model over buffers of 0.5 to 30 MiB",
                part="fit" if part == "fit" else "judge",
                points=tuple(point for points in mine.values() for point in points),
                statements=tuple(
                    Statement(
                        words=f"{cc} with {', '.join(f'{mib:g}' for mib in _BUFFERS)} MiB",
                        rule="level",
                        of=names(points),
                    )
                    for cc, points in mine.items()
                ),
            )


def _answers() -> Iterator[Claim]:
    """Table 5, and the maxima and R-squares of Table 4."""
    fits = {row["scenario"]: row for row in published("mpcoa_table4_results")}
    for row in published("mpcoa_table5_solutions"):
        pair = row["scenario"]
        points = tuple(point for curve in _curves(pair).values() for point in curve)
        every = names(points)
        best = f"{row['opm']}/{row['occ'].lower()}"
        yield Claim(
            id=f"mpcoa-table-4-{pair.lower()}-fit",
            paper="mpcoa",
            figures=("table-4",),
            section=_SECTIONS[pair],
            words=f"The models explain {fits[pair]['r_square']} of the variance",
            part="judge",
            points=points,
            statements=(
                Statement(
                    words="R-square of the models",
                    rule="explained",
                    of=every,
                    printed=float(fits[pair]["r_square"]),
                ),
            ),
        )
        answer = Answer(
            name="Algorithm 1",
            scenario=pair,
            buffers=tuple(round(mib * MIB) for mib in _BUFFERS),
            duration_ns=_SECONDS * SECOND,
        )
        of = (answer.name,)
        yield Claim(
            id=f"mpcoa-table-5-{pair.lower()}",
            paper="mpcoa",
            figures=("table-5",),
            section="5.4",
            words=f"The answer is {best} with {row['obs_MiB']} MiB",
            part="judge",
            answers=(answer,),
            statements=(
                Statement(words="OPM and OCC", rule="chosen", of=of, printed=best),
                Statement(words="OBS", rule="chosen size", of=of, printed=float(row["obs_MiB"]) * MIB),
                Statement(words="OTP", rule="chosen throughput", of=of, printed=float(row["otp_Mbit_s"])),
            ),
        )
