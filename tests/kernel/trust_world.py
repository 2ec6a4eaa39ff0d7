"""A machine with users who do not trust each other: a network, a /run and a /tmp of its own, all empty.

Nothing but Python and the agent is started. Everything ends with the process that holds the namespaces.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mptune.linux import agent
from tests.plugins.needs import Thing, lack
from tests.plugins.waiting import PATIENCE_S, until

#: Whose rights are not root's: of the service, and of anybody.
SERVICE, ANYBODY = 61234, 65534

#: clone(2), mount(2)
CLONE_NEWNS, CLONE_NEWNET, MS_REC, MS_PRIVATE = 0x20000, 0x40000000, 0x4000, 0x40000

_HOLD = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) != 0:
        sys.exit(f"{{name}}: {{os.strerror(ctypes.get_errno())}}")
call("unshare", {CLONE_NEWNS | CLONE_NEWNET})
call("mount", None, b"/", None, {MS_REC | MS_PRIVATE}, None)
for place, rights in ((b"/run", b"755"), (b"/tmp", b"1777")):
    call("mount", b"none", place, b"tmpfs", 0, b"mode=" + rights)
print("ready", flush=True)
sys.stdin.read()
"""

#: What scripts there may need is imported while this machine's files are still seen.
_ENTER = """
import ctypes, json, os, socket, stat, struct, sys
holder, user, netns, program = sys.argv[1:5]
opened = None if program == "-" else os.open(program, os.O_RDONLY)
libc = ctypes.CDLL(None, use_errno=True)
kinds = ["net", "mnt"] if netns == "same" else ["mnt"]
spaces = [os.open(f"/proc/{holder}/ns/{kind}", os.O_RDONLY) for kind in kinds]
for space in spaces:
    if libc.setns(space, 0) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    os.close(space)
if netns != "same" and libc.unshare(0x40000000) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
os.chdir("/")
os.umask(0o022)
if int(user):
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
if opened is None:
    exec(sys.argv[5], {**globals(), "arguments": sys.argv[6:]})
else:
    os.set_inheritable(opened, True)
    os.execv(f"/proc/self/fd/{opened}", ["mptune-agent", *sys.argv[5:]])
"""

#: Writes the journal of a dead session in that network; `arguments` are where, and the settings.
JOURNAL = """
boot = open("/proc/sys/kernel/random/boot_id").read().strip()
with socket.socket(socket.AF_UNIX) as one:
    cookie = struct.unpack("Q", one.getsockopt(socket.SOL_SOCKET, 71, 8))[0]
space = {"inode": os.stat("/proc/self/ns/net").st_ino, "cookie": cookie}
read = lambda name: open("/proc/sys/" + name.replace(".", "/")).read()
changes = json.loads(arguments[1]).items()
changes = [{"name": name, "before": value, "set": [read(name)]} for name, value in changes]
# No process has this number: the largest that there can be is below.
content = {"boot": boot, "pid": 4194304, "began": 1, "namespace": space, "changes": changes}
with open(arguments[0], "x") as file:
    json.dump(content, file)
"""


class Realm:
    """The machine."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []
        self.holder = self._python(
            _HOLD, stdout=subprocess.PIPE, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.holder.stdout is not None and self.holder.stderr is not None
        if self.holder.stdout.readline() != "ready\n":
            reason = self.holder.stderr.read().strip()
            self.close()
            lack("users who do not trust each other", Thing(f"namespaces ({reason})", "elsewhere"))

    def _python(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", *words], text=True, **more)
        self._started.append(process)
        return process

    def start(self, program: str, *words: str, user: int = 0, netns: str = "same", **more: Any) -> Any:
        """A process there: of the agent, or a Python script if `program` is "-"; `netns` may be another."""
        given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return self._python(_ENTER, str(self.holder.pid), str(user), netns, program, *words, **given)

    def agent(self, *words: str, environment: Mapping[str, str] | None = None, **more: Any) -> Any:
        """A process of the agent there."""
        kept = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        kept["MPTUNE_SILENCE_MS"] = "600000"  # nobody beats here
        return self.start(str(agent.program()), *words, env={**kept, **(environment or {})}, **more)

    def run(self, script: str, *words: str, user: int = 0) -> str:
        """Output of a Python script there, which must not fail."""
        output, errors = self.start("-", script, *words, user=user).communicate(timeout=PATIENCE_S)
        assert not errors, errors
        printed: str = output
        return printed

    def journal(self, place: str, settings: Mapping[str, str], user: int = 0) -> None:
        """A journal of a dead session by that user, by which settings were these before."""
        self.run(JOURNAL, place, json.dumps(settings), user=user)

    def value(self, name: str) -> str:
        """A setting of the network there."""
        return self.run("print(open(arguments[0]).read())", f"/proc/sys/{name.replace('.', '/')}").strip()

    def names(self, place: str) -> list[str]:
        """Names in a directory there; nothing if there is none."""
        script = "print(json.dumps(sorted(os.listdir(arguments[0])) if os.path.exists(arguments[0]) else []))"
        names: list[str] = json.loads(self.run(script, place))
        return names

    def processes(self, role: str) -> list[int]:
        """The agent's processes of a role in the network there."""
        inside = Path(f"/proc/{self.holder.pid}/ns/net").readlink()
        names = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[1:2] == [role.encode()] and (process / "ns/net").readlink() == inside:
                    names.append(int(process.name))
        return names

    def close(self) -> None:
        for pid in self.processes("guardian") if self.holder.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        for process in reversed(self._started):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def holds(pid: int, number: int) -> bool:
    """A process does something else than to end when it gets a signal: it has a handler, or waits."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigCgt:", "SigBlk:"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def is_agent(pid: int) -> bool:
    """A process that was started is the agent by now, or has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"mptune-agent\0")
    except FileNotFoundError:
        return True


def settled(process: Any, number: int) -> None:
    """Wait until the agent has taken over a signal."""
    until(
        lambda: process.poll() is not None or (is_agent(process.pid) and holds(process.pid, number)),
        "the agent to take over its signals",
    )
