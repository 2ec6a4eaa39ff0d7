"""Abilities of this machine for mptune, and how to add missing ones.

It looks and tries; it changes nothing. Items that a trial needs are *required*: the namespaces testbed runs
if no required item is missing. `mptune.cli.doctor` shows the findings.
"""

import os
import resource
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from mptune import _core
from mptune.errors import MptuneError, TrialError
from mptune.linux import agent, awake, bpf, congestion
from mptune.linux.sandbox import sysctls
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.trial import memory

#: "ok"; "limited": works, with a restriction; "missing": does not work.
State = Literal["ok", "limited", "missing"]

#: Largest buffer of the papers' sweeps (MPCOA, section 5.3: 0.5 to 30 MiB), bytes.
_LARGEST_BUFFER = 30 * 2**20
#: Descriptors that a campaign may have open: five processes with pipes for each trial.
_DESCRIPTORS = 256

_NAMESPACES = (
    "run as root, or let users create namespaces: sysctl user.max_user_namespaces above 0, "
    "kernel.unprivileged_userns_clone=1 (Debian), kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
)
_TRIED = {
    "mptcp": ("MPTCP sockets", "needs a kernel with CONFIG_MPTCP (Linux 5.6)"),
    "statistics": ("statistics of subflows", "needs Linux 5.16 (MPTCP_SUBFLOW_ADDRS)"),
    "path_manager": ("userspace path manager", "needs Linux 5.19 (net.mptcp.pm_type)"),
    "tun": ("TUN devices", "load the module (modprobe tun), and let this user open /dev/net/tun (mode 0666)"),
}
#: Abilities that only some trials need, as `_TRIED`.
_OPTIONAL = {
    "ipv6": (
        "MPTCP over IPv6",
        "needs a kernel with CONFIG_MPTCP_IPV6, started without ipv6.disable=1; until then, --family ipv4",
    ),
}
#: Further abilities, each with the item that is "limited" without it, and what is then missing.
_LIMITS = {
    "full_statistics": (
        "statistics",
        "trials do not count the payload that is sent again on other subflows: that needs Linux 6.5 "
        "(MPTCP_FULL_INFO)",
    ),
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One item examined; `remedy` is empty if there is nothing to do."""

    name: str
    state: State
    found: str
    remedy: str | None = None
    required: bool = False


def examine() -> list[Finding]:
    """All findings, required ones first."""
    findings = [
        *_of_trials(),
        *_congestion_controls(),
        _bpf(),
        *(check() for check in (_buffers, _tcp_memory, _descriptors, _reverse_path, _cores, _wake_up)),
        *_tools(),
    ]
    return sorted(findings, key=lambda finding: not finding.required)


def ready(findings: list[Finding]) -> bool:
    """True if the namespaces testbed can run."""
    return not any(finding.required and finding.state == "missing" for finding in findings)


def obstacle() -> str | None:
    """The first missing required item, with its remedy; None if the namespaces testbed can run."""
    return _missing(finding for finding in _of_trials() if finding.required)


def obstacle_of_agent() -> str | None:
    """As `obstacle`, of the agent alone: for a kernel that is known to have everything else, a guest's."""
    return _missing([_agent()])


def obstacle_of_ipv6() -> str | None:
    """Why trials over IPv6 cannot run, where others can, with the remedy; None if they can."""
    return _missing(finding for finding in _inside() if finding.name == _OPTIONAL["ipv6"][0])


def _missing(findings: Iterable[Finding]) -> str | None:
    """The first missing item, with its remedy."""
    for finding in findings:
        if finding.state == "missing":
            return f"{finding.found}: {finding.remedy}"
    return None


def _of_trials() -> list[Finding]:
    """Findings on requirements of trials; some concern only some trials."""
    return [*_inside(), _agent()]


def _agent() -> Finding:
    """The program that sends and receives, of the same version as this package."""
    try:
        version = agent.version()
    except MptuneError as error:
        state, _, remedy = str(error).partition("; ")
        return Finding(name="agent", state="missing", found=state, remedy=remedy, required=True)
    if version != _core.version():
        state = f"version {version} beside mptune {_core.version()}"
        return Finding(name="agent", state="missing", found=state, remedy=agent.REMEDY, required=True)
    return Finding(name="agent", state="ok", found=f"mptune-agent {version}", required=True)


def _inside() -> list[Finding]:
    """Create namespaces as a trial does, and try there what a trial uses."""
    release = os.uname().release
    try:
        with Sites() as sites, sites.start("probe", "mptune.linux.probe") as probe:
            probe.tell({"namespace": sites.remote})
            tried = probe.expect("probed", STEP_S)
            how = "as root" if sites.user is None else "in a user namespace, without root"
    except TrialError as error:
        return [
            Finding(name="namespaces", state="missing", found=str(error), remedy=_NAMESPACES, required=True)
        ]
    findings = [Finding(name="namespaces", state="ok", found=how, required=True)]
    limits = {item: remedy for key, (item, remedy) in _LIMITS.items() if tried[key] is not None}
    for key, (name, remedy) in (_TRIED | _OPTIONAL).items():
        reason, limit = tried[key], limits.get(key)
        state: State = "missing" if reason is not None else "ok" if limit is None else "limited"
        findings.append(
            Finding(
                name=name,
                state=state,
                found=f"Linux {release}" if reason is None else f"{reason} (Linux {release})",
                remedy=limit if reason is None else remedy,
                required=key in _TRIED,
            )
        )
    return findings


def _congestion_controls() -> list[Finding]:
    """Availability of each congestion control on this kernel."""
    known = congestion.available()
    findings = []
    for cc in _core.congestion_controls():
        reason = congestion.obstacle(cc)
        source = "in the kernel" if cc in known else "as a BPF program"
        findings.append(
            Finding(
                name=f"congestion control {cc}",
                state="ok" if reason is None else "missing",
                found=source if reason is None else "not available",
                remedy=reason,
            )
        )
    allowed = (sysctls.read("net.ipv4.tcp_allowed_congestion_control") or "").split()
    return [
        *findings,
        Finding(
            name="congestion controls without privilege",
            state="ok" if set(known) <= set(allowed) else "limited",
            found=f"{', '.join(allowed) or 'none'} of {', '.join(known) or 'none'}",
            remedy=None
            if set(known) <= set(allowed)
            else "affects only other programs: inside its namespaces mptune may use all of them",
        ),
    ]


def _bpf() -> Finding:
    """Requirements for registering BPF programs, and that there are any."""
    types = Path("/sys/kernel/btf/vmlinux")
    built = bpf.programs()
    if not types.exists():
        return Finding(
            name="BPF congestion controls",
            state="missing",
            found=f"no {types}",
            remedy="needs a kernel with CONFIG_BPF_JIT and CONFIG_DEBUG_INFO_BTF",
        )
    return Finding(
        name="BPF congestion controls",
        state="ok" if built else "limited",
        found=f"kernel types present; programs built: {', '.join(built) or 'none'}",
        remedy=None if built else "to build them, install clang and libbpf's headers; then make bpf",
    )


def _buffers() -> Finding:
    """Largest buffer for programs without privilege (SO_SNDBUF; trials use SO_SNDBUFFORCE)."""
    limits = {name: int(sysctls.read(f"net.core.{name}") or 0) for name in ("rmem_max", "wmem_max")}
    enough = min(limits.values()) >= _LARGEST_BUFFER
    return Finding(
        name="socket buffers",
        state="ok" if enough else "limited",
        found=", ".join(f"net.core.{name} = {value}" for name, value in limits.items()),
        remedy=None
        if enough
        else "limits programs without privilege when they use a recommended buffer: "
        f"sysctl -w net.core.rmem_max={_LARGEST_BUFFER} net.core.wmem_max={_LARGEST_BUFFER}",
    )


def tcp_memory() -> int | None:
    """Limit of `net.ipv4.tcp_mem` above which the kernel prunes sockets, bytes; None if it is unknown."""
    name = "net.ipv4.tcp_mem"
    return memory.pressure_of({name: sysctls.read(name) or ""}, resource.getpagesize())


def _tcp_memory() -> Finding:
    """Memory for TCP, against the need of a trial's two ends."""
    limit = tcp_memory() or 0
    enough = memory.fits(_LARGEST_BUFFER, _LARGEST_BUFFER, limit)
    return Finding(
        name="memory for TCP",
        state="ok" if enough else "limited",
        found=f"{limit // 2**20} MiB before the kernel reduces buffers (net.ipv4.tcp_mem)",
        remedy=None if enough else "increase net.ipv4.tcp_mem before measuring buffers of many MiB",
    )


def _descriptors() -> Finding:
    """Limit on open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = soft == resource.RLIM_INFINITY or soft >= _DESCRIPTORS
    return Finding(
        name="open files",
        state="ok" if enough else "limited",
        found="no limit" if soft == resource.RLIM_INFINITY else f"at most {soft}",
        remedy=None if enough else f"ulimit -n {_DESCRIPTORS}",
    )


def _reverse_path() -> Finding:
    """The host's reverse path filter, which drops packets that arrive on an unexpected interface."""
    value = sysctls.read("net.ipv4.conf.all.rp_filter") or "0"
    return Finding(
        name="reverse path filter",
        state="limited" if value == "1" else "ok",
        found=f"net.ipv4.conf.all.rp_filter = {value}",
        remedy="off inside the namespaces; on a multi-homed host: sysctl -w net.ipv4.conf.all.rp_filter=2"
        if value == "1"
        else None,
    )


def _cores() -> Finding:
    """Cores for the emulator and both ends of the transfer."""
    cores = len(os.sched_getaffinity(0))
    return Finding(
        name="processors",
        state="ok" if cores > 1 else "limited",
        found=f"{cores} for this process",
        remedy=None if cores > 1 else "trials above about 100 Mbit/s need two: watch for overloaded trials",
    )


def _wake_up() -> Finding:
    """Wake-up latency of an idle processor, on which trials in real time must not depend."""
    late_s = awake.lateness_s()
    soon = late_s <= awake.LATE_S
    return Finding(
        name="wake-up from sleep",
        state="ok" if soon else "limited",
        found=f"up to {late_s * 1e3:.2f} ms late",
        remedy=None if soon else "trials keep the processors awake while they run",
    )


def _tools() -> list[Finding]:
    """Programs for a second opinion."""
    remedies = {"iperf3": "install iperf3", "mptcpize": "install mptcpize (part of mptcpd)"}
    seek: Callable[[str], str | None] = shutil.which
    return [
        Finding(
            name=tool,
            state="limited" if seek(tool) is None else "ok",
            found=seek(tool) or "not installed",
            remedy=f"{remedy}, for a second opinion" if seek(tool) is None else None,
        )
        for tool, remedy in remedies.items()
    ]
