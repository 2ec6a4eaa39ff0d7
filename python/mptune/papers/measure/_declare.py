"""Short ways to declare points: MPTCP, plain TCP and transfers as the papers measured them.

Everything is under the stack of the papers' kernels, and trials are as long as the papers'.
"""

from collections.abc import Iterable, Mapping
from functools import cache

from mptune.papers.measure.claim import Factors, Point, Statement, network
from mptune.papers.published import rows as published
from mptune.trial import FIXED, Bulk, Configuration, Transfer
from mptune.trial.stacks import STACKS, of_tcp
from mptune.units import MIB

#: Whose kernels the papers measured.
STACK = "v0.9x"

SECOND = 1_000_000_000

#: The limit of the buffers in all studies but MPCOA, bytes (`all_measurement_settings.csv`).
LIMIT = 16 * MIB

#: The mode of a buffer that was not set: the kernel adapts it up to the limit ("0" in the buffer-size study).
AUTO = "auto"

#: Names of the path managers in the tables of numbers.
PMS = {"FullMesh": "fullmesh", "PCDC": "pcdc"}


@cache
def labels(scenario: str) -> dict[str, str]:
    """Labels of a scenario's paths by the names of their ISPs, "Uninett-CERNET", in the papers' spellings."""
    found = {f"{path.local.isp}-{path.remote.isp}": path.label for path in network(scenario).paths}
    return found | {name.replace("China Unicom", "CnUnicom"): label for name, label in found.items()}


def mptcp(
    name: str,
    scenario: str,
    cc: str,
    buffer: int,
    seconds: float,
    *,
    pm: str = "fullmesh",
    active: Iterable[str] = (),
    initial: str | None = None,
    mode: str = FIXED,
    printed: float | None = None,
) -> Point:
    """Throughput of a saturated MPTCP connection.

    Parameters
    ----------
    buffer : bytes.
    active : labels of PCDC's optional set.
    """
    return Point(
        name=name,
        scenario=scenario,
        printed=printed,
        configuration=Configuration(
            pm=pm,
            cc=cc,
            buffer_bytes=buffer,
            buffer_mode=mode,
            workload=Bulk(duration_ns=round(seconds * SECOND)),
            pm_options=_options(scenario, active),
            initial_path=initial,
            stack=STACKS[STACK],
        ),
    )


def tcp(
    name: str,
    scenario: str,
    path: str,
    seconds: float,
    *,
    cc: str = "cubic",
    buffer: int = LIMIT,
    mode: str = AUTO,
    printed: float | None = None,
) -> Point:
    """Throughput of plain TCP on one path."""
    return Point(
        name=name,
        scenario=scenario,
        printed=printed,
        configuration=Configuration(
            pm="default",
            cc=cc,
            buffer_bytes=buffer,
            buffer_mode=mode,
            workload=Bulk(duration_ns=round(seconds * SECOND)),
            initial_path=path,
            protocol="tcp",
            stack=of_tcp(STACKS[STACK]),
        ),
    )


def transfer(
    name: str,
    scenario: str,
    cc: str,
    size: int,
    *,
    pm: str = "fullmesh",
    active: Iterable[str] = (),
    rtts_ms: Mapping[str, float] | None = None,
    printed: float | None = None,
) -> Point:
    """Completion time of a transfer over MPTCP with the largest buffer.

    Parameters
    ----------
    size : payload, bytes.
    rtts_ms : measured beforehand, by label: PCDC sorts its optional set by it.
    printed : seconds.
    """
    options = _options(scenario, active)
    if options and rtts_ms:
        options["rtt_ns"] = {label: round(1e6 * rtt) for label, rtt in rtts_ms.items()}
    return Point(
        name=name,
        scenario=scenario,
        printed=printed,
        configuration=Configuration(
            pm=pm,
            cc=cc,
            buffer_bytes=LIMIT,
            workload=Transfer(bytes=size),
            pm_options=options,
            stack=STACKS[STACK],
        ),
    )


def _options(scenario: str, active: Iterable[str]) -> dict[str, object]:
    """Options of PCDC with an optional set; the others are its standby subflows."""
    chosen = tuple(active)
    if not chosen:
        return {}
    standby = tuple(path.label for path in network(scenario).paths if path.label not in chosen)
    return {"active": chosen, "standby_order": standby}


def levels(points: Iterable[Point]) -> tuple[Statement, ...]:
    """A statement on the level of each point that has a printed number."""
    return tuple(
        Statement(words=f"{point.name} gets {point.printed:g} {point.unit}", rule="level", of=(point.name,))
        for point in points
        if point.printed is not None
    )


def names(points: Iterable[Point]) -> tuple[str, ...]:
    """Names of points."""
    return tuple(point.name for point in points)


def factors_of(table: str, scenario: str, seconds: float) -> tuple[Factors, ...]:
    """The impact factors of one of PCDC's tables, by congestion control.

    Parameters
    ----------
    seconds : T; the paper's is 120 s or 60 s, which of them is not stated.
    """
    printed: dict[str, dict[str, float]] = {}
    for row in published(table):
        label = labels(scenario)[f"{row['from_isp']}-{row['to_isp']}"]
        printed.setdefault(row["cc"].lower(), {})[label] = float(row["omega_mean"])
    return tuple(
        Factors(
            name=f"{cc} impact factors",
            scenario=scenario,
            cc=cc,
            window_ns=round(seconds * SECOND),
            buffer_bytes=LIMIT,
            printed=values,
        )
        for cc, values in printed.items()
    )
