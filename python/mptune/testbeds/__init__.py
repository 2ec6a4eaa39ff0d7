"""Testbeds: where trials are measured. One file each; this is their list.

`create(name)` makes one; `names(kind)` gives the algorithm names that every trial is made of, from
the lists of the core. What a trial and an observation are stands in `_base`.
"""

from collections.abc import Callable
from typing import Literal

from mptune import _core
from mptune.errors import InputError
from mptune.testbeds._base import (
    BIN_NS,
    MSS,
    BackgroundObservation,
    Observation,
    ScriptedAction,
    SubflowObservation,
    Testbed,
    Trial,
)
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.testbeds.simulated import SimulatedTestbed

__all__ = [
    "BIN_NS",
    "MSS",
    "TESTBEDS",
    "BackgroundObservation",
    "Observation",
    "ScriptedAction",
    "SubflowObservation",
    "Testbed",
    "Trial",
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
    InputError : there is none of that name.
    """
    if name not in TESTBEDS:
        raise InputError("--testbed", "", f"one of {', '.join(TESTBEDS)} expected, found {name!r}")
    return TESTBEDS[name]()


def names(kind: Literal["congestion_controls", "path_managers", "schedulers", "accountings"]) -> list[str]:
    """Names of all algorithms of a kind, in the order of the core's list."""
    return {
        "congestion_controls": _core.congestion_controls,
        "path_managers": _core.path_managers,
        "schedulers": _core.schedulers,
        "accountings": _core.accountings,
    }[kind]()
