"""The command that a host runs at login: it obtains the agent and becomes it.

One line for any login shell, which hands it to a POSIX shell. That shell finds an identical agent that is
installed, or else a private directory where the agent fits and may be executed, reads the agent from its
standard input, and becomes it. What it prints begins with `MARK`, on lines of their own: a login shell may
print anything before. Nothing is installed: the agent removes its own file as soon as it runs, and the next
session removes the directory of one that was killed in between.
"""

import hashlib
import platform
import shlex
from pathlib import Path
from typing import NamedTuple

MARK = "mptune-bootstrap:"

#: No apostrophes, backslashes and line breaks: login shells disagree on how to quote them.
_SCRIPT = """
umask 077; t=;
say() { echo; echo "mptune-bootstrap: $*"; };
clean() { [ -z "$t" ] || rm -rf "$t"; };
stop() { clean; say "$@"; exit 9; };
as=; [ "$(id -u)" = 0 ] || { sudo -n true >/dev/null 2>&1 && as="sudo -n"; };
[ "$(uname -s)" = Linux ] || stop system "$(uname -s)";
own=$(command -v mptune-agent) || own=;
if [ -n "$own" ] && [ "$(sha256sum < "$own" | cut -c1-64)" = HASH ]; then
say have; exec $as "$own" host --greet; fi;
if [ "$(uname -m)" != MACHINE ]; then
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
head -c SIZE /dev/zero 2>/dev/null > "$t/agent" || { why="$why $d: no space;"; rm -rf "$t"; t=; continue; };
break; done;
[ -n "$t" ] || stop nowhere "$why";
say need; head -c SIZE > "$t/agent" 2>/dev/null;
[ "$(sha256sum < "$t/agent" | cut -c1-64)" = HASH ] || stop broken;
exec $as "$t/agent" host --greet --unlink
"""


class Delivery(NamedTuple):
    """The agent as it is sent, and the kind of machine that runs it."""

    content: bytes
    machine: str

    @classmethod
    def of(cls, program: Path) -> "Delivery":
        """The agent of this machine."""
        return cls(program.read_bytes(), platform.machine())

    def command(self) -> str:
        """The command for the login shell."""
        facts = {
            "HASH": hashlib.sha256(self.content).hexdigest(),
            "SIZE": str(len(self.content)),
            "MACHINE": self.machine,
        }
        script = " ".join(_SCRIPT.split("\n")).strip()
        for word, value in facts.items():
            script = script.replace(word, value)
        return f"exec /bin/sh -c {shlex.quote(script)}"


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
        "machine": f"its processor is {more}, and the agent here is for {delivery.machine}: "
        "install the mptune-agent of this version there, on the PATH",
        "nowhere": f"there is no place to run the agent from: {more.rstrip(';')}. "
        f"It needs {len(delivery.content) // 2**20 + 1} MiB where programs may be executed; "
        "or install mptune-agent there, on the PATH",
        "broken": "the agent did not arrive as it was sent; try again",
    }.get(word, f"{word} {more}".strip())
