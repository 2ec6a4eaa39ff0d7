#!/usr/bin/env python3
"""Stands in for the agent's role `host` where only the conversation matters: it changes nothing.

It is of the version in the variable FAKE_VERSION. Its roles are `echo`, which repeats its input, and
`fails`; its sysctls are those of `SYSCTLS`. It leaves a note of its end in the file that FAKE_NOTE names.
"""

import json
import os
import sys
from pathlib import Path

FACTS: dict[str, object] = {
    "interfaces": [],
    "rules": [],
    "kernel": "6.18",
    "machine": "x86_64",
    "mptcp": None,
    "path_manager": None,
    "congestion_controls": {"available": [], "allowed": []},
    "bpf": None,
    "sysctls": {},
    "rmem_max": None,
    "wmem_max": None,
    "processors": 1,
    "load": None,
    "offloads": {},
    "leaves": [],
}
SYSCTLS = {"net.mptcp.path_manager": "kernel"}


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main():
    note = os.environ.get("FAKE_NOTE")
    own = Path(__file__).resolve()
    if own.parent.name.startswith("mptune-agent-"):  # it was delivered
        own.unlink()
        own.parent.rmdir()
    hello = {"event": "hello", "version": os.environ["FAKE_VERSION"], "protocol": 1, "net_admin": True}
    say(**hello | {"pid": os.getpid()} | json.loads(os.environ.get("FAKE_HELLO", "{}")))
    ending = "lost"
    for line in sys.stdin:
        command = json.loads(line)
        number = command.get("id")
        match command["action"]:
            case "start" if command["role"] == "fails":
                say(event="ended", id=number, status=1, signal=None, stderr="some lines\nno such role")
            case "tell":
                say(event="said", id=number, line=command["line"])
            case "close":
                say(event="ended", id=number, status=0, signal=None, stderr="")
            case "kill":
                say(event="ended", id=number, status=None, signal=9, stderr="")
            case "set" if set(command["settings"]) <= set(SYSCTLS):
                before = {name: SYSCTLS[name] for name in command["settings"]}
                SYSCTLS.update(command["settings"])
                say(event="set", id=number, before=before)
            case "set":
                say(event="refused", id=number, reason="there is no such setting")
            case "restore":
                say(event="restored", id=number, kept={"net.mptcp.path_manager": "changed meanwhile"})
            case "look":
                say(event="looked", id=number, **FACTS, asked=command["names"])
            case "stop":
                ending = "stopped"
                break
    if note:
        Path(note).write_text(ending)


main()
