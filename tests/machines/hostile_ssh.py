#!/usr/bin/env python3
"""Stands in for ssh and for a host in other hands: it lies or floods in the way that FAKE names.

Its arguments are ignored, as is what the bootstrap would do. HOSTILE_BYTES is how much a flood is.
"""

import json
import os
import sys

ESC = "\x1b]0;PWNED\x07\x1b[2J\x1b[31mred\x9b1m\u202e[/x][link=http://x]"
MODE = os.environ["FAKE"]
BYTES = int(os.environ.get("HOSTILE_BYTES", "50000000"))
HELLO = {
    "event": "hello",
    "version": os.environ["FAKE_VERSION"],
    "protocol": 1,
    "machine": "x86_64",
    "kernel": "6.18",
    "uid": 0,
    "net_admin": True,
    "pid": 1,
    "hostname": "h",
    "recovered": [],
    "kept": {},
}
OUT = sys.stdout.buffer


def write(content: bytes) -> None:
    OUT.write(content)
    OUT.flush()


def say(**message) -> None:
    write(json.dumps(message).encode() + b"\n")


def flood(line: bytes) -> None:
    """As much as it may, and then silence until the session ends."""
    block = line * max(1, 65536 // len(line))
    for _ in range(BYTES // len(block) + 1):
        write(block)
    sys.stdin.read()


def begin() -> None:
    """Until the greeting."""
    match MODE:
        case "endless":
            flood(b"A")
        case "chatter":
            flood(b"noise\n")
        case "silent":
            sys.stdin.read()
        case "stderr":
            for _ in range(BYTES // 65536):
                sys.stderr.buffer.write(b"E" * 65535 + b"\n")
            sys.stderr.buffer.write(b"the last word\n")
            sys.exit(1)
        case "stderr-line":
            for _ in range(BYTES // 65536):
                sys.stderr.buffer.write(b"E" * 65536)
            sys.exit(1)
        case "esc-refuse":
            write(f"mptune-bootstrap: nowhere {ESC}\n".encode())
            sys.exit(9)
        case "esc-word":
            write(f"mptune-bootstrap: {ESC}\n".encode())
            sys.exit(9)
        case "esc-stderr":
            sys.stderr.write(f"{ESC} something\n")
            sys.exit(255)
    write(b"mptune-bootstrap: have\n")
    greeting = {
        "hello-bigint": b'{"event":"hello","protocol":1,"version":' + b"9" * 100_000 + b"}",
        "hello-num": b'{"event":"hello","version":1e999,"protocol":NaN}',
        "hello-version-esc": json.dumps({**HELLO, "version": ESC}).encode(),
        "hello-version-long": json.dumps({**HELLO, "version": "v" * 100_000}).encode(),
        "hello-version-list": json.dumps({**HELLO, "version": [[{}]]}).encode(),
        "hello-error-esc": json.dumps({"event": "error", "reason": ESC}).encode(),
        "hello-error-empty": b'{"event":"error"}',
        "hello-types": json.dumps({**HELLO, "net_admin": "yes"}).encode(),
        "hello-without": json.dumps({key: HELLO[key] for key in ("event", "version", "protocol")}).encode(),
        "hello-event": b'{"event":["hello"]}',
    }
    if MODE == "hello-deep":
        write(b"[" * 200_000 + b"\n")
    write(greeting.get(MODE, json.dumps(HELLO).encode()) + b"\n")


def answer(order: dict) -> None:
    """To an order that is no sign of life."""
    number = order.get("id")
    match MODE:
        case "list":
            write(b"[1]\n")
        case "deep":
            write(b'{"event":' + b"[" * 200_000 + b"\n")
        case "deep-line":
            write(b'{"event":"said","id":1,"line":{"event":"x","a":' + b"[" * 900 + b"]" * 900 + b"}}\n" * 3)
            write(b"[1]\n")
        case "number":
            write(b'{"event":"looked","id":1e999}\n')
        case "not-a-number":
            write(b'{"event":"looked","id":NaN}\n')
        case "big-number":
            write(b'{"event":"looked","id":' + b"9" * 100_000 + b"}\n")
        case "bytes":
            write(b'{"event":"\xff\xfe"}\n')
        case "notjson":
            write(b"oops " + ESC.encode() + b"\n")
        case "unknown":
            say(event=ESC, id=number)
        case "no-event":
            say(id=number)
        case "refuse-esc":
            say(event="refused", id=number, reason=ESC)
        case "refuse-long":
            say(event="refused", id=number, reason="r" * 500_000)
        case "refuse-noreason":
            say(event="refused", id=number)
        case "refuse-types":
            say(event="refused", id=number, reason=[1])
        case "looked-empty":
            say(event="looked", id=number)
        case "looked-types":
            say(event="looked", id=number, interfaces=7, routes="x", settings=[1], kernel=5, processors=-1)
        case "other-answer":
            say(event="restored", id=number, kept={})
        case "ended":
            say(event="ended", id=number, status="x", signal="y", stderr=[1])
        case "said-list":
            say(event="said", id=number, line=[1])
        case "said-empty":
            say(event="said", id=number, line={})
        case "unended":
            flood(b"B")
        case "flood":
            flood(json.dumps({"event": "said", "id": number, "line": {"event": "x"}}).encode() + b"\n")
        case "flood-answers":
            flood(json.dumps({"event": "restored", "id": number, "kept": {}}).encode() + b"\n")
        case "flood-stderr":
            for _ in range(BYTES // 65536):
                sys.stderr.buffer.write(b"E" * 65535 + b"\n")
            sys.exit(1)
        case "dies-esc":
            sys.stderr.write(f"{ESC}\n")
            sys.exit(1)


begin()
for text in sys.stdin:
    request = json.loads(text)
    if request["action"] == "stop":
        break
    if request["action"] != "beat":
        answer(request)
