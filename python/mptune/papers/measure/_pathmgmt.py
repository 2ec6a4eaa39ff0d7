"""The claims of the path-management study, section V: path managers, and Cubic beside OLIA.

OLIA on a single path is New Reno (section V-A), which is what is measured for it. Buffers have the size of
the study's limit, as in the other papers that print a limit and no size.
"""

from collections.abc import Iterator

from mptune.papers.measure._declare import LIMIT, levels, mptcp, names, tcp
from mptune.papers.measure.claim import Claim, Point, Statement, network
from mptune.trial import FIXED

#: Seconds of a trial, and of the short snapshots.
_LONG, _SNAPSHOT = 300, 60

_ESSEN = "UDE-HU.pathmgmt"


def claims() -> tuple[Claim, ...]:
    """Every claim of the paper."""
    return (*_essen(), *_seoul(), *_gjovik(), *_hainan(), *_narvik())


def _tcp(
    name: str, scenario: str, path: str, seconds: float, *, cc: str = "cubic", printed: float | None = None
) -> Point:
    """Plain TCP with a buffer of the limit."""
    return tcp(name, scenario, path, seconds, cc=cc, mode=FIXED, printed=printed)


def _full(scenario: str, cc: str, seconds: float, initial: str, printed: float | None = None) -> Point:
    """FullMesh from an initial path."""
    return mptcp(
        f"FullMesh/{cc} from {initial}",
        scenario,
        cc,
        LIMIT,
        seconds,
        initial=initial,
        printed=printed,
    )


def _everywhere(scenario: str, cc: str, seconds: float) -> tuple[Point, ...]:
    return tuple(_full(scenario, cc, seconds, path.label) for path in network(scenario).paths)


def _even(points: tuple[Point, ...]) -> Statement:
    return Statement(words="The initial path does not matter with FullMesh", rule="even", of=names(points))


def _cc(faster: tuple[Point, ...], slower: tuple[Point, ...], words: str, printed: float | str) -> Statement:
    return Statement(words=words, rule="ratio", of=names(faster), against=names(slower), printed=printed)


def _claim(
    figure: str,
    pair: str,
    words: str,
    part: str,
    points: tuple[Point, ...],
    *statements: Statement,
    more: str = "",
) -> Claim:
    return Claim(
        id=f"pathmgmt-{figure}-{pair}{more}",
        paper="pathmgmt",
        figures=(figure,),
        section="V-A" if pair == "ude-hu" else "V-B",
        words=words,
        part="fit" if part == "fit" else "judge",
        points=points,
        statements=statements,
    )


def _essen() -> Iterator[Claim]:
    """Fig. 3 to 5: Essen to Haikou."""
    best, worst = "D-CU", ("V-C", "V-CU")
    short = {
        label: _tcp(f"TCP/cubic {label}", _ESSEN, label, _SNAPSHOT, printed=7.0 if label == best else None)
        for label in (best, "D-C", *worst)
    }
    yield _claim(
        "fig-3",
        "ude-hu",
        "Plain TCP over DFN and CnUnicom gets about 7 Mbit/s, over the ADSL line least",
        "fit",
        tuple(short.values()),
        *levels(short.values()),
        Statement(words="DFN-CnUnicom is the best path", rule="best", of=names(short.values())),
        Statement(
            words="The ADSL line is slower than DFN",
            rule="ratio",
            of=names(short[label] for label in worst),
            against=names(short[label] for label in (best, "D-C")),
            printed="less",
        ),
    )
    single = {
        pm: tuple(
            mptcp(f"{pm} from {label}", _ESSEN, "cubic", LIMIT, _SNAPSHOT, pm=pm, initial=label)
            for label in short
        )
        for pm in ("default", "ndiffports", "binder")
    }
    mesh = tuple(_full(_ESSEN, "cubic", _SNAPSHOT, label) for label in short)
    yield _claim(
        "fig-4",
        "ude-hu",
        "default, ndiffports and binder are as fast as plain TCP on the initial path; only FullMesh uses all",
        "judge",
        (*short.values(), *mesh, *(point for points in single.values() for point in points)),
        *(
            Statement(
                words=f"{pm} is as fast as TCP on its path",
                rule="ratio",
                of=names(points),
                against=names(short.values()),
                printed=1.0,
            )
            for pm, points in single.items()
        ),
        _even(mesh),
    )
    long = {
        (path, cc): _tcp(f"TCP/{cc} {path}", _ESSEN, path, _LONG, cc=name, printed=printed)
        for path, cc, name, printed in (
            ("D-C", "cubic", "cubic", 1.6),
            ("D-C", "olia", "reno", 1.5),
            (best, "cubic", "cubic", None),
            (best, "olia", "reno", None),
        )
    }
    cubic, olia = (_everywhere(_ESSEN, cc, _LONG) for cc in ("cubic", "olia"))
    yield _claim(
        "fig-5",
        "ude-hu",
        "In the long term FullMesh exceeds TCP on the best path, whatever the initial path",
        "fit",
        (*long.values(), *cubic, *olia),
        *levels(long.values()),
        _cc(cubic, (long[best, "cubic"],), "FullMesh exceeds TCP on the best path with Cubic", "more"),
        _even(cubic),
    )
    yield _claim(
        "fig-5",
        "ude-hu",
        "Cubic is faster than OLIA, and OLIA still exceeds TCP on the best path",
        "judge",
        (*long.values(), *cubic, *olia),
        _cc(cubic, olia, "FullMesh with Cubic is faster than with OLIA", "more"),
        _cc(olia, (long[best, "olia"],), "FullMesh with OLIA exceeds TCP on the best path", "more"),
        more="-cc",
    )


def _seoul() -> Iterator[Claim]:
    """Fig. 6: Haikou to Seoul."""
    yield from _dual("fig-6", "HU-KRU", "hu-kru", "C-K", (7.4, 8.8), None, _LONG)


def _gjovik() -> Iterator[Claim]:
    """Fig. 7: Lawrence to Gjøvik."""
    yield from _dual("fig-7", "KU-HiG.pathmgmt", "ku-hig", "K-U", (141.9, 122.5), ("K-P", 1.8), _LONG)


def _dual(
    figure: str,
    scenario: str,
    pair: str,
    best: str,
    printed: tuple[float, float],
    bad: tuple[str, float] | None,
    seconds: float,
) -> Iterator[Claim]:
    """Two subflows: the best path (Mbit/s), FullMesh, and the bad path where it is printed."""
    single = _tcp(f"TCP/cubic {best}", scenario, best, seconds, printed=printed[0])
    others = () if bad is None else (_tcp(f"TCP/cubic {bad[0]}", scenario, bad[0], seconds, printed=bad[1]),)
    cubic, olia = (_everywhere(scenario, cc, seconds) for cc in ("cubic", "olia"))
    yield _claim(
        figure,
        pair,
        f"FullMesh gets {printed[1]:g} Mbit/s, TCP on the best path {printed[0]:g}",
        "fit",
        (single, *others, *cubic),
        *levels((single, *others)),
        Statement(
            words=f"FullMesh with Cubic gets {printed[1]:g} Mbit/s",
            rule="level",
            of=names(cubic),
            printed=printed[1],
        ),
        _cc(cubic, (single,), "FullMesh against TCP on the best path", printed[1] / printed[0]),
        _even(cubic),
    )
    yield _claim(
        figure,
        pair,
        "Cubic is faster than OLIA",
        "judge",
        (*cubic, *olia),
        _cc(cubic, olia, "FullMesh with Cubic is faster than with OLIA", "more"),
        more="-cc",
    )


def _hainan() -> Iterator[Claim]:
    """Fig. 8: Bergen to Guilinyang."""
    scenario = "UiB-HKC"
    single = _tcp("TCP/olia U-C", scenario, "U-C", _LONG, cc="reno", printed=5.0)
    cubic, olia = (_everywhere(scenario, cc, _LONG) for cc in ("cubic", "olia"))
    yield _claim(
        "fig-8",
        "uib-hkc",
        "FullMesh gets 29.1 Mbit/s with Cubic; plain TCP at most 5",
        "fit",
        (single, *cubic),
        *levels((single,)),
        Statement(words="FullMesh with Cubic gets 29.1 Mbit/s", rule="level", of=names(cubic), printed=29.1),
        _even(cubic),
    )
    yield _claim(
        "fig-8",
        "uib-hkc",
        "With OLIA FullMesh gets 6.8 Mbit/s, a quarter of Cubic's, and no less than TCP on the best path",
        "judge",
        (single, *cubic, *olia),
        Statement(words="FullMesh with OLIA gets 6.8 Mbit/s", rule="level", of=names(olia), printed=6.8),
        _cc(olia, cubic, "FullMesh with OLIA against Cubic", 6.8 / 29.1),
        _cc(olia, (single,), "FullMesh with OLIA against TCP on the best path", 6.8 / 5),
        more="-cc",
    )


def _narvik() -> Iterator[Claim]:
    """Fig. 9: Trondheim to Narvik."""
    scenario = "NTNU-HiN.pathmgmt"
    alone = [
        _tcp("TCP/cubic U-U", scenario, "U-U", _LONG, printed=86.6),
        _tcp("TCP/cubic U-B", scenario, "U-B", _LONG, printed=13.8),
    ]
    cubic, olia = (_everywhere(scenario, cc, _LONG) for cc in ("cubic", "olia"))
    yield _claim(
        "fig-9",
        "ntnu-hin",
        "FullMesh nearly reaches TCP on the best path with Cubic: 82.3 to 86.6 of 86.6 Mbit/s",
        "fit",
        (*alone, *cubic),
        *levels(alone),
        Statement(
            words="FullMesh with Cubic gets 82.3 to 86.6 Mbit/s",
            rule="level",
            of=names(cubic),
            printed=(82.3 * 86.6) ** 0.5,
        ),
        _even(cubic),
    )
    yield _claim(
        "fig-9",
        "ntnu-hin",
        "OLIA is a little faster than Cubic",
        "judge",
        (*cubic, *olia),
        _cc(olia, cubic, "FullMesh with OLIA against Cubic", (86.7 * 86.9 / (82.3 * 86.6)) ** 0.5),
        Statement(
            words="FullMesh with OLIA gets 86.7 to 86.9 Mbit/s",
            rule="level",
            of=names(olia),
            printed=(86.7 * 86.9) ** 0.5,
        ),
        more="-cc",
    )
