"""Ratios of throughputs over many dynamics, as a table for the terminal and for the docs.

Not a benchmark.
"""

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.shared import docs

#: Share of a rival below which guard misses its goal.
GOAL = 0.95


def over(mbps: float, other: float) -> float:
    """A throughput as a multiple of another one, which may be nothing; Mbit/s."""
    return mbps / max(other, 0.01)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(
    ratios: Mapping[str, Sequence[float]], shares: Sequence[float], decimals: int = 0
) -> list[list[str]]:
    """A row for each comparison: geometric mean, quantiles, share of dynamics below the goal.

    Parameters
    ----------
    shares : of the quantiles.
    decimals : of the last column, per cent.
    """
    rows = [["", "mean", *(f"{100 * share:.0f} %" for share in shares), f"below {100 * GOAL:.0f} %"]]
    for name, values in ratios.items():
        mean = statistics.geometric_mean([max(value, 1e-3) for value in values])
        missed = sum(value < GOAL for value in values) / len(values)
        cells = [f"{quantile(values, share):.2f}" for share in shares]
        rows.append([name, f"{mean:.2f}", *cells, f"{100 * missed:.{decimals}f} %"])
    return rows


def changed(changes: Sequence[int], minutes: Sequence[float], decimals: int = 1) -> str:
    """Number of role changes by guard in each dynamic, in a line; `decimals` of the median."""
    per_minute = [count / length for count, length in zip(changes, minutes, strict=True)]
    return (
        f"Changes a minute: median {statistics.median(per_minute):.{decimals}f}, "
        f"90 % {quantile(per_minute, 0.9):.1f}, most {max(per_minute):.1f}; "
        f"none in {sum(count == 0 for count in changes)} of {len(changes)} dynamics."
    )


def markdown(count: int, rows: Sequence[Sequence[str]], facts: Sequence[str]) -> str:
    """The table of this many dynamics, and remarks on them, for the docs."""
    return "\n".join([f"{count} dynamics:", "", *docs.table(rows), "", *(f"- {line}" for line in facts)])
