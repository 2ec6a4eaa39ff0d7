"""The simulated testbed: trials in the packet-level core, in virtual time.

This translates path labels to numbers and back; it measures and decides nothing.
"""

import msgspec

from mptune import _core, path_managers
from mptune.capture import Run
from mptune.errors import Failure, FailureKind, InputError
from mptune.testbeds._base import Testbed
from mptune.testbeds._outages import bin_ns, coarse, take_over_ms
from mptune.testbeds._recorded import MOST_PACKETS, SPACING_NS, run_of
from mptune.topology import BOTH, Topology
from mptune.trial import (
    DEFAULT_FAMILY,
    BackgroundObservation,
    ConnectionObservation,
    Mix,
    Observation,
    PartObservation,
    Piece,
    SubflowObservation,
    Trial,
    expected_bps,
    judged,
)
from mptune.trial.congestion import path_policy
from mptune.trial.phase import SLACK_NS, phase_ns


class _Subflow(msgspec.Struct):
    path: int
    active: bool
    bytes: int
    bins: list[int]
    srtt_ns: int
    min_rtt_ns: int
    rto_ns: int
    retransmitted: int
    timeouts: int
    sent: int
    recoveries: int
    undone: int
    ecn_reductions: int
    reinjected: int
    refused: int


class _Background(msgspec.Struct):
    path: int
    duration_ns: int
    bytes: int
    retransmitted: int


class _Connection(msgspec.Struct):
    duration_ns: int
    bytes: int
    retransmitted: int
    completion_ns: int | None
    delays_ns: list[int] = []
    pieces: list[Piece] = []


class _Flow(msgspec.Struct):
    connections: list[_Connection]


class _Change(msgspec.Struct):
    at_ns: int
    path: int
    backup: bool


class _Outcome(msgspec.Struct):
    duration_ns: int
    in_order_bytes: int
    bins: list[int]
    expected_bytes: int | None
    completion_ns: int | None
    failed: str | None
    failed_kind: FailureKind | None
    stalled_ns: int | None
    reinjected: int
    reinjected_bytes: int
    duplicates: int
    window_limited_ns: int
    zero_windows: int
    beyond_window: int
    largest_reordering_bytes: int
    events: int
    subflows: list[_Subflow]
    background: list[_Background]
    changes: list[_Change] = []
    delays_ns: list[int] = []
    pieces: list[Piece] = []
    flows: list[_Flow] = []


#: Names of a change of role, as on the kernel.
_ROLES = {True: "standby", False: "active"}
#: Counters of a subflow that only the core has.
_COUNTERS = ("sent", "recoveries", "undone", "ecn_reductions", "reinjected", "refused")

#: The scheduler that weighs subflows by their pacing rates.
_WEIGHING = "kernel"

#: Keys of the core's workload, as a trial has them.
_KEYS = {
    "starts_ns": "connections",
    "workload.duration_ns": "duration_ns",
    "workload.ends_early": "ends_early",
    "workload.bytes": "transfer_bytes",
    "workload.deadline_ns": "deadline_ns",
    "workload.interval_ns": "interval_ns",
    "workload.patience_ns": "patience_ns",
}

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Outcome)


class SimulatedTestbed(Testbed):
    """Runs trials in the core. Trials are independent: as many at once as there are cores."""

    name = "simulated"
    anywhere = True
    records = True

    def check_network(self, topology: Topology) -> None:
        """Refuse a network that is not known well enough to be simulated.

        Raises
        ------
        InputError : naming the first value that is missing.
        """
        topology.check_known("the simulator")

    def check(self, trial: Trial) -> None:
        """Refuse what the simulator lacks.

        Raises
        ------
        InputError : naming the option; or as `check_network`.
        """
        super().check(trial)
        if path_policy(trial.cc) is not None and trial.scheduler != _WEIGHING:
            expected = f"expected one without a path policy, which only scheduler {_WEIGHING} obeys"
            raise InputError("--cc", "", f"{expected}, found {trial.cc} with {trial.scheduler}")

    def record(self, trial: Trial) -> tuple[Observation, Run]:
        """Run one trial and keep its packets, and what its senders thought; as `run` otherwise."""
        self.check(trial)
        try:
            outcome, packets, beyond, samples = _core.simulate_recorded(
                _ENCODER.encode(_spec(trial)), MOST_PACKETS, SPACING_NS
            )
        except _core.SpecError as error:
            raise _refused(trial, *error.args) from None
        observation = _observation(trial, _DECODER.decode(outcome))
        of_path = {number: number for number in range(len(trial.topology.paths))}
        return observation, run_of(trial, observation, packets, msgspec.json.decode(samples), of_path, beyond)

    def run(self, trial: Trial) -> Observation:
        """Run one trial; the same trial gives the same observation, on any machine.

        Raises
        ------
        InputError : the trial is impossible.
        """
        self.check(trial)
        try:
            outcome = _DECODER.decode(_core.simulate(_ENCODER.encode(_spec(trial))))
        except _core.SpecError as error:
            raise _refused(trial, *error.args) from None
        return _observation(trial, outcome)


def _spec(trial: Trial) -> dict[str, object]:
    """The core's `TrialSpec` of a trial."""
    topology = trial.topology
    numbers = {path.label: number for number, path in enumerate(topology.paths)}

    def number(label: str, key: str) -> int:
        topology.path(label, key)  # raises with the known labels
        return numbers[label]

    return {
        "network": topology.network(trial.seed) | {"lsrr_honoured": trial.lsrr_honoured},
        **trial.members,
        "protocol": trial.protocol,
        # Over both, each path has its own.
        "family": DEFAULT_FAMILY if trial.family == BOTH else trial.family,
        "pm": trial.pm,
        "cc": trial.cc,
        "buffer_mode": trial.buffer_mode,
        "buffer_bytes": trial.buffer_bytes,
        "receive_buffer_bytes": trial.receive_buffer_bytes,
        "seed": trial.seed,
        **_sent(trial),
        "initial_path": None if trial.initial_path is None else number(trial.initial_path, "initial path"),
        "pm_options": path_managers.numbered(trial.pm, trial.pm_options, number),
        "path_parameters": [
            {"path": number(label, "path parameters"), **told}
            for label, told in trial.path_parameters.by_path()
        ],
        "size_known": trial.size_known,
        "phase_ns": phase_ns(trial.seed) + SLACK_NS,
        "bin_ns": bin_ns(trial),
        "script": [
            {"at_ns": action.at_ns, "path": number(action.path, "script"), "action": action.action}
            for action in trial.script
        ],
    }


def _sent(trial: Trial) -> dict[str, object]:
    """The workload, and of a mix when its connections begin."""
    if not isinstance(trial.workload, Mix):
        return {"workload": trial.workload}
    first, *others = zip(trial.workload.parts, trial.workload.starts_ns(trial.seed), strict=True)
    return {
        "workload": first[0].workload,
        "starts_ns": first[1],
        "beside": [{"workload": part.workload, "starts_ns": starts} for part, starts in others],
    }


def _refused(trial: Trial, key: str, expected: str) -> InputError:
    """The refusal of a trial, by the name that a setting of a trial has for the core's key."""
    return InputError(trial.topology.name, _KEYS.get(key, key), expected)


def _failure(outcome: _Outcome) -> Failure | None:
    if outcome.failed is None or outcome.failed_kind is None:
        return None
    return Failure(outcome.failed_kind, outcome.failed)


def _observation(trial: Trial, outcome: _Outcome) -> Observation:
    labels = [path.label for path in trial.topology.paths]
    width_ns = bin_ns(trial)
    subflows = [
        SubflowObservation(
            path=labels[subflow.path],
            active=subflow.active,
            bytes=subflow.bytes,
            srtt_ns=subflow.srtt_ns,
            min_rtt_ns=subflow.min_rtt_ns,
            rto_ns=subflow.rto_ns,
            retransmitted=subflow.retransmitted,
            timeouts=subflow.timeouts,
            bins=coarse(subflow.bins, width_ns),
            counters={name: getattr(subflow, name) for name in _COUNTERS},
        )
        for subflow in outcome.subflows
    ]
    background = [
        BackgroundObservation(
            path=labels[flow.path],
            duration_ns=flow.duration_ns,
            bytes=flow.bytes,
            retransmitted=flow.retransmitted,
        )
        for flow in outcome.background
    ]
    return Observation(
        testbed=SimulatedTestbed.name,
        duration_ns=outcome.duration_ns,
        in_order_bytes=outcome.in_order_bytes,
        bins=coarse(outcome.bins, width_ns),
        subflows=subflows,
        background=background,
        expected_bps=expected_bps(trial, outcome.expected_bytes),
        completion_ns=outcome.completion_ns if judged(trial.workload).completes else None,
        delays_ns=outcome.delays_ns,
        pieces=outcome.pieces,
        failed=_failure(outcome),
        parts=_parts(trial, outcome),
        metadata=_metadata(trial, outcome),
    )


def _parts(trial: Trial, outcome: _Outcome) -> list[PartObservation]:
    """Of a mix, its parts; a completion is that of a transfer."""
    if not isinstance(trial.workload, Mix):
        return []
    found = outcome.flows or [_alone(outcome)]
    return [
        PartObservation(
            connections=[
                ConnectionObservation(
                    duration_ns=connection.duration_ns,
                    bytes=connection.bytes,
                    retransmitted=connection.retransmitted,
                    completion_ns=connection.completion_ns if part.workload.completes else None,
                    delays_ns=connection.delays_ns,
                    pieces=connection.pieces,
                )
                for connection in flow.connections
            ]
        )
        for part, flow in zip(trial.workload.parts, found, strict=True)
    ]


def _alone(outcome: _Outcome) -> _Flow:
    """The only connection of a trial, as one of many."""
    return _Flow(
        connections=[
            _Connection(
                duration_ns=outcome.duration_ns,
                bytes=outcome.in_order_bytes,
                retransmitted=sum(subflow.retransmitted for subflow in outcome.subflows),
                completion_ns=outcome.completion_ns,
                delays_ns=outcome.delays_ns,
                pieces=outcome.pieces,
            )
        ]
    )


def _metadata(trial: Trial, outcome: _Outcome) -> dict[str, bool | int | float | str]:
    """The core's counters, and the times that not every trial has."""
    times = {"stalled_ns": outcome.stalled_ns, "takeover_ms": take_over_ms(trial, outcome.bins)}
    labels = [path.label for path in trial.topology.paths]
    changes = [
        f"{change.at_ns / 1e6:.0f} ms: {labels[change.path]} {_ROLES[change.backup]}"
        for change in outcome.changes
    ]
    return {
        "reinjected_segments": outcome.reinjected,
        "reinjected_bytes": outcome.reinjected_bytes,
        "duplicate_segments": outcome.duplicates,
        "window_limited_ns": outcome.window_limited_ns,
        "zero_windows": outcome.zero_windows,
        "beyond_window": outcome.beyond_window,
        "largest_reordering_bytes": outcome.largest_reordering_bytes,
        "events": outcome.events,
        **{name: value for name, value in times.items() if value is not None},
        **({"path_manager_changes": ", ".join(changes)} if changes else {}),
    }
