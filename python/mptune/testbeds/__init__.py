"""Testbeds: where trials are measured. Each has its own file; this one lists them.

`create(name)` makes one; `names(kind)` gives the names of algorithms for trials, from the lists of the
core. `_base` defines trials and observations.
"""

from collections.abc import Callable
from typing import Literal

from mptune import _core
from mptune.errors import InputError, one_of
from mptune.testbeds._base import (
    BIN_NS,
    LINUX,
    MSS,
    BackgroundObservation,
    Observation,
    ScriptedAction,
    SubflowObservation,
    Testbed,
    Trial,
    as_linux,
)
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.testbeds.simulated import SimulatedTestbed

__all__ = [
    "BIN_NS",
    "LINUX",
    "MSS",
    "TESTBEDS",
    "BackgroundObservation",
    "Observation",
    "ScriptedAction",
    "SubflowObservation",
    "Testbed",
    "Trial",
    "as_linux",
    "create",
    "names",
]

#: Every testbed by its name on the command line.
TESTBEDS: dict[str, Callable[[], Testbed]] = {
    "simulated": SimulatedTestbed,
    "namespaces": NamespacesTestbed,
}


def create(name: str) -> Testbed:
    """Make the testbed called `name`.

    Raises
    ------
    InputError : there is no testbed with that name.
    """
    if name not in TESTBEDS:
        raise InputError("--testbed", "", one_of(TESTBEDS, name))
    return TESTBEDS[name]()


def names(kind: Literal["congestion_controls", "path_managers", "schedulers", "accountings"]) -> list[str]:
    """Names of all algorithms of a kind, in the order of the core's list."""
    return {
        "congestion_controls": _core.congestion_controls,
        "path_managers": _core.path_managers,
        "schedulers": _core.schedulers,
        "accountings": _core.accountings,
    }[kind]()
