"""Output of `mptune --version`: the versions of its parts, this machine's kernel, and available features.

Not `mptune doctor`, which tries what trials need and proposes remedies: this looks at files and asks for one
socket, so that it can stand in a report of a fault.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from mptune import __version__, _core
from mptune.errors import MptuneError


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel of this machine.

    Attributes
    ----------
    mptcp : whether it gives MPTCP sockets.
    reason : why not, in the kernel's words; None if it does.
    """

    name: str
    release: str
    mptcp: bool
    reason: str | None


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the package that are present, and those available on this machine.

    Attributes
    ----------
    agent : version of mptune-agent; None if it is missing or does not run.
    preload : whether the library of `mptune exec` is there.
    bpf_objects : congestion controls that have a compiled BPF program.
    libbpf : whether this machine has the library that registers them.
    parquet : version of pyarrow, for exports as Parquet; None without it.
    """

    agent: str | None
    preload: bool
    bpf_objects: list[str]
    libbpf: bool
    parquet: str | None


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Versions, kernel and features."""

    mptune: str
    core: str
    python: str
    machine: str
    kernel: Kernel
    features: Features


def about() -> About:
    """Versions installed here, and the platform."""
    return About(
        mptune=__version__,
        core=_core.version(),
        python=platform.python_version(),
        machine=platform.machine(),
        kernel=_kernel(),
        features=_features(),
    )


def lines(about_: About) -> list[str]:
    """The same as text; the first line is the name and the version alone."""
    kernel, has = about_.kernel, about_.features
    programs = f"{len(has.bpf_objects)} ({', '.join(has.bpf_objects)})" if has.bpf_objects else "none"
    rows = (
        ("core", about_.core),
        ("python", f"{about_.python}, {about_.machine}"),
        ("kernel", f"{kernel.name} {kernel.release}, {kernel.reason or 'MPTCP available'}"),
        ("agent", has.agent or "none"),
        ("preload library", "yes" if has.preload else "none"),
        ("BPF programs", programs + ("" if has.libbpf or not has.bpf_objects else "; no libbpf.so.1 here")),
        ("parquet", f"pyarrow {has.parquet}" if has.parquet else "none"),
    )
    return [f"mptune {about_.mptune}", *(f"{name:<17}{value}" for name, value in rows)]


def _kernel() -> Kernel:
    reason = _obstacle()
    return Kernel(
        name=platform.system(),
        release=platform.release(),
        mptcp=reason is None,
        reason=None if reason is None else f"no MPTCP: {reason}",
    )


def _obstacle() -> str | None:
    if platform.system() != "Linux":
        return "it is not Linux"
    from mptune.linux.probe import mptcp_obstacle

    return mptcp_obstacle()


def _features() -> Features:
    from mptune.linux import bpf
    from mptune.linux.preload import LIBRARY

    return Features(
        agent=_agent(),
        preload=Path(LIBRARY).is_file(),
        bpf_objects=bpf.programs(),
        libbpf=bpf.has_library(),
        parquet=_parquet(),
    )


def _agent() -> str | None:
    from mptune.linux import agent

    try:
        return agent.version()
    except MptuneError:
        return None


def _parquet() -> str | None:
    try:
        return version("pyarrow")
    except PackageNotFoundError:
        return None
