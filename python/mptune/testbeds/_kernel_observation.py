"""The observation of a trial on the kernel, and whether it can be trusted.

A trial is *overloaded*, and has therefore failed, if the machine was too busy for real time: one packet in a
hundred left the emulator more than 1 ms late, packets were lost that the network model did not lose, the
meter waited for a processor for more than 5 % of the time, or the sender wrote a message more than 2 ms after
it was due although there was room for it. Such a trial measures the machine, not MPTCP. A busy machine alone
is not a reason: emulator and meter have priority over everything else, if permitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mptune.errors import Failure
from mptune.testbeds._many import background_of, judged_result, parts_of
from mptune.testbeds._outages import coarse, take_over_ms
from mptune.trial import (
    Observation,
    Piece,
    SubflowObservation,
    Trial,
    expected_bps,
    judged,
)

if TYPE_CHECKING:
    from mptune.linux.kernel_trial import Outcome, Plan

#: Largest accepted lateness of the emulator at the 99th percentile, nanoseconds.
_LATE_NS = 1_000_000
#: Largest accepted lateness of a message that found room, nanoseconds: its delay has so much of the machine.
_LATE_MESSAGE_NS = 2_000_000
#: Share of the trial that the meter may have waited for a processor.
_WAITED = 0.05

#: Time for which a subflow was sending, and its limits.
_COUNTERS = ("busy_ns", "rwnd_limited_ns", "sndbuf_limited_ns")

_ROLES = {False: "active", True: "standby"}

Metadata = dict[str, int | float | str]
#: Labels of paths by their pairs of addresses.
Labels = dict[tuple[str, str], str]


def observe(
    trial: Trial,
    plan: Plan,
    outcome: Outcome,
    busy: float,
    *,
    testbed: str = "namespaces",
    overload: Sequence[str] = (),
    paths: Labels | None = None,
) -> Observation:
    """Make an observation of an outcome.

    Parameters
    ----------
    plan : the instructions that the processes were given.
    busy : share of all processors that was in use during the trial.
    testbed : where it was.
    overload : why it cannot be trusted, besides the reasons in the outcome itself.
    paths : names of subflows by their addresses; None takes the labels of the plan's paths.
    """
    from mptune.linux.assignment import labels

    result = judged_result(trial, outcome, plan.meter["bin_ns"])
    found = result.get("subflows", [])
    if paths is None:
        paths = labels(plan.assignment.paths)
    failed = outcome.failed or _failure(result)
    width_ns = plan.meter["bin_ns"]
    metadata = _metadata(outcome, busy) | _addresses(paths, found)
    if (takeover := take_over_ms(trial, result.get("bins", []))) is not None:
        metadata["takeover_ms"] = takeover
    if reasons := [*_overload(outcome), *overload]:
        metadata["overloaded"] = "; ".join(reasons)
        failed = failed or Failure("overloaded", f"overloaded: {metadata['overloaded']}")
    return Observation(
        testbed=testbed,
        duration_ns=result.get("duration_ns", 0),
        in_order_bytes=result.get("in_order_bytes", 0),
        bins=coarse(result.get("bins", []), width_ns),
        subflows=_subflows(paths, found, width_ns),
        expected_bps=expected_bps(trial, result.get("expected_bytes")),
        completion_ns=result.get("completion_ns") if judged(trial.workload).completes else None,
        delays_ns=result.get("delays_ns", []),
        pieces=msgspec.convert(result.get("pieces", []), list[Piece]),
        failed=failed,
        background=background_of(trial, outcome),
        metadata=metadata,
        parts=parts_of(trial, outcome),
    )


def _failure(result: dict[str, Any]) -> Failure | None:
    """Why the meter has no usable number, if so."""
    return Failure(result["failed_kind"], result["failed"]) if result.get("failed") else None


def processor_shares(outcome: Outcome) -> dict[str, float]:
    """Processors that emulator and meter used on average, as far as they reported it."""
    shares = {}
    used_ns = sum((result or {}).get("cpu_ns", 0) for result in (outcome.result, *outcome.beside))
    meter = None if outcome.result is None else {**outcome.result, "cpu_ns": used_ns}
    for name, report, span in (("emulator", outcome.report, "elapsed_ns"), ("meter", meter, "duration_ns")):
        if report is not None and report[span]:
            shares[name] = report["cpu_ns"] / report[span]
    return shares


def _waited_share(outcome: Outcome) -> float:
    """Of the pairs of processes on average."""
    span = (outcome.result or {}).get("duration_ns", 0)
    pairs = 1 + len(outcome.beside)
    return (outcome.meter_waited_ns or 0) / span / pairs if span else 0.0


def _overload(outcome: Outcome) -> list[str]:
    """Why a trial cannot be trusted."""
    reasons = []
    report = outcome.report or {}
    late = report.get("late_p99_ns", 0)
    if late > _LATE_NS:
        reasons.append(f"1 % of the packets were at least {late / 1e6:.1f} ms late")
    late = (outcome.result or {}).get("late_ns") or 0
    if late > _LATE_MESSAGE_NS:
        reasons.append(f"a message was written {late / 1e6:.1f} ms late")
    if report.get("overflow"):
        reasons.append(f"{report['overflow']} packets were lost outside the network model")
    waited = _waited_share(outcome)
    if waited > _WAITED:
        reasons.append(f"the meter waited for a processor for {waited:.1%} of the time")
    return reasons


def _subflows(labels: Labels, found: list[dict[str, Any]], width_ns: int) -> list[SubflowObservation]:
    return [
        SubflowObservation(
            path=label,
            active=subflow["bytes"] > 0,
            bytes=subflow["bytes"],
            srtt_ns=subflow["srtt_ns"],
            min_rtt_ns=subflow["min_rtt_ns"],
            rto_ns=subflow.get("rto_ns") or 0,
            retransmitted=subflow["retransmitted"],
            timeouts=subflow["timeouts"] or 0,
            bins=coarse(subflow["bins"], width_ns),
            counters={name: subflow[name] for name in _COUNTERS if name in subflow},
        )
        for subflow in found
        if (label := labels.get((subflow["local"], subflow["remote"]))) is not None
    ]


def _addresses(labels: Labels, found: list[dict[str, Any]]) -> Metadata:
    """Both ends of the subflows by path, as the kernel has them."""
    pairs = [(subflow["local"], subflow["remote"]) for subflow in found]
    metadata: Metadata = {f"addresses {labels[pair]}": " to ".join(pair) for pair in pairs if pair in labels}
    metadata |= {
        f"nat {labels[pair]}": f"{pair[0]} is seen as {seen}"
        for pair, subflow in zip(pairs, found, strict=True)
        if pair in labels and (seen := subflow.get("seen", pair[0])) != pair[0]
    }
    # Subflows of the kernel's own path manager may be elsewhere than on the topology's paths.
    if others := [" to ".join(pair) for pair in pairs if pair not in labels]:
        metadata["addresses of no path"] = ", ".join(others)
    return metadata


def _metadata(outcome: Outcome, busy: float) -> Metadata:
    """Everything that could explain the result."""
    metadata: Metadata = {
        **outcome.about,
        "machine_busy_share": round(busy, 4),
    }
    if outcome.meter_waited_ns is not None:
        metadata["meter_waited_share"] = round(_waited_share(outcome), 4)
    metadata |= {f"{name}_processors": round(share, 4) for name, share in processor_shares(outcome).items()}
    return (
        metadata | _of_emulator(outcome.report or {}) | _of_manager(outcome) | _of_meter(outcome.result or {})
    )


def _of_emulator(report: dict[str, Any]) -> Metadata:
    """Lateness in ms, packets, bytes and unroutable packets, and if a guest's kernel is the emulator."""
    metadata: Metadata = {
        f"emulator_late_{which}_ms": report[f"late_{which}_ns"] / 1e6
        for which in ("p50", "p99", "max")
        if f"late_{which}_ns" in report
    }
    metadata |= {
        f"emulator_{key}": report[key] for key in ("packets", "bytes", "unroutable") if key in report
    }
    if report.get("scheduling") == "kernel":
        metadata["emulator_in_kernel"] = True
    return metadata


def _of_manager(outcome: Outcome) -> Metadata:
    """Record of the path manager: events (times in ms), problems, take-over times, buffer limits."""
    metadata: Metadata = {}
    for connection in outcome.managed:
        changes = [
            f"{_ms(change['at_ns'], outcome):.0f} ms: {change['path']} {_ROLES[change['backup']]}"
            for change in connection["changes"]
        ]
        metadata["path_manager_changes"] = ", ".join(changes)
        metadata["path_manager_problems"] = "; ".join(connection["problems"])
        if sampled := connection.get("sampled"):
            metadata["window_limited_ns"] = sampled["receive_limited_ns"] + sampled["send_limited_ns"]
            metadata["sampled_ns"] = sampled["span_ns"]
        for outage in connection["outages"]:
            events = [f"lost at {_ms(outage['detected_ns'], outcome):.0f} ms"]
            if outage["carrying_ns"] is not None:
                took = (outage["carrying_ns"] - outage["last_heard_ns"]) / 1e6
                events.append(f"{', '.join(outage['successors'])} after {took:.0f} ms")
            if outage["restored_ns"] is not None:
                events.append(f"restored at {_ms(outage['restored_ns'], outcome):.0f} ms")
            metadata[f"outage {outage['path']}"] = ", ".join(events)
    return metadata


def _ms(at_ns: int, outcome: Outcome) -> float:
    """Time since the connection was requested, ms."""
    return (at_ns - outcome.started_ns) / 1e6


def _of_meter(result: dict[str, Any]) -> Metadata:
    """Buffers, congestion control in effect, fallback, lateness of messages (ms), strangers, counters."""
    metadata: Metadata = {
        f"requested_{name}": size for name, size in result.get("requested", {}).items() if size
    }
    metadata |= {f"effective_{name}": size for name, size in result.get("effective", {}).items()}
    for end, share in result.get("busy_share", {}).items():
        if share is not None:
            metadata[f"{end}_busy_share"] = round(share, 4)
    for key in ("cc_effective", "fallback", "reinjected_bytes"):
        if result.get(key) is not None:
            metadata[key] = result[key]
    metadata |= result.get("programs", {})
    if result.get("late_ns") is not None:
        metadata["message_late_max_ms"] = result["late_ns"] / 1e6
    if result.get("strangers"):
        metadata["strangers"] = result["strangers"]
    for end, counted in result.get("counters", {}).items():
        metadata |= {f"{end} {name}": value for name, value in counted.items()}
    return metadata
