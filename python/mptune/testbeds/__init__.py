"""Testbeds: where trials are measured. Each has its own file; this one lists them.

`create(name)` makes one; `names(kind)` gives the names of algorithms for trials, from the lists of the
core. `_base` is their interface.
"""

import platform
import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Literal

from mptune import _core
from mptune._text import quoted
from mptune.errors import InputError, MptuneError, one_of
from mptune.guest import kernels
from mptune.testbeds._base import Testbed
from mptune.testbeds._overload import overloaded
from mptune.testbeds._today import Today
from mptune.testbeds.hosts import HostsTestbed
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.testbeds.virtual import VirtualTestbed
from mptune.topology import Topology
from mptune.trial import FIXED, Workload
from mptune.trial.congestion import PAIRS
from mptune.trial.stacks import title

__all__ = [
    "TESTBEDS",
    "Testbed",
    "Today",
    "check_name",
    "congestion_controls",
    "create",
    "names",
    "notice",
    "only_stack",
    "overloaded",
    "own_clock",
    "release",
    "repeats",
    "resolved",
    "stack_title",
]

#: Every testbed by its name on the command line.
TESTBEDS: dict[str, Callable[[], Testbed]] = {
    "simulated": SimulatedTestbed,
    "virtual": VirtualTestbed,
    "namespaces": NamespacesTestbed,
    "hosts": HostsTestbed,
}


def create(name: str) -> Testbed:
    """Make the testbed called `name`: "virtual:6.12" is `virtual` on that release of the kernel.

    Raises
    ------
    InputError : there is no testbed with that name.
    """
    try:
        check_name(name)
    except ValueError as error:
        raise InputError("--testbed", "", str(error)) from None
    base, _, release = name.partition(":")
    return VirtualTestbed(release) if release else TESTBEDS[base]()


def check_name(name: str) -> None:
    """Refuse what is no testbed.

    Raises
    ------
    ValueError : with the expected names.
    """
    base, colon, release = name.partition(":")
    if base not in TESTBEDS:
        raise ValueError(one_of(TESTBEDS, name))
    if colon and (base != VirtualTestbed.name or not re.fullmatch(r"\d{1,3}\.\d{1,3}", release)):
        raise ValueError(
            f'expected a release after "virtual:" alone, such as virtual:7.3, found {quoted(name)}'
        )


def _class(name: str) -> type[Testbed]:
    """Class of the testbed called `name`; the base class if there is none, or it is made by a function."""
    maker = TESTBEDS.get(name.partition(":")[0])
    return maker if isinstance(maker, type) and issubclass(maker, Testbed) else Testbed


def only_stack(name: str) -> str | None:
    """The only stack of the testbed called `name`; None if it has every one, or does not exist."""
    return _class(name).only_stack


def repeats(name: str) -> bool:
    """True if the same trial repeats its observation on the testbed called `name`."""
    return _class(name).anywhere


def own_clock(name: str) -> bool:
    """True if each trial has a clock of its own on the testbed called `name` (`Testbed.pace`)."""
    return _class(name).pace is not None


def resolved(name: str) -> str:
    """A testbed in full: plain "virtual" is the one on the release that it takes, if one is built."""
    if name != VirtualTestbed.name:
        return name
    try:
        return f"{name}:{kernels.find().release}"
    except MptuneError:
        return name


def notice(
    name: str,
    topology: Topology,
    *,
    buffer_modes: Collection[str] = (FIXED,),
    sending: Workload | None = None,
    sent: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> str:
    """Notice to the user before trials begin on a testbed; empty if there is nothing.

    Parameters
    ----------
    buffer_modes : of the trials.
    sending : all trials together, as one workload; None if that is not known.
    sent : bytes that were sent before, as the testbed counts them.
    """
    return _class(name).notice(topology, buffer_modes, sending, sent)


def stack_title(name: str, members: Mapping[str, Any]) -> str:
    """MPTCP implementation of a trial with these members on a testbed, in words.

    A testbed with one stack runs this machine's kernel, a guest's, or those of two hosts.
    """
    if name == HostsTestbed.name:
        return "the hosts' own MPTCP"
    own = release(name)
    return title(members) if own is None else title(members, own)


def release(name: str) -> str | None:
    """Release of the kernel that a testbed runs trials on; None of the simulator, and of hosts."""
    if only_stack(name) is None or name == HostsTestbed.name:
        return None
    _, _, guest = resolved(name).partition(":")
    return guest or platform.release()


def names(
    kind: Literal["congestion_controls", "path_managers", "schedulers", "accountings", "buffer_modes"],
) -> list[str]:
    """Names of all algorithms of a kind, in the order of the core's list."""
    return {
        "congestion_controls": _core.congestion_controls,
        "path_managers": _core.path_managers,
        "schedulers": _core.schedulers,
        "accountings": _core.accountings,
        "buffer_modes": _core.buffer_modes,
    }[kind]()


def congestion_controls() -> list[str]:
    """Every congestion control: window algorithms, and those that have a program with path policies too."""
    return [*names("congestion_controls"), *PAIRS]
