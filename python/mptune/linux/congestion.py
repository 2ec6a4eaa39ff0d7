"""Congestion controls that a trial can use here, and how to add missing ones.

It only reads; the administrator loads modules, and `mptune.linux.bpf` loads BPF programs.
"""

import os
from pathlib import Path

from mptune.errors import InputError
from mptune.linux import bpf
from mptune.linux.sandbox import sysctls


def available() -> tuple[str, ...]:
    """Names that the kernel knows now, including BPF programs."""
    return tuple((sysctls.read("net.ipv4.tcp_available_congestion_control") or "").split())


def schedulers() -> tuple[str, ...]:
    """Names of the kernel's schedulers of MPTCP; before Linux 6.8 it does not tell them."""
    return tuple((sysctls.read("net.mptcp.available_schedulers") or "default").split())


def module(cc: str) -> str | None:
    """Kernel module that provides a congestion control, if it was built for the running kernel."""
    name = f"tcp_{cc}"  # like all of net/ipv4/tcp_*.c
    folder = Path("/lib/modules", os.uname().release, "kernel/net/ipv4")
    return name if any(folder.glob(f"{name}.ko*")) else None


def obstacle(cc: str) -> str | None:
    """Why a trial cannot use a congestion control here, and what would help; None if it can."""
    reason = bpf.availability(cc).reason
    if reason is None:
        return None
    loadable = module(cc)
    return reason if loadable is None else f"{reason}; its module can be loaded: modprobe {loadable}"


def check(cc: str) -> None:
    """Refuse a congestion control that trials cannot use here.

    Raises
    ------
    InputError : with the reason, and the missing module or BPF program.
    """
    reason = obstacle(cc)
    if reason is not None:
        raise InputError(
            "--cc",
            "",
            f"expected one that this kernel can run ({', '.join(available())}), found {cc}: {reason}",
        )
