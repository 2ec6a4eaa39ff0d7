"""Further connections of a trial on the kernel, each with a pair of processes of its own.

They are those of a mix, and TCP connections of others in its network. The first connection of a trial is not
here: its clock is the trial's (`mptune.linux.kernel_trial`).
"""

import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import msgspec

from mptune.errors import TrialError
from mptune.linux.addresses import Side
from mptune.linux.meter import STEP_S, Meter
from mptune.linux.talker import Message, Talker
from mptune.linux.venue import Venue

#: Open files of this process for each connection: its two halves have up to three pipes or files each.
_FILES = 8
#: Open files for everything else.
_OTHER_FILES = 256


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions for one further connection.

    Attributes
    ----------
    meter, opener, initial, address, joins : as in `mptune.linux.kernel_trial.Plan`.
    start_s : when it is requested, after the trial's first.
    is_measured : the trial lasts until it has ended; a connection of others ends with the trial.
    """

    meter: Mapping[str, Any]
    initial: tuple[str, str]
    address: str
    joins: tuple[str, ...]
    start_s: float
    is_measured: bool
    opener: Side = "local"


class Others:
    """The further connections of one trial, in the order of their instructions.

    Attributes
    ----------
    results : of each the meter's result; None while it has none.

    Raises
    ------
    TrialError : this process may not have as many open files as it takes.
    """

    def __init__(self, plans: Sequence[Beside], venue: Venue, stack: ExitStack) -> None:
        if plans:
            _admit(len(plans))
        self._plans = plans
        self._meters = [
            Meter(
                stack.enter_context(venue.start("sender", "local", f"sender {number}")),
                stack.enter_context(venue.start("receiver", "remote", f"receiver {number}")),
                receiver_opens=plan.opener == "remote",
            )
            for number, plan in enumerate(plans, start=2)
        ]
        self._waiting = list(range(len(plans)))
        self.results: list[Message | None] = [None] * len(plans)
        #: Ends that do not have their connection yet, by its number: of those that are measured.
        self._waiting_for = {
            number: {"connected", "accepted"} for number, plan in enumerate(plans) if plan.is_measured
        }

    @property
    def halves(self) -> list[Talker]:
        """All processes."""
        return [half for meter in self._meters for half in meter.halves]

    @property
    def speaking(self) -> list[Talker]:
        """Those that have not ended, for select(2)."""
        return [half for half in self.halves if not half.ended]

    @property
    def done(self) -> bool:
        """Every measured connection has its result."""
        numbered = zip(self._plans, self.results, strict=True)
        return all(result is not None for plan, result in numbered if plan.is_measured)

    def ports(self, opener: Side) -> list[int]:
        """Ports at which the connections arrive that this side opens, once somebody listens there."""
        pairs = zip(self._plans, self._meters, strict=True)
        return [meter.port for plan, meter in pairs if plan.opener == opener]

    @property
    def connecting(self) -> bool:
        """A measured connection is not there at both ends yet, and may still come."""
        return bool(self._waiting_for)

    @property
    def due_s(self) -> Iterator[float]:
        """When those that are not requested yet are, after the trial's first."""
        return (self._plans[number].start_s for number in self._waiting)

    def listen(self) -> None:
        """Let all wait that accept.

        Raises
        ------
        TrialError : one refused, died or did not answer.
        """
        for plan, meter in zip(self._plans, self._meters, strict=True):
            meter.listen(plan.meter, plan.address, plan.joins)

    def act(self, elapsed_s: float) -> None:
        """Request those that are due."""
        for number in [number for number in self._waiting if self._plans[number].start_s <= elapsed_s]:
            self._waiting.remove(number)
            self._meters[number].connect(*self._plans[number].initial)

    def hear(self) -> None:
        """Take their messages.

        Raises
        ------
        TrialError : one refused, or ended without a result.
        """
        for number, meter in enumerate(self._meters):
            for message in meter.take():
                self._note(number, message["event"])
                if message["event"] == "result":
                    self.results[number] = message
                elif message["event"] == "error":
                    raise TrialError(message["reason"], "refused")
            if self.results[number] is None:
                meter.check()

    def _note(self, number: int, event: str) -> None:
        """Which ends have a connection; one with a result has begun, or never will."""
        if number in self._waiting_for:
            left = set() if event == "result" else self._waiting_for[number] - {event}
            self._waiting_for[number] = left
            if not left:
                del self._waiting_for[number]

    def conclude(self) -> None:
        """End those of others, and keep what they have measured; one that never began has nothing."""
        open_ = [number for number, result in enumerate(self.results) if result is None]
        open_ = [number for number in open_ if number not in self._waiting]
        for number in open_:
            self._meters[number].stop()
        for number in open_:
            with suppress(TrialError):
                self.results[number] = self._meters[number].expect("result", STEP_S)

    def salvage(self) -> None:
        """Measurements so far of a failed trial."""
        for number, meter in enumerate(self._meters):
            if self.results[number] is None and number not in self._waiting:
                self.results[number] = meter.salvage()


def _admit(connections: int) -> None:
    """Let this process have the open files of so many connections.

    Raises
    ------
    TrialError : they are more than it may have.
    """
    needed = _FILES * connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        reason = f"{connections + 1} connections take {needed} open files, this program may have {hard}"
        raise TrialError(f"{reason} (ulimit -Hn)", "refused")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
