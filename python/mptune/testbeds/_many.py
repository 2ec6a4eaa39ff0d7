"""Results of a trial's connections on a kernel: those of the first workload as one, and every one as a part.

The same rules as in the simulator (`crates/mptune-core/src/trial/flows.rs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mptune.testbeds._kernel_plan import Connection, connections, others
from mptune.trial import (
    BackgroundObservation,
    Bulk,
    ConnectionObservation,
    Mix,
    PartObservation,
    Piece,
    Trial,
)

if TYPE_CHECKING:
    from mptune.linux.kernel_trial import Outcome

Result = dict[str, Any]

#: Numbers of a subflow that add up over connections, and over the subflows on a path.
_SUMS = ("bytes", "retransmitted", "probes", "busy_ns", "rwnd_limited_ns", "sndbuf_limited_ns")
#: Failures of a connection that only starved, of many saturated senders.
_STARVED = ("unreachable", "stalled")


def judged_result(trial: Trial, outcome: Outcome, bin_ns: int) -> Result:
    """The result of the connections that the trial is judged by; as of one connection."""
    found = _results(trial, outcome)
    if not isinstance(trial.workload, Mix) or not found[0][1]:
        return found[0][1]
    own = [(connection, result) for connection, result in found if connection.part == 0 and result]
    first = own[0][1]
    completed = [result["completion_ns"] for _, result in own if result["completion_ns"] is not None]
    kind, reason = _failure(trial.workload, found)
    return {
        **first,
        "duration_ns": max(connection.start_ns + result["duration_ns"] for connection, result in own),
        "in_order_bytes": _sum(own, "in_order_bytes"),
        "bins": added([(connection.start_ns, result["bins"]) for connection, result in own], bin_ns),
        "completion_ns": max(completed) if len(completed) == trial.workload.parts[0].connections else None,
        "delays_ns": [ns for _, result in own for ns in result["delays_ns"]],
        "pieces": [piece for _, result in own for piece in result.get("pieces", ())],
        "late_ns": max((late for _, result in found if (late := result.get("late_ns"))), default=None),
        "reinjected_bytes": _reinjected(own),
        "subflows": list(_by_path(own, bin_ns)),
        "cpu_ns": _sum(found, "cpu_ns"),
        "failed_kind": kind,
        "failed": reason,
    }


def parts_of(trial: Trial, outcome: Outcome) -> list[PartObservation]:
    """Every connection of a mix, by part; none of what never began."""
    if not isinstance(trial.workload, Mix):
        return []
    found = _results(trial, outcome)
    return [
        PartObservation(
            connections=[
                _connection(result, completes=part.workload.completes)
                for connection, result in found
                if connection.part == number and result
            ]
        )
        for number, part in enumerate(trial.workload.parts)
    ]


def background_of(trial: Trial, outcome: Outcome) -> list[BackgroundObservation]:
    """TCP connections of others, in their order; of a trial that ended before there were any without data."""
    flows = others(trial)
    results = outcome.beside[len(outcome.beside) - len(flows) :] if outcome.beside else [None] * len(flows)
    return [
        BackgroundObservation(
            path=flow.path,
            duration_ns=0 if result is None else result["duration_ns"],
            bytes=0 if result is None else result["in_order_bytes"],
            retransmitted=0 if result is None else _retransmitted(result),
        )
        for flow, result in zip(flows, results, strict=True)
    ]


def added(series: Iterable[tuple[int, Sequence[int]]], width_ns: int) -> list[int]:
    """Bins by the trial's time; those of a connection that begins within a bin count from its edge."""
    bins: list[int] = []
    for start_ns, own in series:
        first = start_ns // width_ns
        bins.extend([0] * (first + len(own) - len(bins)))
        for number, size in enumerate(own, start=first):
            bins[number] += size
    return bins


def _results(trial: Trial, outcome: Outcome) -> list[tuple[Connection, Result]]:
    """Every connection with its result, the first one first; an empty one where there is none."""
    ours = connections(trial)
    results = [outcome.result, *outcome.beside]
    results += [None] * (len(ours) - len(results))
    return [(connection, result or {}) for connection, result in zip(ours, results, strict=False)]


def _connection(result: Result, *, completes: bool) -> ConnectionObservation:
    return ConnectionObservation(
        duration_ns=result["duration_ns"],
        bytes=result["in_order_bytes"],
        retransmitted=_retransmitted(result),
        completion_ns=result["completion_ns"] if completes else None,
        delays_ns=result["delays_ns"],
        pieces=msgspec.convert(result.get("pieces", []), list[Piece]),
    )


def _retransmitted(result: Result) -> int:
    return sum(subflow["retransmitted"] for subflow in result["subflows"])


def _sum(results: Iterable[tuple[Connection, Result]], key: str) -> int:
    return sum(result.get(key) or 0 for _, result in results)


def _reinjected(results: Sequence[tuple[Connection, Result]]) -> int | None:
    """None before Linux 6.5."""
    known = [result["reinjected_bytes"] for _, result in results]
    return None if None in known else sum(known)


def _failure(mix: Mix, found: Sequence[tuple[Connection, Result]]) -> tuple[str | None, str | None]:
    """Kind and reason of the first failure. Of many saturated senders some may starve."""
    for number, part in enumerate(mix.parts):
        own = [result for connection, result in found if connection.part == number]
        is_crowd = part.connections > 1 and isinstance(part.workload, Bulk)
        may_starve = is_crowd and any(result and not result["failed"] for result in own)
        for place, result in enumerate(own, start=1):
            which = f"workload {number + 1}, connection {place} of {part.connections}"
            if not result:
                return "incomplete", f"{which}: no result"
            if result["failed"] and not (may_starve and result["failed_kind"] in _STARVED):
                return result["failed_kind"], f"{which}: {result['failed']}"
    return None, None


def _by_path(own: Sequence[tuple[Connection, Result]], width_ns: int) -> Iterable[Result]:
    """One subflow for each pair of addresses: sums, mean of the smoothed RTTs, the smallest RTT."""
    grouped: dict[tuple[str, str], list[tuple[int, Result]]] = {}
    for connection, result in own:
        for subflow in result["subflows"]:
            ends = subflow["local"], subflow["remote"]
            grouped.setdefault(ends, []).append((connection.start_ns, subflow))
    for placed in grouped.values():
        subflows = [subflow for _, subflow in placed]
        yield {
            **subflows[0],
            **{key: sum(subflow[key] or 0 for subflow in subflows) for key in (*_SUMS, "timeouts")},
            "bins": added([(start_ns, subflow["bins"]) for start_ns, subflow in placed], width_ns),
            "srtt_ns": _of_known(subflows, "srtt_ns", lambda known: sum(known) // len(known)),
            "min_rtt_ns": _of_known(subflows, "min_rtt_ns", min),
            "rto_ns": _of_known(subflows, "rto_ns", max),
        }


def _of_known(subflows: Sequence[Result], key: str, of: Callable[[list[int]], int]) -> int:
    known = [subflow[key] for subflow in subflows if subflow[key]]
    return of(known) if known else 0
