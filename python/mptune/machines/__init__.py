"""Machines: where roles of the agent can be started and settings made: this one, and those reached by SSH.

`Machine` is what those of a trial have in common. Namespaces of this machine are
`mptune.linux.namespace_venue`'s.
"""

from mptune.machines._base import Looked, Machine, MachineError
from mptune.machines.local import LocalMachine
from mptune.machines.ssh import SshMachine

__all__ = ["LocalMachine", "Looked", "Machine", "MachineError", "SshMachine"]
