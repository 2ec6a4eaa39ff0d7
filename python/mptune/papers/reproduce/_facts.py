"""Look-up of published facts, and the few quantities used by more than one paper.

The tables themselves are read by `mptune.papers.published`; nothing is compared here.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from mptune.papers import published
from mptune.papers.reproduce._base import Printed, bound, exact, rounded
from mptune.theory import Subflow

Row = Mapping[str, str]

#: A buffer formula of `mptune.theory`.
Formula = Callable[[Sequence[Subflow]], int]

#: A thousandfold rate makes a formula count thousandths of a byte: it rounds up to whole ones, and the
#: papers print parts of them.
_FINE = 1000


def table(name: str, **wanted: str) -> list[Row]:
    """Rows of a published table in which the named columns have these values."""
    return [row for row in published.rows(name) if all(row[key] == value for key, value in wanted.items())]


def one(name: str, **wanted: str) -> Row:
    """The only row of a published table with these values.

    Raises
    ------
    LookupError : no such row, or more than one.
    """
    rows = table(name, **wanted)
    if len(rows) != 1:
        raise LookupError(f"{name}: {len(rows)} rows with {wanted}")
    return rows[0]


def claim(paper: str, name: str) -> Row:
    """A statement of a paper's prose, from `claims.csv`."""
    return one("claims", paper=paper, claim=name)


def stated(row: Row) -> Printed:
    """Number in a row with a column `comparison`: rounded, exact ("=", a count) or a bound."""
    comparison, text = row["comparison"], row["value"]
    if comparison in ("at least", "at most", "above", "below"):
        return bound(text, comparison)
    return exact(text) if comparison == "=" else rounded(text, comparison)


def buffer_bytes(formula: Formula, paths: Sequence[tuple[float, float]], rto_s: float = 1.0) -> float:
    """Buffer by one of mptune's formulas, bytes, not rounded up to whole bytes.

    Parameters
    ----------
    paths : rate (Mbit/s) and RTT (ms) of each.
    """
    subflows = [
        Subflow(rate_bps=round(mbps * 1e6 * _FINE), rtt_ns=round(rtt_ms * 1e6), rto_ns=round(rto_s * 1e9))
        for mbps, rtt_ms in paths
    ]
    return formula(subflows) / _FINE


def path_count(sites: str, local: str, remote: str) -> int:
    """Number of (local interface, remote interface) pairs of two sites."""
    return len(isps(sites, local)) * len(isps(sites, remote))


def nominal_limit_mbps(sites: str, local: str, remote: str) -> float:
    """Throughput limit by the published access rates between two sites, Mbit/s."""
    up = sum(Decimal(row["up_kbit_s"]) for row in isps(sites, local))
    down = sum(Decimal(row["down_kbit_s"]) for row in isps(sites, remote))
    return float(min(up, down) / 1000)


def isps(sites: str, abbr: str) -> list[Row]:
    """Rows of a site; `sites` is a table with one row per ISP."""
    return [row for row in table(sites) if row.get("abbr", row.get("site_abbr")) == abbr]
