"""Leftovers on two hosts, and their duration, after a kill in the middle of a session.

Not a benchmark. Run as a program it is a worker: it has two machines of its own (`tests/hosts`), reads the
kills as a line of JSON and prints what came of each. When its time is over the rest is left undone.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

sys.path.append(str(Path(__file__).parents[2]))

from tests.hosts.machine import Machine
from tests.hosts.snapshots import Snapshot, settle
from tests.hosts.world import World
from tests.plugins.waiting import until

SESSION = Path(__file__).with_name("_session.py")

#: Processes to kill: the program here, its ssh, the agent in its role `host`, that one's guardian, one of the
#: other roles, a process of sshd's that serves the session, or all of a machine.
KINDS = ("controller", "ssh", "agent", "guardian", "role", "sshd", "machine")
ROLES = ("sender", "receiver", "paths")
#: A session is this old at most when it happens, seconds: it connects, and has some trials.
LATEST_S = 4.0
#: Everything has to be as before within this time, seconds.
LIMIT_S = 10.0
#: For the next good trial, or the end of the program, seconds.
PATIENCE_S = 25.0
#: Settings that trials change.
TOUCHED = ("net.mptcp.path_manager", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")


class Kill(msgspec.Struct, frozen=True):
    """One kill.

    Attributes
    ----------
    after_s : age of the session; a target that is not there then is waited for.
    goes_on : the session is ended (Ctrl-C) only when a later trial went well, otherwise at once.
    pick : which of several targets, from 0 to 1.
    """

    number: int
    kind: str
    after_s: float
    goes_on: bool
    pick: float


class Row(msgspec.Struct, kw_only=True):
    """The result of a kill.

    Attributes
    ----------
    target : machine and process.
    changed : settings of a host were changed just before.
    restored_s : until both machines were as before, since the kill or, if the session went on, its end;
        None if they were not in time.
    left : the differences then, and processes here.
    next_s : until the next good trial was over, if the session went on; after the loss of a machine, until
        its trial had failed.
    complaint : the session did not go on, or did not end.
    """

    number: int
    kind: str
    goes_on: bool
    target: str = ""
    changed: bool = False
    restored_s: float | None = None
    left: str = ""
    next_s: float | None = None
    complaint: str = ""


def drawn(count: int, seed: int) -> list[Kill]:
    """Random kills."""
    draw = random.Random(seed)
    return [
        Kill(number, draw.choice(KINDS), draw.uniform(0, LATEST_S), draw.random() < 0.5, draw.random())
        for number in range(count)
    ]


class Session:
    """A controller, and its output."""

    def __init__(self, world: World, file: Path) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end
        command = [sys.executable, str(SESSION), str(file)]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=world.environment(),
            start_new_session=True,
        )
        self.said: list[tuple[float, str | None]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append((time.monotonic(), json.loads(line)["failed"]))

    def ssh(self) -> list[int]:
        """Numbers of its ssh processes."""
        pids = []
        for directory in Path("/proc").iterdir():
            if directory.name.isdecimal():
                try:
                    name, _, rest = (directory / "stat").read_text().partition("(")[2].rpartition(")")
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if name == "ssh" and int(rest.split()[1]) == self.process.pid:
                    pids.append(int(directory.name))
        return sorted(pids)

    def trial_after(self, moment: float, failed: bool) -> float | None:
        """End of the first trial after a moment that succeeded, or failed; None without one."""
        end = time.monotonic() + PATIENCE_S
        moments: list[float] = []

        def look() -> bool:
            moments.extend(at for at, why in list(self.said) if at > moment and (why is not None) is failed)
            return bool(moments) or self.process.poll() is not None or time.monotonic() > end

        until(look)
        return moments[0] if moments else None

    def end(self) -> str:
        """Wait for its end; what was wrong with it."""
        try:
            self.process.wait(PATIENCE_S)
            complaint = ""
        except subprocess.TimeoutExpired:
            complaint = "the program did not end"
            # It prints its stack (faulthandler).
            self.process.send_signal(signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        if complaint:
            complaint = "\n".join([complaint, *lines])
        if not complaint and self.process.returncode not in (0, -signal.SIGKILL, -signal.SIGINT):
            complaint = f"exit code {self.process.returncode}: {lines[-1] if lines else ''}"
        return complaint


def targets(world: World, session: Session, kind: str) -> list[tuple[Machine | None, int, str]]:
    """Processes of a kind that could be killed now: machine, number there, name."""
    if kind == "controller":
        return [(None, session.process.pid, kind)]
    if kind == "ssh":
        return [(None, pid, kind) for pid in session.ssh()]
    if kind == "machine":
        return [(machine, 1, kind) for machine in world.machines.values()]
    return [
        (machine, pid, name)
        for machine in world.machines.values()
        for pid, _, words in machine.processes()
        if (name := _name(words, kind))
    ]


def _name(words: Sequence[str], kind: str) -> str:
    """The label of a process of this kind."""
    if kind == "sshd":
        title = words[0]
        ours = title.startswith(("sshd: ", "sshd-session: ")) and "[listener]" not in title
        return title if ours else ""
    if len(words) < 2 or not words[0].endswith("agent"):
        return ""
    roles = {"agent": ("host",), "guardian": ("guardian",), "role": ROLES}[kind]
    return words[1] if words[1] in roles else ""


def strike(machine: Machine | None, pid: int, kind: str) -> bool:
    """Kill it; False if it was gone."""
    if kind == "machine":
        assert machine is not None
        machine.kill()
        return True
    if machine is not None:
        return machine.run("kill", "-KILL", str(pid), check=False).returncode == 0
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def one(world: World, file: Path, before: Mapping[str, Snapshot], kill: Kill) -> Row:
    """Begin a session, kill, and wait."""
    row = Row(number=kill.number, kind=kill.kind, goes_on=kill.goes_on and kill.kind != "controller")
    session = Session(world, file)
    here: set[int] = set()
    try:
        threading.Event().wait(kill.after_s)
        struck = until(lambda: _struck(world, session, before, kill, row, here), f"a target: {kill.kind}")
        if row.goes_on:
            at = session.trial_after(struck, failed=kill.kind == "machine")
            row.next_s = None if at is None else at - struck
            struck = time.monotonic()
        here.update(session.ssh())
        if kill.kind != "controller":
            session.process.send_signal(signal.SIGINT)
        row.left, row.restored_s = _settled(world, before, struck)
    except AssertionError as error:
        row.complaint = str(error)
        session.process.send_signal(signal.SIGINT)
    except BaseException:
        session.process.kill()
        raise
    complaint = session.end()
    row.complaint = row.complaint or complaint
    if row.goes_on and row.next_s is None:
        row.complaint += " the session did not go on"
    if lasting := _lasting(here):
        row.left += f"ssh here: {lasting}"
    return row


def _lasting(here: set[int]) -> list[int]:
    """Processes of this machine that have not ended at the limit."""
    end = time.monotonic() + LIMIT_S
    alive: list[int] = []

    def look() -> bool:
        alive[:] = [pid for pid in here if Path(f"/proc/{pid}").exists()]
        return not alive or time.monotonic() > end

    until(look)
    return alive


def _struck(
    world: World, session: Session, before: Mapping[str, Snapshot], kill: Kill, row: Row, here: set[int]
) -> float | None:
    """Kill, and return the time; None if there is nothing to kill yet."""
    assert session.process.poll() is None, "the session ended by itself"
    processes = targets(world, session, kill.kind)
    if not processes:
        return None
    machine, pid, name = processes[int(kill.pick * len(processes))]
    row.target = name if machine is None else f"{machine.name} {name}"
    row.changed = any(
        machine.sysctl(setting) != before[machine.name].found["settings"][setting].strip()
        for machine in world.machines.values()
        for setting in TOUCHED
    )
    here.update(session.ssh())
    at = time.monotonic()
    return at if strike(machine, pid, kill.kind) else None


def _settled(world: World, before: Mapping[str, Snapshot], since: float) -> tuple[str, float | None]:
    """Leftovers at the limit, and the time until there were none, seconds."""
    left = []
    for machine in world.machines.values():
        if machine.alive:
            try:
                settle(machine, before[machine.name], max(0.0, since + LIMIT_S - time.monotonic()))
            except AssertionError as error:
                left.append(str(error))
    return "\n".join(left), None if left else time.monotonic() - since


def rows(kills: Sequence[Kill], until_s: float) -> Iterator[Row]:
    """Carry them out, one after the other; new machines after the loss of one, or if something was left."""
    rest = deque(kills)
    while rest and time.time() < until_s:
        with tempfile.TemporaryDirectory() as directory, World(Path(directory)) as world:
            file = Path(directory, "world.toml")
            file.write_text(world.topology())
            before = {name: machine.snapshot() for name, machine in world.machines.items()}
            while rest and time.time() < until_s:
                row = one(world, file, before, rest.popleft())
                yield row
                if row.kind == "machine" or row.left or row.complaint:
                    break


def main() -> None:
    """Work as a worker."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    asked = json.loads(sys.stdin.readline())
    for row in rows(msgspec.convert(asked["kills"], list[Kill]), asked["until_s"]):
        print(json.dumps(msgspec.to_builtins(row)), flush=True)


if __name__ == "__main__":
    main()
