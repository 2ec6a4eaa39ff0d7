"""A trial as instructions for the processes that run it on a kernel: labels become numbers and addresses.

The addresses are the venue's. It decides which trials no kernel can run, and when silence is a stall.
"""

from __future__ import annotations

import secrets
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mptune.errors import InputError, one_of
from mptune.testbeds._outages import bin_ns
from mptune.topology import BOTH, FAMILIES, Path, TcpBackground
from mptune.trial import (
    MOST_CONNECTIONS,
    Bulk,
    Mix,
    Page,
    Programs,
    Requests,
    Single,
    Trial,
    Video,
    memory,
    size_of,
)
from mptune.trial.stacks import DECLARED, flag, in_a_kernel, refusal, sysctls_of
from mptune.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mptune.linux.addresses import Named, NamedInterface, NamespaceInterface, Side
    from mptune.linux.assignment import Assignment
    from mptune.linux.kernel_beside import Beside
    from mptune.linux.kernel_trial import Action, Plan
    from mptune.linux.namespace_venue import Links
    from mptune.linux.programs import Job

#: MPTCP's scheduler in every kernel, by the kernel's name for it.
DEFAULT_SCHEDULER = "default"

#: The kernel's sizes of buffers are of the type int, bytes.
_LARGEST_LIMIT = 2**31 - 1

#: A connection without progress for this long is stalled, nanoseconds. The kernel's deadlocks last 15 s or
#: longer, recoveries from lost segments fractions of a second.
STALL_NS = 3_000_000_000
#: The same in round-trip times of the slowest path.
_STALL_RTTS = 20
#: An RTT that is not known is taken for this one, which few paths exceed; 20 of it are still less than a
#: deadlock.
_UNKNOWN_RTT_NS = 500_000_000
#: The same where several connections are measured, nanoseconds: in a crowd one can starve for longer than
#: recoveries take.
_CROWD_STALL_NS = 15_000_000_000
#: The same where links vary, nanoseconds: they may pass nothing for seconds, and TCP tries again only after
#: as long again.
_VARYING_STALL_NS = 60_000_000_000
#: Buffers of TCP connections of others, bytes: never the limit, like the core's (`trial/background.rs`).
_OTHERS_BYTES = 8 * 2**20
#: Path managers that decide by what their own end has sent: where a client asks, they are the server's.
_OF_SENT_DATA = ("guard", "reserve")
#: Bytes of what the trial's connection begins with and no other (`meter/config.rs` of the agent).
_TOKEN_BYTES = 16


def check(
    trial: Trial,
    testbed: str,
    memory_bytes: int | None = None,
    schedulers: Sequence[str] = (DEFAULT_SCHEDULER,),
) -> None:
    """Refuse what no kernel can do.

    Parameters
    ----------
    testbed : where.
    memory_bytes : what the kernel that has both ends charges to TCP before it prunes; None where it is not
        known, or each end has a kernel of its own.
    schedulers : of that kernel, by its names for them.

    Raises
    ------
    InputError : naming the option.
    """
    if trial.buffer_mode == "auto" and trial.buffer_bytes > _LARGEST_LIMIT:
        expected = (
            f"expected at most {_LARGEST_LIMIT} bytes, the largest tcp_rmem, found {trial.buffer_bytes}"
        )
        raise InputError("--buffer", "", expected)
    if memory_bytes is not None and trial.buffer_mode == "fixed":
        _check_memory(trial, memory_bytes)
    if refused := refusal(trial.members, "linux", testbed):
        name, expected = refused
        raise InputError(flag(name), "", expected)
    _check_scheduler(trial, schedulers)
    for name, expected in trial.path_parameters.misfits((trial.cc,)):
        raise InputError(f"--{name}", "", expected)
    if isinstance(trial.workload, Mix):
        _check_mix(trial, trial.workload)
    if trial.protocol == "tcp":
        _check_tcp(trial)
    if isinstance(trial.workload, Bulk) and trial.workload.ends_early and trial.script:
        raise InputError(trial.topology.name, "ends_early", "expected a saturated sender without a script")


def _check_scheduler(trial: Trial, schedulers: Sequence[str]) -> None:
    """Refuse a scheduler of MPTCP that the kernel was built without."""
    _, found = in_a_kernel(trial.members).get("scheduler", ("", DEFAULT_SCHEDULER))
    if found not in schedulers:
        ours = [name for name, theirs in DECLARED["scheduler"].in_kernel.items() if theirs in schedulers]
        more = "only guests of Linux 7.3 have more (mptune kernel build)"
        raise InputError("--scheduler", "", f"{one_of(ours, trial.scheduler)}: {more}")


def _check_memory(trial: Trial, memory_bytes: int) -> None:
    """Refuse fixed buffers for whose two ends there is no room: the kernel would prune them."""
    sizes = trial.buffer_bytes, trial.receive_buffer_bytes or trial.buffer_bytes
    if memory.fits(*sizes, memory_bytes):
        return
    most = memory.largest_fixed(memory_bytes, both_ends=True)
    largest, total, found = (format_size(size, 3) for size in (most, memory_bytes, max(sizes)))
    room = f"for which there is room: both ends share {total} (net.ipv4.tcp_mem)"
    raise InputError("--buffer", "", f"expected at most {largest}, {room}; found {found}")


def _check_mix(trial: Trial, mix: Mix) -> None:
    """Refuse what a pair of processes for each connection cannot do."""
    if mix.connections > MOST_CONNECTIONS:
        expected = f"expected at most {MOST_CONNECTIONS}, found {mix.connections}"
        raise InputError("--connections", "", expected)
    if not trial.size_known:
        expected = "expected a known size with several connections: path managers are told of one"
        raise InputError("--no-size-known", "", expected)


def told(trial: Trial, named: Named) -> list[dict[str, Any]]:
    """Path parameters for the path policy's program, by addresses.

    Raises
    ------
    InputError : an unknown label.
    """
    from mptune.linux.assignment import kernel_paths

    paths = {path.label: path for path in kernel_paths(trial.topology, named, families(trial))}
    entries = []
    for label, parameters in trial.path_parameters.by_path():
        trial.topology.path(label, "path parameters")
        entries += [{"local": local, "remote": remote, **parameters} for local, remote in paths[label].pairs]
    return entries


def _check_tcp(trial: Trial) -> None:
    """Refuse what only MPTCP has."""
    if trial.pm != "default":
        raise InputError("--pm", "", f"expected default with protocol tcp, found {trial.pm}")
    if any(action.action not in ("down", "up") for action in trial.script):
        raise InputError("script", "", "expected only down and up with protocol tcp")


def stall_ns(trial: Trial) -> int:
    """Time without progress that is a stall: longer than any recovery, than any pause, and than any cut."""
    known = [trial.topology.known(path).base_rtt_ns for path in trial.topology.paths]
    rtt = max(_UNKNOWN_RTT_NS if number is None else number for number in known)
    is_crowd = isinstance(trial.workload, Mix) and trial.workload.connections > 1
    least = _CROWD_STALL_NS if is_crowd else STALL_NS
    patience = max(least, _STALL_RTTS * rtt, _VARYING_STALL_NS if trial.topology.varies else 0)
    if trial.script:
        patience += trial.workload.limit_ns - min(action.at_ns for action in trial.script)
    return patience + trial.workload.pause_ns


def opener(trial: Trial, workload: Single | Programs) -> Side:
    """Site that opens a connection, as in the simulator: the client's where one asks, or else the sender's.

    A path manager that decides by the data that were sent runs where these are, with who opens connections.
    """
    asks = isinstance(workload, Requests | Page | Video)
    return "remote" if asks and trial.pm not in _OF_SENT_DATA else "local"


class _Way(NamedTuple):
    """How a connection is opened: by which site, between which addresses as it sees them, and to where."""

    opener: Side
    initial: tuple[str, str]
    address: str
    joins: tuple[str, ...]


def _way(trial: Trial, named: Named, path: Path, opener: Side) -> _Way:
    """The way of a connection whose first subflow is on that path.

    Raises
    ------
    InputError : an interface has no address of the trial's family.
    """
    from mptune.linux.addresses import other_side

    ends = {"local": named["local"][path.local_index], "remote": named["remote"][path.remote_index]}
    acceptor = other_side(opener)
    family = path.family or trial.family
    here, there = ends[opener], ends[acceptor]
    initial = (
        _given(here, trial, family, here.address(family)),
        _given(there, trial, family, there.reached_at(family)),
    )
    address = _given(there, trial, family, there.address(family))
    joins = tuple(
        name for one in families(trial) for end in named[acceptor] if (name := end.address(one)) is not None
    )
    return _Way(opener, initial, address, joins)


def plan(
    trial: Trial,
    kernel_cc: str,
    named: Named,
    others_ccs: Mapping[str, str] = MappingProxyType({}),
    *,
    clients_open: bool = False,
) -> Plan:
    """Instructions for the processes.

    Parameters
    ----------
    kernel_cc : the congestion control's name in the kernel.
    others_ccs : the same of those of others, by their names.
    named : the interfaces of both sites.
    clients_open : a client that asks opens its connection (`opener`); otherwise the sender opens all, which
        may be the only one that reaches the other.

    Two plans of a trial differ by their token alone, which nobody else can know.

    Raises
    ------
    InputError : an unknown label, an option that the path manager does not have, or an interface without an
        address of the trial's family.
    """
    from mptune.linux import kernel_trial
    from mptune.linux.assignment import start
    from mptune.linux.kernel_beside import Beside

    topology = trial.topology
    assignment = _assignment(trial, named)
    begins = start(assignment, topology.initial_path)
    initial = topology.path(trial.initial_path or begins.initial_path, "initial path")
    sides: tuple[Side, ...] = ("local", "remote") if clients_open else ("local",)
    ways = {side: _way(trial, named, initial, side) for side in sides}

    def way(workload: Single | Programs) -> _Way:
        return ways[opener(trial, workload) if clients_open else "local"]

    first, *further = connections(trial)
    of_mix = (
        Beside(
            # What is drawn differs by connection, as in the simulator.
            meter=meter(trial, one.workload, kernel_cc, []) | {"seed": (trial.seed + number) % 2**64},
            start_s=one.start_ns / 1e9,
            is_measured=True,
            **way(one.workload)._asdict(),
        )
        for number, one in enumerate(further, start=1)
    )
    return kernel_trial.Plan(
        assignment=assignment,
        meter=meter(trial, first.workload, kernel_cc, begins.thresholds),
        **way(first.workload)._asdict(),
        beside=(*of_mix, *_of_others(trial, others_ccs, named)),
        script=_script(trial),
        limit_s=trial.workload.limit_ns / 1e9,
        programs=_programs(trial, kernel_cc),
    )


def _programs(trial: Trial, kernel_cc: str) -> Job | None:
    """Programs in place of the meter."""
    from mptune.linux.programs import Job

    sent = trial.workload
    if not isinstance(sent, Programs):
        return None
    return Job(
        client=sent.client,
        server=sent.server,
        protocol=trial.protocol,
        kernel_cc=kernel_cc,
        buffer_bytes=trial.buffer_bytes if trial.buffer_mode == "fixed" else None,
        limit_s=sent.deadline_ns / 1e9,
    )


class Connection(NamedTuple):
    """A connection of a trial: its place in the mix, if it is one, its workload, and when it begins."""

    part: int
    workload: Single | Programs
    start_ns: int


def connections(trial: Trial) -> list[Connection]:
    """All of them, the one with the trial's clock first; a saturated sender ends with its duration."""
    mix = trial.workload
    if not isinstance(mix, Mix):
        return [Connection(0, mix, 0)]
    pairs = zip(mix.parts, mix.starts_ns(trial.seed), strict=True)
    return [
        Connection(number, _from(part.workload, start_ns), start_ns)
        for number, (part, starts) in enumerate(pairs)
        for start_ns in starts
    ]


def _from(workload: Single, start_ns: int) -> Single:
    """Remaining workload of a saturated sender that begins later."""
    if not isinstance(workload, Bulk):
        return workload
    return msgspec.structs.replace(workload, duration_ns=workload.duration_ns - start_ns)


def others(trial: Trial) -> list[TcpBackground]:
    """TCP connections of others, in their order."""
    return [flow for flow in trial.topology.background if isinstance(flow, TcpBackground)]


def _of_others(trial: Trial, ccs: Mapping[str, str], named: Named) -> Iterator[Beside]:
    """TCP connections of others: plain TCP on a path of its own, saturated from its start to its stop."""
    from mptune.linux.kernel_beside import Beside

    limit_ns = trial.workload.limit_ns + STALL_NS
    for flow in others(trial):
        path = trial.topology.path(flow.path, "background")
        way = _way(trial, named, path, "local")
        stop_ns = flow.stop_ns or limit_ns
        lasting = Bulk(duration_ns=max(1, stop_ns - flow.start_ns))
        configuration = meter(trial, lasting, ccs[flow.cc], [])
        yield Beside(
            # Nobody waits for it, and it may starve.
            meter={
                **configuration,
                "mptcp": False,
                "buffer_bytes": _OTHERS_BYTES,
                "receive_buffer_bytes": None,
                "stall_ns": 2 * limit_ns,
            },
            initial=way.initial,
            address=way.address,
            joins=(way.address,),
            start_s=flow.start_ns / 1e9,
            is_measured=False,
        )


def families(trial: Trial) -> tuple[str, ...]:
    """The address families of a trial's paths."""
    return FAMILIES if trial.family == BOTH else (trial.family,)


def _given(interface: NamedInterface, trial: Trial, family: str, address: str | None) -> str:
    if address is None:
        expected = f"expected an address of {interface.device} on the {interface.side} site, found none"
        raise InputError(trial.topology.name, family, expected)
    return address


def links(
    trial: Trial,
    named: Mapping[Side, tuple[NamespaceInterface, ...]],
    recording: Mapping[str, Any] | None = None,
    initial: tuple[str, str] = ("", ""),
) -> Links:
    """Configuration of the emulator between two namespaces with these interfaces, and its recordings.

    Parameters
    ----------
    initial : addresses of the initial path, by which programs leave that choose none.
    """
    from mptune.linux.namespace_venue import Links

    return Links(
        interfaces=named,
        network=trial.topology.network(trial.seed),
        seed=trial.seed,
        settings=_settings(trial),
        recording=recording,
        preferred={
            end.side: end.index
            for ends, address in zip(named.values(), initial, strict=True)
            for end in ends
            if isinstance(trial.workload, Programs) and address in (end.ipv4, end.ipv6)
        },
    )


def _settings(trial: Trial) -> dict[str, str]:
    """Sysctls of both sites that depend on the trial."""
    from mptune.linux.sandbox import sysctls

    sizes = trial.buffer_bytes, trial.receive_buffer_bytes
    limits = sysctls.buffer_limits(*sizes) if trial.buffer_mode == "auto" else {}
    return sysctls_of(trial.members) | limits


def _assignment(trial: Trial, named: Named) -> Assignment:
    """The path manager with its options."""
    from mptune.linux import assignment

    size = size_of(trial.workload)
    paths = assignment.kernel_paths(trial.topology, named, families(trial))
    for family in families(trial) if trial.family == BOTH else ():
        of_family = zip(trial.topology.paths, paths, strict=True)
        if not any(kernel_path.pairs for path, kernel_path in of_family if path.family == family):
            found = f"found both: no path has {family.replace('ip', 'IP')} addresses at both ends"
            raise InputError("--family", "", f"expected one family, {found}")
    return assignment.Assignment(
        pm=trial.pm,
        paths=paths,
        transfer_bytes=(assignment.SATURATED if size is None else size) if trial.size_known else None,
        pm_options=trial.pm_options,
        lsrr_honoured=trial.lsrr_honoured,
        cc=trial.cc,
    )


def _script(trial: Trial) -> tuple[Action, ...]:
    """Scripted actions in order of time."""
    from mptune.linux.kernel_trial import Action

    labels = [path.label for path in trial.topology.paths]
    actions = []
    for scripted in sorted(trial.script, key=lambda scripted: scripted.at_ns):
        trial.topology.path(scripted.path, "script")
        number = labels.index(scripted.path)
        actions.append(Action(scripted.at_ns / 1e9, scripted.action, number, scripted.path))
    return tuple(actions)


def meter(
    trial: Trial, workload: Single | Programs, kernel_cc: str | None, thresholds: list[int]
) -> dict[str, Any]:
    """Configuration of the meter; no congestion control is the kernel's."""
    return {
        "cc": kernel_cc,
        "buffer_bytes": trial.buffer_bytes if trial.buffer_mode == "fixed" else None,
        "receive_buffer_bytes": trial.receive_buffer_bytes if trial.buffer_mode == "fixed" else None,
        "workload": msgspec.to_builtins(workload),
        "bin_ns": bin_ns(trial),
        "stall_ns": stall_ns(trial),
        "thresholds_bytes": thresholds,
        "mptcp": trial.protocol == "mptcp",
        "both_families": trial.family == BOTH,
        "seed": trial.seed,
        "token": secrets.token_hex(_TOKEN_BYTES),
    }
