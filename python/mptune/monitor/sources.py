"""Sources of reports: the agent's role `watch`, here or on a machine that ssh reaches."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from mptune.linux import agent
from mptune.linux.sandbox import leftovers
from mptune.linux.sandbox.processes import Child
from mptune.linux.talker import Talker
from mptune.machines import ssh

#: Seconds that a report may be late.
LATE_S = 20.0


@contextmanager
def started(targets: Mapping[str, str], interval_ns: int) -> Iterator[dict[str, Talker]]:
    """The role at work on every machine, by the machine's name, until the end of the block.

    Parameters
    ----------
    targets : name for people -> how ssh reaches it; nothing at all for this machine, whose name is empty.

    Raises
    ------
    MptuneError : the agent is missing, or a machine cannot be reached.
    """
    with ExitStack() as stack:
        talkers: dict[str, Talker] = {}
        for name, target in targets.items():
            machine = ssh.connect(target, name)
            stack.callback(machine.close)
            talkers[name] = stack.enter_context(machine.start("watch"))
        if not targets:
            talkers[""] = stack.enter_context(Child("watch", agent.command("watch"), leftovers.new_run()))
        for talker in talkers.values():
            talker.tell({"interval_ns": interval_ns})
        yield talkers
