"""A trial as the processes of the namespaces testbed are told it: labels become numbers and addresses.

It decides what a trial cannot ask of the kernel, and when silence is a stall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mptune.errors import InputError
from mptune.testbeds._base import BIN_NS, MSS, Trial

if TYPE_CHECKING:
    from mptune.linux.assignment import Assignment
    from mptune.linux.course import Action, Plan

#: The kernel's one scheduler, by its name in the core's list and as `Trial` leaves it.
_SCHEDULERS = ("kernel", "minrtt")

#: A connection without progress for so long is stalled, nanoseconds. The kernel's deadlocks last 15 s and
#: longer, recoveries from lost segments fractions of a second.
STALL_NS = 3_000_000_000
#: The same in round-trip times of the slowest path.
_STALL_RTTS = 20

#: Width of the bins of a trial whose take-over time is wanted, nanoseconds.
_FINE_NS = 10_000_000


def check(trial: Trial) -> None:
    """Refuse what the kernel cannot do.

    Raises
    ------
    InputError : naming the option.
    """
    from mptune.linux import congestion

    congestion.check(trial.cc)
    if trial.scheduler not in _SCHEDULERS:
        expected = f"expected kernel, the only one it has, found {trial.scheduler}"
        raise InputError("--scheduler", "", expected)
    if trial.opportunistic:
        raise InputError("--opportunistic", "", "expected only in the simulator: this kernel does not do it")
    if trial.mss != MSS:
        raise InputError("mss", "", f"expected {MSS}, as the kernel chooses its own, found {trial.mss}")


def stall_ns(trial: Trial) -> int:
    """No progress for so long is a stall: longer than any recovery, and than what the script may cut."""
    rtt = max(path.base_rtt_ns for path in trial.topology.paths)
    patience = max(STALL_NS, _STALL_RTTS * rtt)
    if trial.script:
        patience += _limit_ns(trial) - min(action.at_ns for action in trial.script)
    return patience


def plan(trial: Trial, kernel_cc: str) -> Plan:
    """What the processes are to do; `kernel_cc` is the congestion control's name in the kernel.

    Raises
    ------
    InputError : a label that is none, or an option that the path manager cannot have.
    """
    from mptune.linux import addresses, course
    from mptune.linux.assignment import Policy

    topology = trial.topology
    named = addresses.interfaces(topology)
    assignment = _assignment(trial)
    initial = topology.path(
        trial.initial_path or Policy(assignment).initial_path(topology.initial_path), "initial path"
    )
    return course.Plan(
        interfaces=named,
        network=topology.network(),
        seed=trial.seed,
        assignment=assignment,
        meter=_meter(trial, kernel_cc),
        initial=(named["local"][initial.local_index].ipv4, named["remote"][initial.remote_index].ipv4),
        script=_script(trial),
        limit_s=_limit_ns(trial) / 1e9,
    )


def _assignment(trial: Trial) -> Assignment:
    """The path manager with its options."""
    from mptune.linux import assignment

    return assignment.Assignment(
        pm=trial.pm,
        paths=assignment.kernel_paths(trial.topology),
        transfer_bytes=assignment.SATURATED if trial.transfer_bytes is None else trial.transfer_bytes,
        active=trial.active,
        standby_order=trial.standby_order,
        class_bytes=trial.class_bytes,
        ndiffports=trial.ndiffports,
        lsrr_honoured=trial.topology.lsrr_honoured,
    )


def _script(trial: Trial) -> tuple[Action, ...]:
    """Scripted actions in order of time."""
    from mptune.linux.course import Action

    labels = [path.label for path in trial.topology.paths]
    actions = []
    for scripted in sorted(trial.script, key=lambda scripted: scripted.at_ns):
        trial.topology.path(scripted.path, "script")
        number = labels.index(scripted.path)
        actions.append(Action(scripted.at_ns / 1e9, scripted.action, number, scripted.path))
    return tuple(actions)


def _meter(trial: Trial, kernel_cc: str) -> dict[str, Any]:
    """What is sent, and how it is watched."""
    cuts = any(action.action == "down" for action in trial.script)
    return {
        "cc": kernel_cc,
        "buffer_bytes": trial.buffer_bytes,
        "duration_ns": trial.duration_ns,
        "transfer_bytes": trial.transfer_bytes,
        "deadline_ns": _limit_ns(trial),
        "bin_ns": _FINE_NS if cuts else BIN_NS,
        "stall_ns": stall_ns(trial),
        "thresholds_bytes": list(trial.class_bytes),
        "mptcp": True,
        "seed": trial.seed,
    }


def _limit_ns(trial: Trial) -> int:
    return trial.deadline_ns if trial.duration_ns is None else trial.duration_ns
