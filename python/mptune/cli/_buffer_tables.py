"""Output of `mptune buffers`: formulas applied, tables and `--json`.

The formulas themselves are in `mptune.theory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mptune import units
from mptune._text import digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from mptune.result.answer import Answer
    from mptune.theory import Subflow

_KIB, _MIB = units.SIZES["KiB"], units.SIZES["MiB"]

#: Key of a formula in `--json` -> what it covers.
_COVERED = {
    "first": "first transmission (Eq. 1)",
    "fast": "with a fast retransmission (Eq. 2)",
    "timer": "with a timer retransmission (Eq. 3; MPCOA Eq. 1)",
}

#: The same for MPCOA's own sizes over all paths.
_MPCOA = {
    "table5": "3 (RTT + RTO) * access rates (MPCOA Table 5)",
    "half": "half of that, where measuring takes too long",
}

#: Linux allocates twice the value that is set (SOL_SOCKET in socket(7); buffer-size study IV-B2).
_LINUX_FACTOR = 2


_WHAT_TO_SET = (
    "Sizes to set, per connection and direction. Linux allocates twice the set value (SO_SNDBUF, SO_RCVBUF); "
    "part of that is its own overhead, so one to two times the set value can hold data."
)


#: Advice on the formulas, with its evidence.
_WHICH = (
    "Take Eq. 2 unless something was measured: fast retransmissions are frequent, and it was enough for four "
    "of the five pairs of the buffer-size study (section V-C). Eq. 1 is enough only where nothing is lost; "
    "Eq. 3 also covers timeouts, which are rare. MPCOA's rule where measuring takes too long, half of its "
    "Table 5 (section 6), rests on three pairs, whose answers were 3.8, 17 and 41 % of that size: half was "
    "enough there, and up to 13 times too much."
)


class Case(NamedTuple):
    """Paths to apply the formulas to.

    Attributes
    ----------
    name : of the topology, or a phrase if there is none.
    rtt : where the RTTs come from, as a phrase.
    subflows : by path; empty if what the formulas need is not known.
    access : the same with the rates of the slower access links, as MPCOA Table 5 takes them; empty if a path
        is given by one rate.
    """

    name: str
    rtt: str
    subflows: Mapping[str, Subflow]
    access: Mapping[str, Subflow] = {}


def sizes(subflows: Sequence[Subflow]) -> dict[str, int]:
    """Bytes by each formula."""
    from mptune import theory

    formulas = (theory.initial_transmission, theory.fast_retransmission, theory.timer_retransmission)
    return {key: formula(subflows) for key, formula in zip(_COVERED, formulas, strict=True)}


def mpcoa_sizes(case: Case) -> dict[str, int]:
    """Bytes by MPCOA's Table 5 and by its rule of half of that."""
    from mptune import theory

    subflows = list((case.access or case.subflows).values())
    return dict(zip(_MPCOA, (theory.table5(subflows), theory.half_of_table5(subflows)), strict=True))


def document(case: Case, connections: int, recommendation: Answer | None) -> dict[str, Any]:
    """`--json`: rates in bit/s, times in ms, sizes in bytes per connection and direction."""
    subflows = list(case.subflows.values())
    if not subflows:
        return {"name": case.name, "rtt": case.rtt, "paths": [], "mptcp": None}
    sizes_of_subflows = sizes(subflows)
    return {
        "name": case.name,
        "rtt": case.rtt,
        "paths": [
            {"path": label, **_inputs([subflow]), "bytes": sizes([subflow])}
            for label, subflow in case.subflows.items()
        ],
        "mptcp": {**_inputs(subflows), "bytes": sizes_of_subflows},
        "mpcoa": {
            **_inputs(list((case.access or case.subflows).values())),
            "bytes": {"eq1": sizes_of_subflows["timer"], **mpcoa_sizes(case)},
        },
        "advice": _WHICH,
        "connections": connections,
        "memory_bytes": {key: connections * size for key, size in sizes_of_subflows.items()},
        "memory_linux_bytes": {
            key: _LINUX_FACTOR * connections * size for key, size in sizes_of_subflows.items()
        },
        "warnings": _warnings(case, recommendation),
        "recommendation": None
        if recommendation is None
        else {
            **msgspec.to_builtins(recommendation),
            "share_of": {key: recommendation.obs_bytes / size for key, size in sizes_of_subflows.items()},
            "memory_bytes": connections * recommendation.obs_bytes,
            "memory_linux_bytes": _LINUX_FACTOR * connections * recommendation.obs_bytes,
        },
    }


def _warnings(case: Case, recommendation: Answer | None) -> list[str]:
    """Warnings."""
    warnings = []
    rtt_ns, rto_ns = (
        max(getattr(subflow, name) for subflow in case.subflows.values()) for name in ("rtt_ns", "rto_ns")
    )
    if rto_ns < rtt_ns:
        warnings.append(
            f"The largest RTO, {units.format_time(rto_ns, 4)}, is below the largest RTT; TCP keeps it above "
            "(RFC 6298, section 2). See --rto."
        )
    if recommendation is not None and recommendation.topology not in (None, case.name):
        warnings.append(f"The run used {recommendation.topology}, not {case.name}.")
    return warnings


def _inputs(subflows: Sequence[Subflow]) -> dict[str, float]:
    """Inputs of the formulas: sum of the rates, largest RTT and RTO."""
    return {
        "rate_bps": sum(subflow.rate_bps for subflow in subflows),
        "rtt_ms": max(subflow.rtt_ns for subflow in subflows) / 1e6,
        "rto_ms": max(subflow.rto_ns for subflow in subflows) / 1e6,
    }


def show(out: Console, case: Case, connections: int, recommendation: Answer | None) -> None:
    """Show single paths first, then MPTCP, then the memory of several connections."""
    from mptune.cli._tables import table

    out.print(f"{case.name}: buffer sizes by formula, {case.rtt}", style="bold", markup=False)
    paths = table("path", "| rate", "| RTT", "| RTO", *(f"| Eq. {i}" for i in range(1, len(_COVERED) + 1)))
    for label, subflow in case.subflows.items():
        paths.add_row(
            label,
            *_described([subflow]),
            *(f"{_text(size / _KIB)} KiB" for size in sizes([subflow]).values()),
        )
    out.print(paths)
    subflows = list(case.subflows.values())
    rate, rtt, rto = _described(subflows)
    out.print(
        f"\nMPTCP over all {len(subflows)} paths: sum of rates {rate}, largest RTT {rtt}, largest RTO {rto}",
        style="bold",
        markup=False,
    )
    listing = table("buffer", "| KiB", "| MiB", "| bytes", *_memory_columns(connections, recommendation))
    rows = dict(zip(_COVERED.values(), sizes(subflows).values(), strict=True))
    rows |= dict(zip(_MPCOA.values(), mpcoa_sizes(case).values(), strict=True))
    if recommendation is not None:
        rows["recommended"] = recommendation.obs_bytes
    for text, size in rows.items():
        listing.add_row(text, *_columns(size, connections, recommendation))
    out.print(listing)
    if recommendation is not None:
        out.print(f"\n{_recommended(recommendation)}", markup=False)
    out.print(f"\n{_WHICH}", markup=False)
    out.print(f"\n{_WHAT_TO_SET}", markup=False)
    for warning in _warnings(case, recommendation):
        out.print(f"! {warning}", markup=False)


def _recommended(recommendation: Answer) -> str:
    """The run's recommendation in words."""
    of = "" if recommendation.topology is None else f" ({recommendation.topology})"
    speed = f"{digits(recommendation.otp_mbps)} Mbit/s"
    return f"The run{of} recommends {recommendation.opm} with {recommendation.occ}, and predicts {speed}."


def _memory_columns(connections: int, recommendation: Answer | None) -> list[str]:
    """Headings of the optional columns."""
    memory = [f"| {connections} connections", "| at most in Linux"] if connections > 1 else []
    return memory + (["| recommended is"] if recommendation is not None else [])


def _columns(size: int, connections: int, recommendation: Answer | None) -> list[str]:
    """Cells of one buffer size."""
    cells = [_text(size / _KIB), _text(size / _MIB), str(size)]
    if connections > 1:
        cells += [_memory(connections * size), _memory(_LINUX_FACTOR * connections * size)]
    if recommendation is not None:
        cells.append(f"{digits(100 * recommendation.obs_bytes / size, 3)} %")
    return cells


def _described(subflows: Sequence[Subflow]) -> tuple[str, str, str]:
    """Sum of the rates, largest RTT and RTO as text."""
    return (
        units.format_rate(sum(subflow.rate_bps for subflow in subflows), 4),
        units.format_time(max(subflow.rtt_ns for subflow in subflows), 4),
        units.format_time(max(subflow.rto_ns for subflow in subflows), 4),
    )


def _text(value: float) -> str:
    """Number as the papers show sizes: whole, with decimals only where three digits need them."""
    return digits(value, 3) if value < 100 else f"{value:.0f}"


def _memory(size: int) -> str:
    """Memory of many connections."""
    return units.format_size(size, 4)
