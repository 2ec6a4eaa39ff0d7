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
                    "loaded_rtt_ms": path.loaded_rtt_ns / 1e6,
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
                "first_bytes": practical.first_bytes,
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

    differs = any(practical.first_bytes != practical.buffer_bytes for practical in measured.practical)
    columns = ("initial path", "| plateau (Mbit/s)", "| enough (KiB)", *["| first (KiB)"] * differs)
    listing = table(*columns)
    for practical in measured.practical:
        first = [f"{practical.first_bytes / _KIB:.0f}"] * differs
        listing.add_row(practical.initial_path, digits(practical.plateau_mbps), _size(practical), *first)
    section(
        out,
        "Measured: the smallest buffer with 95 % of the largest throughput, with larger ones too "
        "(fullmesh, cubic)",
        listing,
    )
    if differs:
        out.print("first: the smallest one with 95 %, although a larger one gives less.", markup=False)
    alone = table("plain TCP on", "| Mbit/s", "| RTT, idle", "| RTT, loaded")
    for each in measured.alone:
        rtts = (units.format_time(rtt_ns, 4) for rtt_ns in (each.rtt_ns, each.loaded_rtt_ns))
        alone.add_row(each.path, digits(each.throughput.mean), *rtts)
    section(out, "Measured: plain TCP with the largest buffer, and the median of pings", alone)
    formulas = table("MPTCP, KiB", *(f"| Eq. {number}" for number in (1, 2, 3)))
    for name, subflows in (("nominal", nominal), ("measured", measured.subflows(rto_ns))):
        if subflows:
            formulas.add_row(name, *(f"{size / _KIB:.0f}" for size in sizes(subflows).values()))
    which = "of nominal and of measured" if nominal else "of measured"
    section(out, f"The formulas, {which} rates and idle RTTs", formulas)
    if measured.failed:
        out.print(f"! {measured.failed} trials failed and are left out.", markup=False)


def _size(name: Practical) -> str:
    """A buffer; "at least" where the largest measured one is needed."""
    return f"{'at least ' if name.is_largest else ''}{name.buffer_bytes / _KIB:.0f}"
