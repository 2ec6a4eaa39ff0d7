"""Output of `mptune buffers --measure`: sufficient buffers, and the formulas of measured paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mptune import units
from mptune._text import digits
from mptune.cli._buffer_tables import sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from mptune.optimisation.practical import Measured, Practical
    from mptune.theory import Subflow

_KIB = units.SIZES["KiB"]


def practical_document(measured: Measured, rto_ns: int) -> dict[str, Any]:
    """`--json` of a measurement: sizes in bytes, times in ms, throughputs in Mbit/s."""
    subflows = measured.subflows(rto_ns)
    return {
        "measured": {
            "paths": [
                {
                    "path": path.path,
                    "throughput_mbps": path.throughput.mean,
                    "low_mbps": path.throughput.low,
                    "high_mbps": path.throughput.high,
                    "rtt_ms": path.rtt_ns / 1e6,
                }
                for path in measured.alone
            ],
            "mptcp": {"bytes": sizes(subflows)},
        },
        "practical": [
            {
                "initial_path": practical.initial_path,
                "plateau_mbps": practical.plateau_mbps,
                "buffer_bytes": practical.buffer_bytes,
                "is_largest": practical.is_largest,
                "means_mbps": {str(size): mean for size, mean in practical.means.items()},
            }
            for practical in measured.practical
        ],
        "failed_trials": measured.failed,
    }


def show_practical(out: Console, measured: Measured, nominal: Sequence[Subflow], rto_ns: int) -> None:
    """Print what is enough from each initial path, then the formulas, nominal (if known) and measured."""
    from mptune.cli._tables import section, table

    listing = table("initial path", "| plateau (Mbit/s)", "| enough (KiB)")
    for practical in measured.practical:
        listing.add_row(practical.initial_path, digits(practical.plateau_mbps), _size(practical))
    section(
        out, "Measured: the smallest buffer with 95 % of the largest throughput (fullmesh, cubic)", listing
    )
    alone = table("path alone", "| Mbit/s", "| RTT, median")
    for each in measured.alone:
        alone.add_row(each.path, digits(each.throughput.mean), units.format_time(each.rtt_ns, 4))
    section(out, "Measured: every path alone, with the largest buffer", alone)
    formulas = table("MPTCP, KiB", *(f"| Eq. {number}" for number in (1, 2, 3)))
    for name, subflows in (("nominal", nominal), ("measured", measured.subflows(rto_ns))):
        if subflows:
            formulas.add_row(name, *(f"{size / _KIB:.0f}" for size in sizes(subflows).values()))
    which = "of nominal and of measured" if nominal else "of measured"
    section(out, f"The formulas, {which} rates and RTTs", formulas)
    if measured.failed:
        out.print(f"! {measured.failed} trials failed and are left out.", markup=False)


def _size(name: Practical) -> str:
    """A buffer; "at least" where the largest measured one is needed."""
    return f"{'at least ' if name.is_largest else ''}{name.buffer_bytes / _KIB:.0f}"
