"""Published numbers that scenarios may be calibrated on: those of claims whose part is `fit`.

Impact factors become throughputs of sets: without a subflow the connection has 1 - Omega of what it has with
all (MPCOA Eq. 5). Numbers of claims that judge are in none of the rows.
"""

from collections.abc import Iterator

import msgspec

from mptune.papers.measure.claim import Claim, Factors
from mptune.papers.measure.claims import claims
from mptune.table.configured import Measured
from mptune.trial import Bulk, Configuration

#: Least impact factor that is used. Below it are single collapses of the baseline (-40.7 in MPCOA, Table 2).
LEAST_OMEGA = -0.6

#: Standard error of a published impact factor: PCDC has ten samples with a standard deviation of up to 0.3.
OMEGA_ERROR = 0.1


def rows(scenario: str) -> list[Measured]:
    """Every published number about a scenario that may be fitted, each configuration once.

    Parameters
    ----------
    scenario : name of a shipped topology.
    """
    mine = [claim for claim in claims() if claim.part == "fit" and scenario in claim.scenarios]
    judged = {
        _key(point.configuration)
        for claim in claims()
        if claim.part == "judge" and scenario in claim.scenarios
        for point in claim.points
        if point.printed is not None and point.name in _levels(claim)
    }
    found: dict[bytes, Measured] = {}
    # Figures before models: where both print a number, the figure's was measured.
    for claim in sorted(mine, key=lambda claim: "table-4" in claim.figures):
        for row in _of_points(claim, scenario):
            if _key(row.configuration) not in judged:
                found.setdefault(_key(row.configuration), row)
    for claim in mine:
        for factors in claim.factors:
            for row in _of_factors(factors, scenario, list(found.values())):
                found.setdefault(_key(row.configuration), row)
    return [msgspec.structs.replace(row, rows=(number,)) for number, row in enumerate(found.values(), 1)]


def _levels(claim: Claim) -> set[str]:
    """Points whose own level a claim states."""
    return {name for statement in claim.statements if statement.rule == "level" for name in statement.of}


def _of_points(claim: Claim, scenario: str) -> Iterator[Measured]:
    """Printed throughputs of points, and of statements about several points."""
    named = {
        name: float(statement.printed)
        for statement in claim.statements
        if statement.rule == "level" and isinstance(statement.printed, int | float)
        for name in statement.of[:1]
    }
    for point in claim.points:
        value = point.printed if point.printed is not None else named.get(point.name)
        if point.scenario == scenario and value and isinstance(point.configuration.workload, Bulk):
            yield Measured(rows=(0,), configuration=point.configuration, metric="throughput", value=value)


def _of_factors(factors: Factors, scenario: str, known: list[Measured]) -> Iterator[Measured]:
    """Throughput without each subflow, where that with all is printed for this buffer."""
    whole = next(
        (
            row
            for row in known
            if (row.configuration.pm, row.configuration.cc) == ("fullmesh", factors.cc)
            and row.configuration.buffer_bytes == factors.buffer_bytes
        ),
        None,
    )
    if whole is None or factors.scenario != scenario:
        return
    labels = list(factors.printed)
    for label, omega in factors.printed.items():
        rest = tuple(other for other in labels if other != label)
        if omega < LEAST_OMEGA or omega >= 1 or not rest:
            continue
        configuration = msgspec.structs.replace(
            whole.configuration, pm="pcdc", pm_options={"active": rest}, initial_path=rest[0]
        )
        yield Measured(
            rows=(0,),
            configuration=configuration,
            metric="throughput",
            value=whole.value * (1 - omega),
            spread=OMEGA_ERROR / (1 - omega),
        )


def _key(configuration: Configuration) -> bytes:
    return msgspec.json.encode(configuration)
