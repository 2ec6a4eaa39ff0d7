"""The command that a host runs at login: it obtains the agent and becomes it.

One line for any login shell, which hands it to a POSIX shell. That shell finds an identical agent that is
installed, or else a private directory where the agent fits and may be executed, reads the agent from its
standard input, and becomes it. What it prints begins with `MARK`, on lines of their own: a login shell may
print anything before. Nothing is installed: the agent removes its own file as soon as it runs, and the next
session removes the directory of one that was killed in between.

There may be several agents (`Delivery`): this machine's own, which needs a C library of its kind there, and
those that are linked statically, one for each processor. The shell asks for the one that suits its machine.
"""

import hashlib
import platform
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from mptune.linux import agent

MARK = "mptune-bootstrap:"
#: The beginning of a program that has the name of its loader (elf(5), PT_INTERP).
_HEAD_BYTES = 4096
#: The name of this machine's own agent; the others are called by their processor.
OWN = "own"

#: No apostrophes, backslashes and line breaks: login shells disagree on how to quote them.
#: Its words describe what suits the machine: name, hash and size of an agent.
_SCRIPT = """
umask 077; t=;
say() { echo; echo "mptune-bootstrap: $*"; };
clean() { [ -z "$t" ] || rm -rf "$t"; };
stop() { clean; say "$@"; exit 9; };
has() { [ "$(sha256sum < "$1" | cut -c1-64)" = "$2" ]; };
as=; [ "$(id -u)" = 0 ] || { sudo -n true >/dev/null 2>&1 && as="sudo -n"; };
[ "$(uname -s)" = Linux ] || stop system "$(uname -s)";
set --; case "$(uname -m)" in CHOICE esac;
[ $# -le 3 ] || [ -e LOADER ] || shift 3;
own=$(command -v mptune-agent) || own=;
if [ -n "$own" ] && [ $# -ge 3 ] && { has "$own" "$2" || has "$own" "$5"; }; then
say have; exec $as "$own" host --greet; fi;
if [ $# = 0 ]; then
[ -n "$own" ] || stop machine "$(uname -m)"; say have; exec $as "$own" host --greet; fi;
for d in "${XDG_RUNTIME_DIR:-}" /run /dev/shm /tmp "${HOME:-}"; do
for o in "$d"/mptune-agent-*; do
[ -n "$d" ] && [ -d "$o" ] && [ -O "$o" ] || continue;
p=${o##*/mptune-agent-}; [ -d "/proc/${p%%-*}" ] || rm -rf "$o"; done; done;
trap clean EXIT; trap "exit 9" HUP INT TERM PIPE;
why=;
for d in "${XDG_RUNTIME_DIR:-}" /run /dev/shm /tmp "${HOME:-}"; do
[ -n "$d" ] || continue;
t=$(mktemp -d "$d/mptune-agent-$$-XXXXXX" 2>/dev/null) ||
{ t=; why="$why $d: cannot be written;"; continue; };
{ echo "exit 0" > "$t/agent"; } 2>/dev/null || { why="$why $d: no space;"; rm -rf "$t"; t=; continue; };
chmod 700 "$t/agent";
"$t/agent" >/dev/null 2>&1 || { why="$why $d: mounted noexec;"; rm -rf "$t"; t=; continue; };
head -c "$3" /dev/zero 2>/dev/null > "$t/agent" || { why="$why $d: no space;"; rm -rf "$t"; t=; continue; };
break; done;
[ -n "$t" ] || stop nowhere "$why";
get() { say need "$1"; head -c "$3" > "$t/agent" 2>/dev/null; has "$t/agent" "$2" || stop broken; };
get "$@";
[ $# = 3 ] || "$t/agent" --version </dev/null >/dev/null 2>&1 || { shift 3; get "$@"; };
exec $as "$t/agent" host --greet --unlink
"""


class Delivery(NamedTuple):
    """Agents as they are sent, by name, and this machine's kind: its own agent runs on others like it."""

    agents: dict[str, bytes]
    machine: str

    @classmethod
    def of(cls, program: Path) -> "Delivery":
        """The agent of this machine, and those that are linked statically."""
        agents = {name: place.read_bytes() for name, place in agent.static().items()}
        return cls({OWN: program.read_bytes(), **agents}, platform.machine())

    def command(self) -> str:
        """The command for the login shell."""
        script = " ".join(_SCRIPT.split("\n")).strip()
        script = script.replace("CHOICE", " ".join(self._choice())).replace("LOADER", self._loader())
        return f"exec /bin/sh -c {shlex.quote(script)}"

    def _choice(self) -> list[str]:
        """Branches by processor: the agents that suit it, the one to be tried first ahead."""
        branches = []
        for processor in dict.fromkeys((self.machine, *self.agents)):
            if processor == OWN:
                continue
            names = [OWN] if processor == self.machine else []
            names += [processor] if processor in self.agents else []
            words = [processor, *agent.PROCESSORS.get(processor, ())]
            branches.append(f"{'|'.join(words)}) set -- {' '.join(map(self._words, names))};;")
        return branches

    def _loader(self) -> str:
        """Loader of this machine's own agent: it exists where there is a C library of its kind."""
        named = re.search(rb"/lib[\w/.-]*/ld-linux[\w.-]*", self.agents[OWN][:_HEAD_BYTES])
        return "/" if named is None else named[0].decode()

    def _words(self, name: str) -> str:
        content = self.agents[name]
        return f"{name} {hashlib.sha256(content).hexdigest()} {len(content)}"

    def size(self) -> int:
        """Bytes of the largest."""
        return max(map(len, self.agents.values()))


def reply(line: bytes) -> tuple[str, str] | None:
    """A word of the bootstrap and what follows it; None for any other line."""
    mark, _, rest = line.decode(errors="replace").strip().partition(" ")
    if mark != MARK:
        return None
    word, _, more = rest.partition(" ")
    return word, more.strip()


def refusal(word: str, more: str, delivery: Delivery) -> str:
    """Why the bootstrap stopped, and what to do."""
    return {
        "system": f"it runs {more}: hosts need Linux",
        "machine": f"its processor is {more}, and the agents here are for {_processors(delivery)}: "
        "install the mptune-agent of this version there, on the PATH",
        "nowhere": f"there is no place to run the agent from: {more.rstrip(';')}. "
        f"It needs {delivery.size() // 2**20 + 1} MiB where programs may be executed; "
        "or install mptune-agent there, on the PATH",
        "broken": "the agent did not arrive as it was sent; try again",
    }.get(word, f"{word} {more}".strip())


def _processors(delivery: Delivery) -> str:
    return ", ".join(dict.fromkeys((delivery.machine, *(name for name in delivery.agents if name != OWN))))
