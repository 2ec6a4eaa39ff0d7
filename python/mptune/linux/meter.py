"""A measurement of traffic: the agent's roles `sender` and `receiver`, and what passes between them.

The two may be on different machines and share only the network. The caller starts them. Their messages to
each other pass through here: the port of the one that accepts the connection, the duration of the other's
handshake, from which the acceptor computes when the connection was requested, and the end.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from mptune.errors import TrialError
from mptune.linux import meter_report
from mptune.linux.talker import Message, Talker, await_any

#: A half: a process of this machine, or a role on a host.
Half = TypeVar("Half", bound=Talker)

#: Seconds a half has to start, or to report after the other one did.
STEP_S = 20.0
#: Seconds the receiver has to report its measurements in a failed trial.
_SALVAGE_S = 2.0


class Meter(Generic[Half]):
    """Two halves and their measurement.

    Attributes
    ----------
    sender, receiver : the processes; the caller ends them.
    opener, acceptor : the same, by who opens the connection; the receiver does where it is a client.
    """

    def __init__(self, sender: Half, receiver: Half, *, receiver_opens: bool = False) -> None:
        self.sender, self.receiver = sender, receiver
        self.opener, self.acceptor = (receiver, sender) if receiver_opens else (sender, receiver)
        self._job: Mapping[str, Any] = {}
        self._listening: Message = {}
        #: Results by half.
        self._reports: dict[Half, Message] = {}
        #: The acceptor knows which connection is the opener's.
        self._accepted = False
        self._messages: deque[Message] = deque()

    @property
    def halves(self) -> tuple[Half, Half]:
        """Both processes; readable when there is something to `take`, for select(2)."""
        return self.sender, self.receiver

    def listen(self, job: Mapping[str, Any], address: str, joins: Sequence[str]) -> None:
        """Let the acceptor wait for the connection, and for subflows that may join it.

        Parameters
        ----------
        job : instructions for both halves (`crates/mptune-agent/src/meter/config.rs`).
        address : where the connection arrives.
        joins : addresses where further subflows may arrive, including `address`.

        Raises
        ------
        TrialError : the acceptor refused, died or did not answer.
        """
        self._job = job
        self.acceptor.tell({"job": job, "address": address, "port": 0, "joins": list(joins)})
        self._listening = self.acceptor.expect("listening", STEP_S)

    @property
    def port(self) -> int:
        """Port of the acceptor, once it listens."""
        port: int = self._listening["port"]
        return port

    def connect(self, local: str, remote: str) -> None:
        """Let the opener connect from one address to the other; routes choose an empty `local`."""
        heard = {key: self._listening[key] for key in ("port", "plain_because")}
        self.opener.tell({"job": self._job, "local": local or None, "remote": remote, **heard})

    def stop(self) -> None:
        """Let both end with what they have measured."""
        for half in self.halves:
            half.tell({"action": "stop"})

    def take(self) -> list[Message]:
        """Messages so far, without waiting: "connected", "accepted", "sent", and one "result" or "error"."""
        for half in self.halves:
            for message in half.take():
                self._hear(half, message)
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def _hear(self, half: Half, message: Message) -> None:
        match message["event"]:
            case "result":
                meter_report.check(half.name, message)
                self._reports[half] = message
                self._pass_end_on(half, message)
            case "connected":
                times = {key: message[key] for key in ("handshake_ns", "rtt_ns")}
                self.acceptor.tell({"action": "connected", **times})
                self._messages.append(message)
            case "error":
                self._messages.append({**message, "reason": f"{half.name}: {message['reason']}"})
            case event:
                self._accepted |= event == "accepted"
                self._messages.append(message)

    def _pass_end_on(self, half: Half, report: Message) -> None:
        """If one half ends, end the other too, except at the end of the duration, which both know.

        The receiver does not know it if nothing arrived.
        """
        if len(self._reports) == len(self.halves):
            self._messages.append({"event": "result", **self._joined()})
            for other in self.halves:
                other.close()
        elif half is self.receiver or report["ending"]["kind"] != "complete" or self._in_vain:
            for other in self.halves:
                other.tell({"action": "stop"})

    @property
    def _in_vain(self) -> bool:
        """Nothing arrived for the whole duration."""
        return self._job["workload"]["kind"] == "bulk" and not self._accepted

    def _joined(self) -> dict[str, Any]:
        sender, receiver = self._reports.get(self.sender), self._reports[self.receiver]
        return meter_report.join(self._job, sender, receiver)

    def expect(self, event: str, within_s: float) -> Message:
        """Wait for a message of that kind and discard earlier ones; later ones can still be taken.

        Raises
        ------
        TrialError : a half refuses or ends, or the time is up.
        """
        end = time.monotonic() + within_s
        while True:
            pending = deque(self.take())
            while pending:
                message = pending.popleft()
                if message["event"] == "error":
                    raise TrialError(message["reason"], "refused")
                if message["event"] == event:
                    self._messages = pending
                    return message
            self.check()
            if time.monotonic() > end:
                raise TrialError(f"meter: no {event!r} within {within_s:g} s")
            speaking = [half for half in self.halves if not half.ended]
            await_any(speaking, end - time.monotonic())

    def check(self) -> None:
        """Notice a half that ended without a result.

        Raises
        ------
        TrialError : how.
        """
        for half in self.halves:
            if half.ended and half not in self._reports:
                raise TrialError(half.death(), half.kind)

    @property
    def ended(self) -> bool:
        """Both have ended, and all their messages have been taken."""
        return not self._messages and all(half.ended for half in self.halves)

    def salvage(self) -> dict[str, Any] | None:
        """Measurements so far of a failed trial; None if the receiver cannot report them."""
        self.stop()
        if self.receiver not in self._reports:
            with suppress(TrialError):
                self._reports[self.receiver] = _late(self.receiver)
        if self.sender not in self._reports:
            with suppress(TrialError):
                self._reports[self.sender] = _late(self.sender)
        return self._joined() if self.receiver in self._reports else None


def _late(half: Talker) -> Message:
    """The report of a half in a failed trial.

    Raises
    ------
    TrialError : there is none in time, or none that is as expected.
    """
    report = half.expect("result", _SALVAGE_S)
    meter_report.check(half.name, report)
    return report
