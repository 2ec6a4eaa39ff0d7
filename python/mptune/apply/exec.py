"""One program under the optimum: what it gets, whether it can have that, and its start.

A preloaded library (crate mptune-preload) makes the program's TCP sockets MPTCP sockets, with a congestion
control and buffers; children inherit it, and nothing else on the machine changes. The environment variables
are described in `crates/mptune-preload/src/settings.rs`. For programs into which nothing can be preloaded the
agent makes the sockets (`crates/mptune-agent/src/exec`). What concerns the machine and not a program (path
manager, subflows, sysctls) is the business of `mptune apply`. It prints nothing.
"""

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from mptune import _threads
from mptune._text import quoted
from mptune.apply import _exec_process
from mptune.errors import InputError
from mptune.linux import agent as agents
from mptune.linux import preload
from mptune.linux.preload import LARGEST
from mptune.linux.preload.program import Obstacle, Program, find
from mptune.linux.preload.statistics import Connection, Statistics, Subflow, collected, read
from mptune.units import format_size

__all__ = [
    "Connection",
    "Plan",
    "Statistics",
    "Subflow",
    "Wanted",
    "find",
    "from_run",
    "plan",
    "start",
    "watch",
]

#: Room for the name of a congestion control, TCP_CA_NAME_MAX.
_CC_ROOM = 16
_CC_SYSCTL = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
#: Abilities of this kernel's filters of system calls.
_SECCOMP = Path("/proc/sys/kernel/seccomp/actions_avail")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for a program.

    Attributes
    ----------
    protocol : "tcp" leaves sockets as they are, for answers that are plain TCP.
    cc : name in mptune or in the kernel; None leaves it to the system.
    buffer_bytes : SO_SNDBUF and SO_RCVBUF; None leaves them to autotuning.
    notes : further remarks.
    """

    protocol: Literal["mptcp", "tcp"] = "mptcp"
    cc: str | None = None
    buffer_bytes: int | None = None
    notes: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A program that can be started as it is wanted.

    Attributes
    ----------
    kernel_cc : the kernel's name of the congestion control.
    warnings : what is not quite as asked for.
    environment : variables that differ from those of this program.
    supervised : its sockets are made by another process instead of by a preloaded library.
    """

    program: Program
    command: tuple[str, ...]
    wanted: Wanted
    kernel_cc: str | None
    warnings: tuple[str, ...]
    environment: dict[str, str]
    supervised: bool = False

    @property
    def summary(self) -> str:
        """The settings in use, in one line."""
        settings = self.wanted
        parts = ["MPTCP" if settings.protocol == "mptcp" else "plain TCP"]
        other = f" (the kernel's {self.kernel_cc})" if self.kernel_cc != settings.cc else ""
        parts.append("the system's congestion control" if settings.cc is None else f"{settings.cc}{other}")
        buffer_bytes = settings.buffer_bytes
        parts.append(
            "autotuned buffers" if buffer_bytes is None else f"buffers of {format_size(buffer_bytes)}"
        )
        how = ["its sockets are made by another process"] if self.supervised else []
        return "; ".join([", ".join(parts), *how, *settings.notes])


def from_run(directory: Path) -> Wanted:
    """Settings for a program from the answer of a run: protocol, congestion control and buffer.

    The rest of an answer (path manager, subflows) concerns the machine, not a program.

    Raises
    ------
    InputError : it has no answer.
    """
    from mptune.result.documents import read_answer

    where = f"--run {directory}"
    _check_finished(directory, where)
    answer = read_answer(directory, where, by_size="choose with --cc and --buffer")
    notes = [f"from {directory}"]
    if not answer.is_fixed:
        size = format_size(answer.obs_bytes)
        notes.append(
            f"its {size} is a limit of autotuning, not of a program: sysctl net.ipv4.tcp_wmem"
            f"{'' if answer.receive_bytes else ' and tcp_rmem'}"
        )
    if answer.stack is not None and answer.stack.startswith("v0.9x"):
        notes.append("measured with the v0.9x stack, which this kernel does not have")
    return Wanted(
        protocol="tcp" if answer.is_tcp else "mptcp",
        cc=answer.occ,
        buffer_bytes=answer.obs_bytes if answer.is_fixed else None,
        notes=tuple(notes),
    )


def _check_finished(directory: Path, where: str) -> None:
    """Refuse what is no finished run."""
    from mptune.store.directory import CONFIG, is_unfinished, no_end, no_run

    if is_unfinished(directory):
        raise no_end(directory, where)
    if not (directory / CONFIG).is_file():
        raise no_run(directory, where)


def plan(
    command: Sequence[str], settings: Wanted, *, statistics: bool = False, supervised: bool = False
) -> Plan:
    """Check that a program can be started as wanted, and how.

    Parameters
    ----------
    statistics : what its connections did is wanted too.
    supervised : another process is to make its sockets, although a library could be preloaded.

    Raises
    ------
    InputError : there is no such program, it cannot be given what is wanted, or the kernel would refuse it.
    MptuneError : the library is missing.
    """
    program = find(command[0])
    supervised = _is_supervised(program, settings, statistics=statistics, asked=supervised)
    kernel_cc = None if settings.cc is None else _usable(settings.cc)
    own = os.environ
    return Plan(
        program=program,
        command=tuple(command),
        wanted=settings,
        kernel_cc=kernel_cc,
        warnings=_capped(settings.buffer_bytes),
        # Go's own MPTCP sockets would be left alone, so it makes TCP sockets.
        environment=(
            preload.go(own, settings.protocol, 0)
            if supervised
            else preload.environment(own, settings.protocol, kernel_cc, settings.buffer_bytes)
        ),
        supervised=supervised,
    )


def start(planned: Plan) -> None:
    """Replace this program by the planned one; returns only by an exception.

    Raises
    ------
    InputError : the kernel cannot start it.
    MptuneError : the agent is missing, which makes the sockets of a supervised one.
    """
    path, command = planned.program.path, list(planned.command)
    if planned.supervised:
        agent = agents.program()
        command = [str(agent), "exec", *_options(planned), str(path), *command]
        path = agent
    _exec_process.become(path, command, _threads.inherited() | planned.environment)


def watch(planned: Plan) -> tuple[int, Statistics]:
    """Run the planned program to its end: its exit code, and what its connections did.

    Raises
    ------
    InputError : the kernel cannot start it.
    """
    with collected() as file:
        environment = _threads.inherited() | planned.environment | preload.collecting(file)
        code = _exec_process.run(planned.program.path, planned.command, environment)
        return code, read(file)


def _options(planned: Plan) -> list[str]:
    """Options of the agent for the sockets."""
    options = ["--tcp"] if planned.wanted.protocol == "tcp" else []
    if planned.kernel_cc is not None:
        options += ["--cc", planned.kernel_cc]
    if (buffer_bytes := planned.wanted.buffer_bytes) is not None:
        options += ["--buffer", str(min(buffer_bytes, LARGEST))]
    return options


def _is_supervised(program: Program, settings: Wanted, *, statistics: bool, asked: bool) -> bool:
    """True if another process makes its sockets.

    Raises
    ------
    InputError : the program would not get what is wanted; with what to do.
    """
    if asked and statistics:
        raise InputError("--supervise", "", f"expected no --stats beside it; {_INSTEAD['--stats']}")
    if asked and not _can_supervise():
        raise InputError("--supervise", "", "this kernel has no user notifications of seccomp")
    obstacle = program.obstacle
    if obstacle is None:
        return asked
    given = {
        "--cc": settings.cc is not None,
        "--buffer": settings.buffer_bytes is not None,
        "--stats": statistics,
    }
    does_it_itself = obstacle == "go" and (settings.protocol == "tcp" or program.go_has_mptcp)
    if does_it_itself and not asked and not any(given.values()):
        return False
    if obstacle in _SUPERVISABLE and _can_supervise():
        if not statistics:
            return True
        advice = f"it can be started without --stats; {_INSTEAD['--stats']}"
        raise InputError("COMMAND", "", f"{program.detail}, so nothing can be preloaded: {advice}")
    instead = [_INSTEAD[name] for name, is_given in given.items() if is_given]
    advice = "; ".join([_ADVICE[obstacle], *instead])
    raise InputError("COMMAND", "", f"{program.detail}, so nothing can be preloaded: {advice}")


def _can_supervise() -> bool:
    """True if a process may answer system calls of another one here."""
    with suppress(OSError):
        return "user_notif" in _SECCOMP.read_text().split()
    return False


#: The sockets of these another process can make.
_SUPERVISABLE: tuple[Obstacle, ...] = ("go", "static", "musl")
#: Means for a whole machine, or a network namespace.
_INSTEAD = {
    "--cc": "sysctl net.ipv4.tcp_congestion_control chooses the congestion control of all programs",
    "--buffer": "sysctls net.ipv4.tcp_wmem and tcp_rmem limit the buffers of all programs",
    "--stats": "`ss -Mti` shows connections while they last",
}
_ADVICE = {
    "go": "Go 1.21 and later have MPTCP by themselves, with GODEBUG=multipathtcp=1",
    "static": "use a build with shared libraries, or one that makes MPTCP sockets itself",
    "musl": "use a build for glibc, or one that makes MPTCP sockets itself",
    "architecture": "use a build for this machine's own architecture",
    "privileges": "start it as the user whose rights it takes (sudo mptune exec ...), or a copy without them",
}


def _usable(cc: str) -> str:
    """The kernel's name of a congestion control that this user may choose.

    Raises
    ------
    InputError : there is none; with what to do.
    """
    from mptune.linux import bpf

    names = [cc] if cc.startswith(bpf.PREFIX) else [cc, bpf.registered_name(cc)]
    refused = None
    for name in names:
        try:
            with socket.socket() as trial:
                trial.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            return name
        except PermissionError:
            refused = name
        except OSError:
            continue
    if refused is not None:
        every = " ".join([*bpf.allowed(), refused])
        remedy = f'sudo sysctl -w net.ipv4.tcp_allowed_congestion_control="{every}"'
        raise InputError("--cc", "", f"this user may not choose {refused}; {remedy} allows it")
    if cc in bpf.programs():
        raise InputError(
            "--cc", "", f"{cc} is not loaded here; sudo mptune cc load {cc} loads its BPF program"
        )
    file = _CC_SYSCTL.with_name("tcp_available_congestion_control")
    known = " ".join(file.read_text().split()) if file.exists() else ""
    raise InputError(
        "--cc", "", f"expected a congestion control of this kernel ({known}), found {quoted(cc)}"
    )


def _capped(buffer_bytes: int | None) -> tuple[str, ...]:
    """Warnings where the kernel's limits reduce the buffers."""
    if buffer_bytes is None:
        return ()
    warnings = []
    with socket.socket() as trial:
        for option, limit in ((socket.SO_SNDBUF, "wmem_max"), (socket.SO_RCVBUF, "rmem_max")):
            trial.setsockopt(socket.SOL_SOCKET, option, min(buffer_bytes, LARGEST))
            given = trial.getsockopt(socket.SOL_SOCKET, option) // 2  # the kernel doubles it
            if given < buffer_bytes:
                side = "send" if option == socket.SO_SNDBUF else "receive"
                warnings.append(
                    f"the {side} buffer is {format_size(given)}, the kernel's limit; "
                    f"sudo sysctl -w net.core.{limit}={buffer_bytes} raises it"
                )
    return tuple(warnings)
