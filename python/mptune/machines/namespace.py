"""A network namespace of this machine as a machine, to try out what otherwise runs between hosts.

Its settings are those of the namespaces of trials, and it cannot change them.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from mptune.linux.addresses import Side
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.linux.sandbox.processes import Child
from mptune.machines._base import Looked

#: Real-time priority of what it starts, the lowest possible, as in trials.
_PRIORITY = 1


class NamespaceMachine:
    """One of two sites; whoever opened them closes them."""

    def __init__(self, sites: Sites, side: Side, name: str | None = None) -> None:
        self.name = name or side
        self._sites, self._side = sites, side

    def start(self, role: str, name: str | None = None) -> Child:
        """Start the agent in a role."""
        child = self._sites.start_agent(role, self._side, f"{name or role} on {self.name}")
        with suppress(PermissionError):  # without root it has normal priority
            os.sched_setscheduler(child.pid, os.SCHED_RR, os.sched_param(_PRIORITY))
        return child

    def set(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Do nothing: the namespaces begin with the settings of a trial, and no others are asked for."""
        return dict(settings)

    def restore(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Do nothing: nothing was changed."""
        return {}

    def look(self, names: Sequence[str] = (), pairs: Sequence[tuple[str, str]] = ()) -> Looked:
        """Facts, as the agent's role `host` reports them."""
        with self.start("host") as host:
            asked = {"names": list(names), "pairs": [list(pair) for pair in pairs]}
            host.tell({"action": "look", "id": 1, **asked})
            return host.expect("looked", STEP_S)
