"""The configuration: a combination with a buffer and whatever else a question fixes.

With a network and a seed it becomes a trial (`mptune.runner.planning`).
"""

from typing import Any, Literal

import msgspec

from mptune._text import on_subflows, plain_tcp
from mptune.trial._trial import DEFAULT_FAMILY, FIXED, ScriptedAction
from mptune.trial.kept import PLAIN_TCP
from mptune.trial.mixes import Workload
from mptune.trial.stacks import DEFAULT_STACK, STACKS, Stack


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a campaign varies; the fields have the same names as in `Trial`.

    Attributes
    ----------
    buffer_mode, receive_buffer_bytes, pm_options, initial_path, protocol, family, size_known : as in `Trial`.
    stack : its members are fields of the trial.
    script : as in `Trial`.
    workload : what is sent.
    """

    pm: str
    cc: str
    buffer_bytes: int
    workload: Workload
    buffer_mode: str = FIXED
    receive_buffer_bytes: int | None = None
    pm_options: dict[str, Any] = {}
    initial_path: str | None = None
    stack: Stack = STACKS[DEFAULT_STACK]
    script: tuple[ScriptedAction, ...] = ()
    protocol: Literal["mptcp", "tcp"] = "mptcp"
    family: str = DEFAULT_FAMILY
    size_known: bool = True

    @property
    def manager(self) -> str:
        """The path manager with its subflows, or plain TCP with its path, for tables and sentences."""
        if self.protocol == PLAIN_TCP:
            return plain_tcp(self.initial_path or "")
        return on_subflows(self.pm, self.active)

    def fields(self) -> dict[str, Any]:
        """The fields of a trial that have this configuration."""
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name != "stack"}
        return own | msgspec.structs.asdict(self.stack)

    def under(self, workload: Workload) -> "Configuration":
        """The same configuration under another workload."""
        return msgspec.structs.replace(self, workload=workload)

    @property
    def active(self) -> tuple[str, ...] | None:
        """Subflows that carry data under pcdc; None leaves it to the path manager."""
        return self.pm_options.get("active")

    @property
    def standby_order(self) -> tuple[str, ...]:
        """Standby subflows under pcdc, first to take over first."""
        order: tuple[str, ...] = self.pm_options.get("standby_order", ())
        return order
