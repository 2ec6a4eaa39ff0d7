"""Congestion controls that a host's kernel lacks, registered there as BPF programs.

A role of the agent holds each of them, from the first trial that needs it to the end of the session; all
trials of the session share it. However the session ends, the role ends with it, and the kernel then removes
the program. Its name in the kernel is random, because all programs on the host share the names.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mptune.linux import bpf
from mptune.linux.talker import Talker

#: Path parameters of a path policy.
Told = Sequence[Mapping[str, Any]]


class Programs:
    """The programs that one session has registered on its host.

    Parameters
    ----------
    start : starts a role of the agent, given a name for messages.
    """

    def __init__(self, start: Callable[[str, str], Talker]) -> None:
        self._start = start
        #: By congestion control: its name in the kernel there, who holds it, and what it was told of paths.
        self._held: dict[str, tuple[str, Talker, Told]] = {}

    def name(self, cc: str, told: Told = ()) -> str:
        """The kernel's name of a congestion control, which is registered now unless it already is.

        Parameters
        ----------
        told : what its path policy is told of paths, by their addresses.

        Raises
        ------
        TrialError : the host refuses it (kind "refused"), or is gone.
        """
        told = list(told)
        if cc in self._held:
            name, role, before = self._held[cc]
            role.take()
            if not role.ended:
                if told != before:
                    role.tell({"action": "tell", "paths": told})
                    role.expect("told", bpf.STEP_S)
                    self._held[cc] = name, role, told
                return name
            self._held.pop(cc)[1].end()
        name, content = bpf.private(cc)
        role = self._start("congestion", f"congestion control {cc}")
        try:
            role.tell(bpf.registration("register", name, content, **({"paths": told} if told else {})))
            role.expect("registered", bpf.STEP_S)
        except BaseException:
            role.end()
            raise
        self._held[cc] = name, role, told
        return name

    def close(self) -> None:
        """Remove all of them."""
        while self._held:
            self._held.popitem()[1][1].end()
