"""A workload between two machines as they are: by an ordinary program, which sets nothing.

It asks for no path, no congestion control and no buffer, and binds to no address: it gets what the machines
give, and TCP where there is no MPTCP. The halves of the meter are the program, so that a workload is measured
as in a trial (`mptune.linux.kernel_trial`). Not here: settings, and what several measurements mean together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from mptune.testbeds import _hosts_data, _kernel_observation, _kernel_plan
from mptune.trial import PLAIN_TCP, Bulk, Observation, Timed, Trial

if TYPE_CHECKING:
    from types import TracebackType

    from mptune.linux.addresses import Side
    from mptune.linux.talker import Message, Talker
    from mptune.linux.venue import About

#: Addresses at which a program listens: everywhere, as subflows may join anywhere.
EVERYWHERE = {4: "0.0.0.0", 6: "::"}


class Ends(NamedTuple):
    """Both machines.

    Attributes
    ----------
    start : starts the agent in a role on a side, under a name.
    address : where the sender reaches the receiver.
    version : of IP, of the sockets: 4 or 6.
    """

    start: Callable[[Side, str, str | None], Talker]
    address: str
    version: int


class Measured(NamedTuple):
    """Result of a program.

    Attributes
    ----------
    is_mptcp : the connection was MPTCP to the end.
    cc : the congestion control of the first subflow, at the sender.
    """

    observation: Observation
    is_mptcp: bool
    cc: str


def check(trial: Trial, times: int) -> None:
    """Refuse a workload that, run so many times, may exceed the limit of an interface.

    Raises
    ------
    InputError : naming the interface, or its rate if that is not known.
    """
    _hosts_data.check(trial, times)


def measure(trial: Trial, ends: Ends) -> Measured:
    """Run a workload once; a failure is the observation's.

    Parameters
    ----------
    trial : with the workload, of one connection; nothing else of it is set.
    """
    from mptune.linux import kernel_trial
    from mptune.linux.assignment import Assignment

    assert isinstance(trial.workload, Bulk | Timed)
    everywhere = EVERYWHERE[ends.version]
    plan = kernel_trial.Plan(
        assignment=Assignment(pm=trial.pm, paths=()),
        meter={
            **_kernel_plan.meter(trial, trial.workload, None, []),
            **dict.fromkeys(("buffer_bytes", "receive_buffer_bytes")),
            "takes_tcp": True,
            "both_families": ends.version == 6,
        },
        initial=("", ends.address),
        address=everywhere,
        joins=(everywhere,),
        script=(),
        limit_s=trial.workload.limit_ns / 1e9,
        managed=False,
    )
    outcome = kernel_trial.run(plan, _AsTheyAre(ends))
    result = outcome.result or {}
    # A program of a busy machine writes late: a part of what it gets.
    result["late_ns"] = None
    pairs = [(subflow["local"], subflow["remote"]) for subflow in result.get("subflows", [])]
    observation = _kernel_observation.observe(
        trial, plan, outcome, 0.0, testbed="hosts", paths={pair: " to ".join(pair) for pair in pairs}
    )
    is_mptcp = trial.protocol != PLAIN_TCP and not result.get("fallback", False)
    return Measured(observation, is_mptcp, result.get("cc_effective") or "")


class _AsTheyAre:
    """Two machines as a venue (`mptune.linux.venue`) that changes nothing and has no network of its own."""

    foundations: Sequence[Talker] = ()
    companions: Sequence[Talker] = ()
    #: Unknown: the processors are those of other machines.
    waited_ns: int | None = None

    def __init__(self, ends: Ends) -> None:
        self.about: About = {}
        self._ends = ends

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def start(self, role: str, side: Side, name: str | None = None) -> Talker:
        """Start the agent in a role on a machine."""
        return self._ends.start(side, role, name)

    def _nothing(self) -> None:
        """Nothing is prepared, and nothing is put back."""

    prepare = lay_out = open = confirm = close = look = hurry = _nothing

    def begin(self, halves: Sequence[Talker]) -> None:
        """Nobody waits for the connection."""

    def cut(self, action: str, path: int) -> None:
        """There is no script."""

    def conclude(self) -> Message | None:
        """The network reports nothing."""
        return None
