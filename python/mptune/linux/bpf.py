"""Congestion controls on the kernel: their names there, and BPF programs for those it lacks.

A congestion control of mptune is, in order of preference: an algorithm of the kernel (built in or a loaded
module), or a BPF program of `bpf/congestion`, registered as "mptune_<name>"; with a path policy of
`bpf/scheduling`, "cubic+hold", it is a program registered as "cubic_hold". `loaded` registers the programs of
a trial while it needs them; `load` and `unload` register them for everyone (`mptune cc`). Nothing is left
behind: the kernel removes a program when the last process that holds it ends, however it ends. Concurrent
campaigns hold the same program. `private` makes one for another machine, under a name of its own.

Not the algorithms and policies, and not the calls of libbpf: a process of the agent registers a program, and
holds it.
"""

import base64
import ctypes
import secrets
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from mptune.errors import MptuneError
from mptune.linux import agent
from mptune.linux.sandbox import leftovers
from mptune.linux.sandbox.processes import Child
from mptune.trial.congestion import PAIRS, PLUS, path_policy

#: Prefix of registered window algorithms, so that no kernel module can have the same name.
PREFIX = "mptune_"
#: One compiled object per algorithm, `<name>.bpf.o`.
OBJECTS = Path(__file__).parents[1] / "bpf_objects"
#: Programs kept by `mptune cc load`.
PINS = Path("/sys/fs/bpf/mptune")

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_ALLOWED = _AVAILABLE.with_name("tcp_allowed_congestion_control")
_KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")
#: Capabilities for registering programs and finding registered ones: CAP_NET_ADMIN, CAP_SYS_ADMIN,
#: CAP_PERFMON, CAP_BPF (include/uapi/linux/capability.h).
_CAPABILITIES = sum(1 << number for number in (12, 21, 38, 39))
#: Characters of random endings of names.
_ENDING = string.ascii_lowercase + string.digits
#: Library with which the agent registers programs.
_LIBRARY = "libbpf.so.1"
#: In the kernel of a guest: what its path policies are told (`bpf/builtin/table.c`).
_TABLE = Path("/dev/mptune-paths")
#: Seconds for libbpf and the verifier, and for a name that is being removed.
STEP_S = 30.0


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    """Availability of a congestion control on this kernel.

    Attributes
    ----------
    cc : its name in mptune.
    kernel_name : its name for TCP_CONGESTION, or None if it is not available.
    source : "kernel" (built in or module) or "bpf".
    registered : the kernel knows the name now; otherwise `loaded` or `load` registers the program.
    reason : why it is not available, or None.
    """

    cc: str
    kernel_name: str | None = None
    source: Literal["kernel", "bpf"] | None = None
    registered: bool = False
    reason: str | None = None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A registered program of mptune.

    Attributes
    ----------
    cc, kernel_name : its names in mptune and in the kernel.
    pinned : kept by `mptune cc load`; otherwise by a running campaign.
    calls, ns : calls of all its hooks and their run time, nanoseconds, counted while sysctl
        kernel.bpf_stats_enabled was on.
    """

    cc: str
    kernel_name: str
    pinned: bool
    calls: int
    ns: int


def programs() -> list[str]:
    """Names of the congestion controls that have a compiled program."""
    return sorted(path.name.removesuffix(".bpf.o") for path in OBJECTS.glob("*.bpf.o"))


def has_library() -> bool:
    """True if this machine has the library that registers the programs."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return True


def lacking(cc: str) -> str | None:
    """Why there is no compiled program of `cc`; None if there is one."""
    if not programs():
        return "its BPF program was not built (clang and libbpf, then make bpf)"
    if cc not in programs():
        return "there is no BPF program for it"
    return None


def registered_name(cc: str) -> str:
    """Name under which the program of `cc` is registered."""
    return cc.replace(PLUS, "_") if path_policy(cc) else PREFIX + cc


def registered_as(name: str) -> str | None:
    """The congestion control whose program is registered under a name; None if the name is that of others."""
    if name.startswith(PREFIX):
        return name.removeprefix(PREFIX)
    return next((pair for pair in PAIRS if registered_name(pair) == name), None)


def private(cc: str) -> tuple[str, bytes]:
    """The program of `cc` under a random name, for one user of it: the name, and the object.

    The kernel's names are everybody's on a machine. In the object the name is that of the congestion control,
    of its variable, and of both in the type information.
    """
    there = registered_name(cc)
    # As long as the other one, so that nothing in the object moves; six random characters.
    ending = "".join(secrets.choice(_ENDING) for _ in range(len(PREFIX) - 1))
    name = f"{there.removeprefix(PREFIX)[: len(there) - len(PREFIX)]}_{ending}"
    content = (OBJECTS / f"{cc}.bpf.o").read_bytes()
    return name, content.replace(there.encode(), name.encode())


def availability(cc: str) -> Availability:
    """Availability of `cc` on this kernel; registers nothing."""
    known = _known()
    if cc in known:
        return Availability(cc=cc, kernel_name=cc, source="kernel", registered=True)
    name = registered_name(cc)
    if name in known:
        return Availability(cc=cc, kernel_name=name, source="bpf", registered=True)
    reason = _obstacle(cc)
    if reason is not None:
        return Availability(cc=cc, reason=reason)
    return Availability(cc=cc, kernel_name=name, source="bpf")


def kernel_name(cc: str) -> str | None:
    """Name of `cc` for TCP_CONGESTION, or None (`availability` has the reason).

    The name of a program that is not registered yet works inside `loaded`.
    """
    return availability(cc).kernel_name


@contextmanager
def loaded(ccs: Iterable[str]) -> Iterator[dict[str, str]]:
    """Keep congestion controls registered inside a `with` block.

    Parameters
    ----------
    ccs : names in mptune; repeated ones count once.

    Yields
    ------
    dict[str, str] : name in mptune -> name for TCP_CONGESTION.

    Raises
    ------
    MptuneError : one of them is not available on this kernel (the message has why); none is registered.
    """
    with ExitStack() as stack:
        names = {}
        for cc in dict.fromkeys(ccs):
            available = availability(cc)
            if available.kernel_name is None:
                raise MptuneError(f"{cc}: {available.reason}")
            if available.source == "bpf" and _privileged():
                stack.enter_context(_held(cc))
            names[cc] = available.kernel_name
        yield names


@contextmanager
def told(cc: str, paths: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Keep a congestion control registered inside a `with` block, with what its path policy is told of paths.

    What is told is of one user's connections, so the program is one of its own then (`private`).

    Yields
    ------
    str : its name for TCP_CONGESTION.

    Raises
    ------
    MptuneError : it is not available on this kernel.
    """
    if not paths:
        with loaded([cc]) as names:
            yield names[cc]
        return
    if _TABLE.exists() and cc in _known():
        with Child(cc, agent.command("congestion"), leftovers.new_run()) as role:
            role.tell({"action": "table", "paths": list(paths)})
            role.expect("told", STEP_S)
        yield cc
        return
    if (reason := _obstacle(cc)) is not None:
        raise MptuneError(f"{cc}: {reason}")
    name, content = private(cc)
    with Child(cc, agent.command("congestion"), leftovers.new_run()) as role:
        role.tell(registration("register", name, content, paths=paths))
        role.expect("registered", STEP_S)
        yield name


def load(cc: str, paths: Sequence[Mapping[str, Any]] | None = None) -> Availability:
    """Register `cc` until `unload` or the next boot, for every program on this machine.

    Parameters
    ----------
    paths : what its path policy is told of paths, by addresses, in place of what it was told before; None
        leaves that as it is.

    Returns
    -------
    Availability : `source` is "kernel" if nothing had to be done.

    Raises
    ------
    MptuneError : it is not available on this kernel, or there is no BPF file system to keep it in.
    """
    available = availability(cc)
    if available.kernel_name is None:
        raise MptuneError(f"{cc}: {available.reason}")
    if available.source == "bpf" and not _privileged():
        raise MptuneError(f"{cc}: loading it needs root")
    if available.source == "bpf" and (paths is not None or not is_loaded(cc)):
        _require_bpf_file_system()
        PINS.mkdir(exist_ok=True)
        pin = None if is_loaded(cc) else PINS / available.kernel_name
        with _held(cc, pin, paths) as held:
            if not held:
                raise MptuneError(
                    f"{cc}: {available.kernel_name} was registered by another program, without a link to keep"
                )
    return availability(cc)


def is_loaded(cc: str) -> bool:
    """True if `load` keeps `cc` registered."""
    return (PINS / registered_name(cc)).exists()


def allowed() -> list[str]:
    """Names that programs without CAP_NET_ADMIN may use."""
    return _ALLOWED.read_text().split() if _ALLOWED.exists() else []


def unload(cc: str) -> None:
    """Undo `load`; campaigns that are using `cc` keep it until they end.

    Raises
    ------
    MptuneError : `cc` is not loaded, or this user has no permission.
    """
    try:
        (PINS / registered_name(cc)).unlink()
    except FileNotFoundError:
        raise MptuneError(f"{cc}: not loaded ({PINS / registered_name(cc)} does not exist)") from None
    except PermissionError:
        raise MptuneError(f"{cc}: unloading it needs root") from None
    with suppress(OSError):  # others are still in it
        PINS.rmdir()


def status() -> list[Status]:
    """The programs of mptune that are registered now.

    Raises
    ------
    MptuneError : this user has no permission (CAP_SYS_ADMIN).
    """
    registrations = [
        Status(
            cc=cc,
            kernel_name=found["name"],
            pinned=is_loaded(cc),
            calls=sum(hook["calls"] for hook in found["hooks"]),
            ns=sum(hook["ns"] for hook in found["hooks"]),
        )
        for found in registered()
        if (cc := registered_as(found["name"])) is not None
    ]
    return sorted(registrations, key=lambda entry: entry.cc)


def registered() -> list[dict[str, Any]]:
    """Every congestion control that a link keeps registered: name, link and hooks, each with calls and ns.

    Raises
    ------
    MptuneError : this user has no permission (CAP_SYS_ADMIN).
    """
    with Child("the list of BPF programs", agent.command("congestion"), leftovers.new_run()) as role:
        role.tell({"action": "list"})
        links: list[dict[str, Any]] = role.expect("listed", STEP_S)["registered"]
    return links


def registration(
    action: Literal["register", "share"], name: str, content: bytes, **more: Any
) -> dict[str, Any]:
    """Request ("register" or "share") to the role `congestion`, for the program in an object file."""
    return {"action": action, "name": name, "object": base64.b64encode(content).decode(), **more}


@contextmanager
def _held(
    cc: str, pin: Path | None = None, paths: Sequence[Mapping[str, Any]] | None = None
) -> Iterator[bool]:
    """Keep the program of `cc` registered inside the block; it is registered if necessary.

    Parameters
    ----------
    pin : keeps it after the block too.
    paths : what it is told of paths; None leaves that as it is.

    Yields
    ------
    bool : False if another tool registered it permanently, without a link that could be held.

    Raises
    ------
    MptuneError : the kernel refuses it.
    """
    content = (OBJECTS / f"{cc}.bpf.o").read_bytes()
    with Child(cc, agent.command("congestion"), leftovers.new_run()) as role:
        more = {"pin": None if pin is None else str(pin), "paths": paths}
        role.tell(registration("share", registered_name(cc), content, **more))
        yield bool(role.expect("registered", STEP_S)["held"])


def _known() -> list[str]:
    """Names that the kernel knows now."""
    return _AVAILABLE.read_text().split() if _AVAILABLE.exists() else []


def _obstacle(cc: str) -> str | None:
    """Why `cc` cannot be registered, as far as is known without trying."""
    if not _AVAILABLE.exists():
        return "there is no Linux TCP here"
    if (reason := lacking(cc)) is not None:
        return f"this kernel lacks it, and {reason}"
    if not _KERNEL_TYPES.exists():
        return f"this kernel lacks it, and accepts no BPF program: no {_KERNEL_TYPES} (CONFIG_DEBUG_INFO_BTF)"
    if not _links(_KERNEL_TYPES):
        return "this kernel lacks it, and keeps no BPF program registered by a link (Linux 6.4)"
    if not _privileged():
        return f"this kernel lacks it, and registering a BPF program needs root (once: mptune cc load {cc})"
    return None


@cache
def _links(types: Path) -> bool:
    """True if the kernel has links of struct_ops, by the name of their type (kernel/bpf/bpf_struct_ops.c)."""
    return b"\0bpf_struct_ops_link\0" in types.read_bytes()


def _privileged() -> bool:
    """True if this process may register programs: root, not just root of a user namespace."""
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        return False
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return effective & _CAPABILITIES == _CAPABILITIES


def _require_bpf_file_system() -> None:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    if not any(Path(where) == PINS.parent and kind == "bpf" for _, where, kind, *_ in mounts):
        raise MptuneError(f"no BPF file system at {PINS.parent}: mount -t bpf bpf {PINS.parent}")
