"""A machine reached by the system's ssh: one process here, one connection, one channel, for a whole session.

At its other end is the agent in its role `host`, sent over the connection if it is not installed there
(`mptune.machines._bootstrap`). It starts the other roles and relays their lines of JSON. It listens on no
port. When the connection ends, or a few seconds after it falls silent, it restores what was set and exits.

A thread moves the lines and sends the heartbeat, so that nothing here waits for the network.
"""

import contextlib
import itertools
import json
import os
import queue
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mptune import _core
from mptune._text import QUOTED, bounded, quoted
from mptune.errors import FailureKind, MptuneError, TrialError
from mptune.linux import agent
from mptune.linux.sandbox import leftovers
from mptune.linux.talker import Message, last_words, manner
from mptune.machines import _bootstrap
from mptune.machines._base import Looked, MachineError
from mptune.machines._bootstrap import Delivery
from mptune.machines._complaints import Complaint, complaint
from mptune.machines._messages import (
    GREETING_BYTES,
    LINE_BYTES,
    STDERR_BYTES,
    UNASKED,
    Lines,
    Misbehaved,
    message_of,
)
from mptune.machines._role import RemoteRole

#: Environment variable with a command to use instead of `ssh`, perhaps with options: "ssh -F file".
VARIABLE = "MPTUNE_SSH"

_PROTOCOL = 1
_OPTIONS = {
    "BatchMode": "yes",
    "ServerAliveInterval": "3",
    "ServerAliveCountMax": "2",
    "ConnectTimeout": "10",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "RemoteCommand": "none",
}

#: Seconds without progress while the session begins: logging in can take a while.
_SILENCE_S = 60.0
#: Seconds for each of its stages: to the first word of the bootstrap, and from there, or from the agent's
#: arrival, to the greeting. A login can wait for a name server, but not for ever.
_GREET_S = 90.0
#: Bytes/s at which the agent has to arrive at least.
_SLOWEST = 8192
#: Seconds for the answer to a request.
_ANSWER_S = 20.0
#: Seconds between two heartbeats: the host gives up after 8 s without one.
_BEAT_S = 1.0
#: Seconds that the host has to restore everything and exit.
_FAREWELL_S = 5.0
#: Seconds without a word after which a host that is asked to hurry is given up.
_HURRY_S = 1.2
#: Longest wait while the session begins, seconds, before looking up whether it is still wanted.
_LOOK_UP_S = 0.3
#: ssh's exit status for errors of its own.
_OF_SSH = 255

_CHUNK = 1 << 16
#: Reads of standard error at a time, so that one that never ends does not keep the session from its work.
_READS = 16


def command(target: str, script: str) -> list[str]:
    """The command line of a session."""
    options = [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
    return [*shlex.split(os.environ.get(VARIABLE, "ssh")), "-T", *options, "--", target, script]


class SshMachine:
    """A session with a host, from here to `close`.

    Parameters
    ----------
    target : as ssh understands it.
    name : for messages.
    interrupted : called regularly while the session begins; True gives it up.

    Attributes
    ----------
    hello : what the agent reported about itself and its machine.
    delivered : the agent was not installed there and had to be sent.
    kind : of the failure of a trial that its end is: "refused" where it did what no agent does.
    unheard : the session ended without the host's farewell.

    Raises
    ------
    MachineError : the host cannot be reached or used.
    KeyboardInterrupt : it was given up.
    """

    hello: Message
    kind: FailureKind = "died"

    def __init__(self, target: str, name: str, interrupted: Callable[[], bool] = lambda: False) -> None:
        self.target, self.name = target, name
        self.delivered = self.unheard = False
        self._interrupted = interrupted
        self._delivery = Delivery.of(agent.program())
        try:
            self._process = self._start()
        except OSError as error:
            program = error.filename or "ssh"
            raise MachineError(f"{self.name}: cannot run {program}: {error.strerror or error}") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._stderr: int | None = self._process.stderr.fileno()
        for descriptor in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(descriptor, False)
        self._lines = Lines(GREETING_BYTES)
        #: The last of what ssh, and the host's shell, wrote to their standard error.
        self._errors = bytearray()
        #: Bytes that may come before the greeting, and when the next stage of the beginning is late.
        self._patience, self._late = GREETING_BYTES, time.monotonic() + _GREET_S
        #: Shared by all threads, as is everything below: what is still to be written.
        self._lock = threading.Lock()
        self._unsent = bytearray()
        self._numbers = itertools.count(1)
        self._roles: dict[int, RemoteRole] = {}
        self._requests: dict[int, queue.SimpleQueue[Message | None]] = {}
        self._death: str | None = None
        self._unasked = 0
        self._leaving = False
        #: Since when the host has to hurry, and when it was heard last: by `time.monotonic`.
        self._hurried: float | None = None
        self._heard = 0.0
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        try:
            self.hello = self._begin()
        except BaseException:
            self._abandon()
            raise
        self._thread = threading.Thread(target=self._serve, name=f"session {name}", daemon=True)
        self._thread.start()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command(self.target, self._delivery.command()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, leftovers.VARIABLE: leftovers.new_run()},
            # Ctrl-C is for the program, which then ends the session.
            start_new_session=True,
        )

    # The beginning, in the caller's thread.

    def _begin(self) -> Message:
        """Deliver an agent if need be, and read its greeting."""
        hello, begun, owed = None, False, dict(self._delivery.agents)
        while hello is None:
            line = self._line()
            if (word := _bootstrap.reply(line)) is None:
                # Before the bootstrap's first word it is what a login shell prints.
                hello = self._greeting(line) if begun else None
                continue
            answer, which = word
            if answer == "need" and which in owed:
                # Another one where the first does not run; none of them twice.
                self._deliver(owed.pop(which))
            elif answer != "have" or begun:
                raise self._failed(_bootstrap.refusal(answer, which, self._delivery))
            begun = True
        return hello

    def _line(self) -> bytes:
        """The next line."""
        try:
            while (line := self._lines.next()) is None:
                if not self._ready(reading=[self._stdout]):
                    raise self._failed(f"unreachable: {self._waited('no greeting', 'no answer')}", away=True)
                chunk = os.read(self._stdout, _CHUNK)
                if not chunk:
                    raise self._failed(*self._complaint())
                self._patience -= len(chunk)
                if self._patience < 0:
                    raise Misbehaved(f"more than {GREETING_BYTES} bytes, and no greeting in them")
                self._lines.add(chunk)
        except Misbehaved as error:
            raise self._failed(f"unreachable: {error}") from None
        return line

    def _deliver(self, content: bytes) -> None:
        self.delivered = True
        self._late = time.monotonic() + _GREET_S + len(content) / _SLOWEST
        rest = memoryview(content)
        while rest:
            if not self._ready(writing=[self._stdin]):
                waited = self._waited("it did not take the agent", "it took nothing")
                raise self._failed(f"unreachable: {waited}", away=True)
            try:
                rest = rest[os.write(self._stdin, rest[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._failed(*self._complaint()) from None
        self._late = time.monotonic() + _GREET_S

    def _ready(self, reading: Sequence[int] = (), writing: Sequence[int] = ()) -> bool:
        """True if there is progress within `_SILENCE_S`, and before it is too late."""
        end = min(time.monotonic() + _SILENCE_S, self._late)
        while (left := end - time.monotonic()) > 0:
            if self._interrupted():
                raise KeyboardInterrupt
            errors = [] if self._stderr is None else [self._stderr]
            ready, writable, _ = select.select(
                [*reading, *errors], writing, [], max(0.0, min(left, _LOOK_UP_S))
            )
            if self._stderr in ready:
                self._hear_errors()
            if writable or set(ready) & set(reading):
                return True
        return False

    def _waited(self, late: str, silent: str) -> str:
        """Error text after waiting in vain."""
        if time.monotonic() >= self._late:
            return f"{late} in time ({_GREET_S:g} s)"
        return f"{silent} within {_SILENCE_S:g} s"

    def _greeting(self, line: bytes) -> Message | None:
        """The agent's greeting; None for any other line."""
        try:
            greeting = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if not isinstance(greeting, dict) or "event" not in greeting:
            return None
        ours, theirs = _core.version(), greeting.get("version")
        if greeting["event"] == "hello" and (greeting.get("protocol") != _PROTOCOL or theirs != ours):
            theirs = bounded(theirs, QUOTED) if isinstance(theirs, str) else quoted(theirs)
            raise self._failed(f"its mptune-agent is version {theirs}, this is {ours}: install the same")
        try:
            message = message_of(line, self.name)
        except Misbehaved as error:
            raise self._failed(f"refused: {error}") from None
        if message["event"] != "hello":
            raise self._failed(str(message.get("reason", message["event"])))
        self._lines.most = LINE_BYTES
        return message

    def _failed(self, reason: str, away: bool = False) -> MachineError:
        return MachineError(f"{self._who}: {reason}", away=away)

    @property
    def _who(self) -> str:
        return self.name if self.name == self.target else f"{self.name} ({self.target})"

    def _complaint(self) -> Complaint:
        """Error output of ssh, or of the agent, before it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_FAREWELL_S)
        self._hear_errors()
        return complaint(
            self.target, self._errors.decode(errors="replace"), f"ssh {manner(self._process.poll())}"
        )

    def _hear_errors(self) -> None:
        """Read what is there of its standard error, and keep the last of it; no more than fits in a pipe."""
        for _ in range(_READS):
            try:
                chunk = b"" if self._stderr is None else os.read(self._stderr, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._stderr = None
                return
            self._errors += chunk
            del self._errors[:-STDERR_BYTES]

    # What a session is for.

    def start(self, role: str, name: str | None = None) -> RemoteRole:
        """Start the agent in a role."""
        number = next(self._numbers)
        role_ = RemoteRole(f"{name or role} on {self.name}", number, self._send)
        with self._lock:
            death = self._death
            if death is None:
                self._roles[number] = role_
        if death is None:
            self._send({"action": "start", "id": number, "role": role})
        else:
            role_.finished(death, killed=True, kind=self.kind)
        return role_

    def set(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Change sysctls, all of them or none, and return what they were."""
        return self.collect(self.ask("set", settings=settings))["before"]  # type: ignore[no-any-return]

    def restore(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Put these sysctls back, or all that were set; return those left as they are, with the reason."""
        left: dict[str, str] = self.collect(self.ask("restore", names=names))["kept"]
        return left

    def look(self, names: Sequence[str] = (), pairs: Sequence[tuple[str, str]] = ()) -> Looked:
        """Facts of the host; nothing is changed."""
        return self.collect(self.ask("look", names=list(names), pairs=[list(pair) for pair in pairs]))

    def ask(self, action: str, **arguments: object) -> int:
        """Send a request, to collect its answer later; return its number."""
        number = next(self._numbers)
        with self._lock:
            self._requests[number] = queue.SimpleQueue()
            if self._death is not None:
                self._requests[number].put(None)
        self._send({"action": action, "id": number, **arguments})
        return number

    def collect(self, number: int) -> Message:
        """The answer to a request.

        Raises
        ------
        TrialError : the host refuses, is silent or is gone.
        """
        try:
            answer = self._requests[number].get(timeout=_ANSWER_S)
        except queue.Empty:
            raise TrialError(f"{self.name}: no answer within {_ANSWER_S:g} s") from None
        finally:
            with self._lock:
                del self._requests[number]
        if answer is None:
            raise TrialError(self.death(), self.kind)
        if answer["event"] in ("refused", "error"):
            raise TrialError(f"{self.name}: {answer['reason']}", "refused")
        return answer

    @property
    def killed(self) -> bool:
        """The session is over."""
        return self._death is not None

    def death(self) -> str:
        """Reason of its end, in a sentence."""
        return self._death or f"{self.name} closed the session"

    def hurry(self) -> None:
        """From now on give the host up as soon as it is silent for `_HURRY_S`; it restores by itself then."""
        self._hurried = self._hurried or time.monotonic()
        self._beat()  # wakes the thread

    def close(self) -> None:
        """Let the host restore everything, and end the session."""
        self._leaving = True
        self._send({"action": "stop"})
        self._thread.join(_FAREWELL_S)
        self._abandon()

    def _abandon(self) -> None:
        """End ssh. The host notices that its input has ended, or misses the heartbeat."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if self.unheard or not hasattr(self, "hello") else _FAREWELL_S)
        self._process.kill()
        self.unheard |= self._process.wait() == _OF_SSH
        thread = getattr(self, "_thread", None)
        if thread is not None:
            thread.join()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)

    # The session's thread.

    def _send(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            if self._death is not None:
                return
            self._unsent += json.dumps(message).encode() + b"\n"
            with contextlib.suppress(BlockingIOError):
                os.write(self._wake_write, b"\n")

    def _serve(self) -> None:
        """Move lines until the session ends."""
        try:
            self._move()
        except Misbehaved as error:
            # Its messages are ignored from now on, even its farewell.
            self.kind, self.unheard = "refused", True
            self._die(f"{self.name}: {error}")
        except Exception as error:  # whatever it is: nobody must wait for a session that nothing serves
            self._die(f"{self.name}: {type(error).__name__}: {error}")
        else:
            self._die(self._ending())

    def _move(self) -> None:
        beat = 0.0
        self._hear_all()  # those that came with the greeting
        while True:
            now = time.monotonic()
            if self._hurried is not None and now - max(self._hurried, self._heard) > _HURRY_S:
                self.unheard = True
                return
            pause = _BEAT_S if self._hurried is None else _HURRY_S / 4
            if now >= beat:
                self._beat()
                beat = now + pause
            beat = min(beat, now + pause)
            writing = [self._stdin] if self._unsent else []
            reading = [self._stdout, self._wake_read, *([] if self._stderr is None else [self._stderr])]
            ready, writable, _ = select.select(reading, writing, [], max(0.0, beat - now))
            if self._stderr in ready:
                self._hear_errors()
            if self._wake_read in ready:
                os.read(self._wake_read, _CHUNK)
            if writable:
                self._write()
            if self._stdout in ready:
                chunk = os.read(self._stdout, _CHUNK)
                if not chunk:
                    return
                self._heard = time.monotonic()
                self._lines.add(chunk)
                self._hear_all()

    def _beat(self) -> None:
        """Let the host know that somebody is here; if it has to hurry, ask for a reply."""
        if self._hurried is None:
            self._send({"action": "beat"})
        else:  # to restore nothing is an order like others, and answered
            self._send({"action": "restore", "id": next(self._numbers), "names": []})

    def _hear_all(self) -> None:
        """Every whole line so far."""
        while (line := self._lines.next()) is not None:
            if line.strip():
                self._hear(line)

    def _write(self) -> None:
        with self._lock:
            try:
                del self._unsent[: os.write(self._stdin, self._unsent[:_CHUNK])]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                # Its last lines are still read.
                self._unsent.clear()

    def _hear(self, line: bytes) -> None:
        message = message_of(line, self.name)
        number: int = message.get("id", 0)
        match message["event"]:
            case "said":
                role = self._roles.get(number)
                if role is None:
                    self._count_unasked()
                else:
                    role.heard(message["line"], len(line))
            case "ended":
                role = self._roles.pop(number, None)
                if role is None:
                    self._count_unasked()
                else:
                    signal = message.get("signal")
                    how = manner(-signal if signal else message.get("status"))
                    words = last_words(message.get("stderr") or "")
                    role.finished(f"{role.name} {how}{words}", killed=signal is not None)
            case _:
                with self._lock:
                    waiting = self._requests.get(number)
                if waiting is None or not waiting.empty():
                    self._count_unasked()
                else:
                    waiting.put(message)

    def _count_unasked(self) -> None:
        """Count a line that nobody waits for: one that comes too late, or is not wanted at all.

        Raises
        ------
        Misbehaved : there are too many.
        """
        self._unasked += 1
        if self._unasked > UNASKED:
            raise Misbehaved(f"it sent more than {UNASKED} lines unasked")

    def _ending(self) -> str:
        if self.unheard:
            return f"{self.name}: the connection was lost: no answer for {_HURRY_S:g} s"
        if self._leaving:
            return f"{self.name} closed the session"
        return f"{self.name}: the connection was lost: {self._complaint().text}"

    def _die(self, how: str) -> None:
        with self._lock:
            self._death = how
            roles, self._roles = list(self._roles.values()), {}
            for waiting in self._requests.values():
                waiting.put(None)
        for role in roles:
            role.finished(how, killed=True, kind=self.kind)


def connect(target: str, name: str, interrupted: Callable[[], bool] = lambda: False) -> SshMachine:
    """Begin a session; parameters as of `SshMachine`.

    Raises
    ------
    MachineError : the host cannot be reached or used; the message has the reason and a remedy.
    KeyboardInterrupt : it was given up.
    """
    try:
        return SshMachine(target, name, interrupted)
    except MachineError:
        raise
    except MptuneError as error:
        raise MachineError(f"{name}: {error}") from None
