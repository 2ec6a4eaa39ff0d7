"""Known contradictions of the papers with themselves, each other or their own formulas.

This is the only list: `mptune reproduce` succeeds when exactly these occur. The numbers are those of the
errata in `mptune/papers/published/README.md`.
"""

import msgspec


class Documented(msgspec.Struct, frozen=True, kw_only=True):
    """One erratum and where it shows.

    Attributes
    ----------
    keys : the checks it contradicts.
    """

    erratum: str
    explanation: str
    keys: tuple[str, ...]


def _keys(text: str) -> tuple[str, ...]:
    """Split keys at white space."""
    return tuple(text.split())


DOCUMENTED: tuple[Documented, ...] = (
    Documented(
        erratum="E1",
        explanation=(
            "Read literally, Eq. 11 takes the smallest buffer that satisfies any combination by that "
            "combination's own maximum, however slow it is. Table 5 follows when all are compared "
            "with the best maximum, which is mptune's default; --selection literal reads it "
            "literally."
        ),
        keys=_keys("""
            mpcoa/table5/SRL-HU/literal/combination
            mpcoa/table5/SRL-HU/literal/obs
            mpcoa/table5/SRL-HU/literal/otp
            mpcoa/table5/UNIS-HiN/literal/combination
            mpcoa/table5/UNIS-HiN/literal/obs
            mpcoa/table5/UNIS-HiN/literal/otp
        """),
    ),
    Documented(
        erratum="E2",
        explanation=(
            "The traditional buffers of Table 5 are not Eq. 1, nor the form without the factor 3 that "
            "the introduction describes, but 3 (RTTmax + RTOmax) times the sum over all paths of the "
            "slower access rate. With Eq. 1 as printed the shares grow, and UiT-HAW saves less than "
            "the half claimed."
        ),
        keys=_keys("""
            mpcoa/traditional/SRL-HU/eq1
            mpcoa/traditional/SRL-HU/introduction
            mpcoa/share/SRL-HU/eq1
            mpcoa/traditional/UNIS-HiN/eq1
            mpcoa/traditional/UNIS-HiN/introduction
            mpcoa/share/UNIS-HiN/eq1
            mpcoa/traditional/UiT-HAW/eq1
            mpcoa/traditional/UiT-HAW/introduction
            mpcoa/share/UiT-HAW/eq1
            mpcoa/share/UiT-HAW/eq1/saving
        """),
    ),
    Documented(
        erratum="E3",
        explanation=(
            "Eq. 10 allows only the buffers of the sweep, in steps of 0.5 MiB; these two answers lie "
            "between them. Only the lower end of the sweep binds (UiT-HAW)."
        ),
        keys=_keys("mpcoa/table5/SRL-HU/on-grid mpcoa/table5/UNIS-HiN/on-grid"),
    ),
    Documented(
        erratum="E8",
        explanation=(
            "Algorithm 1 measures and fits after its loop over the path managers, so only the last "
            "one, FullMesh, is ever seen; and it compares each congestion control with its own "
            "maximum. Neither reading leads to Table 5."
        ),
        keys=_keys("""
            mpcoa/table5/SRL-HU/best-pm/combination
            mpcoa/table5/SRL-HU/best-pm/obs
            mpcoa/table5/SRL-HU/best-pm/otp
            mpcoa/table5/SRL-HU/indented/combination
            mpcoa/table5/SRL-HU/indented/obs
            mpcoa/table5/SRL-HU/indented/otp
            mpcoa/table5/UNIS-HiN/indented/combination
            mpcoa/table5/UNIS-HiN/indented/obs
            mpcoa/table5/UNIS-HiN/indented/otp
        """),
    ),
    Documented(
        erratum="E10",
        explanation="A fit must have an R-square of at least 0.90, yet one with 0.80 is used.",
        keys=_keys("mpcoa/acceptance/SRL-HU/r-square"),
    ),
    Documented(
        erratum="E11",
        explanation=(
            "The equations contain each congestion control as a dummy and as its square, which is the "
            "same number, and the dummies add up to one: the design cannot separate the terms, so "
            "they cannot each have a p-value."
        ),
        keys=_keys("""
            mpcoa/acceptance/SRL-HU/terms
            mpcoa/acceptance/UNIS-HiN/terms
            mpcoa/acceptance/UiT-HAW/terms
        """),
    ),
    Documented(
        erratum="E13",
        explanation=(
            "The models miss the paper's own measurements at 30 MiB, by up to a factor of four: a "
            "parabola must fall behind its maximum, and the measured throughput does not."
        ),
        keys=_keys("""
            mpcoa/fig6/model/FullMesh/Cubic
            mpcoa/fig6/model/FullMesh/OLIA
            mpcoa/fig6/model/FullMesh/Hybla
            mpcoa/fig6/model/FullMesh/Reno
            mpcoa/fig6/model/FullMesh/Scalable
            mpcoa/fig6/model/FullMesh/Vegas
            mpcoa/fig6/model/PCDC/Cubic
            mpcoa/fig6/model/PCDC/OLIA
            mpcoa/fig6/model/PCDC/Hybla
            mpcoa/fig6/model/PCDC/Reno
            mpcoa/fig6/model/PCDC/Scalable
            mpcoa/fig6/model/PCDC/Vegas
            mpcoa/fig7/model/PCDC/Cubic
            mpcoa/fig8/model/FullMesh/Scalable
        """),
    ),
    Documented(
        erratum="E14",
        explanation="Measured and predicted throughputs exceed what the printed access rates allow.",
        keys=_keys("mpcoa/nominal/UNIS-HiN/measured mpcoa/nominal/UNIS-HiN/predicted"),
    ),
    Documented(
        erratum="E15",
        explanation=(
            "An impact factor of -40.713 means that the other subflows carried 41.7 times as much "
            "without T-C. They never carried more than 71.9 Mbit/s, which leaves 1.72 Mbit/s for all "
            "together; Fig. 6 has 41.7. No treatment of outliers is described."
        ),
        keys=_keys("mpcoa/fig6/baseline"),
    ),
    Documented(
        erratum="E16",
        explanation=(
            "The two ISPs of UiT are called almost equal, and the network homogeneous; downstream one "
            "is three times as fast as the other (upstream 1.3 times)."
        ),
        keys=_keys("mpcoa/homogeneous/down"),
    ),
    Documented(
        erratum="E17",
        explanation="Section 5.2 describes an ISP, BKK, that neither site has in Table 1.",
        keys=_keys("mpcoa/isp"),
    ),
    Documented(
        erratum="E19",
        explanation=(
            "Half the traditional buffer is recommended where measuring takes too long. For SRL-HU "
            "that is 164.5 MiB, five times the largest buffer tested, despite the paper's own warning "
            "of buffer bloat."
        ),
        keys=_keys("mpcoa/rule-of-thumb/SRL-HU"),
    ),
    Documented(
        erratum="E21",
        explanation=(
            "The practical sizes in the prose differ from Table III for two site pairs, and the range "
            "given in section V-C overlooks the 640 KiB of UDE-HU."
        ),
        keys=_keys("buffersizes/practical/KU-HiG buffersizes/practical/UiB-UiS buffersizes/sizes/lowest"),
    ),
    Documented(
        erratum="E22",
        explanation=(
            "The prose names DFN-CERNET as the fast path from UDE to HU with 7.34 Mbit/s, and a few "
            "kbit/s for the slowest. Table II has DFN-CnUnicom with 6.95 Mbit/s, DFN-CERNET with 1.71 "
            "and the slowest with 100 kbit/s; the path-management study agrees with the table."
        ),
        keys=_keys("""
            buffersizes/tcp/UDE-HU/DFN-CERNET
            buffersizes/tcp/UDE-HU/best
            buffersizes/tcp/UDE-HU/others
            buffersizes/tcp/UDE-HU/slowest
        """),
    ),
    Documented(
        erratum="E28",
        explanation=(
            "PCDC is claimed to improve performance; from UiB to HU it halves the throughput of Cubic. "
            "There its optional set has one subflow, whose impact factor ranged from -0.34 to 0.97."
        ),
        keys=_keys("pcdc/gain/UiB-HU/Cubic"),
    ),
    Documented(
        erratum="E29",
        explanation="Measured throughputs exceed what the printed access rates allow.",
        keys=_keys("pcdc/nominal/UiB-UNIS pcdc/nominal/UiB-HU"),
    ),
    Documented(
        erratum="E30",
        explanation="All 32 labels of Fig. 7 are known, and the 206 ms named in the prose is not among them.",
        keys=_keys("pcdc/fig7/centre"),
    ),
    Documented(
        erratum="E31",
        explanation=(
            "29.1 over 6.8 Mbit/s is a factor of 4.3, closer to four than to five; 122.5 over 1.8 is "
            "a factor of 68, two orders of magnitude only if the exponent is rounded."
        ),
        keys=_keys("pathmgmt/one-fifth pathmgmt/two-orders"),
    ),
    Documented(
        erratum="E32",
        explanation=(
            "MPTCP stays below the best single path from KU to HiG, and from NTNU to HiN with Cubic "
            "and the worst initial path, against the study's own Rule 1. With OLIA it exceeds the "
            "best single path that it is claimed not to exceed (whose congestion control is not stated)."
        ),
        keys=_keys("""
            pathmgmt/rule1/KU-HiG/Cubic/any
            pathmgmt/rule1/NTNU-HiN/Cubic/lowest
            pathmgmt/not-exceeded
        """),
    ),
    Documented(
        erratum="E34",
        explanation=(
            "Table II has buffers of 256,000 byte, below the domain of Eq. 4, whose upper end is far "
            "above the kernel's limit. Read as nine times the setting, one for each path, the ends "
            "become 204,800 and 10,240,000 byte, and Eq. 5 gives 18.1 Mbit/s where Table II has a "
            "mean of 16.4 (7.9 without): B is probably the sum over the paths."
        ),
        keys=_keys("glm/domain/limit glm/domain/table2 glm/domain/table2-throughput"),
    ),
    Documented(
        erratum="E35",
        explanation=(
            "The buffer by Eq. 5 is called much smaller than the one by Eq. 2, but the first is for "
            "20 Mbit/s and the second for 104.12. For 104.12 Mbit/s Eq. 5 gives 22.8 million byte, "
            "half as much again as Eq. 2."
        ),
        keys=_keys("glm/eq2/same-throughput"),
    ),
    Documented(
        erratum="E36",
        explanation="The largest predicted throughput is almost twice the sum of the bandwidths in Eq. 2.",
        keys=_keys("glm/eq2/bandwidths"),
    ),
    Documented(
        erratum="E37",
        explanation=(
            "Ten buffers with six congestion controls make 60 points, and 50 are counted; perhaps one "
            "congestion control was left out. Their mean error is below a tenth, half the coefficient "
            "of variation of the fit."
        ),
        keys=_keys("glm/validation-points"),
    ),
    Documented(
        erratum="E39",
        explanation="PCDC and MPCOA print different access rates for the same interfaces.",
        keys=_keys("""
            pcdc/rates/HU/CERNET
            pcdc/rates/HU/CnUnicom
            pcdc/rates/HiN/Uninett
            pcdc/rates/HiN/PowerTech
            pcdc/rates/HiN/Broadnet
        """),
    ),
    Documented(
        erratum="E40",
        explanation=(
            "From KU to HiG, two studies with the same software measured throughputs more than a "
            "factor of two apart; all other paths they share agree."
        ),
        keys=_keys("pathmgmt/repeated/KU-HiG/TCP/KanREN-Uninett pathmgmt/repeated/KU-HiG/MPTCP/any"),
    ),
    Documented(
        erratum="E41",
        explanation=(
            "Cubic is recommended over OLIA between continents, which PCDC confirms (UiB-HU); in "
            "MPCOA OLIA is faster (SRL-HU)."
        ),
        keys=_keys("pathmgmt/cubic-better/mpcoa/SRL-HU"),
    ),
)
