"""The machine that this program runs on: roles of the agent can be started here; it needs no session.

What it starts runs in the namespaces of this program, with its rights.
"""

from collections.abc import Sequence

from mptune.linux import agent
from mptune.linux.sandbox import leftovers
from mptune.linux.sandbox.processes import Child
from mptune.machines._base import Looked

#: Seconds for the facts.
_LOOK_S = 20.0


class LocalMachine:
    """The machine that this program runs on.

    Attributes
    ----------
    name : for messages.
    """

    def __init__(self, name: str = "this machine") -> None:
        self.name = name

    def start(self, role: str, name: str | None = None) -> Child:
        """Start the agent in a role; messages use `name` instead of the role, if given."""
        return Child(f"{name or role} on {self.name}", agent.command(role), leftovers.new_run())

    def look(self, names: Sequence[str] = (), pairs: Sequence[tuple[str, str]] = ()) -> Looked:
        """Facts: of sysctls by name too, and the device by which packets of a pair of addresses leave.

        Raises
        ------
        TrialError : another session is running here.
        """
        with self.start("host") as host:
            host.tell(
                {"action": "look", "id": 1, "names": list(names), "pairs": [list(pair) for pair in pairs]}
            )
            return host.expect("looked", _LOOK_S)

    def close(self) -> None:
        """Nothing is open."""
