"""Machines: where the agent's roles run and settings are made. For now, those reached by SSH.

`Machine` is what they have in common. Namespaces of this machine are `mptune.linux.namespace_venue`'s.
"""

from mptune.machines._base import Looked, Machine, MachineError
from mptune.machines.ssh import SshMachine

__all__ = ["Looked", "Machine", "MachineError", "SshMachine"]
